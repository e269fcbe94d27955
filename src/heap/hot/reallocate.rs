//! Resizing: in place if the block has room, else by a new block.

#![allow(unsafe_code)]

use super::allocate::allocate;
use super::booking;
use super::free::{check_live, push_or_free};
use crate::checks::double_free::{self, NativeBlock};
use crate::checks::{checked_blocks, checked_requests, guards};
use crate::ledger::Account;
use crate::mimalloc::heaps::HEAPS;
use crate::mimalloc::pages::live_page;
use crate::system_memory::mremap_grow;
use crate::{NATIVE, Reallocated};
use std::sync::atomic::Ordering::Relaxed;

/// Resizes a block, which becomes account `A`'s. A null pointer allocates; a size of 0 is kept
/// as a block.
///
/// # Safety
/// As for [`free`](super::free::free).
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
            page.heap == HEAPS.own[A].load(Relaxed) || page.heap == HEAPS.sampled[A].load(Relaxed)
        };
        if A == NATIVE
            && same_heap()
            && (!double_free::is_start(page, pointer) || NativeBlock::at(pointer).is_marked())
        {
            check_live(page, pointer, Account::Native);
        }
        if !same_heap() && checked_blocks::has(page) {
            return checked_requests::reallocate::<A>(pointer, size);
        }
        let usable = page.usable(pointer);
        if size <= usable && size >= usable / 2 && size > 0 && same_heap() {
            return Reallocated::Block(pointer);
        }
        let asked = match size > usable {
            true => booking::within_reach(Account::ALL[A], size, mremap_grow::room_to_grow(size)),
            false => size,
        };
        let moved = allocate::<A, false, BOOK>(asked);
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
    let Some(before) = guards::size(pointer) else {
        guards::refuse_if_wrong(pointer, Some(0), "realloc()");
        return Reallocated::Foreign;
    };
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        let moved = allocate::<A, false, BOOK>(size);
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(pointer, moved, size.min(before));
            guards::free(pointer, Account::ALL[A]);
        }
        Reallocated::Block(moved)
    }
}
