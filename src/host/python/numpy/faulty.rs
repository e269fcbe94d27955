//! A store over another one whose requests may be made to fail: `--fail` on array data.

#![allow(unsafe_code)]

use super::stores::{Free, Reallocate, Store};
use crate::check::faults::fails_of;
use crate::ledger::Account;
use std::marker::PhantomData;
use std::ptr::null_mut;

const NUMPY: usize = Account::Numpy as usize;

/// `S` with a question in front of each request.
pub struct Faulty<S>(PhantomData<S>);

impl<S: Store> Store for Faulty<S> {
    const REALLOCATE: Reallocate = reallocate::<S>;
    const FREE: Free = S::FREE;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        match fails_of::<NUMPY>(size) {
            true => null_mut(),
            false => S::allocate::<ZERO>(size),
        }
    }
}

unsafe fn reallocate<S: Store>(pointer: *mut u8, size: usize) -> *mut u8 {
    match fails_of::<NUMPY>(size) {
        true => null_mut(),
        // SAFETY: the caller's duty; the blocks are those of the store beneath.
        false => unsafe { S::REALLOCATE(pointer, size) },
    }
}
