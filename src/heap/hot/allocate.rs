//! Allocation: the inlined path, and the slow one that asks mimalloc.

#![allow(unsafe_code)]

use super::booking::{admits, book_beneath_caps, failed};
use super::own_page::{LEAST_BLOCK, NativeBlock, clear, pop, pop_from_queue};
use super::resize;
use crate::mimalloc::ffi::{self, Theap};
use crate::mimalloc::pages::{give_back_new, live_page};
use crate::system_memory::{address_limit, mremap_grow, retention};
use crate::threads::thread_state::{state, thread_id};
use crate::{bounded_heap, counts, sampling};
use crate::{checks::guards, host::Request, ledger::Account, mimalloc::gate, tensorflow::region};
use std::ptr::null_mut;

/// Allocates `size` bytes, zeroed if `ZERO`, booked to account `A` if `BOOK`. Null on
/// failure. `A` is an account's index; the GIL is held if the account is of the GIL, or its counts go wrong.
#[inline(always)]
pub fn allocate<const A: usize, const ZERO: bool, const BOOK: bool>(size: usize) -> *mut u8 {
    let block = pop::<A, ZERO, BOOK>(size, 0);
    if !block.is_null() {
        return block;
    }
    allocate_slow(Account::ALL[A], size, ZERO)
}

/// [`allocate`] for a thread that counts its bytes for [`sampling`]; for another one it is slower. Books.
#[inline(always)]
pub fn allocate_counted<const A: usize, const ZERO: bool>(size: usize) -> *mut u8 {
    let block = sampling::pop::<A, ZERO>(state(), size, 0);
    if !block.is_null() {
        return block;
    }
    if !state().is_sampling() {
        return allocate_after_samples::<A, ZERO>(size);
    }
    allocate_uncounted(Account::ALL[A], size, ZERO, 0)
}

/// [`allocate`] by a hook that still counts though no samples are taken, because another hook keeps it from being replaced.
#[cold]
#[inline(never)]
fn allocate_after_samples<const A: usize, const ZERO: bool>(size: usize) -> *mut u8 {
    allocate::<A, ZERO, true>(size)
}

/// A block that mimalloc gave, without the mark that it may have from an earlier life.
///
/// # Safety
/// Null, or a live block of the account, which nobody else has.
unsafe fn given_out(account: Account, block: *mut u8) -> *mut u8 {
    if account == Account::Native {
        // SAFETY: the caller's promise; a block of `native` has 16 bytes.
        unsafe {
            if let Some(page) = live_page(block) {
                NativeBlock::at(page.start_of(block)).unmark_if_marked();
            }
        }
    }
    block
}

#[cold]
#[inline(never)]
fn allocate_slow(account: Account, size: usize, zero: bool) -> *mut u8 {
    let block = match state().is_sampling() {
        true => sampling::pop_any(account, size, zero),
        false => pop_medium(account, size, zero),
    };
    match block.is_null() {
        true => allocate_uncounted(account, size, zero, 0),
        false => block,
    }
}

/// A block of medium size, booked, as [`pop`] gives a small one; null if the slow path must do it.
#[inline]
fn pop_medium(account: Account, size: usize, zero: bool) -> *mut u8 {
    if guards::wants_some(size) || bounded_heap::size().is_some() || sampling::is_on() {
        return null_mut();
    }
    let state = state();
    let theap = state.theaps[account as usize].get();
    let book = |bytes| counts(account) && state.slot.get().book_to(account, bytes);
    // SAFETY: a theap of the calling thread, and the block that it gave, which has more than 16 bytes.
    unsafe {
        let block = pop_from_queue(theap, size, book);
        if !block.is_null() && account == Account::Native {
            NativeBlock::at(block).unmark_if_marked();
        }
        if zero {
            clear(block, size);
        }
        block
    }
}

/// Allocates a block that has grown, with room to grow where it lies; `begins` if it was in a page with others.
#[cold]
pub fn allocate_growing(account: Account, size: usize, begins: bool) -> *mut u8 {
    let addresses = mremap_grow::addresses_to_grow(size, begins);
    allocate_uncounted(account, size, false, addresses)
}

/// Serves a request by `make`, which gets a theap of the calling thread and whether the block will be a sample, inside the gate. It
/// gives the block, or null, and its usable bytes.
#[inline(always)]
fn serve(
    account: Account,
    size: usize,
    make: impl FnOnce(*mut Theap, bool) -> (*mut u8, usize),
) -> *mut u8 {
    let state = state();
    let slot = state.slot();
    let inside = gate::enter(slot, thread_id());
    if !admits(slot, account, size) {
        return null_mut();
    }
    let Some((theap, unit)) = sampling::theap(state, account, size, &inside) else {
        return null_mut();
    };
    let (block, usable) = match theap.is_null() {
        true => (null_mut(), 0),
        false => make(theap, unit.is_some()),
    };
    // SAFETY: a block that mimalloc has just given, or null, inside the gate.
    let block = unsafe { given_out(account, book_new(account, block, usable, size)) };
    if let Some(unit) = unit
        && !block.is_null()
    {
        sampling::take(account, block, usable, size, unit, &inside);
    }
    block
}

/// Allocates by mimalloc's own functions; the request is not counted for a sample yet. Unless `addresses` is 0 the block lies at
/// the start of a free run of so many bytes, if that can be.
#[cold]
#[inline(never)]
fn allocate_uncounted(account: Account, size: usize, zero: bool, addresses: usize) -> *mut u8 {
    sampling::look_if_asked(account);
    if let Some(block) = guards::allocate_if_wanted(account, size, 1) {
        return block;
    }
    let given = match account {
        Account::Native => size.max(LEAST_BLOCK),
        _ => size,
    };
    // SAFETY: a theap of the calling thread, inside the gate, and the block that it gave.
    serve(account, size, |theap, is_sample| unsafe {
        if retention::is_look_due() {
            ffi::mi_theap_collect(theap, false);
            region::give_back_what_is_due();
        }
        let pages = (*theap).page_count.get();
        let mut usable = 0;
        let mut block = match addresses {
            0 => pop_from_queue(theap, given, |bytes| {
                usable = bytes;
                true
            }),
            _ => resize::allocate_with_room(theap, given, addresses, &mut usable),
        };
        if block.is_null() {
            block = address_limit::with_a_second_try(|| {
                ffi::_mi_theap_malloc_zero(theap, given, false, &mut usable).cast()
            });
        }
        if zero {
            clear(block, size);
        }
        if is_sample && (*theap).page_count.get() != pages {
            give_back_new(block);
        }
        (block, usable)
    })
}

/// Allocates `size` bytes aligned to `alignment`, a power of two, booked to `account`.
#[cold]
pub fn allocate_aligned(account: Account, size: usize, alignment: usize) -> *mut u8 {
    if account == Account::Native
        && let Some(block) = guards::allocate_if_wanted(account, size, alignment)
    {
        return block;
    }
    let given = size.max(LEAST_BLOCK);
    // SAFETY: as above.
    serve(account, size, |theap, _| unsafe {
        let block = address_limit::with_a_second_try(|| {
            ffi::mi_theap_malloc_aligned(theap, given, alignment).cast()
        });
        (block, live_page(block).map_or(0, |page| page.block_size))
    })
}

/// Counts what the page of a new block uses of the region; false, and the block is free again, if the region has no room for it.
///
/// # Safety
/// As for [`book_new`].
#[cold]
unsafe fn settle_in_region(block: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(page) = live_page(block) else {
            return true;
        };
        let Err(unused) = bounded_heap::settle(page) else {
            return true;
        };
        // Else the inlined path would give out the blocks that were made with this one.
        match ffi::pyhost_take_back((&raw const *page).cast_mut(), block.cast()) {
            true => bounded_heap::take_back(page, unused),
            false => ffi::mi_free(block.cast()),
        }
        false
    }
}

/// Books a block that the heap just gave for a request of `asked` bytes, or counts the failure.
/// Null, and the block is free again, if a cap refuses it.
///
/// # Safety
/// A block of mimalloc's that nobody else has, or null, inside the gate.
#[inline]
pub(crate) unsafe fn book_new(
    account: Account,
    block: *mut u8,
    usable: usize,
    asked: usize,
) -> *mut u8 {
    // SAFETY: the caller's promise.
    let fits = bounded_heap::size().is_none() || unsafe { settle_in_region(block) };
    if block.is_null() || !fits {
        failed(account, asked);
        return null_mut();
    }
    let request = Request {
        account,
        bytes: usable,
        asked,
        // SAFETY: the caller's promise.
        undo: &|| unsafe { ffi::mi_free(block.cast()) },
    };
    if !counts(account) || book_beneath_caps(state().slot(), block, &request) {
        return block;
    }
    null_mut()
}
