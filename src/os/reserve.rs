//! Blocks of a piece of static memory, for callers that every other allocator has refused. Its pages are untouched until then.
//!
//! A bit for each unit says whether it is taken. Nothing is locked: any thread may call at any moment, also after a fork.

#![allow(unsafe_code)]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{alloc::Layout, cell::UnsafeCell, ptr::null_mut, sync::atomic::AtomicU64};

/// Bytes of a unit, and the largest alignment.
const UNIT: usize = 128;
const WORD: usize = u64::BITS as usize;

#[repr(C, align(128))]
struct Unit(UnsafeCell<[u8; UNIT]>);

/// Room for `WORDS` times 8 KiB.
pub struct Reserve<const WORDS: usize> {
    units: [[Unit; WORD]; WORDS],
    /// The units that are taken.
    taken: [AtomicU64; WORDS],
}

// SAFETY: whose a unit is the bits say, by acquire and release; here nobody reads or writes one.
unsafe impl<const WORDS: usize> Sync for Reserve<WORDS> {}

impl<const WORDS: usize> Reserve<WORDS> {
    /// All of it free.
    #[allow(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Reserve {
            units: [const { [const { Unit(UnsafeCell::new([0; UNIT])) }; WORD] }; WORDS],
            taken: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    /// A block, or null if there is none so long, or aligned so far.
    pub fn allocate(&self, layout: Layout) -> *mut u8 {
        let units = units_of(layout.size());
        let found = match units <= WORD {
            _ if layout.align() > UNIT => None,
            true => self.take_bits(units),
            false => self.take_words(units.div_ceil(WORD)),
        };
        // The pointer is to the whole, of which the block is a part.
        let whole = (&raw const self.units).cast_mut().cast::<u8>();
        found.map_or(null_mut(), |unit| whole.wrapping_add(unit * UNIT))
    }

    /// Whether a block is of this reserve.
    pub fn has(&self, block: *mut u8) -> bool {
        self.offset_of(block) < size_of_val(&self.units)
    }

    /// Frees a block of so many bytes; false if it is not of this reserve.
    ///
    /// # Safety
    /// If it is, it was allocated with that size, is live, and nobody uses it any more.
    pub unsafe fn free(&self, block: *mut u8, size: usize) -> bool {
        if !self.has(block) {
            return false;
        }
        let (units, first) = (units_of(size), self.offset_of(block) / UNIT);
        if units <= WORD {
            self.taken[first / WORD].fetch_and(!(bits(units) << (first % WORD)), Release);
        } else {
            self.give_words(first / WORD, units.div_ceil(WORD));
        }
        true
    }

    fn offset_of(&self, block: *mut u8) -> usize {
        block.addr().wrapping_sub((&raw const self.units).addr())
    }

    /// Takes units within one word: the number of the first.
    fn take_bits(&self, units: usize) -> Option<usize> {
        self.taken.iter().enumerate().find_map(|(index, word)| {
            let place = |taken: u64| (0..=WORD - units).find(|at| taken & (bits(units) << at) == 0);
            let take = |taken| Some(taken | bits(units) << place(taken)?);
            let before = word.fetch_update(Acquire, Relaxed, take).ok()?;
            Some(index * WORD + place(before)?)
        })
    }

    /// Takes whole words one after the other.
    fn take_words(&self, words: usize) -> Option<usize> {
        let starts = 0..(WORDS + 1).saturating_sub(words);
        starts.into_iter().find_map(|start| {
            let is_taken = |word: &AtomicU64| {
                word.compare_exchange(0, u64::MAX, Acquire, Relaxed)
                    .is_err()
            };
            let end = self.taken[start..start + words].iter().position(is_taken);
            self.give_words(start, end.unwrap_or(0));
            end.is_none().then_some(start * WORD)
        })
    }

    fn give_words(&self, start: usize, words: usize) {
        self.taken[start..start + words]
            .iter()
            .for_each(|word| word.store(0, Release));
    }
}

fn units_of(size: usize) -> usize {
    size.div_ceil(UNIT).max(1)
}

fn bits(units: usize) -> u64 {
    u64::MAX >> (WORD - units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 16).unwrap()
    }

    #[test]
    fn blocks_do_not_overlap_and_come_again_when_they_are_freed() {
        static RESERVE: Reserve<4> = Reserve::new();
        let sizes = [5000, 16385, 1, 128, 129, 8192, 8193];
        for &size in &sizes[..if cfg!(miri) { 2 } else { 7 }] {
            let blocks: Vec<_> = std::iter::repeat_with(|| RESERVE.allocate(layout(size)))
                .take_while(|block| !block.is_null())
                .collect();
            let units = size.div_ceil(UNIT);
            let most = match units <= WORD {
                true => 4 * (WORD / units),
                false => 4 / units.div_ceil(WORD),
            };
            assert_eq!(blocks.len(), most, "{size}");
            for (number, block) in blocks.iter().enumerate() {
                assert!(RESERVE.has(*block) && block.addr().is_multiple_of(UNIT));
                // SAFETY: a live block of that size.
                unsafe { block.write_bytes(number as u8, size) };
            }
            for (number, &block) in blocks.iter().enumerate() {
                // SAFETY: as above; it is freed once.
                unsafe {
                    let bytes = std::slice::from_raw_parts(block, size);
                    assert!(bytes.iter().all(|&byte| byte == number as u8));
                    assert!(RESERVE.free(block, size));
                }
            }
        }
        assert!(RESERVE.allocate(layout(4 * 8192 + 1)).is_null());
        let aligned = Layout::from_size_align(1, 4096).unwrap();
        assert!(RESERVE.allocate(aligned).is_null());
        let mut other = 0;
        // SAFETY: not of the reserve.
        assert!(!unsafe { RESERVE.free(&mut other, 1) });
    }

    #[test]
    fn threads_never_have_the_same_bytes() {
        static RESERVE: Reserve<4> = Reserve::new();
        let turns = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|scope| {
            for mark in 1..=3u8 {
                scope.spawn(move || {
                    for turn in 0..turns {
                        let size = [100, 1000, 8000, 16000][turn % 4];
                        let block = RESERVE.allocate(layout(size));
                        if block.is_null() {
                            continue;
                        }
                        // SAFETY: a live block of that size, which is this thread's.
                        unsafe {
                            block.write(mark);
                            block.add(size - 1).write(mark);
                            std::thread::yield_now();
                            assert_eq!((block.read(), block.add(size - 1).read()), (mark, mark));
                            RESERVE.free(block, size);
                        }
                    }
                });
            }
        });
        let all = RESERVE.allocate(layout(4 * 8192));
        assert!(!all.is_null(), "all is free again");
    }
}
