//! Whose heap each heap of mimalloc's is.

use super::ffi::Heap;
use crate::ledger::{ACCOUNTS, Account, REPORTED};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// The heap of each account; null is the main heap, and until [`super::start`] every account's.
pub static HEAPS: [AtomicPtr<Heap>; ACCOUNTS] = [const { AtomicPtr::new(null_mut()) }; ACCOUNTS];

/// The heaps of before the mark (see [`super::mark`]); null where there is none, or it is the main heap.
pub static BEFORE: [AtomicPtr<Heap>; ACCOUNTS] = [const { AtomicPtr::new(null_mut()) }; ACCOUNTS];

/// The heap of each account for sampled blocks (see [`super::sampling`]); null without samples. A block of one takes the
/// slow path when it is freed, so that the others need not be asked whether they are samples.
pub static SAMPLED: [AtomicPtr<Heap>; ACCOUNTS] = [const { AtomicPtr::new(null_mut()) }; ACCOUNTS];

/// Those of before the mark.
pub static SAMPLED_BEFORE: [AtomicPtr<Heap>; ACCOUNTS] =
    [const { AtomicPtr::new(null_mut()) }; ACCOUNTS];

/// The heap of each account for checked blocks (see [`super::checked`]); null without them.
pub static CHECKED: [AtomicPtr<Heap>; ACCOUNTS] = [const { AtomicPtr::new(null_mut()) }; ACCOUNTS];

/// Those of before the mark.
pub static CHECKED_BEFORE: [AtomicPtr<Heap>; ACCOUNTS] =
    [const { AtomicPtr::new(null_mut()) }; ACCOUNTS];

/// Whether a heap is one for checked blocks.
#[inline]
pub fn is_checked(heap: *mut Heap) -> bool {
    let is_same = |other: &AtomicPtr<Heap>| other.load(Relaxed) == heap;
    !heap.is_null() && (CHECKED.iter().any(is_same) || CHECKED_BEFORE.iter().any(is_same))
}

/// The heaps for checked blocks of an account.
pub fn checked(account: Account) -> impl Iterator<Item = *mut Heap> {
    let heaps = [&CHECKED, &CHECKED_BEFORE].map(|heaps| heaps[account as usize].load(Acquire));
    heaps.into_iter().filter(|heap| !heap.is_null())
}

/// Whether an account has a heap of before the mark.
pub fn is_marked(account: Account) -> bool {
    let [own, before] = [&HEAPS, &BEFORE].map(|heaps| heaps[account as usize].load(Relaxed));
    // Of `native` it is the main heap, null.
    !before.is_null() || (account == Account::Native && !own.is_null())
}

/// Whether a heap of an account is one for its sampled blocks.
#[inline]
pub fn is_sampled(heap: *mut Heap, account: Account) -> bool {
    let [sampled, before] =
        [&SAMPLED, &SAMPLED_BEFORE].map(|heaps| heaps[account as usize].load(Relaxed));
    !heap.is_null() && (heap == sampled || heap == before)
}

/// The heaps for sampled blocks of an account.
pub fn sampled(account: Account) -> impl Iterator<Item = *mut Heap> {
    let heaps = [&SAMPLED, &SAMPLED_BEFORE].map(|heaps| heaps[account as usize].load(Acquire));
    heaps.into_iter().filter(|heap| !heap.is_null())
}

/// All heaps of an account, the main heap as null.
pub fn all_of(account: Account) -> impl Iterator<Item = *mut Heap> {
    let all = [
        &BEFORE,
        &SAMPLED,
        &SAMPLED_BEFORE,
        &CHECKED,
        &CHECKED_BEFORE,
    ];
    let others = all.map(|heaps| heaps[account as usize].load(Relaxed));
    let own = HEAPS[account as usize].load(Relaxed);
    let main = account == Account::Native && !own.is_null();
    let others = others.into_iter().filter(|heap| !heap.is_null());
    std::iter::once(own)
        .chain(main.then_some(null_mut()))
        .chain(others)
}

/// The heap of an account for what counts as older than the mark.
pub fn heap_before(account: Account) -> *mut Heap {
    let before = BEFORE[account as usize].load(Relaxed);
    match before.is_null() && account != Account::Native {
        true => HEAPS[account as usize].load(Relaxed),
        false => before,
    }
}

/// The account of a heap that is not its account's own: of before the mark, or of sampled or checked blocks.
#[cold]
pub fn account_of_other(heap: *mut Heap) -> Option<Account> {
    let mut all = REPORTED.iter().copied();
    all.find(|&account| {
        let others = [
            &BEFORE,
            &SAMPLED,
            &SAMPLED_BEFORE,
            &CHECKED,
            &CHECKED_BEFORE,
        ];
        others
            .map(|heaps| heaps[account as usize].load(Relaxed))
            .contains(&heap)
    })
}
