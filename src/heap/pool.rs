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
use std::fmt;
use std::ptr::null_mut;
use std::str::FromStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

const NUMPY: usize = Account::Numpy as usize;

/// How much a pool keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// A number of blocks that grows by a tenth while both evictions and misses are frequent;
    /// and no more bytes than were ever live at once.
    #[default]
    Auto,
    /// So many blocks.
    Blocks(u64),
    /// So many bytes.
    Bytes(u64),
}

impl FromStr for Limit {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let expected = Expected("auto, a number of blocks, or a size such as 64M");
        if text == "auto" {
            return Ok(Limit::Auto);
        }
        if let Ok(blocks) = text.parse() {
            return Ok(Limit::Blocks(blocks));
        }
        bytes::parse(text).map(Limit::Bytes).ok_or(expected)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Auto => out.write_str("auto"),
            Limit::Blocks(blocks) => write!(out, "{blocks}"),
            Limit::Bytes(bytes) => write!(out, "{bytes}B"),
        }
    }
}

/// Blocks that [`Limit::Auto`] begins with.
const FIRST_LIMIT: u64 = 100;
/// `Limit::Auto` is looked at once in so many evictions.
const EVICTIONS_A_LOOK: u64 = 1000;
/// Evictions a release, and misses a request, that `Limit::Auto` bears, as one in so many.
const BEARABLE: u64 = 500;

/// Sizes are multiples of this, header included.
const GRAIN: usize = 64;
/// Bytes that a kept block needs for its links.
const LEAST: usize = size_of::<Links>();
const BUCKETS: usize = 256;

/// In front of the pointer that is handed out.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    /// Bytes asked of the heap, header included: the pool's key.
    size: usize,
    /// Bytes that the heap gave, which the ledger books.
    charged: usize,
}

/// At the pointer, while the block is kept.
#[repr(C)]
struct Links {
    /// Towards the more recently freed.
    newer: *mut Links,
    older: *mut Links,
    /// Within the bucket of the size.
    next: *mut Links,
    previous: *mut Links,
}

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
    limit: Limit,
    auto_blocks: u64,
    newest: *mut Links,
    oldest: *mut Links,
    buckets: [*mut Links; BUCKETS],
    hits: u64,
    misses: u64,
    evictions: u64,
    kept_blocks: u64,
    kept_bytes: u64,
    released: u64,
    live_bytes: u64,
    peak_live_bytes: u64,
}

// SAFETY: the pointers lead to kept blocks, which belong to the pool, whichever thread has the
// lock.
unsafe impl Send for PoolState {}

static POOL: Mutex<PoolState> = Mutex::new(PoolState {
    limit: Limit::Auto,
    auto_blocks: FIRST_LIMIT,
    newest: null_mut(),
    oldest: null_mut(),
    buckets: [null_mut(); BUCKETS],
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

/// The header of a block that was handed out, or is kept.
///
/// # Safety
/// `pointer` is such a block's.
unsafe fn header<'a>(pointer: *mut u8) -> &'a mut Header {
    // SAFETY: the header lies right in front, within the heap's block, and one thread at a time
    // has the block.
    unsafe { &mut *pointer.sub(size_of::<Header>()).cast::<Header>() }
}

impl PoolState {
    fn bucket(&mut self, size: usize) -> &mut *mut Links {
        let hash = (size / GRAIN).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        &mut self.buckets[hash % BUCKETS]
    }

    /// Takes a kept block of exactly this size.
    fn take(&mut self, size: usize) -> *mut u8 {
        let mut links = *self.bucket(size);
        // SAFETY: the lists lead from kept block to kept block.
        unsafe {
            while !links.is_null() && header(links.cast()).size != size {
                links = (*links).next;
            }
            if !links.is_null() {
                self.unlink(links);
            }
        }
        links.cast()
    }

    /// # Safety
    /// A block that is handed to the pool.
    unsafe fn keep(&mut self, pointer: *mut u8) {
        let links = pointer.cast::<Links>();
        // SAFETY: the block is the pool's now, and at least as long as the links.
        unsafe {
            let size = header(pointer).size;
            self.kept_bytes += header(pointer).charged as u64;
            let newest = self.newest;
            let first = self.bucket(size);
            links.write(Links {
                newer: null_mut(),
                older: newest,
                next: *first,
                previous: null_mut(),
            });
            if !(*first).is_null() {
                (**first).previous = links;
            }
            *first = links;
            match newest.is_null() {
                true => self.oldest = links,
                false => (*newest).newer = links,
            }
        }
        self.newest = links;
        self.kept_blocks += 1;
    }

    /// # Safety
    /// A kept block.
    unsafe fn unlink(&mut self, links: *mut Links) {
        // SAFETY: the caller's duty; its neighbours are kept blocks too.
        unsafe {
            let Links {
                newer,
                older,
                next,
                previous,
            } = links.read();
            match newer.is_null() {
                true => self.newest = older,
                false => (*newer).older = older,
            }
            match older.is_null() {
                true => self.oldest = newer,
                false => (*older).newer = newer,
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
            match previous.is_null() {
                true => *self.bucket(header(links.cast()).size) = next,
                false => (*previous).next = next,
            }
            self.kept_bytes -= header(links.cast()).charged as u64;
        }
        self.kept_blocks -= 1;
    }

    fn limits(&self) -> (Option<u64>, Option<u64>) {
        match self.limit {
            Limit::Auto => (Some(self.auto_blocks), Some(self.peak_live_bytes)),
            Limit::Blocks(blocks) => (Some(blocks), None),
            Limit::Bytes(bytes) => (None, Some(bytes)),
        }
    }

    fn is_over_limit(&self) -> bool {
        let (blocks, bytes) = self.limits();
        blocks.is_some_and(|limit| self.kept_blocks > limit)
            || bytes.is_some_and(|limit| self.kept_bytes > limit)
    }

    /// Takes blocks out, oldest first, until the bound holds: a list linked by `next`.
    fn evict(&mut self) -> *mut Links {
        let mut evicted: *mut Links = null_mut();
        while self.is_over_limit() && !self.oldest.is_null() {
            let links = self.oldest;
            // SAFETY: a kept block, which then belongs to the caller's list.
            unsafe {
                self.unlink(links);
                (*links).next = evicted;
            }
            evicted = links;
            self.evictions += 1;
            if self.evictions.is_multiple_of(EVICTIONS_A_LOOK) {
                self.look_at_limit();
            }
        }
        evicted
    }

    fn look_at_limit(&mut self) {
        let many_evictions = self.evictions > self.released / BEARABLE;
        let many_misses = self.misses > (self.hits + self.misses) / BEARABLE;
        if self.limit == Limit::Auto && many_evictions && many_misses {
            self.auto_blocks += self.auto_blocks / 10;
        }
    }

    fn count_live(&mut self, charged: usize) {
        self.live_bytes += charged as u64;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
    }
}

/// Chooses the bound. Before the first block.
pub fn set_limit(limit: Limit) {
    locked(|pool| pool.limit = limit);
}

/// Bytes to ask of the heap for `size` bytes of data.
fn whole(size: usize) -> Option<usize> {
    let whole = size.max(LEAST).checked_add(lead() + GRAIN - 1)?;
    Some(whole & !(GRAIN - 1))
}

/// Allocates `size` bytes, zeroed where `zero`, aligned as [`arrays`] are. Null on failure.
pub fn allocate(size: usize, zero: bool) -> *mut u8 {
    let lead = lead();
    let Some(whole) = whole(size) else {
        super::count_failure(Account::Numpy);
        return null_mut();
    };
    let pointer = locked(|pool| {
        let pointer = pool.take(whole);
        if pointer.is_null() {
            pool.misses += 1;
        } else {
            pool.hits += 1;
            // SAFETY: a block that was kept until now.
            pool.count_live(unsafe { header(pointer) }.charged);
        }
        pointer
    });
    if pointer.is_null() {
        return allocate_new(whole, lead, zero);
    }
    // SAFETY: a block of that size, the caller's from here on.
    unsafe {
        if zero {
            arrays::clear(pointer, whole - lead);
        }
        let charged = header(pointer).charged;
        if !book::<NUMPY>(pointer, charged) {
            keep(pointer, charged);
            return null_mut();
        }
    }
    pointer
}

fn allocate_new(whole: usize, lead: usize, zero: bool) -> *mut u8 {
    if !may_book::<NUMPY>(whole) {
        return null_mut();
    }
    let from_heap = || match zero {
        true => arrays::allocate::<true, false>(whole),
        false => arrays::allocate::<false, false>(whole),
    };
    let mut block = from_heap();
    if block.is_null() {
        give_back_all();
        block = from_heap();
    }
    if block.is_null() {
        super::count_failure(Account::Numpy);
        return null_mut();
    }
    // SAFETY: a fresh block of `whole` bytes, longer than the lead.
    unsafe {
        let pointer = block.add(lead);
        let charged = usable_size(block).unwrap_or(whole);
        *header(pointer) = Header {
            size: whole,
            charged,
        };
        locked(|pool| pool.count_live(charged));
        if !book::<NUMPY>(pointer, charged) {
            keep(pointer, charged);
            return null_mut();
        }
        pointer
    }
}

/// Frees a block: keeps it, and gives back what exceeds the bound.
///
/// # Safety
/// `pointer` is null, or was made by [`allocate`] or [`reallocate`] and not freed since.
pub unsafe fn free(pointer: *mut u8) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: the caller's duties.
    unsafe {
        let charged = header(pointer).charged;
        release::<NUMPY>(pointer, charged);
        keep(pointer, charged);
    }
}

/// Keeps a block that is not live any more, and gives back what exceeds the bound.
///
/// # Safety
/// `pointer` was made by the pool and is the caller's alone.
unsafe fn keep(pointer: *mut u8, charged: usize) {
    let evicted = locked(|pool| {
        pool.released += 1;
        pool.live_bytes -= charged as u64;
        // SAFETY: the caller's duty.
        unsafe { pool.keep(pointer) };
        pool.evict()
    });
    // SAFETY: a list that nobody else has.
    unsafe { give_back(evicted) };
}

/// Resizes a block; null where there is no memory, and the old block still lives.
///
/// # Safety
/// As for [`free`].
pub unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        return allocate(size, false);
    }
    let lead = lead();
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        let old = *header(pointer);
        // The heap may have given more than was requested: then the block stays.
        let fitting = whole(size).filter(|&whole| whole <= old.charged);
        if let Some(whole) = fitting
            && old.charged - whole <= arrays::slack(old.charged)
        {
            header(pointer).size = whole;
            return pointer;
        }
        // The two are not live at once as far as the bound goes.
        locked(|pool| pool.live_bytes -= old.charged as u64);
        let moved = allocate(size, false);
        if moved.is_null() {
            locked(|pool| pool.count_live(old.charged));
            return moved;
        }
        // From the start of the blocks, which large ones have on a page: with the header.
        let new = *header(moved);
        let bytes = old.size.min(lead + size);
        moving::move_contents(pointer.sub(lead), moved.sub(lead), bytes);
        *header(moved) = new;
        release::<NUMPY>(pointer, old.charged);
        locked(|pool| pool.released += 1);
        give_one_back(pointer, old.charged);
        moved
    }
}

/// Gives every kept block back to the heap.
pub fn give_back_all() {
    let all = locked(|pool| {
        let bound = std::mem::replace(&mut pool.limit, Limit::Blocks(0));
        let all = pool.evict();
        pool.limit = bound;
        all
    });
    // SAFETY: a list that nobody else has.
    unsafe { give_back(all) };
}

/// # Safety
/// A list of blocks, linked by `next`, that nobody else has.
unsafe fn give_back(mut links: *mut Links) {
    while !links.is_null() {
        // SAFETY: the caller's duty; the heap's block begins a lead earlier.
        unsafe {
            let next = (*links).next;
            let block = links.cast::<u8>();
            give_one_back(block, header(block).charged);
            links = next;
        }
    }
}

/// Calls `visit` with the page of each kept block, which the heap has live and the ledger has not. Where a
/// thread of the caller's has the lock beneath a signal handler there are none.
pub fn each_kept(closed: &Closed, mut visit: impl FnMut(&PageView)) {
    let Ok(pool) = POOL.try_lock() else { return };
    let mut links = pool.newest;
    while !links.is_null() {
        if let Some(page) = pages::holding(closed, links.addr() - lead()) {
            visit(&page);
        }
        // SAFETY: the list leads from kept block to kept block; it changes inside the gate alone.
        links = unsafe { (*links).older };
    }
}

/// Frees a block, whose header may be gone, to the heap, and its pages to the system.
///
/// # Safety
/// As for [`give_back`], for one block of `charged` bytes.
unsafe fn give_one_back(pointer: *mut u8, charged: usize) {
    // SAFETY: the caller's duty; the heap's block begins a lead earlier.
    unsafe {
        let block = pointer.sub(lead());
        if charged >= LEAST_GIVEN_BACK {
            arrays::give_pages_back(block, charged);
        }
        arrays::free::<false>(block);
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
