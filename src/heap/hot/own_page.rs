//! The inlined path: a block from a page of the calling thread, and back to it.

#![allow(unsafe_code)]

use crate::mimalloc::ffi::{self, Block, Page, Theap};
use crate::mimalloc::{gate, heaps::HEAPS, pages::live_page};
use crate::threads::thread_state::{ThreadState, state, thread_id};
use crate::{NATIVE, checks::double_free, system_memory::retention};
use std::{cell::Cell, ptr::null_mut, sync::atomic::Ordering::Relaxed};

/// The least block of `native`: a link and a mark.
pub const LEAST_BLOCK: usize = size_of::<NativeBlock>();

/// A number that no program writes by accident to the address that it is combined with.
const KEY: u64 = 0xa3c5_9ac2_f1d6_7e4b;

/// The first bytes of a block of `native`.
#[repr(C, align(8))]
pub struct NativeBlock {
    _link: Cell<u64>,
    mark: Cell<u64>,
}

impl NativeBlock {
    /// The block at `start`.
    ///
    /// # Safety
    /// A block of `native` starts there, live or free, in a page of mimalloc's that stays while the value is used;
    /// it is marked and unmarked only by the thread that frees it or gives it out.
    #[inline(always)]
    pub unsafe fn at<'a>(start: *mut u8) -> &'a NativeBlock {
        // SAFETY: the caller's promise; the block has room for both, and begins on a multiple of 16 bytes.
        unsafe { &*start.cast() }
    }

    #[inline(always)]
    fn key(&self) -> u64 {
        (&raw const *self).addr() as u64 ^ KEY
    }

    /// Whether the block is free.
    #[inline(always)]
    pub fn is_marked(&self) -> bool {
        self.mark.get() == self.key()
    }

    /// Marks a block that is being freed.
    #[inline(always)]
    pub fn mark(&self) {
        self.mark.set(self.key());
    }

    /// Takes the mark off a block that is being given out.
    #[inline(always)]
    pub fn unmark(&self) {
        self.mark.set(0);
    }

    /// As [`NativeBlock::unmark`], but if there is no mark nothing is written: fresh memory stays untouched.
    pub fn unmark_if_marked(&self) {
        if self.is_marked() {
            self.unmark();
        }
    }
}

/// Pops a block for `size` bytes, of which the bits of `mask` are 0, from the calling thread's
/// own page and books it; null if the slow path must do it. The GIL is held if `A` is an account of the GIL.
#[inline(always)]
pub fn pop<const A: usize, const ZERO: bool, const BOOK: bool>(
    size: usize,
    mask: usize,
) -> *mut u8 {
    let state = state();
    pop_from::<A, ZERO, BOOK>(state, state.theaps[A].get(), size, mask)
}

/// [`pop`] from a theap of the calling thread's in the heap of `A`.
#[inline(always)]
pub fn pop_from<const A: usize, const ZERO: bool, const BOOK: bool>(
    state: &ThreadState,
    theap: *mut Theap,
    size: usize,
    mask: usize,
) -> *mut u8 {
    // Of `native` no block has less than 16 bytes (see [`double_free`]): by steps of 16 from 16 on, as
    // mimalloc's own sizes are from there. 0 wraps around, and takes the slow path.
    let index = match A == NATIVE {
        true if size.wrapping_sub(1) >= ffi::SMALL_SIZE_MAX => return null_mut(),
        true => size.div_ceil(LEAST_BLOCK) * (LEAST_BLOCK / size_of::<usize>()),
        false if size > ffi::SMALL_SIZE_MAX => return null_mut(),
        false => size.div_ceil(size_of::<usize>()),
    };
    // SAFETY: the table has an entry for each size up to the limit, each entry is a page of
    // the calling thread or the empty page, and only this thread pops from it.
    unsafe {
        let page = (*theap).pages_free_direct[index];
        let block = *(*page).free.place();
        if block.is_null()
            || block.addr() & mask != 0
            || (BOOK && !state.slot.get().book::<A>((*page).block_size))
        {
            return null_mut();
        }
        *(*page).free.place() = (*block).next;
        *(*page).used.place() += 1;
        if A == NATIVE {
            NativeBlock::at(block.cast()).unmark();
        }
        if ZERO {
            if *(*page).free_is_zero.place() {
                (*block).next = null_mut();
            } else {
                std::ptr::write_bytes(block.cast::<u8>(), 0, size);
            }
        }
        block.cast()
    }
}

/// Pops a block of medium size from the first page of its queue, as [`pop_from`] does a small one, if `book` books its usable bytes;
/// null if mimalloc must do it, which takes a page that is full out of its queue.
///
/// # Safety
/// A theap of the calling thread.
#[inline(always)]
pub unsafe fn pop_from_queue(
    theap: *mut Theap,
    size: usize,
    book: impl FnOnce(usize) -> bool,
) -> *mut u8 {
    if size <= ffi::SMALL_SIZE_MAX || size > ffi::LARGE_SIZE_MAX {
        return null_mut();
    }
    // SAFETY: the first page of a queue of the calling thread's, which pops from it alone.
    unsafe {
        let page = (*theap).queues[ffi::queue_of(size)].first;
        if page.is_null() || *(*page).used.place() + 1 >= (*page).reserved {
            return null_mut();
        }
        let block = *(*page).free.place();
        if block.is_null() || !book((*page).block_size) {
            return null_mut();
        }
        *(*page).free.place() = (*block).next;
        *(*page).used.place() += 1;
        block.cast()
    }
}

/// Makes the first `size` bytes of a new block zeros, if its page does not know that they are. mimalloc would write to the whole block,
/// which may be an eighth longer.
///
/// # Safety
/// Null, or a block of at least so many bytes that its page's owner was just given.
pub unsafe fn clear(block: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match live_page(block) {
            Some(page) if *page.free_is_zero.place() => (*block.cast::<Block>()).next = null_mut(),
            Some(_) => std::ptr::write_bytes(block, 0, size),
            None => (),
        }
    }
}

/// Pushes a block back to its page and takes it off the ledger; false, having done nothing, if
/// the slow path must do it.
///
/// # Safety
/// `page` is the page of the live `block`. The GIL is held if `A` is an account of the GIL.
#[inline(always)]
pub unsafe fn push<const A: usize, const BOOK: bool>(page: *mut Page, block: *mut u8) -> bool {
    // SAFETY: the page of a live block. If its thread word equals the caller's, without flags,
    // the caller owns it and the pointer is the start of a block.
    unsafe {
        if (*page).xthread_id.load(Relaxed) != thread_id()
            || (*page).heap != HEAPS.own[A].load(Relaxed)
            || (A == NATIVE
                && (!double_free::is_start(&*page, block) || NativeBlock::at(block).is_marked()))
            || (BOOK && !state().slot.get().release::<A>((*page).block_size))
        {
            return false;
        }
        if A == NATIVE {
            NativeBlock::at(block).mark();
        }
        if link(page, block) {
            retire(page);
        }
        true
    }
}

/// Puts a block at the head of its page's list; whether the page is empty now, and not retired yet.
///
/// # Safety
/// As for [`push`], of a page whose thread word equals the caller's.
#[inline(always)]
pub unsafe fn link(page: *mut Page, block: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let block = block.cast::<Block>();
        (*block).next = *(*page).free.place();
        *(*page).free.place() = block;
        *(*page).free_is_zero.place() = false; // as where mimalloc joins its lists
        *(*page).used.place() -= 1;
        *(*page).used.place() == 0 && *(*page).retire_expire.place() == 0
    }
}

/// # Safety
/// An empty page of the calling thread that is not retired yet, as in mimalloc's own `mi_free_block_local`.
#[cold]
#[inline(never)]
unsafe fn retire(page: *mut Page) {
    let inside = gate::enter(state().slot(), thread_id());
    // SAFETY: the caller's promise.
    unsafe {
        double_free::remember_emptied(&*page);
        let emptied = (*page).emptied();
        ffi::_mi_page_retire(page);
        retention::came_free(emptied, &inside);
    }
}
