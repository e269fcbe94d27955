//! Freeing: the inlined path, and the slow one for blocks of other threads, samples and checked blocks.

#![allow(unsafe_code)]

use super::booking::release_block;
use super::own_page::{NativeBlock, link, push};
use crate::checks::{checked_blocks, double_free};
use crate::mimalloc::ffi::{self, Page};
use crate::mimalloc::{gate, pages::page_of};
use crate::sampling;
use crate::threads::thread_state::{state, thread_id};
use crate::{NATIVE, ledger::Account, peak_watch, sizes::big_blocks, system_memory::retention};
use std::sync::atomic::Ordering::Relaxed;

/// Frees a block of account `A`, or of any other account, off which it then goes. Returns false
/// for a pointer that is not mimalloc's, having done nothing.
///
/// # Safety
/// `pointer` is null or was allocated and not freed since, by whatever allocator. The GIL is
/// held if `A` is an account of the GIL. Unless `A` is `Native`, [`crate::start`] has made the heaps. A guarded block
/// counts as none of mimalloc's: see [`crate::guards::free`].
#[inline(always)]
pub unsafe fn free<const A: usize, const BOOK: bool>(pointer: *mut u8) -> bool {
    // SAFETY: the caller's duties; the page of a live block.
    unsafe {
        let page = match A {
            NATIVE => page_of::<false>(pointer),
            _ => page_of::<true>(pointer),
        };
        if page.is_null() {
            return pointer.is_null();
        }
        push_or_free::<A, BOOK>(page, pointer);
    }
    true
}

/// Frees a block, by the inlined path if it can be.
///
/// # Safety
/// As for [`push`].
#[inline(always)]
pub unsafe fn push_or_free<const A: usize, const BOOK: bool>(page: *mut Page, block: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe {
        if !push::<A, BOOK>(page, block) {
            free_slow(page, block, Account::ALL[A]);
        }
    }
}

/// # Safety
/// As for [`push`].
#[cold]
#[inline(never)]
unsafe fn free_slow(place: *mut Page, pointer: *mut u8, caller: Account) {
    // SAFETY: the page of a live block, until it is freed, inside the gate; a block of `native` has 16 bytes.
    unsafe {
        let page = &*place;
        if page.block_size >= big_blocks::BIG {
            peak_watch::before_big_free();
        }
        if checked_blocks::has(page) {
            return checked_blocks::free(page, pointer, caller);
        }
        let inside = gate::enter(state().slot(), thread_id());
        let account = page.account();
        check_live(page, pointer, account);
        let emptied = page.emptied_by_a_free();
        if emptied.bytes > 0 {
            double_free::remember_emptied(page);
        }
        release_block(account, pointer, page.block_size, caller);
        sampling::released(account, pointer, page.heap, &inside);
        if account == Account::Native {
            NativeBlock::at(page.start_of(pointer)).mark();
        }
        if page.xthread_id.load(Relaxed) == thread_id() {
            if link(place, pointer) {
                ffi::_mi_page_retire(place);
            }
        } else {
            ffi::mi_free(pointer.cast());
        }
        retention::came_free(emptied, &inside);
    }
}

/// Ends the process if `pointer` is not the start of a live block, as far as that can be seen: of
/// `native` always, of other accounts if it lies in the middle of a block.
///
/// # Safety
/// It lies in `page`, which is of the account.
pub unsafe fn check_live(page: &Page, pointer: *mut u8, account: Account) {
    let bytes = page.block_size;
    if let Some(offset) = page.misplaced(pointer) {
        double_free::refuse(format_args!(
            "free(): invalid pointer {pointer:p}: {offset} bytes into a block of {bytes} bytes of the \
             account {}",
            account.name()
        ));
    }
    // SAFETY: the start of a block of the page; those of `native` have 16 bytes.
    if account == Account::Native && unsafe { NativeBlock::at(page.start_of(pointer)) }.is_marked()
    {
        double_free::refuse_twice(pointer, bytes, account);
    }
}
