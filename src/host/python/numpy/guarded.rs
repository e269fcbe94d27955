//! Guard pages behind array data, under `--guard`: a store over another one, which serves what is
//! not sampled.

#![allow(unsafe_code)]

use super::stores::{Free, Reallocate, Store};
use crate::heap::{array_blocks, guards};
use crate::ledger::Account;
use std::marker::PhantomData;

/// `S`, but for the blocks that are guarded.
pub struct Guarded<S>(PhantomData<S>);

/// A guarded block, or null if a cap refuses it; None if none is asked for, or there is no
/// room.
fn guarded(size: usize) -> Option<*mut u8> {
    guards::wants(size)
        .then(|| guards::allocate(Account::Numpy, size, array_blocks::alignment()))
        .flatten()
}

impl<S: Store> Store for Guarded<S> {
    const REALLOCATE: Reallocate = reallocate::<S>;
    const FREE: Free = free::<S>;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        match guarded(size) {
            Some(block) => block,
            None => S::allocate::<ZERO>(size),
        }
    }
}

unsafe fn reallocate<S: Store>(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        return Guarded::<S>::allocate::<false>(size);
    }
    // SAFETY: a live block of this store; those that are copied are at least that long.
    unsafe {
        let Some(before) = guards::size(pointer) else {
            let moved = S::REALLOCATE(pointer, size);
            let block = match moved.is_null() {
                true => None,
                false => guarded(size).filter(|block| !block.is_null()),
            };
            let Some(block) = block else {
                return moved;
            };
            std::ptr::copy_nonoverlapping(moved, block, size);
            S::FREE(moved);
            return block;
        };
        let block = Guarded::<S>::allocate::<false>(size);
        if !block.is_null() {
            std::ptr::copy_nonoverlapping(pointer, block, size.min(before));
            guards::free(pointer, Account::Numpy);
        }
        block
    }
}

unsafe fn free<S: Store>(pointer: *mut u8) {
    if !guards::free(pointer, Account::Numpy) {
        // SAFETY: a block of the store beneath, or null.
        unsafe { S::FREE(pointer) };
    }
}
