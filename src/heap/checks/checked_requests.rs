//! Requests that leave the inlined path whatever their size: for checked blocks (`--debug-hooks`), and for guarded ones of
//! [`SMALL_SIZE_MAX`] bytes and less (`--guard=min=…`).
//!
//! The host installs functions that come here in the place of the usual ones, so nothing is paid for without the options.
//! Any thread.

#![allow(unsafe_code)]

use crate::arrays::array_blocks;
use crate::checks::{checked_blocks, guards};
use crate::hot::allocate::allocate_aligned;
use crate::ledger::Account;
use crate::mimalloc::ffi::SMALL_SIZE_MAX;
use crate::{Reallocated, usable_size};

/// Every block of mimalloc's has it.
const NATURAL_ALIGNMENT: usize = 16;

/// Whether requests are to come here.
pub fn is_on() -> bool {
    checked_blocks::is_on() || guards::are_small()
}

/// Allocates `size` bytes, zeroed if `ZERO`, booked to account `A`; null on failure. `alignment` is a power of two; the
/// GIL is held if the account is of the GIL.
#[cold]
pub fn allocate<const A: usize, const ZERO: bool>(size: usize, alignment: usize) -> *mut u8 {
    let account = Account::ALL[A];
    if checked_blocks::is_on() {
        return checked_blocks::allocate(account, size, alignment, ZERO);
    }
    // Larger ones are looked at on the usual path.
    if size <= SMALL_SIZE_MAX
        && guards::wants(size)
        && let Some(block) = guards::allocate(account, size, alignment)
    {
        return block;
    }
    match alignment <= NATURAL_ALIGNMENT {
        true => crate::hot::allocate::allocate::<A, ZERO, true>(size),
        false => allocate_aligned(account, size, alignment),
    }
}

/// Resizes a block of whatever kind: it always moves, so that the old address is known to be stale.
///
/// # Safety
/// As for [`crate::hot::reallocate::reallocate`].
pub unsafe fn reallocate<const A: usize>(pointer: *mut u8, size: usize) -> Reallocated {
    let account = Account::ALL[A];
    let alignment = match account {
        Account::Numpy => array_blocks::alignment(),
        _ => NATURAL_ALIGNMENT,
    };
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        if pointer.is_null() {
            return Reallocated::Block(allocate::<A, false>(size, alignment));
        }
        checked_blocks::look_before_realloc(pointer, account);
        let Some(before) = usable_size(pointer) else {
            guards::refuse_if_wrong(pointer, Some(0), "realloc()");
            return Reallocated::Foreign;
        };
        let moved = allocate::<A, false>(size, alignment);
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(pointer, moved, before.min(size));
            if !crate::hot::free::free::<A, true>(pointer) {
                guards::free(pointer, account);
            }
        }
        Reallocated::Block(moved)
    }
}
