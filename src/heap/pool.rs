//! A pool of freed array blocks, after TensorFlow's PoolAllocator: a freed block is kept, under
//! its size, for the next request of that size; past a bound the least recently freed go back to
//! the heap, and the pages of large ones to the system: else the heap would keep them again. A
//! block that `realloc` leaves is not kept, since an array that grows never has that size again.
//!
//! A header in front of each block holds its sizes, since `free` is told none that it may trust.
//! The lists run through the kept blocks themselves, so the pool needs no memory of its own. The
//! lock is held for list work alone, inside the [`gate`], so that a forked child finds it free;
//! the heap is called without it.
//!
//! Any thread, without the GIL. What is kept is not live: the ledger's `numpy` account has the
//! blocks that were handed out.

#![allow(unsafe_code)]

use super::gate::{self, Closed};
use super::pages::{self, PageView};
use super::thread::{state, thread_id};
use super::{arrays, book, may_book, moving, release, usable_size};
use crate::ledger::Account;
use pyhost_os::bytes::{self, Expected};
use pyhost_os::mapping::give_pages_back;
use std::cell::Cell;
use std::fmt;
use std::iter::successors;
use std::ptr::{NonNull, null_mut};
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

const NUMPY: usize = Account::Numpy as usize;

/// How much a pool keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolLimit {
    /// A number of blocks that grows by a tenth while both evictions and misses are frequent;
    /// and no more bytes than were ever live at once.
    #[default]
    Auto,
    /// So many blocks.
    Blocks(u64),
    /// So many bytes.
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

impl fmt::Display for PoolLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolLimit::Auto => out.write_str("auto"),
            PoolLimit::Blocks(blocks) => write!(out, "{blocks}"),
            PoolLimit::Bytes(bytes) => write!(out, "{bytes}B"),
        }
    }
}

/// Blocks that [`PoolLimit::Auto`] begins with.
const FIRST_LIMIT: u64 = 100;
/// `PoolLimit::Auto` is looked at once in so many evictions.
const EVICTIONS_A_LOOK: u64 = 1000;
/// Evictions a release, and misses a request, that `PoolLimit::Auto` bears, as one in so many.
const BEARABLE: u64 = 500;

/// Sizes are multiples of this, header included.
const GRAIN: usize = 64;
/// Bytes that a kept block needs for its links.
const LEAST: usize = size_of::<Links>();
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
struct PoolBlock(NonNull<u8>);

impl PoolBlock {
    /// The block that was handed out as `pointer`.
    ///
    /// # Safety
    /// It was, and is the caller's alone.
    unsafe fn of(pointer: NonNull<u8>) -> PoolBlock {
        PoolBlock(pointer)
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

    fn charged(&self) -> usize {
        self.header().charged.get()
    }
}

/// Blocks that the pool has no more, linked by `next`.
struct Evicted(Option<PoolBlock>);

/// The statistics of a pool.
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

struct PoolState {
    limit: PoolLimit,
    auto_blocks: u64,
    newest: Option<PoolBlock>,
    oldest: Option<PoolBlock>,
    buckets: [Option<PoolBlock>; BUCKETS],
    hits: u64,
    misses: u64,
    evictions: u64,
    kept_blocks: u64,
    kept_bytes: u64,
    released: u64,
    live_bytes: u64,
    peak_live_bytes: u64,
}

// SAFETY: the blocks are kept, and belong to the pool, whichever thread has the lock.
unsafe impl Send for PoolState {}

static POOL: Mutex<PoolState> = Mutex::new(PoolState {
    limit: PoolLimit::Auto,
    auto_blocks: FIRST_LIMIT,
    newest: None,
    oldest: None,
    buckets: [None; BUCKETS],
    hits: 0,
    misses: 0,
    evictions: 0,
    kept_blocks: 0,
    kept_bytes: 0,
    released: 0,
    live_bytes: 0,
    peak_live_bytes: 0,
});

/// The pool, locked for the length of `work`, inside the gate. `work` must not allocate.
fn locked<T>(work: impl FnOnce(&mut PoolState) -> T) -> T {
    let _inside = gate::enter(state().slot(), thread_id());
    let mut guard: MutexGuard<'_, PoolState> = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut guard)
}

/// From so many bytes on the pages of a block that is not kept any more go back to the system.
const LEAST_GIVEN_BACK: usize = 64 << 10;

/// Bytes in front of the pointer: a header, and the pointer stays aligned.
pub fn lead() -> usize {
    arrays::alignment().max(size_of::<Header>())
}

impl PoolState {
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
        self.kept_bytes += block.charged() as u64;
        self.kept_blocks += 1;
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
        self.kept_bytes -= block.charged() as u64;
        self.kept_blocks -= 1;
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
        blocks.is_some_and(|limit| self.kept_blocks > limit)
            || bytes.is_some_and(|limit| self.kept_bytes > limit)
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
            self.evictions += 1;
            if self.evictions.is_multiple_of(EVICTIONS_A_LOOK) {
                self.look_at_limit();
            }
        }
        Evicted(evicted)
    }

    fn look_at_limit(&mut self) {
        let many_evictions = self.evictions > self.released / BEARABLE;
        let many_misses = self.misses > (self.hits + self.misses) / BEARABLE;
        if self.limit == PoolLimit::Auto && many_evictions && many_misses {
            self.auto_blocks += self.auto_blocks / 10;
        }
    }

    fn count_live(&mut self, charged: usize) {
        self.live_bytes += charged as u64;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
    }
}

/// Chooses the bound. Before the first block.
pub fn set_limit(limit: PoolLimit) {
    locked(|pool| pool.limit = limit);
}

/// Bytes to ask of the heap for `size` bytes of data.
fn whole(size: usize) -> Option<usize> {
    let whole = size.max(LEAST).checked_add(lead() + GRAIN - 1)?;
    Some(whole & !(GRAIN - 1))
}

/// Allocates `size` bytes, zeroed where `zero`, aligned as [`arrays`] are. Null on failure.
pub fn allocate(size: usize, zero: bool) -> *mut u8 {
    let Some(whole) = whole(size) else {
        super::count_failure(Account::Numpy);
        return null_mut();
    };
    let kept = locked(|pool| {
        let kept = pool.take(whole);
        match kept {
            None => pool.misses += 1,
            Some(block) => {
                pool.hits += 1;
                pool.count_live(block.charged());
            }
        }
        kept
    });
    let Some(block) = kept else {
        return allocate_new(whole, zero);
    };
    if zero {
        // SAFETY: the bytes behind the header, of a block that nobody else has.
        unsafe { arrays::clear(block.0.as_ptr(), whole - lead()) };
    }
    hand_out(block)
}

/// Books a block, counted as live, that the caller returns; null where a cap refuses it, and it is kept.
fn hand_out(block: PoolBlock) -> *mut u8 {
    let pointer = block.0.as_ptr();
    if book::<NUMPY>(pointer, block.charged()) {
        return pointer;
    }
    keep(block);
    null_mut()
}

fn allocate_new(whole: usize, zero: bool) -> *mut u8 {
    if !may_book::<NUMPY>(whole) {
        return null_mut();
    }
    let from_heap = || match zero {
        true => arrays::allocate::<true, false>(whole),
        false => arrays::allocate::<false, false>(whole),
    };
    let mut start = from_heap();
    if start.is_null() {
        give_back_all();
        start = from_heap();
    }
    let Some(start) = NonNull::new(start) else {
        super::count_failure(Account::Numpy);
        return null_mut();
    };
    // SAFETY: a fresh block of `whole` bytes, longer than the lead.
    let (block, charged) = unsafe {
        let charged = usable_size(start.as_ptr()).unwrap_or(whole);
        (PoolBlock::of(start.add(lead())), charged)
    };
    block.header().size.set(whole);
    block.header().charged.set(charged);
    locked(|pool| pool.count_live(charged));
    hand_out(block)
}

/// Frees a block: keeps it, and gives back what exceeds the bound.
///
/// # Safety
/// `pointer` is null, or was made by [`allocate`] or [`reallocate`] and not freed since.
pub unsafe fn free(pointer: *mut u8) {
    if let Some(pointer) = NonNull::new(pointer) {
        // SAFETY: the caller's duties.
        let block = unsafe { PoolBlock::of(pointer) };
        release::<NUMPY>(pointer.as_ptr(), block.charged());
        keep(block);
    }
}

/// Keeps a block that is not live any more, and gives back what exceeds the bound.
fn keep(block: PoolBlock) {
    let evicted = locked(|pool| {
        pool.released += 1;
        pool.live_bytes -= block.charged() as u64;
        pool.keep(block);
        pool.evict()
    });
    give_back(evicted);
}

/// Resizes a block; null where there is no memory, and the old block still lives.
///
/// # Safety
/// As for [`free`].
pub unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    let Some(start) = NonNull::new(pointer) else {
        return allocate(size, false);
    };
    // SAFETY: the caller's duties.
    let old = unsafe { PoolBlock::of(start) };
    let charged = old.charged();
    // The heap may have given more than was requested: then the block stays.
    if let Some(whole) = whole(size).filter(|&whole| whole <= charged)
        && charged - whole <= arrays::slack(charged)
    {
        old.header().size.set(whole);
        return pointer;
    }
    // The two are not live at once as far as the bound goes.
    locked(|pool| pool.live_bytes -= charged as u64);
    let moved = allocate(size, false);
    if moved.is_null() {
        locked(|pool| pool.count_live(charged));
        return moved;
    }
    release::<NUMPY>(pointer, charged);
    locked(|pool| pool.released += 1);
    let (lead, header) = (lead(), size_of::<Header>());
    let bytes = old.header().size.get().min(lead + size);
    // SAFETY: both blocks live and are at least that long. They are moved from their start, which large ones have on
    // a page, and the new header is put back.
    unsafe {
        let new = moved.sub(header).cast::<[usize; 2]>().read();
        moving::move_contents(pointer.sub(lead), moved.sub(lead), bytes);
        moved.sub(header).cast::<[usize; 2]>().write(new);
        give_one_back(old, charged);
    }
    moved
}

/// Gives every kept block back to the heap.
pub fn give_back_all() {
    let all = locked(|pool| {
        let bound = std::mem::replace(&mut pool.limit, PoolLimit::Blocks(0));
        let all = pool.evict();
        pool.limit = bound;
        all
    });
    give_back(all);
}

fn give_back(Evicted(mut list): Evicted) {
    while let Some(block) = list {
        list = block.links().next.get();
        // SAFETY: the list was the last to have it.
        unsafe { give_one_back(block, block.charged()) };
    }
}

/// Calls `visit` with the page of each kept block, which the heap has live and the ledger has not. Where a
/// thread of the caller's has the lock beneath a signal handler there are none.
pub fn each_kept(closed: &Closed, mut visit: impl FnMut(&PageView)) {
    let Ok(pool) = POOL.try_lock() else { return };
    for block in successors(pool.newest, |block| block.links().older.get()) {
        if let Some(page) = pages::holding(closed, block.0.addr().get() - lead()) {
            visit(&page);
        }
    }
}

/// Frees a block, whose header may be gone, to the heap, and its pages to the system.
///
/// # Safety
/// A block of `charged` bytes; no copy of the value is used afterwards.
unsafe fn give_one_back(block: PoolBlock, charged: usize) {
    // SAFETY: the caller's promise; the heap's block begins a lead earlier.
    unsafe {
        let start = block.0.as_ptr().sub(lead());
        if charged >= LEAST_GIVEN_BACK {
            give_pages_back(start, charged);
        }
        arrays::free::<false>(start);
    }
}

/// The statistics of the pool. Returns `None` if another thread has the lock, or this one below a signal
/// handler.
pub fn statistics() -> Option<Statistics> {
    let pool = POOL.try_lock().ok()?;
    let (limit_blocks, limit_bytes) = pool.limits();
    Some(Statistics {
        hits: pool.hits,
        misses: pool.misses,
        evictions: pool.evictions,
        kept_blocks: pool.kept_blocks,
        kept_bytes: pool.kept_bytes,
        limit_blocks,
        limit_bytes,
    })
}
