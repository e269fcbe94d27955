//! The region against naive oracles: a list of chunks that obeys the same rules by linear search,
//! the contents that the blocks must keep, and all invariants of the tables.

#![allow(unsafe_code)]

use super::bins::{bin_of, priority};
use super::chunks::{Chunk, Handle};
use super::{BINS, Bfc, BinStatistics, ChunkView, GRANULE, Statistics};
use super::{can_give_back, reserved::LAZY_BYTES};
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
        let (mut chunks, mut end) = (Vec::<Chunk>::new(), 0);
        let (mut at, mut before) = (self.chunks.first(), Handle::NONE);
        while at.is_some() {
            let chunk = self.chunks[at];
            assert_eq!(chunk.start, end, "a gap or an overlap");
            assert!(chunk.granules > 0);
            assert_eq!(chunk.previous, before);
            let known = self.chunks.starting_at(chunk.start as usize);
            assert_eq!(known, Some(at), "the map does not know the chunk");
            assert_eq!(in_tree.contains(&at.0), chunk.is_free());
            (end, before, at) = (end + chunk.granules, at, chunk.next);
            chunks.push(chunk);
        }
        assert_eq!(end, self.granules, "the chunks do not tile the region");
        assert!(self.granules <= self.maximum);
        assert_eq!(self.chunks.last(), before);
        self.chunks.check(chunks.len());
        let mut pairs = chunks.windows(2);
        let unmerged = pairs.any(|pair| pair[0].is_free() && pair[1].is_free());
        assert!(!unmerged, "free neighbours were not merged");

        let (free, live): (Vec<Chunk>, Vec<Chunk>) = chunks.into_iter().partition(Chunk::is_free);
        assert_eq!(in_tree.len(), free.len());
        let dirty: Vec<Chunk> = free.iter().copied().filter(can_give_back).collect();
        let mut allocations = HashSet::new();
        for chunk in &live {
            assert!((1..=chunk.bytes()).contains(&chunk.requested));
            assert!(chunk.allocation <= self.counts.allocations);
            assert!(allocations.insert(chunk.allocation), "a number used twice");
            assert!(chunk.end() <= self.touched);
        }
        let sum = |chunks: &[Chunk], figure: fn(&Chunk) -> usize| {
            chunks.iter().map(figure).sum::<usize>() as u64
        };
        assert_eq!(sum(&free, |chunk| chunk.requested), 0);
        assert_eq!(self.dirty_bytes, sum(&dirty, Chunk::bytes));
        let statistics = self.statistics();
        let expected = Statistics {
            region_bytes: (self.granules as usize * GRANULE) as u64,
            live_bytes: sum(&live, Chunk::bytes),
            requested_bytes: sum(&live, |chunk| chunk.requested),
            live_chunks: live.len() as u64,
            free_bytes: sum(&free, Chunk::bytes),
            free_chunks: free.len() as u64,
            largest_free_bytes: free.iter().map(Chunk::bytes).max().unwrap_or(0) as u64,
            ..statistics
        };
        assert_eq!(statistics, expected);
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
    for power in 0..32_usize {
        let first = 1 << power;
        let bins = [first, first + (first - 1)].map(bin_of);
        assert_eq!(bins, [power.min(20); 2], "2^{power} granules");
    }
    assert_eq!((bin_of(0), BINS, GRANULE), (0, 21, 256));
    assert_eq!(reserve(0, 0).bins()[BINS - 1].to_bytes, None);
}

#[test]
fn a_remainder_of_128_mib_is_split_off_whatever_the_request() {
    // None of this memory is touched.
    let whole = 428 * MIB;
    for (request, usable) in [(300 * MIB, 300 * MIB), (300 * MIB + 1, whole)] {
        let mut bfc = reserve(whole, whole);
        let block = take(&mut bfc, request);
        assert_eq!(bfc.free(block), Some(usable));
        let block = take(&mut bfc, whole);
        let shrunk = bfc.reallocate_in_place(block, request);
        assert_eq!(shrunk, Some((whole, usable)));
        bfc.check();
    }
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
    let chunks: Vec<_> = bfc.chunks().collect();
    let text = |chunks: &[ChunkView]| {
        let mut text = String::new();
        bfc.map().write(chunks, &mut text).unwrap();
        text
    };
    let mut whole = text(&chunks);
    for (chunk, name) in chunks.iter().zip(["FIRST", "HOLE", "THIRD", "REST"]) {
        whole = whole.replace(&format!("{:#014x}", chunk.address), name);
    }
    let expected = "\
bin  1, from 512 B to below 1.0 KiB: 1 chunks, 1 in use; 512 B, 512 B in use, 300 B requested
bin  2, from 1.0 KiB to below 2.0 KiB: 1 chunks, 0 in use; 1.0 KiB, 0 B in use, 0 B requested
bin  3, from 2.0 KiB to below 4.0 KiB: 1 chunks, 1 in use; 2.0 KiB, 2.0 KiB in use, 2.0 KiB requested
bin  7, from 32.0 KiB to below 64.0 KiB: 1 chunks, 0 in use; 60.5 KiB, 0 B in use, 0 B requested
in use FIRST 512 (300 B requested, allocation 1)
free   HOLE 1024
in use THIRD 2048 (2000 B requested, allocation 3)
free   REST 61952
reserved 1.0 MiB, region 64.0 KiB after 0 growths
in use 2.5 KiB in 2 chunks, 2.2 KiB requested, peak 3.5 KiB
free 61.5 KiB in 2 chunks, largest 60.5 KiB, fragmentation 1.6 %
3 allocations, 0 failures
";
    assert_eq!(whole, expected);
    assert_eq!(text(&[]).lines().count(), 4 + 4);
}
