//! The process's malloc family: exported by the executable, so that every library's `malloc` and
//! `free` are these, served from mimalloc's main heap and booked to `native`.
//!
//! Up to CPython 3.13 the raw domain is plain `malloc` for moments of start and finalisation,
//! so blocks of the domains and of `malloc` are freed through each other's functions. With one
//! family that is harmless: the account is read off the pointer, not off the entry point.

pub mod checkers;
mod choice;
mod exit;
pub mod family;
#[cfg(target_env = "gnu")]
mod glibc;
mod limits;
#[cfg_attr(target_feature = "crt-static", path = "own_symbols.rs")]
pub mod lookup;
pub mod mapped;
mod mode;
pub mod next;
mod no_block;
#[cfg(not(target_feature = "crt-static"))]
pub mod operators;
mod own;
mod threads;

pub use choice::{choose, decide, hand_over, set_mode};
pub use exit::on_exit;
pub use mode::{Mode, inject, leave_to, left_to, mode};

/// Leaves malloc and all else that the library exports to those behind it from the first request on: for a program that it was
/// loaded into and that is not to be hosted. Before any constructor, instead of [`crate::early`].
pub fn stand_aside() {
    next::resolve();
    set_mode(Mode::Off);
}
