//! The ledger: live, peak and total bytes and blocks of every account, exact at rest.
//!
//! Each thread books into a [`Slot`] of its own with plain loads and stores. A slot's cell carries an upper and a lower
//! bound. While the thread's live bytes stay between them, the shared counters do not change. Only a booking that would
//! cross a bound takes the slow path (`booking`), which publishes the new bound to the account and to the total. The
//! published bytes are never below the live bytes, so the peaks taken from them are never low.
//!
//! `mem` and `obj` have exact peaks as long as one GIL serialises them: the thread that last
//! booked keeps its highest, and the next thread takes over the ownership in the slow path. See `booking`.
//!
//! The storage is one block of fixed layout, `repr(C)`, of atomics only. It is static memory, and a page
//! shared with a file can be mapped over it. Safe Rust, no Python, no heap.

#![deny(unsafe_code)]

mod account;
mod booking;
mod caps;
mod ceiling;
pub mod header;
mod layout;
mod mapped;
pub mod own;
pub mod resident;
mod segment;
mod shared;
mod slot;
mod snapshot;
#[cfg(test)]
mod tests;

pub use account::{ACCOUNTS, Account, Asker, REPORTED, index};
pub use booking::Gils;
pub use ceiling::{Reach, Scope};
pub use segment::{Marks, Others, Peaks};
pub use shared::Ledger;
pub use slot::{CLOSED, Slot, UNCLAIMED};
pub use snapshot::{AccountFigures, Snapshot};

pub use layout::{UNIT, Zeros};
pub use own::{HEADER, LEDGER};
