//! The heights of live bytes at which the layer above looks at the process, and its functions that do so.
//!
//! The slow paths compare the ledger's bound with these numbers, which are out of reach until the layer
//! above lowers them. [`falls`] and [`rises`] run inside the allocator, on any thread.

pub use super::host::PeakWatcher;
use super::host::host;
use crate::ledger::{LEDGER, Scope};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// A height that nothing reaches.
pub const NEVER: i64 = i64::MAX;
/// Live bytes are near their highest if less than this part is missing, as one in so many.
pub const PART: i64 = 128;

/// The ledger's bound at the last look.
pub static HIGH: AtomicI64 = AtomicI64::new(NEVER);
/// The bounds at which the next glance and the next sheet are due.
pub static NEXT_GLANCE: AtomicI64 = AtomicI64::new(NEVER);
/// See [`NEXT_GLANCE`].
pub static NEXT_SHEET: AtomicI64 = AtomicI64::new(NEVER);

/// Reports that a big block is about to be freed. Outside the gate.
#[inline]
pub(super) fn falls() {
    let high = HIGH.load(Relaxed);
    let bound = LEDGER.bound(Scope::Total);
    if bound >= high - high / PART {
        fall(bound);
    }
}

#[cold]
#[inline(never)]
fn fall(bound: i64) {
    if let Some(host) = host() {
        (host.peak.falls)(bound);
    }
}

/// Reports that a block was booked. Inside the gate.
#[inline]
pub(super) fn rises() {
    let bound = LEDGER.bound(Scope::Total);
    if bound >= NEXT_GLANCE.load(Relaxed) || bound >= NEXT_SHEET.load(Relaxed) {
        rise(bound);
    }
}

#[cold]
#[inline(never)]
fn rise(bound: i64) {
    if let Some(host) = host() {
        (host.peak.rises)(bound);
    }
}
