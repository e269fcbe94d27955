//! A mark in time: from it on every account allocates from a new heap, so that what lives in the
//! new heaps later was allocated since, and what lives in the old ones before.
//!
//! Blocks of the old heaps are freed by the slow path, which finds their account here.

use crate::checks::{checked_blocks, guards};
use crate::ledger::{Account, REPORTED};
use crate::mimalloc::ffi::{self, Heap};
use crate::mimalloc::gate::{self, Closed};
use crate::mimalloc::heaps::{self, HEAPS};
use crate::mimalloc::live_blocks::{self, LiveBlock};
use crate::threads::thread_state::{state, thread_id};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{ptr::null_mut, sync::atomic::AtomicU64};

/// The latest guarded block of before the mark.
static GUARDED_BEFORE: AtomicU64 = AtomicU64::new(0);

/// Sets the mark, for `native` too if asked. Once, while the process has one thread. False if mimalloc gives no heap.
pub fn set(native: bool) -> bool {
    let state = state();
    let _inside = gate::enter(state.slot(), thread_id());
    for &account in REPORTED {
        let is_left = account == Account::Native && !native;
        if is_left || account == Account::Arena {
            continue;
        }
        let heap = ffi::mi_heap_new();
        if heap.is_null() {
            return false;
        }
        let before = HEAPS.own[account as usize].swap(heap, Relaxed);
        HEAPS.before[account as usize].store(before, Release);
        // The next sample makes a heap.
        let before = HEAPS.sampled[account as usize].swap(null_mut(), Relaxed);
        HEAPS.sampled_before[account as usize].store(before, Release);
        let before = HEAPS.checked[account as usize].load(Acquire);
        if !before.is_null() {
            let heap = ffi::mi_heap_new();
            if heap.is_null() {
                return false;
            }
            HEAPS.checked[account as usize].store(heap, Release);
            HEAPS.checked_before[account as usize].store(before, Release);
        }
    }
    state.forget_theaps();
    GUARDED_BEFORE.store(guards::latest_number(), Relaxed);
    true
}

/// Until [`leave_before`], blocks that the calling thread allocates count as older than the mark. Calls may
/// be nested. Called after [`set`].
pub fn enter_before() {
    let state = state();
    state.before.set(state.before.get() + 1);
    if state.before.get() == 1 {
        state.forget_theaps();
    }
}

/// The end of [`enter_before`].
pub fn leave_before() {
    let state = state();
    state.before.set(state.before.get() - 1);
    if state.before.get() == 0 {
        state.forget_theaps();
    }
}

/// Whether the next [`leave_before`] is the one that ends it.
pub fn is_outermost() -> bool {
    state().before.get() == 1
}

/// Whether it is set.
pub fn is_set() -> bool {
    !HEAPS.before[Account::Raw as usize].load(Relaxed).is_null()
}

/// Whether what the calling thread allocates counts as older than the mark.
pub fn is_before() -> bool {
    state().is_before()
}

/// The heaps of an account since the mark; null is the main heap.
fn since(account: Account) -> impl Iterator<Item = *mut Heap> {
    let others =
        [&HEAPS.sampled, &HEAPS.checked].map(|heaps| heaps[account as usize].load(Acquire));
    let own = HEAPS.own[account as usize].load(Acquire);
    std::iter::once(own).chain(others.into_iter().filter(|heap| !heap.is_null()))
}

/// Passes a live block on to `visitor`: of a checked one the caller's bytes, unless it was freed.
fn pass_on(block: LiveBlock<'_>, visitor: Visitor<'_>) {
    if let Some((start, size)) = checked_blocks::asked(&block) {
        // One of no bytes is found by its address.
        visitor(start, size.max(1));
    }
}

type Visitor<'a> = &'a mut dyn FnMut(*mut u8, usize);

/// Told of each page in which a block was freed twice, or written to after it was freed, so that nobody
/// can say which of its blocks are live: its account, and the usable bytes of its blocks.
type Broken<'a> = &'a mut dyn FnMut(Account, usize);

/// Tells of each live block of `account` that was allocated since the mark: its start and its
/// usable bytes. Blocks of a broken page are among those of before the mark. Right only while the mark is set and no thread
/// allocates or frees in the account's heap, `visitor` neither.
pub fn visit_since(closed: &Closed, account: Account, visitor: Visitor<'_>, broken: Broken<'_>) {
    for heap in since(account).filter(|heap| !heap.is_null()) {
        let mut sure = |block: LiveBlock<'_>| {
            if block.is_sure {
                pass_on(block, visitor);
            }
        };
        live_blocks::visit(closed, heap, &mut sure, &mut |size| broken(account, size));
    }
    let before = GUARDED_BEFORE.load(Relaxed);
    guards::visit(|block| {
        if block.account() == account && block.number.load(Relaxed) > before {
            visitor(block.start(), block.size());
        }
    });
}

/// Tells of each live block that was allocated before the mark, of those of the heaps without one: the
/// arenas', and without `native` malloc's; and of the blocks of broken pages. Right as [`visit_since`], of any heap.
pub fn visit_before(closed: &Closed, visitor: Visitor<'_>, broken: Broken<'_>) {
    let mut visit = |heap, only_unsure: bool, broken: &mut dyn FnMut(usize)| {
        let mut pass = |block: LiveBlock<'_>| {
            if !only_unsure || !block.is_sure {
                pass_on(block, visitor);
            }
        };
        live_blocks::visit(closed, heap, &mut pass, broken);
    };
    for &account in REPORTED {
        let before = [&HEAPS.before, &HEAPS.sampled_before, &HEAPS.checked_before]
            .map(|heaps| heaps[account as usize].load(Acquire));
        let own = HEAPS.own[account as usize].load(Acquire);
        // The main heap, null, is the one of `native` that was before.
        let is_without_mark = before[0].is_null() && (account != Account::Native || own.is_null());
        let is_old = |heap: &*mut Heap| is_without_mark || before.contains(heap);
        for old in heaps::all_of(account).filter(is_old) {
            visit(old, false, &mut |size| broken(account, size));
        }
    }
    for &account in REPORTED {
        // `visit_since` reports the pages of these blocks.
        for heap in since(account) {
            visit(heap, true, &mut |_| {});
        }
    }
    let native = !HEAPS.own[Account::Native as usize].load(Relaxed).is_null();
    let before = GUARDED_BEFORE.load(Relaxed);
    guards::visit(|block| {
        let is_native = block.account() == Account::Native && !native;
        if block.number.load(Relaxed) <= before || is_native {
            visitor(block.start(), block.size());
        }
    });
}
