//! Stacks of native calls by number: each different one is kept once, in a table of fixed size that only grows. A stack that
//! finds no room has the number of none, and [`is_full`] says so from then on.
//!
//! The host registers the function that reads the calls: this crate knows nothing of unwind tables.

use pyhost_os::mapping::Mapped;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Most calls of a stack: the innermost ones.
pub const MOST: usize = 32;

/// The number of a stack; 0 of none.
pub type CallsNumber = u32;

/// Writes the addresses of the calling thread's native calls, innermost first; how many. It must not allocate.
pub type Reader = fn(&mut [usize; MOST]) -> usize;

/// Writes the calls behind a line about a block: of the calling thread, which has found what is wrong, of the block's
/// allocation, and of its free. It must not allocate.
pub type Reporter = fn(CallsNumber, CallsNumber);

/// Different stacks at most, and words for them: a length and the addresses of each.
const STACKS: usize = 1 << 18;
const WORDS: usize = 1 << 22;
/// Places that are looked at for a stack.
const TRIES: usize = 64;

struct Table {
    read: Reader,
    write: Reporter,
    /// Whether one of some calls is of the library that guards are for.
    is_of_library: fn(&[usize]) -> bool,
    /// By hash: its upper half, and in the lower half the number; 0 for none.
    index: &'static [AtomicU64],
    /// A stack's number is the place of its length.
    words: &'static [AtomicU64],
    used: AtomicUsize,
    is_full: AtomicBool,
}

static TABLE: OnceLock<Table> = OnceLock::new();

/// Begins to keep stacks. Once; false if the system gives no memory.
pub fn start(read: Reader, write: Reporter, is_of_library: fn(&[usize]) -> bool) -> bool {
    let (Some(index), Some(words)) = (Mapped::reserve(STACKS), Mapped::reserve(WORDS)) else {
        return false;
    };
    let table = Table {
        read,
        write,
        is_of_library,
        index: index.leak(),
        words: words.leak(),
        used: AtomicUsize::new(1), // no stack has the number 0
        is_full: AtomicBool::new(false),
    };
    TABLE.set(table).is_ok()
}

/// Writes the calls of the calling thread, and those that allocated and freed a block, if stacks are kept.
pub fn report(made: CallsNumber, freed: CallsNumber) {
    if let Some(table) = TABLE.get() {
        (table.write)(made, freed);
    }
}

/// Whether the calling thread runs code of the library that guards are for; false if calls are not kept.
pub fn is_of_library() -> bool {
    let mut room = [0; MOST];
    TABLE.get().is_some_and(|table| {
        let count = (table.read)(&mut room).min(MOST);
        (table.is_of_library)(&room[..count])
    })
}

/// Whether a stack has found no room.
pub fn is_full() -> bool {
    TABLE.get().is_some_and(|table| table.is_full.load(Relaxed))
}

/// The number of the calling thread's stack; 0 if it has no native calls but the interpreter's, or they are not kept.
pub fn of_caller() -> CallsNumber {
    let Some(table) = TABLE.get() else { return 0 };
    let mut room = [0; MOST];
    let count = (table.read)(&mut room).min(MOST);
    table.number(&room[..count])
}

/// The calls of a stack, innermost first.
pub fn addresses(number: CallsNumber) -> impl Iterator<Item = usize> {
    let table = TABLE.get().into_iter();
    table.flat_map(move |table| table.calls(number))
}

/// A hash of 64 bits, never 0 in its upper half.
fn hash(calls: &[usize]) -> u64 {
    let hash = calls.iter().fold(calls.len() as u64, |hash, &address| {
        (hash ^ address as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    });
    hash | 1 << 63
}

impl Table {
    fn calls(&self, number: CallsNumber) -> impl Iterator<Item = usize> {
        let start = number as usize;
        // The first word is always 0.
        let count = self.words.get(start);
        let count = count.map_or(0, |count| count.load(Acquire) as usize);
        let calls = self.words.get(start + 1..start + 1 + count);
        let calls = calls.unwrap_or_default().iter();
        calls.map(|word| word.load(Relaxed) as usize)
    }

    fn number(&self, calls: &[usize]) -> CallsNumber {
        if calls.is_empty() {
            return 0;
        }
        let hash = hash(calls);
        let tag = hash & !u64::from(u32::MAX);
        let mut own = None;
        for step in 0..TRIES {
            let place = &self.index[(hash as usize).wrapping_add(step) % STACKS];
            let mut found = place.load(Acquire);
            if found == 0 {
                let Some(number) = own.or_else(|| self.store(calls)) else {
                    return 0;
                };
                own = Some(number);
                match place.compare_exchange(0, tag | u64::from(number), AcqRel, Acquire) {
                    Ok(_) => return number,
                    Err(others) => found = others,
                }
            }
            let number = found as CallsNumber;
            if found & !u64::from(u32::MAX) == tag && self.calls(number).eq(calls.iter().copied()) {
                return number;
            }
        }
        if own.is_none() {
            self.is_full.store(true, Relaxed);
        }
        own.unwrap_or(0)
    }

    /// Stores a stack that is in no place of the index yet.
    fn store(&self, calls: &[usize]) -> Option<CallsNumber> {
        let start = self.used.fetch_add(1 + calls.len(), Relaxed);
        let words = self.words.get(start..=start + calls.len());
        let Some(words) = words else {
            // Stays near the end, without an overflow after many.
            self.used.store(self.words.len(), Relaxed);
            self.is_full.store(true, Relaxed);
            return None;
        };
        for (word, &address) in words[1..].iter().zip(calls) {
            word.store(address as u64, Relaxed);
        }
        words[0].store(calls.len() as u64, Release);
        Some(start as CallsNumber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(words: usize) -> Table {
        let leaked = |length| &*Mapped::reserve(length).unwrap().leak();
        Table {
            read: |_| 0,
            write: |_, _| {},
            is_of_library: |_| false,
            index: leaked(STACKS),
            words: leaked(words),
            used: AtomicUsize::new(1),
            is_full: AtomicBool::new(false),
        }
    }

    #[test]
    fn each_stack_has_one_number_whichever_thread_asks() {
        let table = table(WORDS);
        let stack = |seed: usize| -> Vec<usize> { (0..=seed % MOST).map(|at| seed ^ at).collect() };
        let numbers =
            || -> Vec<CallsNumber> { (1..2000).map(|seed| table.number(&stack(seed))).collect() };
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(numbers));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert!(all.iter().all(|numbers| *numbers == all[0]));
        for (seed, &number) in (1..).zip(&all[0]) {
            assert!(table.calls(number).eq(stack(seed)), "{seed}");
        }
        assert_eq!(table.number(&[]), 0);
        assert_eq!(table.calls(0).count(), 0);
    }

    #[test]
    fn a_stack_without_room_has_no_number_and_the_others_keep_theirs() {
        let table = table(100);
        let stack = |seed: usize| [seed; 9];
        let numbers: Vec<_> = (1..20).map(|seed| table.number(&stack(seed))).collect();
        assert_eq!(numbers.iter().filter(|&&number| number != 0).count(), 9);
        assert!(table.calls(numbers[8]).eq(stack(9)));
        assert_eq!(table.number(&stack(3)), numbers[2]);
        assert_eq!(table.number(&stack(30)), 0);
        assert!(table.is_full.load(Relaxed));
    }
}
