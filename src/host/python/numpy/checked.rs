//! Checked blocks for array data, under `--debug-hooks`: freed ones wait in the quarantine.

#![allow(unsafe_code)]

use super::stores::{Free, Reallocate, Store};
use crate::heap::{self, Reallocated, array_blocks, checked_blocks, checked_requests};
use crate::ledger::Account;
use std::ptr::null_mut;

const NUMPY: usize = Account::Numpy as usize;

/// Checked blocks of the account `numpy`.
pub struct Checked;

impl Store for Checked {
    const REALLOCATE: Reallocate = reallocate;
    const FREE: Free = free;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        checked_blocks::allocate(Account::Numpy, size, array_blocks::alignment(), ZERO)
    }
}

unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's duties. Blocks of this store are never another allocator's.
    match unsafe { checked_requests::reallocate::<NUMPY>(pointer, size) } {
        Reallocated::Block(block) => block,
        Reallocated::Foreign => null_mut(),
    }
}

unsafe fn free(pointer: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe {
        if !heap::free::<NUMPY, true>(pointer) {
            heap::guards::free(pointer, Account::Numpy);
        }
    }
}
