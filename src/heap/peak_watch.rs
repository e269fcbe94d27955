//! Thresholds of live bytes at which the layer above looks at the process, and its functions that do so.
//!
//! The slow paths compare the ledger's bound with these numbers, which are out of reach until the layer
//! above lowers them. [`before_big_free`] and [`after_booking`] run inside the allocator, on any thread, and
//! [`before_release`] at any moment.

use crate::host::host;
use crate::ledger::{LEDGER, Scope};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

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
        /// Bytes that were given back since the last look at the resident size.
        released: AtomicUsize = AtomicUsize::new(0),
    }
}

/// Reports that a big block is about to be freed. Outside the gate.
#[inline]
pub(crate) fn before_big_free() {
    let high = PEAK_THRESHOLDS.high.load(Relaxed);
    let bound = LEDGER.bound(Scope::Total);
    if bound >= high - high / PART {
        is_near_peak(bound);
    } else {
        before_release(RELEASED);
    }
}

/// Bytes that are given back from one look at the resident size to the next.
const RELEASED: usize = 1 << 20;

/// Reports that memory is about to be given back, by the heap or by a library: the resident size may be at its highest. Any thread at any
/// moment, inside the gate too.
#[inline]
pub fn before_release(bytes: usize) {
    if PEAK_THRESHOLDS.high.load(Relaxed) != NEVER {
        release(bytes);
    }
}

#[cold]
#[inline(never)]
fn release(bytes: usize) {
    let released = &PEAK_THRESHOLDS.released;
    if released.fetch_add(bytes, Relaxed).saturating_add(bytes) < RELEASED {
        return;
    }
    released.store(0, Relaxed);
    if let Some(host) = host() {
        (host.peak.before_release)();
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
