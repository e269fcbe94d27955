//! The heights of live bytes at which the layer above looks at the process, and its functions that do so.
//!
//! The slow paths compare the ledger's bound with these numbers, which are out of reach until the layer
//! above lowers them. [`falls`] and [`rises`] run inside the allocator, on any thread.

use crate::host::host;
use crate::ledger::{LEDGER, Scope};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// A height that nothing reaches.
pub const NEVER: i64 = i64::MAX;
/// Live bytes are near their highest if less than this part is missing, as one in so many.
pub const PART: i64 = 128;

/// The heights.
pub struct Heights {
    /// The ledger's bound at the last look.
    pub high: AtomicI64,
    /// The bound at which the next glance is due.
    pub next_glance: AtomicI64,
    /// The bound at which the next sheet is due.
    pub next_sheet: AtomicI64,
}

/// See [`Heights`].
pub static HEIGHTS: Heights = Heights {
    high: AtomicI64::new(NEVER),
    next_glance: AtomicI64::new(NEVER),
    next_sheet: AtomicI64::new(NEVER),
};

/// Reports that a big block is about to be freed. Outside the gate.
#[inline]
pub(crate) fn falls() {
    let high = HEIGHTS.high.load(Relaxed);
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
pub(crate) fn rises() {
    let bound = LEDGER.bound(Scope::Total);
    if bound >= HEIGHTS.next_glance.load(Relaxed) || bound >= HEIGHTS.next_sheet.load(Relaxed) {
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
