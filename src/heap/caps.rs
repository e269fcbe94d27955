//! The heap's side of the caps: the test that each slow path makes, and the functions of the layer above
//! that decide where there is a ceiling.
//!
//! Everything here runs inside the allocator, on any thread, and inside the gate.

use super::host::host;
pub use super::host::{CapDecisions, Request};
use crate::ledger::{Account, Gils, LEDGER, Slot};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Whether [`CapDecisions::look`] has anything to look at.
static ATTENTION: AtomicBool = AtomicBool::new(false);

/// Chooses whether the slow paths call [`CapDecisions::look`].
pub fn attend(attention: bool) {
    ATTENTION.store(attention, Relaxed);
}

/// Whether a request for `bytes` may be met, before anything is allocated for it. [`book`] decides
/// finally.
#[inline]
pub(super) fn admits(slot: &Slot, account: Account, bytes: usize) -> bool {
    !LEDGER.is_capped() || admits_beneath(slot, account, bytes)
}

#[cold]
fn admits_beneath(slot: &Slot, account: Account, bytes: usize) -> bool {
    host().is_none_or(|host| (host.caps.admits)(slot, account, bytes))
}

/// Books a block that was made, by the slow path. Returns false if a cap refuses the block: then nothing
/// was booked, and the block was given back.
#[inline]
pub(super) fn book(slot: &Slot, request: &Request, gils: &Gils) -> bool {
    if LEDGER.is_capped()
        && let Some(host) = host()
    {
        return (host.caps.book)(slot, request, gils);
    }
    LEDGER.book_anyway(slot, request.account, request.bytes, gils);
    look_if_asked();
    true
}

/// Has the layer above look at live bytes, if it asked for that.
#[inline]
pub fn look_if_asked() {
    if ATTENTION.load(Relaxed) {
        look();
    }
}

#[cold]
fn look() {
    if let Some(host) = host() {
        (host.caps.look)();
    }
}

/// Records a request that the region of `size` bytes has no room for.
#[cold]
pub(super) fn region_is_full(size: u64, account: Account, asked: usize, is_first: bool) {
    if let Some(host) = host() {
        (host.caps.region_is_full)(size, account, asked, is_first);
    }
}
