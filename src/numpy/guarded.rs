//! Guard pages behind array data, under `--guard`: a store over another one, which serves what is
//! not sampled.
//!
//! A block of array data that is guarded carries the innermost line of Python that is not NumPy's
//! own.

#![allow(unsafe_code)]

use super::stores::Store;
use crate::heap::{arrays, guards};
use crate::ledger::Account;
use crate::python::frames;
use std::marker::PhantomData;

/// `S`, but for the blocks that are guarded.
pub struct Guarded<S>(PhantomData<S>);

/// A guarded block; null where none is asked for, or there is no room.
fn guarded(size: usize) -> *mut u8 {
    if !guards::wants(size) {
        return std::ptr::null_mut();
    }
    let block = guards::allocate(Account::Numpy, size, arrays::alignment());
    if !block.is_null() {
        guards::note_place(block, frames::script_line);
    }
    block
}

impl<S: Store> Store for Guarded<S> {
    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        let block = guarded(size);
        match block.is_null() {
            true => S::allocate::<ZERO>(size),
            false => block,
        }
    }

    unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
        if pointer.is_null() {
            return Self::allocate::<false>(size);
        }
        // SAFETY: a live block of this store; those that are copied are at least that long.
        unsafe {
            let Some(before) = guards::size(pointer) else {
                let moved = S::reallocate(pointer, size);
                let block = match moved.is_null() {
                    true => moved,
                    false => guarded(size),
                };
                if block.is_null() {
                    return moved;
                }
                std::ptr::copy_nonoverlapping(moved, block, size);
                S::free(moved);
                return block;
            };
            let block = Self::allocate::<false>(size);
            if !block.is_null() {
                std::ptr::copy_nonoverlapping(pointer, block, size.min(before));
                guards::free(pointer, Account::Numpy);
            }
            block
        }
    }

    unsafe fn free(pointer: *mut u8) {
        if !guards::free(pointer, Account::Numpy) {
            // SAFETY: a block of the store beneath, or null.
            unsafe { S::free(pointer) };
        }
    }
}
