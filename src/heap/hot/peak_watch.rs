//! Thresholds of live bytes at which the layer above looks at the process, and its functions that do so.
//!
//! The slow paths compare the ledger's bound with these numbers, which are out of reach until the layer
//! above lowers them. [`before_big_free`] and [`after_booking`] run inside the allocator, on any thread.

use crate::host::host;
use crate::ledger::{LEDGER, Scope};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// A threshold that nothing reaches.
pub const NEVER: i64 = i64::MAX;
/// Live bytes are near their highest if less than this part is missing, as one in so many.
pub const PART: i64 = 128;

pyhost_os::state! {
    /// The thresholds.
    pub static PEAK_THRESHOLDS: PeakThresholds {
        /// The ledger's bound at the last look.
        pub high: AtomicI64 = AtomicI64::new(NEVER),
        /// The bound at which the next quick sample is due.
        pub next_sample: AtomicI64 = AtomicI64::new(NEVER),
        /// The bound at which the next balance sheet is due.
        pub next_sheet: AtomicI64 = AtomicI64::new(NEVER),
    }
}

/// Reports that a big block is about to be freed. Outside the gate.
#[inline]
pub(crate) fn before_big_free() {
    let high = PEAK_THRESHOLDS.high.load(Relaxed);
    let bound = LEDGER.bound(Scope::Total);
    if bound >= high - high / PART {
        is_near_peak(bound);
    }
}

#[cold]
#[inline(never)]
fn is_near_peak(bound: i64) {
    if let Some(host) = host() {
        (host.peak.before_big_free)(bound);
    }
}

/// Reports that a block was booked. Inside the gate.
#[inline]
pub(crate) fn after_booking() {
    let bound = LEDGER.bound(Scope::Total);
    if bound >= PEAK_THRESHOLDS.next_sample.load(Relaxed)
        || bound >= PEAK_THRESHOLDS.next_sheet.load(Relaxed)
    {
        threshold_is_reached(bound);
    }
}

#[cold]
#[inline(never)]
fn threshold_is_reached(bound: i64) {
    if let Some(host) = host() {
        (host.peak.threshold_is_reached)(bound);
    }
}
