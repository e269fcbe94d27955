//! Blocks for array data: aligned, in the `numpy` heap, without a header.
//!
//! mimalloc's pages begin on a multiple of 64 KiB with their first or second block, and the sizes of its blocks above
//! four alignments are multiples of the alignment: a request that is rounded up to a multiple of the alignment is met
//! by an aligned block, without a header and by the inlined path. If a page begins otherwise (memory straight from the
//! system), mimalloc's own aligned allocation serves, which marks the page.
//!
//! All functions may be called from any thread, without the GIL. Failure is null.

#![allow(unsafe_code)]

use crate::hot::booking::{admits, failed, release_block};
use crate::hot::own_page::{pop, push};
use crate::mimalloc::ffi::{self, Page, Theap};
use crate::mimalloc::pages::{live_page, page_of};
use crate::system_memory::{address_limit, mremap_grow, retention};
use crate::threads::thread_state::{state, thread_id};
use crate::{NUMPY, peak_watch, sampling, sizes::big_blocks};
use crate::{arrays::placement, hot::allocate::book_new, ledger::Account, mimalloc::gate};
use pyhost_os::mapping::give_pages_back;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{hint::assert_unchecked, ptr::null_mut};

/// The largest alignment; mimalloc's pages begin on multiples of it.
pub const MAX_ALIGNMENT: usize = 4096;

/// From this size on, memory that is not known to be zero is given back to the system instead of being written: a large
/// array of zeros takes no memory until it is used, as with `calloc` of libc.
const LAZY_ZERO: usize = 1 << 20;

static MASK: AtomicUsize = AtomicUsize::new(63);

/// Chooses the alignment: a power of two from 16 to [`MAX_ALIGNMENT`]. Before the first block.
pub fn set_alignment(alignment: usize) {
    MASK.store(alignment - 1, Relaxed);
}

pub fn alignment() -> usize {
    MASK.load(Relaxed) + 1
}

/// Allocates `size` bytes, zeroed if `ZERO`; booked to `numpy`, as a failure is, if `BOOK`.
#[inline(always)]
pub fn allocate<const ZERO: bool, const BOOK: bool>(size: usize) -> *mut u8 {
    // 0 wraps around, and takes the slow path.
    let last = size.wrapping_sub(1);
    if last < ffi::SMALL_SIZE_MAX {
        let mask = MASK.load(Relaxed);
        let block = pop::<NUMPY, ZERO, BOOK>((last | mask) + 1, mask);
        if !block.is_null() {
            return block;
        }
    }
    allocate_slow(size, ZERO, BOOK)
}

#[cold]
#[inline(never)]
fn allocate_slow(size: usize, zero: bool, book: bool) -> *mut u8 {
    let state = state();
    if book && state.is_sampling() && size.wrapping_sub(1) < ffi::SMALL_SIZE_MAX {
        let mask = MASK.load(Relaxed);
        let rounded = ((size - 1) | mask) + 1;
        let block = match zero {
            true => sampling::pop::<NUMPY, true>(state, rounded, mask),
            false => sampling::pop::<NUMPY, false>(state, rounded, mask),
        };
        if !block.is_null() {
            return block;
        }
    }
    let slot = state.slot();
    let inside = gate::enter(slot, thread_id());
    if book && !admits(slot, Account::Numpy, size) {
        return null_mut();
    }
    let lazy = zero && size >= LAZY_ZERO;
    // As the inlined path counts it.
    let mask = MASK.load(Relaxed);
    let counted = size.max(1).saturating_add(mask) & !mask;
    let served = match book {
        true => sampling::theap(state, Account::Numpy, counted, &inside),
        false => Some((state.theap(Account::Numpy), None)),
    };
    let Some((theap, unit)) = served else {
        return null_mut();
    };
    let block = aligned_block(theap, size, zero && !lazy);
    if block.is_null() {
        if book {
            failed(Account::Numpy, size);
        }
        return null_mut();
    }
    // SAFETY: a live block, which is the caller's own.
    unsafe {
        let page = live_page(block).unwrap_unchecked();
        if page.used.get() <= 1 {
            placement::place(page.page_start, page.bytes());
        }
        if lazy && !page.free_is_zero.get() {
            clear(block, size);
        }
        if !book {
            return block;
        }
        let bytes = page.block_size;
        let block = book_new(Account::Numpy, block, bytes, size);
        if let Some(unit) = unit
            && !block.is_null()
        {
            sampling::take(Account::Numpy, block, bytes, counted, unit, &inside);
        }
        block
    }
}

/// An aligned block of the calling thread's `theap` that is not booked. Inside the gate.
fn aligned_block(theap: *mut Theap, size: usize, zero: bool) -> *mut u8 {
    let mask = MASK.load(Relaxed);
    let Some(rounded) = size.max(1).checked_add(mask).map(|size| size & !mask) else {
        return null_mut();
    };
    if theap.is_null() {
        return null_mut();
    }
    // SAFETY: a theap of the calling thread, inside the gate.
    unsafe {
        let block = address_limit::with_a_second_try(|| {
            ffi::_mi_theap_malloc_zero(theap, rounded, zero, &mut 0).cast()
        });
        if block.addr() & mask == 0 {
            return block;
        }
        ffi::mi_free(block.cast());
        let block = address_limit::with_a_second_try(|| {
            ffi::mi_theap_malloc_aligned(theap, rounded, mask + 1).cast()
        });
        if zero && !block.is_null() {
            block.write_bytes(0, rounded);
        }
        block
    }
}

/// Makes a block read as zeros; a large one without touching its whole pages, if the system can.
///
/// # Safety
/// As for [`give_pages_back`].
pub unsafe fn clear(start: *mut u8, size: usize) {
    // SAFETY: the caller's duties.
    unsafe {
        let zeros = match size >= LAZY_ZERO {
            true => give_pages_back(start, size).unwrap_or_default(),
            false => 0..0,
        };
        start.write_bytes(0, zeros.start);
        start.add(zeros.end).write_bytes(0, size - zeros.end);
    }
}

/// Frees a block that [`allocate`] made with the same `BOOK`.
///
/// # Safety
/// `pointer` is null, or was allocated by [`allocate`] or [`reallocate`] and not freed since. The heaps were made
/// ([`crate::start`]).
#[inline(always)]
pub unsafe fn free<const BOOK: bool>(pointer: *mut u8) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: a live block of mimalloc's, so the map has its page.
    unsafe {
        let page = page_of::<true>(pointer);
        assert_unchecked(!page.is_null());
        if !push::<NUMPY, BOOK>(page, pointer) {
            free_slow(&*page, pointer, BOOK);
        }
    }
}

/// # Safety
/// A live block of the page, as for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_slow(page: &Page, block: *mut u8, book: bool) {
    let (slot, charged) = (state().slot(), page.block_size);
    if book && charged >= big_blocks::BIG {
        peak_watch::before_big_free();
    }
    let inside = gate::enter(slot, thread_id());
    if book {
        release_block(Account::Numpy, block, charged, Account::Numpy);
        sampling::released(Account::Numpy, block, page.heap, &inside);
    }
    let emptied = page.emptied_by_a_free();
    // SAFETY: the caller's promise; off the ledger, inside the gate.
    unsafe { ffi::mi_free(block.cast()) };
    retention::came_free(emptied, &inside);
}

/// Bytes that a block may have to spare and still stay where it is when it is resized: about a
/// size class. NumPy grows an array that it reads by half and shrinks it once, at the end.
pub fn slack(usable: usize) -> usize {
    usable / 4
}

/// Resizes a booked block; null if there is no memory, and the old block still lives.
///
/// # Safety
/// As for [`free`].
pub unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        return allocate::<false, true>(size);
    }
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        let usable = live_page(pointer).unwrap_unchecked().usable(pointer);
        if size <= usable && usable - size <= slack(usable) {
            return pointer;
        }
        let moved = allocate::<false, true>(size);
        if !moved.is_null() {
            mremap_grow::move_contents(pointer, moved, size.min(usable));
            free::<true>(pointer);
        }
        moved
    }
}
