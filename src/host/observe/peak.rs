//! The process at its peak: the accounts, the resident size, the big blocks, and the balance sheet.
//!
//! Nobody knows that a peak was one before it has passed, so the host looks when live bytes rise. A *quick sample*
//! costs some 30 microseconds: it copies the ledger, reads `/proc/self/status` and goes through the
//! register of big blocks. It is due once live bytes are 1/128 (at least 256 KiB) above the last one. A
//! *sheet* is the balance sheet; the kernel needs about 60 microseconds for each MiB that is resident. It
//! is due once the resident size is an eighth above the last one's. All sheets take at most 1/32 of the
//! time so far; a short run has 100 ms beside that, for sheets that are farther apart.
//!
//! There are two moments to look. At a *safe point* of the main thread, soon after live bytes grew. And
//! *before a big block is freed* while live bytes are at their highest: memory that was allocated at the last safe
//! point may have been written to since, and a block that came and went within one call never meets a safe point. There
//! every thread takes a quick sample, and the main thread, whose stack is large enough, takes a sheet.
//!
//! The hot path has no part in this: the slow paths of the heap compare the ledger's bound with a threshold,
//! which is beyond reach if no report is planned ([`peak_watch`]). [`fall`] and [`ask`] run inside the
//! allocator, on any thread: they allocate nothing, and no lock of theirs is held for longer than a few stores.

use crate::cpython::objects::{Gil, Returned};
use crate::cpython::{frames, threads};
use crate::heap::big_blocks::{self, BigBlocks};
use crate::heap::peak_watch::{self, PEAK_THRESHOLDS};
use crate::heap::{self, PeakWatcher, thread_pointers};
use crate::ledger::{LEDGER, Scope, Snapshot};
use crate::observe::balance::{self, Balance};
use crate::observe::resident_peak::{self, time};
use crate::{cpython::functions::add_pending_call, errno::KeptErrno, resident::resident};
use pyhost_os::cell::{HeldLatest, Latest};
use pyhost_os::{clock::monotonic, forks::Child};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

/// A quick look at one moment.
#[derive(Clone, Copy, Debug)]
pub struct QuickSample {
    /// Nanoseconds since the host started.
    pub time: u64,
    pub ledger: Snapshot,
    pub resident: Option<u64>,
    pub big_blocks: BigBlocks,
}

#[derive(Clone, Copy, Debug)]
pub struct BalanceSheet {
    /// Nanoseconds since the host started.
    pub time: u64,
    /// Live bytes of all accounts.
    pub live: u64,
    pub balance: Balance,
}

pyhost_os::state! {
    /// The highest moment so far, as it was seen, and when to look again.
    static STATE: PeakWatch {
        sample: Latest<QuickSample> = Latest::new(),
        sheet: Latest<BalanceSheet> = Latest::new(),
        /// When a quick sample at the same height may be taken again, and when a sheet may; nanoseconds.
        sample_again: AtomicU64 = AtomicU64::new(0),
        sheet_again: AtomicU64 = AtomicU64::new(0),
        /// The last sheet: resident bytes, and the ledger's bound.
        sheet_resident: AtomicU64 = AtomicU64::new(0),
        sheet_bound: AtomicI64 = AtomicI64::new(0),
        /// Nanoseconds that sheets took so far.
        spent: AtomicU64 = AtomicU64::new(0),
        /// A look at a safe point is asked for.
        posted: AtomicBool = AtomicBool::new(false),
        has_begun: AtomicBool = AtomicBool::new(false),
    }
}

/// Growth after which the next quick sample is due, at least and as a part of what is live.
const LEAST_GROWTH: i64 = 256 << 10;
const GROWTH: i64 = peak_watch::PART;
/// Nanoseconds between two quick samples at one height: more than a hundred times what one takes.
const SAMPLE_REST: u64 = 4_000_000;
/// Growth of live bytes, and of the resident size, after which the next sheet is due.
const LEAST_SHEET_GROWTH: i64 = 2 << 20;
const SHEET_GROWTH: i64 = 8;
/// The part of the time so far that sheets may take, as one in so many, and what they may take beside it.
const PART: u64 = 32;
const ALLOWANCE: u64 = 100_000_000;
/// Growth of live bytes from one sheet to the next that uses the allowance, as one in so many: at a safe
/// point, from which they may grow on, and before a big block is freed.
const DOUBLED: i64 = 1;
const LAST_CHANCE: i64 = 4;
/// The cost of a sheet: nanoseconds, and nanoseconds for each MiB that is resident.
const SHEET_TAKES: u64 = 1_000_000;
const MIB_TAKES: u64 = 60_000;
/// Nanoseconds until a safe point is asked for again, if the resident size has not followed yet.
const SHEET_REST: u64 = 10_000_000;

pub const WATCHER: PeakWatcher = PeakWatcher {
    before_big_free: fall,
    threshold_is_reached: ask,
    before_release: resident_peak::before_release,
};

/// Begins to look. Once, with the GIL.
pub fn start(_gil: Gil<'_>) {
    STATE.has_begun.store(true, Relaxed);
    thread_pointers::watch();
    begin();
}

/// Looks before memory is given back from here on, also if no report is planned.
pub fn watch_releases() {
    thread_pointers::watch();
    if !is_on() {
        set_thresholds(i64::MAX - 1, peak_watch::NEVER, peak_watch::NEVER);
    }
}

/// Looks from here on, as if nothing was seen before.
fn begin() {
    STATE.sample.clear();
    STATE.sheet.clear();
    STATE.posted.store(false, Relaxed);
    let (bound, size) = (LEDGER.bound(Scope::Total), resident().now.unwrap_or(0));
    STATE.sheet_resident.store(size, Relaxed);
    STATE.sheet_bound.store(bound, Relaxed);
    set_thresholds(bound, bound + LEAST_GROWTH, bound + LEAST_SHEET_GROWTH);
}

/// Whether anybody looks, or did so.
pub fn has_begun() -> bool {
    STATE.has_begun.load(Relaxed)
}

fn is_on() -> bool {
    PEAK_THRESHOLDS.high.load(Relaxed) != peak_watch::NEVER
}

/// In a forked child: its parent's peaks are not its own.
pub fn begin_child(child: &Child) {
    STATE.sample.clear_in_child(child);
    STATE.sheet.clear_in_child(child);
    if is_on() && has_begun() {
        begin();
    }
    resident_peak::begin_child(child);
}

/// Forgets what was seen: the ledger's peaks start anew.
pub fn restart() {
    if is_on() {
        if has_begun() {
            begin();
        }
        resident_peak::restart();
    }
}

/// Looks no more: the script has ended. With the GIL.
pub fn stop() {
    if is_on() {
        resident_peak::look();
    }
    set_thresholds(peak_watch::NEVER, peak_watch::NEVER, peak_watch::NEVER);
}

fn set_thresholds(high: i64, next_sample: i64, next_sheet: i64) {
    PEAK_THRESHOLDS.high.store(high, Relaxed);
    PEAK_THRESHOLDS.next_sample.store(next_sample, Relaxed);
    PEAK_THRESHOLDS.next_sheet.store(next_sheet, Relaxed);
}

/// Looks, if that is due, before a big block is freed. Outside the heap's gate.
fn fall(bound: i64) {
    let is_higher = bound >= PEAK_THRESHOLDS.next_sample.load(Relaxed);
    if !is_on() || !is_higher && monotonic() < STATE.sample_again.load(Relaxed) {
        return;
    }
    let _errno = KeptErrno::new(); // `free` leaves it as it was
    resident_peak::before_release();
    take_sample();
    let is_main = STATE.has_begun.load(Relaxed) && threads::is_main();
    if is_main && heap::may_be_alone() {
        sheet(bound, LAST_CHANCE);
    }
}

/// Asks for a look at a safe point, if one is due, after a block was booked. Inside the allocator.
fn ask(bound: i64) {
    let is_due = bound >= PEAK_THRESHOLDS.next_sample.load(Relaxed)
        || monotonic() >= STATE.sheet_again.load(Relaxed);
    if is_due
        && !STATE.posted.swap(true, Relaxed)
        && STATE.has_begun.load(Relaxed)
        && (frames::is_finalizing() || !add_pending_call(look_at_safe_point))
    {
        STATE.posted.store(false, Relaxed);
    }
}

/// Looks, as far as that is due.
fn look_at_safe_point(_: Gil<'_>) -> Returned<'_, ()> {
    STATE.posted.store(false, Relaxed);
    let bound = LEDGER.bound(Scope::Total);
    if bound >= PEAK_THRESHOLDS.next_sample.load(Relaxed) {
        take_sample();
    }
    if bound >= PEAK_THRESHOLDS.next_sheet.load(Relaxed) {
        sheet(bound, DOUBLED);
    }
    Ok(())
}

fn take_sample() {
    let ledger = LEDGER.snapshot();
    STATE.sample.set(&QuickSample {
        time: time(),
        ledger,
        resident: resident().now,
        big_blocks: big_blocks::big_blocks(),
    });
    let bound = LEDGER.bound(Scope::Total);
    PEAK_THRESHOLDS.high.store(bound, Relaxed);
    let next_sample = bound + (bound / GROWTH).max(LEAST_GROWTH);
    PEAK_THRESHOLDS.next_sample.store(next_sample, Relaxed);
    STATE.sample_again.store(monotonic() + SAMPLE_REST, Relaxed);
}

/// Takes a sheet, if the resident size has grown and there is time for it; ahead of time if live bytes
/// have grown by one in `early` since the last.
fn sheet(bound: i64, early: i64) {
    let (time, begun) = (time(), monotonic());
    let last = STATE.sheet_resident.load(Relaxed);
    let size = resident().now.unwrap_or(0);
    if size < last + (last / SHEET_GROWTH as u64).max(LEAST_SHEET_GROWTH as u64) {
        STATE.sheet_again.store(begun + SHEET_REST, Relaxed);
        return;
    }
    let spent = STATE.spent.load(Relaxed);
    let takes = SHEET_TAKES + (size >> 20) * MIB_TAKES;
    let in_time = time / PART;
    let before = STATE.sheet_bound.load(Relaxed);
    let may_be_early = bound >= before + before / early;
    if spent + takes > in_time && !(may_be_early && spent + takes <= in_time + ALLOWANCE) {
        let missing = ((spent + takes) * PART).saturating_sub(time);
        STATE.sheet_again.store(begun + missing, Relaxed);
        return;
    }
    let live = LEDGER.snapshot().total_live_bytes;
    let balance = balance::take();
    STATE.spent.store(spent + (monotonic() - begun), Relaxed);
    STATE.sheet_resident.store(size, Relaxed);
    STATE.sheet_bound.store(bound, Relaxed);
    let growth = (bound / SHEET_GROWTH).max(LEAST_SHEET_GROWTH);
    PEAK_THRESHOLDS.next_sheet.store(bound + growth, Relaxed);
    if let Some(balance) = balance {
        STATE.sheet.set(&BalanceSheet {
            time,
            live,
            balance,
        });
    }
}

/// The highest moment that was seen. Any thread, also in a signal handler.
pub fn highest() -> Option<HeldLatest<'static, QuickSample>> {
    STATE.sample.hold()
}

/// The highest moment that has a sheet. Any thread, also in a signal handler.
pub fn highest_sheet() -> Option<HeldLatest<'static, BalanceSheet>> {
    STATE.sheet.hold()
}
