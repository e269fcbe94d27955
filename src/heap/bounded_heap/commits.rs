//! The committed part of the region, and whether more may be committed: plain arithmetic, no system call.
//!
//! mimalloc commits and gives back whole slices. It asks again for slices that it has, and gives back slices that it
//! has not, so each slice has a bit, and only a bit that changes is counted. With huge pages the kernel backs a block
//! of slices at a time: then a block counts in full from its first slice to its last.

pub use crate::mimalloc::pages::SLICE;
use pyhost_os::mapping::page_size;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Bytes of a block: those of a huge page.
pub const BLOCK: usize = 2 << 20;
/// Slices of a block: one word of bits.
pub const BLOCK_SLICES: usize = BLOCK / SLICE;
/// A bit a slice, the unit in which mimalloc commits.
#[cfg(target_pointer_width = "64")]
pub type Bits = u32;
#[cfg(target_pointer_width = "32")]
pub type Bits = u64;
const _: () = assert!(Bits::BITS as usize == BLOCK_SLICES);

/// The bits of the slices, and their sum. Above its limit only for as long as a page that was just made is not
/// [settled](Commits::set_unused).
pub struct Commits {
    blocks: &'static mut [Bits],
    /// For each slice the part that no block of its page was made of so far, in system pages, and the bytes of all.
    unused: &'static [AtomicU8],
    unused_bytes: u64,
    limit: u64,
    committed: u64,
    /// Bytes below the limit that the commits which follow do not get.
    pub kept: u64,
    pub whole_blocks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// Bytes that were not committed before.
    pub bytes: u64,
    /// No slice of the range was committed before.
    pub all_new: bool,
}

/// The part of a block's slices that lies in a range of slices, as bits.
fn parts(slices: Range<usize>) -> impl Iterator<Item = (usize, Bits)> {
    (slices.start / BLOCK_SLICES..slices.end.div_ceil(BLOCK_SLICES)).map(move |block| {
        let first = block * BLOCK_SLICES;
        let from = slices.start.max(first) - first;
        let to = slices.end.min(first + BLOCK_SLICES) - first;
        let upto = |bit: usize| ((1u128 << bit) - 1) as Bits;
        (block, upto(to) & !upto(from))
    })
}

impl Commits {
    /// Nothing committed of as many blocks as there are words, all of which are 0.
    pub fn new(blocks: &'static mut [Bits], unused: &'static [AtomicU8], limit: u64) -> Self {
        Commits {
            blocks,
            unused,
            unused_bytes: 0,
            limit,
            committed: 0,
            kept: 0,
            whole_blocks: false,
        }
    }

    /// Bytes that are committed, without what is unused.
    pub fn committed(&self) -> u64 {
        self.committed - self.unused_bytes
    }

    /// Notes the part of a slice that is unused, in system pages; false if the sum passes the limit, less what is kept.
    pub fn set_unused(&mut self, slice: usize, pages: u8) -> bool {
        let bytes = |pages: u8| u64::from(pages) * page_size();
        let before = self.unused[slice].swap(pages, Relaxed);
        self.unused_bytes = self.unused_bytes + bytes(pages) - bytes(before);
        self.has_room(0)
    }

    /// Counts all of the slices.
    pub fn use_all(&mut self, slices: Range<usize>) {
        if self.unused_bytes > 0 {
            for slice in slices {
                self.set_unused(slice, 0);
            }
        }
    }

    /// Whether so many bytes may be committed more.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.committed().saturating_add(bytes) <= self.limit.saturating_sub(self.kept)
    }

    pub fn slices(&self) -> usize {
        self.blocks.len() * BLOCK_SLICES
    }

    /// The bytes that a word of bits counts as.
    fn weight(&self, bits: Bits) -> u64 {
        match self.whole_blocks {
            true => u64::from(bits != 0) * BLOCK as u64,
            false => u64::from(bits.count_ones()) * SLICE as u64,
        }
    }

    /// Commits the slices; None, having counted nothing, if that would pass the limit, if
    /// there are no such slices, or if `grant`, which makes them usable, says no. With `settles` one system page
    /// must have room: the slice is of a page that will be settled.
    pub fn commit(
        &mut self,
        slices: Range<usize>,
        settles: bool,
        grant: impl FnOnce(Range<usize>) -> bool,
    ) -> Option<Added> {
        if slices.end > self.slices() {
            return None;
        }
        self.use_all(slices.clone());
        let mut bytes = 0;
        let mut all_new = true;
        for (block, bits) in parts(slices.clone()) {
            let before = self.blocks[block];
            bytes += self.weight(before | bits) - self.weight(before);
            all_new &= before & bits == 0;
        }
        let after = self.committed.checked_add(bytes)?;
        let need = match settles {
            true => bytes.min(page_size()),
            false => bytes,
        };
        if (bytes > 0 && !self.has_room(need)) || !grant(self.granted(slices.clone())) {
            return None;
        }
        for (block, bits) in parts(slices) {
            self.blocks[block] |= bits;
        }
        self.committed = after;
        Some(Added { bytes, all_new })
    }

    /// The slices that must be usable for `slices` to be.
    fn granted(&self, slices: Range<usize>) -> Range<usize> {
        match self.whole_blocks {
            true => {
                slices.start / BLOCK_SLICES * BLOCK_SLICES
                    ..slices.end.next_multiple_of(BLOCK_SLICES)
            }
            false => slices,
        }
    }

    /// Gives the slices back. `forget` gives back the memory of a run of slices, of which some may not be committed, and returns
    /// false if it stays committed. Returns false if any stayed.
    pub fn release(
        &mut self,
        slices: Range<usize>,
        mut forget: impl FnMut(Range<usize>) -> bool,
    ) -> bool {
        if slices.end > self.slices() || slices.is_empty() {
            return false;
        }
        self.use_all(slices.clone());
        if !self.whole_blocks && !forget(slices.clone()) {
            return false;
        }
        let mut all = true;
        for (block, bits) in parts(slices) {
            let before = self.blocks[block];
            let first = block * BLOCK_SLICES;
            // A block that counts in full keeps its memory until its last slice goes.
            let stays = !self.whole_blocks || before & !bits != 0;
            let gone = stays || forget(first..first + BLOCK_SLICES);
            if gone {
                self.committed -= self.weight(before) - self.weight(before & !bits);
                self.blocks[block] = before & !bits;
            }
            all &= gone;
        }
        all
    }

    /// Counts whole blocks from here on; false, having done nothing, if that would pass the
    /// limit. Before it is true, `widen` is told each block of which any slice is committed.
    pub fn count_blocks(&mut self, mut widen: impl FnMut(Range<usize>) -> bool) -> bool {
        let used = || (0..self.blocks.len()).filter(|&block| self.blocks[block] != 0);
        let after = (used().count() * BLOCK) as u64;
        let mut first = used().map(|block| block * BLOCK_SLICES);
        if after > self.limit || !first.all(|first| widen(first..first + BLOCK_SLICES)) {
            return false;
        }
        self.committed = after;
        self.whole_blocks = true;
        true
    }

    /// The runs of slices that are committed, or of blocks if these are counted.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        let is_set = |slice: usize| match self.blocks[slice / BLOCK_SLICES] {
            bits if self.whole_blocks => bits != 0,
            bits => bits >> (slice % BLOCK_SLICES) & 1 == 1,
        };
        let count = self.slices();
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = (next..count).find(|&slice| is_set(slice))?;
            let end = (start..count).find(|&slice| !is_set(slice));
            next = end.unwrap_or(count);
            Some(start..next)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_testing::Random;

    const ONE: u64 = SLICE as u64;

    fn commits(blocks: usize, limit: u64) -> Commits {
        let unused = (0..blocks * BLOCK_SLICES).map(|_| AtomicU8::new(0));
        let unused: Vec<AtomicU8> = unused.collect();
        Commits::new(vec![0; blocks].leak(), unused.leak(), limit)
    }

    #[test]
    fn what_is_unused_of_a_slice_does_not_count() {
        let mut commits = commits(1, 2 * ONE);
        let page = page_size();
        commits.commit(0..1, false, |_| true).unwrap();
        assert!(commits.commit(1..3, false, |_| true).is_none());
        assert!(commits.set_unused(0, (ONE / page - 1) as u8));
        assert_eq!(commits.committed(), page);
        commits.commit(1..2, false, |_| true).unwrap();
        // A slice for a page that has not settled yet goes past the limit for a moment.
        let settles = commits.commit(2..3, true, |_| true);
        assert_eq!(settles.is_some(), page < ONE);
        if settles.is_some() {
            assert!(!commits.set_unused(2, 0));
            assert!(commits.set_unused(2, (ONE / page - 1) as u8));
            assert_eq!(commits.committed(), ONE + 2 * page);
            assert!(commits.release(2..3, |_| true));
        }
        // Who commits it again uses all of it.
        commits.set_unused(1, 1);
        commits.commit(1..2, false, |_| true).unwrap();
        assert_eq!(commits.committed(), ONE + page);
    }

    #[test]
    fn a_block_counts_from_its_first_slice_to_its_last_if_all_are_below_the_limit() {
        let mut commits = commits(3, 2 * BLOCK as u64);
        for slices in [5..7, 40..41, 70..71] {
            commits.commit(slices, false, |_| true).unwrap();
        }
        assert!(!commits.count_blocks(|_| true), "beyond the limit");
        assert_eq!(
            (commits.committed(), commits.whole_blocks),
            (4 * ONE, false)
        );
        assert!(commits.release(40..71, |_| true));
        let mut widened = Vec::new();
        assert!(commits.count_blocks(|run| {
            widened.push((run.start, run.end));
            true
        }));
        assert_eq!(widened, [(0, 32)]);
        assert_eq!(commits.committed(), BLOCK as u64);
        assert_eq!(commits.commit(20..30, false, |_| true).unwrap().bytes, 0);
        let added = commits.commit(30..33, false, |_| true).unwrap();
        assert_eq!(added.bytes, BLOCK as u64);
        assert!(commits.commit(64..65, false, |_| true).is_none());
        let mut gone = Vec::new();
        let mut forget = |run: Range<usize>| {
            gone.push((run.start, run.end));
            true
        };
        assert!(commits.release(5..7, &mut forget));
        assert!(commits.release(20..33, &mut forget));
        assert_eq!(gone, [(0, 32), (32, 64)]);
        assert_eq!(commits.committed(), 0);
    }

    /// The system refuses some of them.
    #[test]
    fn random_commits_and_releases_agree_with_a_set_of_slices() {
        const LIMIT: u64 = 150 * ONE + 100;
        for whole in [false, true] {
            let mut random = Random(7);
            let mut commits = commits(8, LIMIT);
            assert!(!whole || commits.count_blocks(|_| true));
            let mut oracle = [false; 256];
            let weigh = |set: &[bool; 256]| -> u64 {
                let count = |block: &[bool]| match whole {
                    true => u64::from(block.contains(&true)) * BLOCK as u64,
                    false => block.iter().filter(|set| **set).count() as u64 * ONE,
                };
                set.chunks(BLOCK_SLICES).map(count).sum()
            };
            // The system gives and takes so many bits at once.
            let unit = if whole { BLOCK_SLICES } else { 256 };
            for _ in 0..20_000 {
                let start = random.below(256);
                let end = start + 1 + random.below(40);
                let (exists, agrees) = (end <= 256, random.below(8) > 0);
                let mut after = oracle;
                let part = &mut after[start..end.min(256)];
                if random.below(2) == 0 {
                    let all_new = !part.contains(&true);
                    part.fill(true);
                    let bytes = weigh(&after) - weigh(&oracle);
                    let fits = exists && agrees && weigh(&after) <= LIMIT;
                    let added = commits.commit(start..end, false, |_| agrees);
                    assert_eq!(added, fits.then_some(Added { bytes, all_new }));
                    if fits {
                        oracle = after;
                    }
                } else {
                    part.fill(false);
                    let mut all = exists;
                    let units = oracle.chunks_mut(unit).zip(after.chunks(unit)).enumerate();
                    let touched = start / unit..end.div_ceil(unit);
                    for (_, (old, new)) in units.filter(|(it, _)| exists && touched.contains(it)) {
                        // A block that counts in full keeps its memory until its last slice goes.
                        let gone = agrees || whole && new.contains(&true);
                        if gone {
                            old.copy_from_slice(new);
                        }
                        all &= gone;
                    }
                    assert_eq!(commits.release(start..end, |_| agrees), all);
                }
                assert_eq!(commits.committed(), weigh(&oracle));
                let set = (0..256).filter(|&slice| oracle[slice]);
                assert!(whole || commits.runs().flatten().eq(set));
            }
        }
    }
}
