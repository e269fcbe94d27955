//! The live objects of a free-threaded Python, for the leak check: they lie on CPython's own mimalloc, and the host has their
//! addresses alone.
//!
//! Each 8 bytes of addresses have two bits: a block begins there that is older than the mark ([`leak_mark`]), or younger. Bits are
//! no pointers, which the check would follow. Any thread; nothing is allocated. A block for whose addresses there is no room
//! is not checked.

use super::leak_mark;
use pyhost_os::{mapping::Mapped, zeros_are_valid};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes of addresses that have their bits together.
const PART: usize = 32 << 20;
/// Bytes between the addresses of two blocks at least.
const GRAIN: usize = 8;
/// The number of parts, and a smaller one for a process with few addresses (`ulimit -v`).
const PARTS: [usize; 2] = [1 << 12, 1 << 6];

/// Whether a block is younger than the mark.
#[derive(Clone, Copy)]
pub enum Age {
    Older = 0,
    Younger = 1,
}

struct Part {
    /// The number of its addresses; 0 if it has none yet.
    number: AtomicUsize,
    /// By [`Age`].
    bits: [[AtomicU64; PART / GRAIN / 64]; 2],
}

zeros_are_valid!(Part: number, bits);

pyhost_os::state! {
    static STATE: LiveObjects {
        /// Parts by a hash of their numbers.
        parts: OnceLock<&'static [Part]> = OnceLock::new(),
    }
}

/// Keeps the objects from now on. Before Python makes one; false if the system has no addresses for it.
pub fn start() -> bool {
    let parts = PARTS.into_iter().find_map(Mapped::reserve);
    parts.is_some_and(|parts| STATE.parts.set(parts.leak()).is_ok())
}

pub fn are_kept() -> bool {
    STATE.parts.get().is_some()
}

/// The part of an address, which becomes one, and the place in it.
fn place(address: usize) -> Option<(&'static Part, usize, u64)> {
    let (parts, number) = (STATE.parts.get()?, address / PART);
    let (behind, before) = parts.split_at(number % parts.len());
    let part = before.iter().chain(behind).find(|part| {
        let take = || (part.number).compare_exchange(0, number, Relaxed, Relaxed);
        part.number.load(Relaxed) == number || take().map_or_else(|known| known == number, |_| true)
    })?;
    let grain = address % PART / GRAIN;
    Some((part, grain / 64, 1 << (grain % 64)))
}

/// Notes that a block lives there, if they are kept: as old as those that the calling thread makes now, or as it was.
pub fn note(address: usize, age: Option<Age>) {
    let own = || match leak_mark::is_set() && !leak_mark::is_before() {
        true => Age::Younger,
        false => Age::Older,
    };
    if let Some((part, word, bit)) = place(address) {
        part.bits[age.unwrap_or_else(own) as usize][word].fetch_or(bit, Relaxed);
    }
}

/// Notes that the block is no more, and tells how old it was.
pub fn forget(address: usize) -> Option<Age> {
    let (part, word, bit) = place(address)?;
    let mut ages = [Age::Older, Age::Younger].into_iter();
    ages.find(|&age| part.bits[age as usize][word].fetch_and(!bit, Relaxed) & bit != 0)
}

/// Calls `visit` with the address of each block.
pub fn each(age: Age, mut visit: impl FnMut(usize)) {
    let parts = STATE.parts.get().copied().unwrap_or_default().iter();
    for part in parts.filter(|part| part.number.load(Relaxed) != 0) {
        let start = part.number.load(Relaxed) * PART;
        for (place, word) in part.bits[age as usize].iter().enumerate() {
            let mut bits = word.load(Relaxed);
            while bits != 0 {
                visit(start + (place * 64 + bits.trailing_zeros() as usize) * GRAIN);
                bits &= bits - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_many_parts_have_their_ages() {
        assert!(start() && are_kept());
        let blocks: Vec<usize> = (2..40).map(|number| number * (PART - GRAIN)).collect();
        for &block in &blocks {
            note(block, Some(Age::Younger));
        }
        note(PART, Some(Age::Older));
        let found = |age| {
            let mut found = Vec::new();
            each(age, |block| found.push(block));
            found.sort_unstable();
            found
        };
        assert_eq!(found(Age::Younger), blocks);
        assert_eq!(found(Age::Older), [PART]);
        assert!(matches!(forget(blocks[7]), Some(Age::Younger)));
        assert!(forget(blocks[7]).is_none());
        assert_eq!(found(Age::Younger).len(), blocks.len() - 1);
    }
}
