//! The allocators of array data: the four choices of `--numpy-allocator`, as one trait.

#![allow(unsafe_code)]

use crate::heap::{self, arrays, placement, pool, region};
use crate::ledger::Account;
use crate::native::next;
use std::ptr::null_mut;

const NUMPY: usize = Account::Numpy as usize;

/// An allocator of array data that books to `numpy`. Any thread, without the GIL.
pub trait Store {
    /// `size` bytes, zeroed where `ZERO`; a block of its own for 0. Null on failure.
    fn allocate<const ZERO: bool>(size: usize) -> *mut u8;

    /// Resizes a block; null on failure, and the old block still lives. Null allocates.
    ///
    /// # Safety
    /// `pointer` is null or a live block of this store.
    unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8;

    /// Frees a block; ignores null.
    ///
    /// # Safety
    /// As for [`Store::reallocate`].
    unsafe fn free(pointer: *mut u8);
}

/// The `numpy` heap of mimalloc.
pub struct Mimalloc;

impl Store for Mimalloc {
    #[inline(always)]
    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        arrays::allocate::<ZERO, true>(size)
    }

    unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller's duty.
        unsafe { arrays::reallocate(pointer, size) }
    }

    #[inline(always)]
    unsafe fn free(pointer: *mut u8) {
        // SAFETY: the caller's duty.
        unsafe { arrays::free::<true>(pointer) };
    }
}

/// The pool over it.
pub struct Pool;

impl Store for Pool {
    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        pool::allocate(size, ZERO)
    }

    unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller's duty.
        unsafe { pool::reallocate(pointer, size) }
    }

    unsafe fn free(pointer: *mut u8) {
        // SAFETY: the caller's duty.
        unsafe { pool::free(pointer) };
    }
}

/// The region.
pub struct Bfc;

impl Store for Bfc {
    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        region::allocate(size, ZERO)
    }

    unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the caller's duty.
        unsafe { region::reallocate(pointer, size) }
    }

    unsafe fn free(pointer: *mut u8) {
        region::free(pointer);
    }
}

/// The malloc behind the host's own: libc's, or a preloaded one. NumPy's own default, but for its
/// cache of small blocks.
pub struct System;

impl Store for System {
    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        if !heap::may_book::<NUMPY>(size) {
            return null_mut();
        }
        let pointer = match ZERO {
            true => next::calloc(size.max(1)),
            false => next::malloc(size.max(1)),
        };
        if pointer.is_null() {
            heap::count_failure(Account::Numpy);
            return pointer;
        }
        // SAFETY: a live block of that malloc, which nobody else has.
        unsafe {
            let usable = next::usable_size(pointer);
            if !heap::book::<NUMPY>(pointer, usable) {
                next::free::<NUMPY>(pointer);
                return null_mut();
            }
            // NumPy's own handler asks for huge pages too: without, a large array takes 512
            // faults where it could take one.
            placement::place(pointer, usable);
        }
        pointer
    }

    unsafe fn reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
        if pointer.is_null() {
            return Self::allocate::<false>(size);
        }
        if !heap::may_book::<NUMPY>(size) {
            return null_mut();
        }
        // SAFETY: the caller's duty.
        unsafe {
            let before = next::usable_size(pointer);
            let moved = next::realloc(pointer, size.max(1));
            if moved.is_null() {
                heap::count_failure(Account::Numpy);
            } else {
                let after = next::usable_size(moved);
                if (moved, after) != (pointer, before) {
                    heap::release::<NUMPY>(pointer, before);
                    heap::book_resized::<NUMPY>(moved, after);
                }
            }
            moved
        }
    }

    unsafe fn free(pointer: *mut u8) {
        if !pointer.is_null() {
            // SAFETY: the caller's duty.
            unsafe {
                heap::release::<NUMPY>(pointer, next::usable_size(pointer));
                next::free::<NUMPY>(pointer);
            }
        }
    }
}
