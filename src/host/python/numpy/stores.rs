//! The allocators of array data, as one trait: the four choices of `--numpy`, and stores for the search of bugs, which take
//! the place of one of them or lie over it.

#![allow(unsafe_code)]

use crate::check::faults::fails_of;
use crate::heap::{
    self, Reallocated, array_blocks, checked_blocks, fill_bytes::FRESH, guards, placement, pool,
    region, sampling,
};
use crate::ledger::{Account, LEDGER, index::NUMPY};
use crate::libc_exports::native::next;
use std::{marker::PhantomData, ptr::null_mut};

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

macro_rules! store_of {
    ($($module:ident $name:ident),*) => {$(
        pub struct $name;

        impl Store for $name {
            const REALLOCATE: Reallocate = $module::reallocate;
            const FREE: Free = $module::free;

            fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
                $module::allocate(size, ZERO)
            }
        }
    )*};
}
store_of!(pool Pool, region Bfc);

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
            LEDGER.count_failure(Account::Numpy);
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
            LEDGER.count_failure(Account::Numpy);
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

/// Checked blocks, under `--debug-hooks`: freed ones wait in the quarantine.
pub struct Checked;

impl Store for Checked {
    const REALLOCATE: Reallocate = checked_reallocate;
    const FREE: Free = checked_free;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        checked_blocks::allocate(Account::Numpy, size, array_blocks::alignment(), ZERO)
    }
}

unsafe fn checked_reallocate(pointer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's duties. Blocks of this store are never another allocator's.
    match unsafe { heap::reallocate_checked::<NUMPY>(pointer, size) } {
        Reallocated::Block(block) => block,
        Reallocated::Foreign => null_mut(),
    }
}

unsafe fn checked_free(pointer: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe { heap::free::<NUMPY, true>(pointer) };
}

/// `S`, but for the blocks with guard pages behind them, under `--guard`. With `FILLS` their first bytes are those of fresh ones.
pub struct Guarded<S, const FILLS: bool>(PhantomData<S>);

/// A guarded block, each byte `fill` if that is given, or null if a cap refuses it; None if none is asked for, or there is no room.
fn guarded(size: usize, fill: Option<u8>) -> Option<*mut u8> {
    let alignment = array_blocks::alignment();
    let take = || guards::allocate_filled(Account::Numpy, size, alignment, fill);
    guards::wants(size).then(take)?
}

impl<S: Store, const FILLS: bool> Store for Guarded<S, FILLS> {
    const REALLOCATE: Reallocate = guarded_reallocate::<S, FILLS>;
    const FREE: Free = guarded_free::<S>;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        let fill = (FILLS && !ZERO).then_some(FRESH);
        guarded(size, fill).unwrap_or_else(|| S::allocate::<ZERO>(size))
    }
}

unsafe fn guarded_reallocate<S: Store, const FILLS: bool>(
    pointer: *mut u8,
    size: usize,
) -> *mut u8 {
    if pointer.is_null() {
        return Guarded::<S, FILLS>::allocate::<false>(size);
    }
    // SAFETY: a live block of this store; those that are copied are at least that long.
    unsafe {
        let Some(before) = guards::size(pointer) else {
            let moved = S::REALLOCATE(pointer, size);
            let block = match moved.is_null() {
                true => None,
                false => guarded(size, None).filter(|block| !block.is_null()),
            };
            let Some(block) = block else { return moved };
            std::ptr::copy_nonoverlapping(moved, block, size);
            S::FREE(moved);
            return block;
        };
        let block = Guarded::<S, FILLS>::allocate::<false>(size);
        if !block.is_null() {
            std::ptr::copy_nonoverlapping(pointer, block, size.min(before));
            guards::free(pointer, Account::Numpy);
        }
        block
    }
}

unsafe fn guarded_free<S: Store>(pointer: *mut u8) {
    if !guards::free(pointer, Account::Numpy) {
        // SAFETY: a block of the store beneath, or null.
        unsafe { S::FREE(pointer) };
    }
}

/// `S` with a question in front of each request, which may make it fail: `--fail` on array data.
pub struct Faulty<S>(PhantomData<S>);

impl<S: Store> Store for Faulty<S> {
    const REALLOCATE: Reallocate = faulty_reallocate::<S>;
    const FREE: Free = S::FREE;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        match fails_of::<NUMPY>(size) {
            true => null_mut(),
            false => S::allocate::<ZERO>(size),
        }
    }
}

unsafe fn faulty_reallocate<S: Store>(pointer: *mut u8, size: usize) -> *mut u8 {
    match fails_of::<NUMPY>(size) {
        true => null_mut(),
        // SAFETY: the caller's duty; the blocks are those of the store beneath.
        false => unsafe { S::REALLOCATE(pointer, size) },
    }
}
