//! Requests that leave the inlined path whatever their size: for checked blocks (`--debug-hooks`), and for guarded ones of
//! [`SMALL_SIZE_MAX`] bytes and less (`--guard=min=…`).
//!
//! The host installs functions that come here in the place of the usual ones, so nothing is paid for without the options.
//! Any thread.

use crate::checks::{checked_blocks, guards};
use crate::{hot::allocate::allocate_aligned, ledger::Account, mimalloc::ffi::SMALL_SIZE_MAX};

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
        && let Some(block) = guards::allocate_if_wanted(account, size, alignment)
    {
        return block;
    }
    match alignment <= NATURAL_ALIGNMENT {
        true => crate::hot::allocate::allocate::<A, ZERO, true>(size),
        false => allocate_aligned(account, size, alignment),
    }
}
