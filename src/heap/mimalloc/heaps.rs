//! Whose heap each heap of mimalloc's is.

use crate::ledger::{ACCOUNTS, Account, REPORTED};
use crate::mimalloc::ffi::Heap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::{ptr::null_mut, sync::atomic::AtomicPtr};

type EachAccount = [AtomicPtr<Heap>; ACCOUNTS];

pyhost_os::state! {
    /// The heaps. Those of before are of before the mark (see [`crate::checks::leak_mark`]).
    pub static HEAPS: Heaps {
        /// The accounts' own; null is the main heap, and until [`crate::start`] every account's.
        pub own: EachAccount = none(),
        /// Null before the mark, and for the main heap.
        pub before: EachAccount = none(),
        /// For sampled blocks (see [`crate::sampling`]); null without samples. A block of one takes the
        /// slow path when it is freed, so that the others need not be asked whether they are samples.
        pub sampled: EachAccount = none(),
        pub sampled_before: EachAccount = none(),
        /// For checked blocks (see [`crate::checks::checked_blocks`]); null without them.
        pub checked: EachAccount = none(),
        pub checked_before: EachAccount = none(),
    }
}

const fn none() -> EachAccount {
    [const { AtomicPtr::new(null_mut()) }; ACCOUNTS]
}

#[inline]
pub fn is_checked(heap: *mut Heap) -> bool {
    let is_same = |other: &AtomicPtr<Heap>| other.load(Relaxed) == heap;
    !heap.is_null()
        && (HEAPS.checked.iter().any(is_same) || HEAPS.checked_before.iter().any(is_same))
}

pub fn is_marked(account: Account) -> bool {
    let [own, before] =
        [&HEAPS.own, &HEAPS.before].map(|heaps| heaps[account as usize].load(Relaxed));
    // Of `native` it is the main heap, null.
    !before.is_null() || (account == Account::Native && !own.is_null())
}

/// Whether a heap of an account is one for its sampled blocks.
#[inline]
pub fn is_sampled(heap: *mut Heap, account: Account) -> bool {
    let [sampled, before] =
        [&HEAPS.sampled, &HEAPS.sampled_before].map(|heaps| heaps[account as usize].load(Relaxed));
    !heap.is_null() && (heap == sampled || heap == before)
}

/// The heaps of an account that are not its own: of before the mark, for samples, and for checked blocks.
pub fn others(account: Account) -> impl Iterator<Item = *mut Heap> {
    let others = [
        &HEAPS.before,
        &HEAPS.sampled,
        &HEAPS.sampled_before,
        &HEAPS.checked,
        &HEAPS.checked_before,
    ];
    let heaps = others.map(|heaps| heaps[account as usize].load(Acquire));
    heaps.into_iter().filter(|heap| !heap.is_null())
}

/// All heaps of an account, the main heap as null.
pub fn all_of(account: Account) -> impl Iterator<Item = *mut Heap> {
    let own = HEAPS.own[account as usize].load(Relaxed);
    let main = account == Account::Native && !own.is_null();
    std::iter::once(own)
        .chain(main.then_some(null_mut()))
        .chain(others(account))
}

/// The heap of an account for what counts as older than the mark.
pub fn heap_before(account: Account) -> *mut Heap {
    let before = HEAPS.before[account as usize].load(Relaxed);
    match before.is_null() && account != Account::Native {
        true => HEAPS.own[account as usize].load(Relaxed),
        false => before,
    }
}

/// The account of a heap that is not its account's own: of before the mark, or of sampled or checked blocks.
#[cold]
pub fn account_of_other(heap: *mut Heap) -> Option<Account> {
    let mut all = REPORTED.iter().copied();
    all.find(|&account| others(account).any(|it| it == heap))
}
