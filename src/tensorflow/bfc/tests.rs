//! The region against naive oracles: a list of chunks that obeys the same rules by linear search,
//! the contents that the blocks must keep, and all invariants of the tables.

#![allow(unsafe_code)]

use super::bins::{bin_of, priority};
use super::chunks::{Chunk, Handle};
use super::{BINS, Bfc, BinStatistics, GRANULE, Statistics, can_give_back, reserved::LAZY_BYTES};
use pyhost_testing::Random;
use std::collections::HashSet;
use std::ptr::{NonNull, null_mut};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn page() -> usize {
    pyhost_os::mapping::page_size() as usize
}

/// How often a test repeats what it tries: `wanted` times, and 100 times less under Miri, which is slower by
/// more than that.
const fn rounds(wanted: usize) -> usize {
    match cfg!(miri) {
        true => wanted.div_ceil(100),
        false => wanted,
    }
}

/// A size of 1 to `1 << bits` bytes, each order of magnitude as likely as the others.
fn size(random: &mut Random, bits: usize) -> usize {
    let top = 1 << random.below(bits);
    1 + top + random.below(top)
}

fn reserve(initial: usize, maximum: usize) -> Bfc {
    let bfc = Bfc::reserve(initial, maximum).expect("address space");
    bfc.check();
    bfc
}

/// Allocates what must not fail.
fn take(bfc: &mut Bfc, bytes: usize) -> *mut u8 {
    bfc.allocate(bytes, false).expect("room").as_ptr()
}

/// Where a pointer lies, in bytes from the region's start.
fn offset(bfc: &Bfc, pointer: *mut u8) -> usize {
    pointer.addr() - bfc.region.address()
}

/// Every chunk as (offset, size, whether live).
fn layout(bfc: &Bfc) -> Vec<(usize, usize, bool)> {
    let base = bfc.region.address();
    bfc.chunks()
        .map(|chunk| (chunk.address - base, chunk.size, chunk.is_live()))
        .collect()
}

/// The bytes of a block; none under Miri, which takes minutes for them.
fn bytes_at(pointer: *mut u8, length: usize) -> &'static mut [u8] {
    let length = if cfg!(miri) { 0 } else { length };
    // SAFETY: the tests pass a live block that is that long and drop the slice before its end.
    unsafe { std::slice::from_raw_parts_mut(pointer, length) }
}

fn fill(pointer: *mut u8, length: usize, byte: u8) {
    bytes_at(pointer, length).fill(byte);
}

fn holds(pointer: *mut u8, length: usize, byte: u8) -> bool {
    let bytes = bytes_at(pointer, length);
    *bytes == *vec![byte; bytes.len()]
}

/// How many pages of `length` bytes from a page's start are resident.
fn resident_pages(pointer: *mut u8, length: usize) -> usize {
    let mut pages = vec![0u8; length.div_ceil(page())];
    // SAFETY: mapped memory, and a byte a page.
    let result = unsafe { libc::mincore(pointer.cast(), length, pages.as_mut_ptr()) };
    assert_eq!(result, 0);
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

impl Bfc {
    /// Asserts every invariant but those of the map beyond the chunks' starts.
    fn check(&self) {
        let in_tree = self.check_tree();
        let (mut chunks, mut free_chunks) = (0, 0);
        let (mut live_bytes, mut requested, mut live_chunks, mut largest) = (0, 0, 0, 0);
        let mut dirty = 0;
        let mut allocations = HashSet::new();
        let (mut end, mut before, mut before_is_free) = (0, Handle::NONE, false);
        let mut at = self.chunks.first();
        while at.is_some() {
            let chunk = self.chunks[at];
            assert_eq!(chunk.start, end, "a gap or an overlap");
            assert!(chunk.granules > 0);
            assert_eq!(chunk.previous, before);
            let known = self.chunks.starting_at(chunk.start as usize);
            assert_eq!(known, Some(at), "the map does not know the chunk");
            assert_eq!(in_tree.contains(&at.0), chunk.is_free());
            if chunk.is_free() {
                assert!(!before_is_free, "free neighbours were not merged");
                assert_eq!(chunk.requested, 0);
                free_chunks += 1;
                largest = largest.max(chunk.bytes());
                if can_give_back(&chunk) {
                    dirty += chunk.bytes() as u64;
                }
            } else {
                assert!((1..=chunk.bytes()).contains(&chunk.requested));
                assert!(chunk.allocation <= self.counts.allocations);
                assert!(allocations.insert(chunk.allocation), "a number used twice");
                assert!(chunk.end() <= self.touched);
                live_bytes += chunk.bytes();
                requested += chunk.requested;
                live_chunks += 1;
            }
            before_is_free = chunk.is_free();
            end += chunk.granules;
            before = at;
            at = chunk.next;
            chunks += 1;
        }
        assert_eq!(end, self.granules, "the chunks do not tile the region");
        assert!(self.granules <= self.maximum);
        assert_eq!(self.chunks.last(), before);
        assert_eq!(in_tree.len(), free_chunks);
        self.chunks.check(chunks);

        let statistics = self.statistics();
        let region = self.granules as usize * GRANULE;
        assert_eq!(statistics.region_bytes, region as u64);
        assert_eq!(statistics.live_bytes, live_bytes as u64);
        assert_eq!(statistics.requested_bytes, requested as u64);
        assert_eq!(statistics.live_chunks, live_chunks);
        assert_eq!(statistics.free_bytes, (region - live_bytes) as u64);
        assert_eq!(statistics.free_chunks, free_chunks as u64);
        assert_eq!(self.dirty_bytes, dirty);
        assert_eq!(statistics.largest_free_bytes, largest as u64);
        assert!(statistics.peak_live_bytes >= statistics.live_bytes);
        if !cfg!(miri) {
            self.check_sums_of_bins(&statistics);
        }
    }

    fn check_sums_of_bins(&self, statistics: &Statistics) {
        let bins = self.bins();
        for bin in &bins {
            assert_eq!(bin.total_chunks, bin.live_chunks + bin.free_chunks);
            assert!(bin.requested_bytes <= bin.live_bytes);
            assert!(bin.total_bytes >= bin.total_chunks * bin.from_bytes);
        }
        let sum = |figure: fn(&BinStatistics) -> u64| bins.iter().map(figure).sum::<u64>();
        assert_eq!(sum(|bin| bin.live_bytes), statistics.live_bytes);
        assert_eq!(sum(|bin| bin.requested_bytes), statistics.requested_bytes);
        assert_eq!(sum(|bin| bin.live_chunks), statistics.live_chunks);
        assert_eq!(sum(|bin| bin.free_bytes), statistics.free_bytes);
        assert_eq!(sum(|bin| bin.free_chunks), statistics.free_chunks);
        assert_eq!(sum(|bin| bin.total_bytes), statistics.region_bytes);
    }

    /// Asserts that the free chunks are a treap; returns all that are in it.
    fn check_tree(&self) -> HashSet<u32> {
        let mut seen = HashSet::new();
        let mut last = None;
        // The nodes on the way whose right side is to come, each with its depth.
        let mut above = Vec::new();
        let (mut at, mut depth) = (self.free.root, 0);
        while at.is_some() || !above.is_empty() {
            while at.is_some() {
                depth += 1;
                assert!(depth < 100, "a degenerate tree");
                above.push((at, depth));
                at = self.chunks[at].left;
            }
            let node;
            (node, depth) = above.pop().unwrap();
            let chunk: Chunk = self.chunks[node];
            assert!(chunk.is_free());
            let key = Some((chunk.granules, chunk.start));
            assert!(last < key, "the tree is out of order");
            last = key;
            for child in [chunk.left, chunk.right] {
                assert!(!child.is_some() || priority(child) < priority(node));
            }
            assert!(seen.insert(node.0), "twice in the tree");
            at = chunk.right;
        }
        seen
    }

    /// Asserts that the map has an entry for each chunk's start and no other.
    fn check_map(&self) {
        let entries = (0..self.maximum as usize)
            .filter(|&granule| self.chunks.starting_at(granule).is_some())
            .count();
        assert_eq!(entries, self.chunks().count());
    }
}

/// The oracle of placement: chunks in a list, every rule by linear search, in bytes.
struct Naive {
    /// Offset, size and whether live, by offset.
    chunks: Vec<(usize, usize, bool)>,
    region: usize,
    maximum: usize,
    growths: u64,
}

impl Naive {
    fn new(initial: usize, maximum: usize) -> Naive {
        Naive {
            chunks: vec![(0, initial, false)],
            region: initial,
            maximum,
            growths: 0,
        }
    }

    fn rounded(bytes: usize) -> usize {
        bytes.max(1).div_ceil(256) * 256
    }

    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let size = Naive::rounded(bytes);
        let mut best = self.best(size);
        if best.is_none() {
            let mut region = self.region;
            let &(at, _, live) = self.chunks.last().unwrap();
            let tail = if live { self.region } else { at };
            while region - tail < size {
                if region == self.maximum {
                    return None;
                }
                region = (region * 2).min(self.maximum);
            }
            self.chunks.push((self.region, region - self.region, false));
            self.region = region;
            self.growths += 1;
            self.merge();
            best = self.best(size);
        }
        let index = best.unwrap();
        self.chunks[index].2 = true;
        self.cut(index, size);
        Some(self.chunks[index].0)
    }

    /// The smallest free chunk that fits, the first of several: the list is by offset.
    fn best(&self, size: usize) -> Option<usize> {
        (0..self.chunks.len())
            .filter(|&index| !self.chunks[index].2 && self.chunks[index].1 >= size)
            .min_by_key(|&index| (self.chunks[index].1, index))
    }

    fn cut(&mut self, index: usize, size: usize) {
        let (at, whole, _) = self.chunks[index];
        if whole >= 2 * size || whole - size >= 128 * MIB {
            self.chunks[index].1 = size;
            self.chunks
                .insert(index + 1, (at + size, whole - size, false));
            self.merge();
        }
    }

    fn free(&mut self, at: usize) {
        let index = self.find(at);
        self.chunks[index].2 = false;
        self.merge();
    }

    fn resize(&mut self, at: usize, bytes: usize) -> bool {
        let size = Naive::rounded(bytes);
        let index = self.find(at);
        if size > self.chunks[index].1 {
            match self.chunks.get(index + 1) {
                Some(&(_, more, false)) if self.chunks[index].1 + more >= size => {
                    self.chunks[index].1 += more;
                    self.chunks.remove(index + 1);
                }
                _ => return false,
            }
        }
        self.cut(index, size);
        true
    }

    fn find(&self, at: usize) -> usize {
        let mut chunks = self.chunks.iter();
        let found = chunks.position(|&(start, _, live)| start == at && live);
        found.unwrap()
    }

    fn merge(&mut self) {
        self.chunks.dedup_by(|next, chunk| {
            let merges = !next.2 && !chunk.2;
            if merges {
                chunk.1 += next.1;
            }
            merges
        });
    }
}

/// The requested bytes of the live chunk at `pointer`.
fn requested(bfc: &Bfc, pointer: *mut u8) -> Option<usize> {
    Some(bfc.chunks[bfc.live(pointer)?].requested)
}

#[test]
fn every_chunk_is_where_a_naive_best_fit_puts_it_and_blocks_keep_their_contents() {
    let cases = [(1, 12, 20_000), (2, 20, 20_000), (3, 23, 5_000)];
    for (seed, bits, steps) in cases.into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
        // Miri walks the map of a large region for minutes.
        let (bits, maximum) = match cfg!(miri) {
            true => (bits, 2 * MIB),
            false => (bits, 24 * MIB),
        };
        let initial = 64 * KIB;
        let mut bfc = reserve(initial, maximum);
        let mut naive = Naive::new(initial, maximum);
        let mut random = Random(seed);
        // Each block, and the byte that it is filled with.
        let mut live = Vec::new();
        let (mut failures, mut resized, mut kept, mut peak) = (0, 0, 0, 0);
        for step in 0..rounds(steps) {
            let grows = random.below(100) < if step / 2500 % 2 == 0 { 50 } else { 36 };
            let bytes = size(&mut random, bits);
            if live.is_empty() || grows {
                let (zero, mark) = (random.below(3) == 0 && !cfg!(miri), step as u8 | 1);
                let block = bfc.allocate(bytes, zero).map(NonNull::as_ptr);
                let found = block.map(|pointer| offset(&bfc, pointer));
                assert_eq!(found, naive.allocate(bytes), "seed {seed} step {step}");
                failures += u64::from(block.is_none());
                if let Some(pointer) = block {
                    assert!(!zero || holds(pointer, bytes, 0));
                    assert_eq!(requested(&bfc, pointer), Some(bytes));
                    fill(pointer, bfc.usable(pointer).unwrap(), mark);
                    live.push((pointer, mark));
                }
            } else {
                let index = random.below(live.len());
                let (pointer, mark) = live[index];
                let (at, usable) = (offset(&bfc, pointer), bfc.usable(pointer).unwrap());
                assert!(holds(pointer, usable, mark), "seed {seed} step {step}");
                if random.below(4) == 0 {
                    let sizes = bfc.reallocate_in_place(pointer, bytes);
                    let expected = naive.resize(at, bytes);
                    assert_eq!(sizes.is_some(), expected, "seed {seed} step {step}");
                    *(if expected { &mut resized } else { &mut kept }) += 1;
                    if let Some((before, after)) = sizes {
                        assert_eq!((before, Some(after)), (usable, bfc.usable(pointer)));
                        assert!(holds(pointer, before.min(after), mark));
                        fill(pointer, after, mark);
                    }
                } else {
                    live.swap_remove(index);
                    naive.free(at);
                    assert_eq!(bfc.free(pointer), Some(usable));
                }
            }
            let lives = naive.chunks.iter().filter(|chunk| chunk.2);
            peak = peak.max(lives.map(|chunk| chunk.1).sum());
            if step % 7 == 0 {
                assert_eq!(layout(&bfc), naive.chunks, "seed {seed} step {step}");
                bfc.check();
            }
            if step % 100 == 0 && !cfg!(miri) {
                bfc.give_back_idle(step % 300 == 0);
                bfc.check();
            }
        }
        bfc.check_map();
        let statistics = bfc.statistics();
        let sums = (statistics.failures, statistics.growths);
        assert_eq!(sums, (failures, naive.growths));
        assert_eq!(statistics.peak_live_bytes, peak as u64);
        let enough = rounds(10_000) / 100;
        assert!(resized >= enough && kept >= enough, "{resized} {kept}");
        for (pointer, mark) in live {
            assert!(holds(pointer, bfc.usable(pointer).unwrap(), mark));
            assert!(bfc.free(pointer).is_some());
        }
        assert_eq!(layout(&bfc).len(), 1, "the region is whole again");
        assert_eq!(bfc.statistics().fragmentation(), 0.0);
    }
}

#[test]
fn bins_are_powers_of_two_from_256_bytes_and_the_last_has_no_end() {
    for (bytes, bin) in [
        (256, 0),
        (256 + 256, 1),
        (1024 - 256, 1),
        (1024, 2),
        (256 * MIB - 256, 19),
        (256 * MIB, 20),
        (2048 * MIB, 20),
    ] {
        assert_eq!(bin_of((bytes / GRANULE) as u32), bin, "{bytes}");
    }
    assert_eq!(bin_of(0), 0);
    assert_eq!(bin_of(u32::MAX), BINS - 1);
}

#[test]
fn a_remainder_of_128_mib_is_split_off_whatever_the_request() {
    // None of this memory is touched.
    for (size, usable) in [
        (428 * MIB, 300 * MIB),
        (428 * MIB - page(), 428 * MIB - page()),
    ] {
        let mut bfc = reserve(size, size);
        let pointer = take(&mut bfc, 300 * MIB);
        assert_eq!(bfc.usable(pointer), Some(usable));
        bfc.check();
    }
    let mut bfc = reserve(428 * MIB, 428 * MIB);
    let pointer = take(&mut bfc, 428 * MIB);
    let shrunk = bfc.reallocate_in_place(pointer, 300 * MIB + 1);
    assert_eq!(shrunk, Some((428 * MIB, 428 * MIB)));
    let shrunk = bfc.reallocate_in_place(pointer, 300 * MIB);
    assert_eq!(shrunk, Some((428 * MIB, 300 * MIB)));
    bfc.check();
}

#[test]
fn a_request_beyond_the_maximum_fails_and_changes_nothing() {
    let mut bfc = reserve(64 * KIB, MIB);
    let blocks: Vec<_> = (0..5).map(|_| take(&mut bfc, 5000)).collect();
    bfc.free(blocks[1]);
    let (before, sums) = (layout(&bfc), bfc.statistics());
    let sizes = [
        MIB,
        MIB + 1,
        1 << 40,
        (1 << 40) - 256,
        isize::MAX as usize,
        usize::MAX - 255,
        usize::MAX,
    ];
    for bytes in sizes {
        assert_eq!(bfc.allocate(bytes, false), None);
        assert_eq!(bfc.allocate(bytes, true), None);
        assert_eq!(bfc.reallocate_in_place(blocks[0], bytes), None);
        assert_eq!(bfc.reallocate_in_place(blocks[4], bytes), None);
    }
    assert_eq!(layout(&bfc), before);
    let failures = 2 * sizes.len() as u64;
    assert_eq!(bfc.statistics(), Statistics { failures, ..sums });
    bfc.check();
    // The rest can still be allocated, to the last byte.
    let rest = MIB - offset(&bfc, blocks[4]) - 5120;
    assert!(bfc.allocate(rest + 1, false).is_none());
    assert!(bfc.allocate(rest, false).is_some());
    bfc.check();
}

#[test]
fn a_reservation_that_cannot_be_had_is_none() {
    assert!(Bfc::reserve(0, usize::MAX).is_none());
    assert!(Bfc::reserve(usize::MAX, usize::MAX - page()).is_none());
    assert!(Bfc::reserve(0, 1 << 40).is_none());
    // More than the maximum at the start is the maximum; nothing is a page.
    assert_eq!(reserve(usize::MAX, MIB).statistics().region_bytes, 1 << 20);
    assert_eq!(reserve(0, 0).statistics().reserved_bytes, page() as u64);
    let sums = reserve(page() + 1, 5 * page() - 1).statistics();
    assert_eq!(sums.region_bytes, 2 * page() as u64);
    assert_eq!(sums.reserved_bytes, 5 * page() as u64);
}

#[test]
fn a_pointer_that_starts_no_live_chunk_is_refused() {
    let mut bfc = reserve(64 * KIB, MIB);
    let block = take(&mut bfc, 1000);
    let next = take(&mut bfc, 1000);
    let on_the_stack = &mut 0u8 as *mut u8;
    let mut pointers = vec![null_mut(), on_the_stack, usize::MAX as *mut u8];
    // Before the region, inside the block, in the free end, beyond the usable part, at the end of the reservation.
    let base = block.wrapping_sub(offset(&bfc, block));
    pointers.extend(
        [1, 8, 255, 256, 512, 4 * KIB, 64 * KIB, MIB - 256, MIB].map(|at| base.wrapping_add(at)),
    );
    pointers.push(base.wrapping_sub(256));
    let before = layout(&bfc);
    for &pointer in &pointers {
        assert_eq!(bfc.free(pointer), None, "{pointer:?}");
        assert_eq!(bfc.usable(pointer), None);
        assert_eq!(requested(&bfc, pointer), None);
        assert_eq!(bfc.reallocate_in_place(pointer, 1), None);
    }
    assert_eq!(layout(&bfc), before);
    // Twice, alone and after the chunk was merged away into its neighbour.
    assert_eq!(bfc.free(block), Some(1024));
    assert_eq!(bfc.free(block), None);
    assert_eq!(bfc.free(next), Some(1024));
    assert_eq!(bfc.free(next), None);
    assert_eq!(bfc.usable(next), None);
    // Where the entry of the lost chunk has a new owner elsewhere.
    take(&mut bfc, 4 * KIB);
    take(&mut bfc, 4 * KIB);
    assert_eq!(bfc.free(next), None);
    bfc.check();
}

#[test]
fn zeroed_memory_is_zero_however_it_was_used_before() {
    let mut bfc = reserve(MIB, 64 * MIB);
    let tails = [1, 255, 5000].into_iter();
    let long = [0, 1, 6, 4 * LAZY_BYTES + 778, 19 * LAZY_BYTES + 1];
    for size in tails.chain(long.map(|more| LAZY_BYTES - 1 + more)) {
        // The first chunk is not at a page's start.
        let before = take(&mut bfc, 256);
        let dirty = take(&mut bfc, size);
        let after = take(&mut bfc, 256);
        fill(dirty, bfc.usable(dirty).unwrap(), 0xA5);
        fill(before, 256, 0x5A);
        fill(after, 256, 0x5A);
        bfc.free(dirty);
        assert_eq!(bfc.allocate(size, true).unwrap().as_ptr(), dirty);
        assert!(holds(dirty, size, 0));
        for neighbour in [before, after] {
            assert!(holds(neighbour, 256, 0x5A));
            bfc.free(neighbour);
        }
        // Partly beyond all that was handed out before.
        fill(dirty, size, 0xA5);
        bfc.free(dirty);
        let longer = bfc.allocate(size * 2, true).unwrap().as_ptr();
        assert!(holds(longer, size * 2, 0));
        fill(longer, size * 2, 0xA5);
        bfc.free(longer);
        bfc.check();
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no resident pages to ask for")]
fn large_zeroed_memory_stays_lazy() {
    let size = 32 * MIB;
    let mut bfc = reserve(64 * MIB, 64 * MIB);
    let block = bfc.allocate(size, true).unwrap().as_ptr();
    assert_eq!(resident_pages(block, size), 0, "never handed out before");
    fill(block, size, 1);
    assert_eq!(resident_pages(block, size), size / page());
    bfc.free(block);
    let again = bfc.allocate(size, true).unwrap().as_ptr();
    assert_eq!(again, block);
    assert_eq!(resident_pages(again, size), 0, "given back to the kernel");
    bfc.free(again);
    let small = bfc.allocate(LAZY_BYTES / 2, true).unwrap().as_ptr();
    let found = resident_pages(small, LAZY_BYTES / 2);
    assert_eq!(found, LAZY_BYTES / 2 / page(), "zeroed by stores");
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no resident pages to ask for")]
fn memory_that_stays_free_goes_back_and_blocks_keep_theirs() {
    let mut bfc = reserve(64 * MIB, 64 * MIB);
    let resident = |pointer| resident_pages(pointer, 8 * MIB) * page();
    let blocks @ [first, kept, second] = [(); 3].map(|()| take(&mut bfc, 8 * MIB));
    for block in blocks {
        fill(block, 8 * MIB, 7);
    }
    bfc.free(first);
    assert_eq!(bfc.give_back_idle(false), 0, "it was just freed");
    assert_eq!(resident(first), 8 * MIB);
    bfc.free(second);
    assert_eq!(bfc.give_back_idle(false), 8 * MIB as u64);
    assert_eq!((resident(first), resident(second)), (0, 8 * MIB));
    bfc.check();
    // The second one merged with the longer end of the region, which was never used.
    assert!(bfc.give_back_idle(true) >= 8 * MIB as u64);
    assert_eq!(resident(second), 0);
    assert!(holds(kept, 8 * MIB, 7));
    assert_eq!(bfc.give_back_idle(true), 0, "there is nothing left to give");
    bfc.gives_back_at_once = true;
    bfc.free(kept);
    assert_eq!(resident(kept), 0);
    bfc.check();
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no resident pages to ask for")]
fn locked_pages_are_zeroed_by_stores() {
    let size = 2 * MIB;
    let mut bfc = reserve(size, size);
    let block = take(&mut bfc, size);
    fill(block, size, 0xA5);
    // SAFETY: the page lies inside the block, which is mapped; `mlock` changes no data.
    let locked = unsafe { libc::mlock(block.wrapping_add(MIB).cast(), page()) } == 0;
    bfc.free(block);
    let clean = bfc.allocate(size, true).unwrap().as_ptr();
    assert!(holds(clean, size, 0));
    if locked {
        assert_eq!(resident_pages(clean, size), size / page(), "by stores");
    }
}

#[test]
#[cfg_attr(miri, ignore = "60,000 blocks")]
fn the_trees_stay_shallow_whatever_the_order() {
    // 30,000 free chunks of one size that come to the bin by ascending address.
    let mut bfc = reserve(2048 * MIB, 2048 * MIB);
    let blocks: Vec<_> = (0..60_000)
        .map(|index| take(&mut bfc, if index % 2 == 0 { 32 * KIB } else { 256 }))
        .collect();
    for block in blocks.iter().step_by(2) {
        bfc.free(*block);
    }
    // Fails by the bound in `check_tree` if a tree is deep.
    bfc.check();
    assert_eq!(bfc.statistics().free_chunks, 30_001);
}

#[test]
fn the_map_shows_bins_chunks_and_sums() {
    let mut bfc = reserve(64 * KIB, MIB);
    take(&mut bfc, 300);
    let hole = take(&mut bfc, 1000);
    take(&mut bfc, 2000);
    bfc.free(hole);
    let base = bfc.region.address();
    let mut text = String::new();
    let chunks: Vec<_> = bfc.chunks().collect();
    bfc.map().write(&chunks, &mut text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4 + 4 + 4, "{text}");
    let bins = [
        "bin  1, from 512 B to below 1.0 KiB: 1 chunks, 1 in use; 512 B, 512 B in use, 300 B requested",
        "bin  2, from 1.0 KiB to below 2.0 KiB: 1 chunks, 0 in use; 1.0 KiB, 0 B in use, 0 B requested",
    ];
    assert_eq!(lines[..2], bins);
    assert!(lines[3].starts_with("bin  7, from 32.0 KiB"));
    let rest = 64 * KIB - 3584;
    let chunks = [
        format!("in use {base:#014x} 512 (300 B requested, allocation 1)"),
        format!("free   {:#014x} 1024", base + 512),
        format!(
            "in use {:#014x} 2048 (2000 B requested, allocation 3)",
            base + 1536
        ),
        format!("free   {:#014x} {rest}", base + 3584),
    ];
    assert_eq!(lines[4..8], chunks);
    let sums = [
        "reserved 1.0 MiB, region 64.0 KiB after 0 growths",
        "in use 2.5 KiB in 2 chunks, 2.2 KiB requested, peak 3.5 KiB",
        "free 61.5 KiB in 2 chunks, largest 60.5 KiB, fragmentation 1.6 %",
        "3 allocations, 0 failures",
    ];
    assert_eq!(lines[8..], sums);
    let mut short = String::new();
    bfc.map().write(&[], &mut short).unwrap();
    assert_eq!(short.lines().count(), 4 + 4);
}
