//! Whose heap each heap of mimalloc's is.

use super::ffi::Heap;
use crate::ledger::{ACCOUNTS, Account, REPORTED};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::Relaxed;

/// The heap of each account; null is the main heap, and until [`super::start`] every account's.
pub static HEAPS: [AtomicPtr<Heap>; ACCOUNTS] = [const { AtomicPtr::new(null_mut()) }; ACCOUNTS];

/// The heaps of before the mark (see [`super::mark`]); null where there is none, or it is the main heap.
pub static BEFORE: [AtomicPtr<Heap>; ACCOUNTS] = [const { AtomicPtr::new(null_mut()) }; ACCOUNTS];

/// The heap that an account had before the mark, if it is another one now.
pub fn heap_of_before(account: Account) -> Option<*mut Heap> {
    let before = BEFORE[account as usize].load(Relaxed);
    (!before.is_null()).then_some(before)
}

/// The heap of an account for what counts as older than the mark.
pub fn heap_before(account: Account) -> *mut Heap {
    let before = BEFORE[account as usize].load(Relaxed);
    match before.is_null() && account != Account::Native {
        true => HEAPS[account as usize].load(Relaxed),
        false => before,
    }
}

/// The account of a heap of before the mark.
#[cold]
pub fn account_before(heap: *mut Heap) -> Option<Account> {
    let mut all = REPORTED.iter().copied();
    all.find(|&account| BEFORE[account as usize].load(Relaxed) == heap)
}
