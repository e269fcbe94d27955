//! Resizing: in place if the block has room or the addresses behind it are free, else by a new block.

#![allow(unsafe_code)]

use super::allocate::{allocate, allocate_growing};
use super::free::{check_live, free, push_or_free};
use super::{booking, own_page::NativeBlock, resize};
use crate::checks::{checked_blocks, checked_requests, double_free, guards};
use crate::mimalloc::{heaps::HEAPS, pages::live_page};
use crate::{NATIVE, Reallocated, system_memory::mremap_grow, usable_size};
use crate::{arrays::array_blocks, ledger::Account};
use std::sync::atomic::Ordering::Relaxed;

/// Resizes a block, which becomes account `A`'s. A null pointer allocates; a size of 0 is kept as a block.
///
/// # Safety
/// As for [`free`].
#[inline]
pub unsafe fn reallocate<const A: usize, const BOOK: bool>(
    pointer: *mut u8,
    size: usize,
) -> Reallocated {
    if pointer.is_null() {
        return Reallocated::Block(allocate::<A, false, BOOK>(size));
    }
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        let Some(page) = live_page(pointer) else {
            return reallocate_guarded::<A, BOOK>(pointer, size);
        };
        let same_heap = || {
            page.heap == HEAPS.own[A].load(Relaxed)
                || (!page.heap.is_null() && page.heap == HEAPS.sampled[A].load(Relaxed))
        };
        if A == NATIVE
            && same_heap()
            && (!double_free::is_start(page, pointer) || NativeBlock::at(pointer).is_marked())
        {
            check_live(page, pointer, Account::Native);
        }
        if !same_heap() && checked_blocks::has(page) {
            return reallocate_checked::<A>(pointer, size);
        }
        let usable = page.usable(pointer);
        if size <= usable && size >= usable / 2 && size > 0 && same_heap() {
            return Reallocated::Block(pointer);
        }
        let is_alone = resize::is_alone(page, pointer);
        if same_heap() && is_alone && !guards::are_on() {
            let page = (&raw const *page).cast_mut();
            if resize::resize::<BOOK>(Account::ALL[A], page, size) {
                return Reallocated::Block(pointer);
            }
        }
        let (account, grows) = (Account::ALL[A], size > usable);
        let moved = if grows && resize::gets_own_page(size) {
            allocate_growing(account, size, !is_alone)
        } else {
            allocate::<A, false, BOOK>(match grows {
                true => booking::within_reach(account, size, mremap_grow::room_to_grow(size)),
                false => size,
            })
        };
        if !moved.is_null() {
            mremap_grow::move_contents(pointer, moved, size.min(usable));
            push_or_free::<A, BOOK>((&raw const *page).cast_mut(), pointer);
        }
        Reallocated::Block(moved)
    }
}

/// Moves a guarded block, whose end must stay at its page.
///
/// # Safety
/// As for [`reallocate`].
#[cold]
#[inline(never)]
unsafe fn reallocate_guarded<const A: usize, const BOOK: bool>(
    pointer: *mut u8,
    size: usize,
) -> Reallocated {
    // SAFETY: the caller's duties.
    unsafe { move_block::<A>(pointer, size, || allocate::<A, false, BOOK>(size)) }
}

/// Resizes a block of whatever kind: it always moves, so that the old address is known to be stale.
///
/// # Safety
/// As for [`reallocate`].
pub unsafe fn reallocate_checked<const A: usize>(pointer: *mut u8, size: usize) -> Reallocated {
    let account = Account::ALL[A];
    let alignment = match account {
        Account::Numpy => array_blocks::alignment(),
        _ => 1,
    };
    let make = || checked_requests::allocate::<A, false>(size, alignment);
    if pointer.is_null() {
        return Reallocated::Block(make());
    }
    // SAFETY: the caller's duties.
    unsafe {
        checked_blocks::look_before_realloc(pointer, account);
        guards::refuse_if_wrong(pointer, account, "realloc()");
        move_block::<A>(pointer, size, make)
    }
}

/// Moves what a block holds to the one that `make` gives, and frees it.
///
/// # Safety
/// As for [`reallocate`].
unsafe fn move_block<const A: usize>(
    pointer: *mut u8,
    size: usize,
    make: impl FnOnce() -> *mut u8,
) -> Reallocated {
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        let Some(before) = usable_size(pointer) else {
            return Reallocated::Foreign;
        };
        let moved = make();
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(pointer, moved, before.min(size));
            if !free::<A, true>(pointer) {
                guards::free(pointer, Account::ALL[A]);
            }
        }
        Reallocated::Block(moved)
    }
}
