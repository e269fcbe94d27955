//! The allocators of array data: the four choices of `--numpy`, as one trait.

#![allow(unsafe_code)]

use crate::heap::{self, array_blocks, placement, pool, region, sampling};
use crate::ledger::Account;
use crate::libc_exports::native::next;
use std::ptr::null_mut;

const NUMPY: usize = Account::Numpy as usize;

pub type Reallocate = unsafe fn(*mut u8, usize) -> *mut u8;
pub type Free = unsafe fn(*mut u8);

/// An allocator of array data that books to `numpy`. Any thread, without the GIL.
pub trait Store {
    /// `size` bytes, zeroed if `ZERO`; a block of its own for 0. Null on failure.
    fn allocate<const ZERO: bool>(size: usize) -> *mut u8;

    /// Resizes a block to a size; null on failure, and the old block still lives. Null allocates.
    ///
    /// # Safety
    /// The pointer is null or a live block of this store.
    const REALLOCATE: Reallocate;

    /// Frees a block; ignores null.
    ///
    /// # Safety
    /// As for [`Store::REALLOCATE`].
    const FREE: Free;
}

/// The `numpy` heap of mimalloc.
pub struct Mimalloc;

impl Store for Mimalloc {
    const REALLOCATE: Reallocate = array_blocks::reallocate;
    const FREE: Free = array_blocks::free::<true>;

    #[inline(always)]
    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        array_blocks::allocate::<ZERO, true>(size)
    }
}

/// The pool over it.
pub struct Pool;

impl Store for Pool {
    const REALLOCATE: Reallocate = pool::reallocate;
    const FREE: Free = pool::free;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        pool::allocate(size, ZERO)
    }
}

/// The region.
pub struct Bfc;

impl Store for Bfc {
    const REALLOCATE: Reallocate = region::reallocate;
    const FREE: Free = region::free;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        region::allocate(size, ZERO)
    }
}

/// The malloc behind the host's own: libc's, or a preloaded one. NumPy's own default, but for its
/// cache of small blocks.
pub struct System;

impl Store for System {
    const REALLOCATE: Reallocate = system_reallocate;
    const FREE: Free = system_free;

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
            // faults while it could take one.
            placement::place(pointer, usable);
        }
        pointer
    }
}

unsafe fn system_reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        return System::allocate::<false>(size);
    }
    if !heap::may_book::<NUMPY>(size) {
        return null_mut();
    }
    // SAFETY: the caller's duty.
    unsafe {
        let before = next::usable_size(pointer);
        let sample = sampling::take_out(Account::Numpy, pointer);
        let moved = next::realloc(pointer, size.max(1));
        if moved.is_null() {
            sampling::put_back(Account::Numpy, pointer, sample);
            heap::count_failure(Account::Numpy);
        } else {
            let after = next::usable_size(moved);
            if (moved, after) == (pointer, before) {
                sampling::put_back(Account::Numpy, pointer, sample);
            } else {
                heap::release_resized::<NUMPY>(pointer, before);
                heap::book_resized::<NUMPY>(moved, after);
            }
        }
        moved
    }
}

unsafe fn system_free(pointer: *mut u8) {
    if !pointer.is_null() {
        // SAFETY: the caller's duty.
        unsafe {
            heap::release::<NUMPY>(pointer, next::usable_size(pointer));
            next::free::<NUMPY>(pointer);
        }
    }
}
