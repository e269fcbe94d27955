//! The pool of `--numpy pool`, behind a lock: past its bound blocks go back to the heap, and the pages of large ones
//! to the system: else the heap would keep them again. A block that `realloc` leaves is not kept, since an array that
//! grows never has that size again.
//!
//! The lock is held for list work alone; the heap is called without it. What is kept is not live: the ledger's `numpy`
//! account has the blocks that were handed out.

#![allow(unsafe_code)]

use crate::arrays::array_blocks;
use crate::ledger::{Account, LEDGER};
use crate::mimalloc::gate::{self, Closed};
use crate::mimalloc::pages::{self, PageView};
use crate::system_memory::mremap_grow;
use crate::threads::thread_state::{state, thread_id};
use crate::{NUMPY, book, may_book, release, usable_size};
use pyhost_os::mapping::give_pages_back;
use pyhost_tensorflow::pool::{GRAIN, HEADER, LEAST, Pool, PoolBlock};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

pub use pyhost_tensorflow::pool::{PoolLimit, Statistics};

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// The pool, locked for the length of `work`, inside the gate. `work` must not allocate.
fn locked<T>(work: impl FnOnce(&mut Pool) -> T) -> T {
    let _inside = gate::enter(state().slot(), thread_id());
    work(&mut POOL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// From so many bytes on the pages of a block that is not kept any more go back to the system.
const LEAST_GIVEN_BACK: usize = 64 << 10;

/// Bytes in front of the pointer: a header, and the pointer stays aligned.
pub fn lead() -> usize {
    array_blocks::alignment().max(HEADER)
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

/// Allocates `size` bytes, zeroed where `zero`, aligned as [`array_blocks`] are. Null on failure.
pub fn allocate(size: usize, zero: bool) -> *mut u8 {
    let Some(whole) = whole(size) else {
        LEDGER.count_failure(Account::Numpy);
        return null_mut();
    };
    let Some(block) = locked(|pool| pool.request(whole)) else {
        return allocate_new(whole, zero);
    };
    if zero {
        // SAFETY: the bytes behind the header, of a block that nobody else has.
        unsafe { array_blocks::clear(block.pointer().as_ptr(), whole - lead()) };
    }
    hand_out(block)
}

/// Books a block, counted as live, that the caller returns; null where a cap refuses it, and it is kept.
fn hand_out(block: PoolBlock) -> *mut u8 {
    let pointer = block.pointer().as_ptr();
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
        true => array_blocks::allocate::<true, false>(whole),
        false => array_blocks::allocate::<false, false>(whole),
    };
    let mut start = from_heap();
    if start.is_null() {
        give_back_all();
        start = from_heap();
    }
    let Some(start) = NonNull::new(start) else {
        LEDGER.count_failure(Account::Numpy);
        return null_mut();
    };
    // SAFETY: a fresh block of `whole` bytes, longer than the lead.
    let (block, charged) = unsafe {
        let charged = usable_size(start.as_ptr()).unwrap_or(whole);
        (PoolBlock::of(start.add(lead())), charged)
    };
    block.describe(whole, charged);
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
    locked(|pool| pool.release(block)).for_each(give_back);
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
        && charged - whole <= array_blocks::slack(charged)
    {
        old.set_size(whole);
        return pointer;
    }
    // The two are not live at once as far as the bound goes.
    locked(|pool| pool.count_dead(charged));
    let moved = allocate(size, false);
    if moved.is_null() {
        locked(|pool| pool.count_live(charged));
        return moved;
    }
    release::<NUMPY>(pointer, charged);
    locked(Pool::count_release);
    let (lead, header) = (lead(), HEADER);
    let bytes = old.size().min(lead + size);
    // SAFETY: both blocks live and are at least that long. They are moved from their start, which large ones have on
    // a page, and the new header is put back.
    unsafe {
        let new = moved.sub(header).cast::<[usize; 2]>().read();
        mremap_grow::move_contents(pointer.sub(lead), moved.sub(lead), bytes);
        moved.sub(header).cast::<[usize; 2]>().write(new);
        give_one_back(old, charged);
    }
    moved
}

/// Gives every kept block back to the heap.
pub fn give_back_all() {
    locked(Pool::evict_all).for_each(give_back);
}

fn give_back(block: PoolBlock) {
    // SAFETY: the pool was the last to have it.
    unsafe { give_one_back(block, block.charged()) };
}

/// Calls `visit` with the page of each kept block, which the heap has live and the ledger has not. Where a
/// thread of the caller's has the lock beneath a signal handler there are none.
pub fn each_kept(closed: &Closed, mut visit: impl FnMut(&PageView)) {
    let Ok(pool) = POOL.try_lock() else { return };
    for block in pool.kept() {
        if let Some(page) = pages::holding(closed, block.pointer().addr().get() - lead()) {
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
        let start = block.pointer().as_ptr().sub(lead());
        if charged >= LEAST_GIVEN_BACK {
            give_pages_back(start, charged);
        }
        array_blocks::free::<false>(start);
    }
}

/// The statistics of the pool. Returns `None` if another thread has the lock, or this one below a signal handler.
pub fn statistics() -> Option<Statistics> {
    POOL.try_lock().ok().map(|pool| pool.statistics())
}
