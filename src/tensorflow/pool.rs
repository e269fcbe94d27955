//! A pool of freed blocks, after TensorFlow's PoolAllocator: a freed block is kept, under its size, for the next request of
//! that size; past a bound the least recently freed are evicted. The lists run through the kept blocks themselves, so the pool
//! needs no memory of its own. A header in front of each block holds its sizes, since `free` is told none that it may trust.
//!
//! A [`Pool`] is plain data: the caller holds a lock. It allocates and frees nothing: the caller asks its heap for what the pool
//! does not have, and gives back what is evicted.

#![allow(unsafe_code)]

use derive_more::Display;
use pyhost_os::bytes::{self, Expected};
use std::{cell::Cell, iter::successors, ptr::NonNull, str::FromStr};

/// How much a pool keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display)]
pub enum PoolLimit {
    /// A number of blocks that grows by a tenth while both evictions and misses are frequent;
    /// and no more bytes than were ever live at once.
    #[default]
    #[display("auto")]
    Auto,
    /// So many blocks.
    Blocks(u64),
    /// So many bytes.
    #[display("{_0}B")]
    Bytes(u64),
}

impl FromStr for PoolLimit {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let expected = Expected("auto, a number of blocks, or a size such as 64M");
        if text == "auto" {
            return Ok(PoolLimit::Auto);
        }
        if let Ok(blocks) = text.parse() {
            return Ok(PoolLimit::Blocks(blocks));
        }
        bytes::parse(text).map(PoolLimit::Bytes).ok_or(expected)
    }
}

/// Blocks that [`PoolLimit::Auto`] begins with.
const FIRST_LIMIT: u64 = 100;
/// `PoolLimit::Auto` is looked at once in so many evictions.
const EVICTIONS_A_LOOK: u64 = 1000;
/// Evictions a release, and misses a request, that `PoolLimit::Auto` bears, as one in so many.
const BEARABLE: u64 = 500;

/// Sizes are multiples of this, header included.
pub const GRAIN: usize = 64;
/// Bytes of the header, in front of the pointer.
pub const HEADER: usize = size_of::<Header>();
/// Bytes that a kept block needs for its links.
pub const LEAST: usize = size_of::<Links>();
const BUCKETS: usize = 256;

/// In front of the pointer that is handed out.
#[repr(C)]
struct Header {
    /// Bytes asked of the heap, header included: the pool's key.
    size: Cell<usize>,
    /// Bytes that the heap gave, which the ledger books.
    charged: Cell<usize>,
}

type Link = Cell<Option<PoolBlock>>;

/// At the pointer, while the block is kept.
#[repr(C)]
struct Links {
    /// Towards the more recently freed.
    newer: Link,
    older: Link,
    /// Within the bucket of the size, and in a list of blocks to give back.
    next: Link,
    previous: Link,
}

/// A block of the pool, which is kept or in the hands of the one thread that has this value: none is used after the
/// block was handed out or given back.
#[derive(Clone, Copy)]
pub struct PoolBlock(NonNull<u8>);

impl PoolBlock {
    /// The block that was handed out as `pointer`, or one whose [`PoolBlock::describe`] comes next.
    ///
    /// # Safety
    /// In front of `pointer` are [`HEADER`] bytes, and behind it [`LEAST`] at least, which are the caller's alone as long as it
    /// has the value.
    pub unsafe fn of(pointer: NonNull<u8>) -> PoolBlock {
        PoolBlock(pointer)
    }

    /// The pointer that is handed out.
    pub fn pointer(&self) -> NonNull<u8> {
        self.0
    }

    /// Writes the header: the bytes that were asked of the heap, and those that it gave.
    pub fn describe(&self, size: usize, charged: usize) {
        self.set_size(size);
        self.header().charged.set(charged);
    }

    /// The bytes that were asked of the heap.
    pub fn size(&self) -> usize {
        self.header().size.get()
    }

    /// Another size, of a block that stays in its place.
    pub fn set_size(&self, size: usize) {
        self.header().size.set(size);
    }

    /// The bytes that the heap gave.
    pub fn charged(&self) -> usize {
        self.header().charged.get()
    }

    fn header(&self) -> &Header {
        // SAFETY: the header lies right in front, within the heap's block.
        unsafe { self.0.cast::<Header>().sub(1).as_ref() }
    }

    /// Of a block that is kept, or about to be given back.
    fn links(&self) -> &Links {
        // SAFETY: every block has room for them, whose contents are not the program's any more.
        unsafe { self.0.cast().as_ref() }
    }
}

/// Blocks that the pool has no more, linked by `next`. Those that are not taken from it are lost.
pub struct Evicted(Option<PoolBlock>);

impl Iterator for Evicted {
    type Item = PoolBlock;

    fn next(&mut self) -> Option<PoolBlock> {
        let block = self.0?;
        self.0 = block.links().next.get();
        Some(block)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests that a kept block met.
    pub hits: u64,
    /// Requests that went to the heap.
    pub misses: u64,
    /// Blocks given back to the heap to stay within the bound.
    pub evictions: u64,
    /// Blocks that are kept, and their bytes.
    pub kept_blocks: u64,
    /// See `kept_blocks`.
    pub kept_bytes: u64,
    /// The bound in blocks; None where it is one of bytes.
    pub limit_blocks: Option<u64>,
    /// The bound in bytes; None where it is one of blocks alone.
    pub limit_bytes: Option<u64>,
}

/// The kept blocks, and the statistics that the bound depends on.
pub struct Pool {
    /// The bound: chosen before the first block.
    pub limit: PoolLimit,
    auto_blocks: u64,
    newest: Option<PoolBlock>,
    oldest: Option<PoolBlock>,
    buckets: [Option<PoolBlock>; BUCKETS],
    /// But for the bound.
    counts: Statistics,
    released: u64,
    live_bytes: u64,
    peak_live_bytes: u64,
}

// SAFETY: the blocks are kept, and belong to the pool, whichever thread has the lock.
unsafe impl Send for Pool {}

impl Pool {
    /// An empty pool, with [`PoolLimit::Auto`].
    #[expect(clippy::new_without_default, reason = "a static is made of it")]
    pub const fn new() -> Pool {
        Pool {
            limit: PoolLimit::Auto,
            auto_blocks: FIRST_LIMIT,
            newest: None,
            oldest: None,
            buckets: [None; BUCKETS],
            counts: Statistics {
                hits: 0,
                misses: 0,
                evictions: 0,
                kept_blocks: 0,
                kept_bytes: 0,
                limit_blocks: None,
                limit_bytes: None,
            },
            released: 0,
            live_bytes: 0,
            peak_live_bytes: 0,
        }
    }

    /// Meets a request by a kept block of exactly this size, which is live then; or counts a miss.
    pub fn request(&mut self, size: usize) -> Option<PoolBlock> {
        let kept = self.take(size);
        match kept {
            None => self.counts.misses += 1,
            Some(block) => {
                self.counts.hits += 1;
                self.count_live(block.charged());
            }
        }
        kept
    }

    /// Keeps a block that is not live any more. Returns those that exceed the bound then.
    pub fn release(&mut self, block: PoolBlock) -> Evicted {
        self.released += 1;
        self.live_bytes -= block.charged() as u64;
        self.keep(block);
        self.evict()
    }

    /// Counts a release of a block that is not kept and not counted as live.
    pub fn count_release(&mut self) {
        self.released += 1;
    }

    /// Counts a block that was handed out, of so many bytes.
    pub fn count_live(&mut self, charged: usize) {
        self.live_bytes += charged as u64;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
    }

    /// Takes back [`Pool::count_live`].
    pub fn count_dead(&mut self, charged: usize) {
        self.live_bytes -= charged as u64;
    }

    pub fn evict_all(&mut self) -> Evicted {
        let bound = std::mem::replace(&mut self.limit, PoolLimit::Blocks(0));
        let all = self.evict();
        self.limit = bound;
        all
    }

    /// The kept blocks, the one that was freed last first.
    pub fn kept(&self) -> impl Iterator<Item = PoolBlock> {
        successors(self.newest, |block| block.links().older.get())
    }

    pub fn statistics(&self) -> Statistics {
        let (limit_blocks, limit_bytes) = self.limits();
        Statistics {
            limit_blocks,
            limit_bytes,
            ..self.counts
        }
    }

    fn bucket(&mut self, size: usize) -> &mut Option<PoolBlock> {
        let hash = ((size / GRAIN) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        &mut self.buckets[hash as usize % BUCKETS]
    }

    /// Takes a kept block of exactly this size.
    fn take(&mut self, size: usize) -> Option<PoolBlock> {
        let first = *self.bucket(size);
        let mut bucket = successors(first, |block| block.links().next.get());
        let found = bucket.find(|block| block.header().size.get() == size)?;
        self.unlink(found);
        Some(found)
    }

    fn keep(&mut self, block: PoolBlock) {
        let newest = self.newest.replace(block);
        let first = self.bucket(block.header().size.get()).replace(block);
        let links = block.links();
        links.newer.set(None);
        links.older.set(newest);
        links.next.set(first);
        links.previous.set(None);
        if let Some(first) = first {
            first.links().previous.set(Some(block));
        }
        match newest {
            None => self.oldest = Some(block),
            Some(newest) => newest.links().newer.set(Some(block)),
        }
        self.counts.kept_bytes += block.charged() as u64;
        self.counts.kept_blocks += 1;
    }

    fn unlink(&mut self, block: PoolBlock) {
        let links = block.links();
        let (newer, older) = (links.newer.get(), links.older.get());
        match newer {
            None => self.newest = older,
            Some(newer) => newer.links().older.set(older),
        }
        match older {
            None => self.oldest = newer,
            Some(older) => older.links().newer.set(newer),
        }
        let (next, previous) = (links.next.get(), links.previous.get());
        if let Some(next) = next {
            next.links().previous.set(previous);
        }
        match previous {
            None => *self.bucket(block.header().size.get()) = next,
            Some(previous) => previous.links().next.set(next),
        }
        self.counts.kept_bytes -= block.charged() as u64;
        self.counts.kept_blocks -= 1;
    }

    fn limits(&self) -> (Option<u64>, Option<u64>) {
        match self.limit {
            PoolLimit::Auto => (Some(self.auto_blocks), Some(self.peak_live_bytes)),
            PoolLimit::Blocks(blocks) => (Some(blocks), None),
            PoolLimit::Bytes(bytes) => (None, Some(bytes)),
        }
    }

    fn is_over_limit(&self) -> bool {
        let (blocks, bytes) = self.limits();
        blocks.is_some_and(|limit| self.counts.kept_blocks > limit)
            || bytes.is_some_and(|limit| self.counts.kept_bytes > limit)
    }

    /// Takes blocks out, oldest first, until the bound holds.
    fn evict(&mut self) -> Evicted {
        let mut evicted = None;
        while self.is_over_limit()
            && let Some(block) = self.oldest
        {
            self.unlink(block);
            block.links().next.set(evicted);
            evicted = Some(block);
            self.counts.evictions += 1;
            if self.counts.evictions.is_multiple_of(EVICTIONS_A_LOOK) {
                self.look_at_limit();
            }
        }
        Evicted(evicted)
    }

    fn look_at_limit(&mut self) {
        let many_evictions = self.counts.evictions > self.released / BEARABLE;
        let many_misses = self.counts.misses > (self.counts.hits + self.counts.misses) / BEARABLE;
        if self.limit == PoolLimit::Auto && many_evictions && many_misses {
            self.auto_blocks += self.auto_blocks / 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_testing::Random;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(HEADER + size, GRAIN).unwrap()
    }

    fn new(size: usize) -> PoolBlock {
        // SAFETY: the layout has a size.
        let whole = NonNull::new(unsafe { alloc_zeroed(layout(size)) }).unwrap();
        // SAFETY: a fresh block, with a header in front and room for the links.
        let block = unsafe { PoolBlock::of(whole.add(HEADER)) };
        block.describe(size, size);
        block
    }

    fn give_back(block: PoolBlock) {
        // SAFETY: made by `new`, and the pool has it no more.
        unsafe { dealloc(block.pointer().as_ptr().sub(HEADER), layout(block.size())) };
    }

    /// Random requests and releases, beside a list of the kept blocks, the oldest first.
    #[test]
    fn a_pool_keeps_the_blocks_that_were_freed_last() {
        let mut pool = Pool::new();
        pool.limit = PoolLimit::Blocks(5);
        let (mut live, mut kept) = (Vec::<PoolBlock>::new(), Vec::<PoolBlock>::new());
        let (mut random, mut hits) = (Random(7), 0);
        let (turns, least) = if cfg!(miri) { (300, 5) } else { (3000, 100) };
        for _ in 0..turns {
            if live.len() < 8 && random.below(2) == 0 {
                let size = GRAIN * (1 + random.below(4));
                let block = pool.request(size).inspect(|found| {
                    // Of several of one size the one that was freed last.
                    let place = kept.iter().rposition(|block| block.size() == size);
                    assert_eq!(kept.remove(place.unwrap()).pointer(), found.pointer());
                    hits += 1;
                });
                assert!(block.is_some() || kept.iter().all(|block| block.size() != size));
                live.push(block.unwrap_or_else(|| {
                    pool.count_live(size);
                    new(size)
                }));
            } else if !live.is_empty() {
                let block = live.swap_remove(random.below(live.len()));
                kept.push(block);
                for evicted in pool.release(block) {
                    assert_eq!(kept.remove(0).pointer(), evicted.pointer());
                    give_back(evicted);
                }
            }
            let addresses =
                |blocks: &[PoolBlock]| blocks.iter().map(PoolBlock::pointer).collect::<Vec<_>>();
            let newest_first: Vec<_> = pool.kept().collect();
            kept.reverse();
            assert_eq!(addresses(&newest_first), addresses(&kept));
            kept.reverse();
            let bytes: usize = kept.iter().map(PoolBlock::charged).sum();
            let found = pool.statistics();
            assert_eq!(found.kept_blocks, kept.len() as u64);
            assert_eq!(found.kept_bytes, bytes as u64);
        }
        let statistics = pool.statistics();
        assert!(hits > least && statistics.hits == hits && statistics.evictions > least);
        live.drain(..).for_each(give_back);
        pool.evict_all().for_each(give_back);
    }
}
