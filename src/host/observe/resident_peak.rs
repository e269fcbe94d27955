//! The moment with the most resident memory: what libraries map by themselves is resident without a request to the heaps.
//!
//! The resident size is at its highest right before memory is given back. So the host looks before the heaps or a library unmap
//! memory or give pages back, and before a big block is freed: once a MiB was given back since the last look, and at most once a
//! millisecond. A look reads `/proc/self/statm`, which takes some microseconds. If more is resident than ever before, by 1/32 and at least a
//! MiB (by a tenth, once samples have taken 1/100 of the time so far and 20 ms), the host keeps a sample: the ledger, the heaps, the stacks,
//! and what is resident of the libraries' maps by mincore(2), with its lines. That takes 0.3 to 0.8 ms for each GiB.
//!
//! Not seen are memory that is given back past libc's functions, and a peak that lasts less than a millisecond.

use crate::heap::peak_watch::{self, PEAK_THRESHOLDS};
use crate::ledger::{Account, HEADER, LEDGER, Snapshot};
use crate::observe::balance::{self, LIBRARIES, Libraries, Library, QuickBalance};
use crate::{errno::KeptErrno, heap::sampling, libc_exports::native::mapped};
use pyhost_os::cell::{HeldLatest, Latest};
use pyhost_os::clock::{monotonic, nanoseconds};
use pyhost_os::{forks::Child, process::resident_and_shared};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Places that map memory and are counted separately.
const CALLERS: usize = 32;

/// What one place has mapped: the address behind the call, 0 for all other places, and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct CallerMaps {
    caller: usize,
    mapped: u64,
    resident: u64,
}

/// A look at the process at its highest.
#[derive(Clone, Copy, Debug)]
pub struct ResidentSample {
    /// Nanoseconds since the host started.
    pub time: u64,
    /// Resident bytes, and those of them that belong to files and shared memory.
    pub resident: u64,
    pub shared: u64,
    pub ledger: Snapshot,
    /// What is resident of the heaps, of stacks and of zeroed data.
    pub quick: QuickBalance,
    maps: [CallerMaps; CALLERS],
}

#[derive(Clone, Copy)]
pub struct NamedMaps {
    /// The sample's.
    time: u64,
    pub libraries: [Library; LIBRARIES],
}

pyhost_os::state! {
    /// The highest moment so far, and when to look again.
    static STATE: ResidentPeak {
        sample: Latest<ResidentSample> = Latest::new(),
        named: Latest<NamedMaps> = Latest::new(),
        /// Resident bytes of the sample.
        high: AtomicU64 = AtomicU64::new(0),
        /// Nanoseconds of the clock.
        again: AtomicU64 = AtomicU64::new(0),
        /// Nanoseconds of the processor that samples took so far.
        spent: AtomicU64 = AtomicU64::new(0),
        /// Of this window: the highest resident size, and the most bytes that were live and in libraries' maps. Nobody takes windows
        /// as long as the first is out of reach.
        window_resident: AtomicU64 = AtomicU64::new(u64::MAX),
        window: AtomicU64 = AtomicU64::new(0),
        /// The highest resident size since a tracked block began or ended.
        segment: AtomicU64 = AtomicU64::new(0),
        /// The kernel's peak may be of a time before the samples.
        was_reset: AtomicBool = AtomicBool::new(false),
    }
}

const REST: u64 = 1_000_000;
const LEAST_GROWTH: u64 = 1 << 20;
/// Growth after which there is another sample, as one part in so many: usually, and if samples have taken more than their part of the
/// time so far and an allowance.
const GROWTH: u64 = 32;
const LATE_GROWTH: u64 = 10;
const PART: u64 = 100;
const ALLOWANCE: u64 = 20_000_000;

/// Nanoseconds since the process started.
pub fn time() -> u64 {
    monotonic().saturating_sub(HEADER.started_monotonic.load(Relaxed))
}

/// Looks, if that is due: memory is about to be given back. Any thread at any moment, inside the heap's gate too.
pub fn before_release() {
    let now = monotonic();
    if now >= STATE.again.load(Relaxed) {
        STATE.again.store(now + REST, Relaxed);
        let high = STATE.high.load(Relaxed);
        let spent = STATE.spent.load(Relaxed);
        let growth = match spent * PART > time() + ALLOWANCE * PART {
            true => high / LATE_GROWTH,
            false => high / GROWTH,
        };
        let _errno = KeptErrno::new();
        let Some((resident, shared)) = resident_and_shared() else {
            return;
        };
        STATE.segment.fetch_max(resident, Relaxed);
        // A report or lines will show the highest moment. A tracked block wants its size alone.
        let is_wanted = PEAK_THRESHOLDS.next_sample.load(Relaxed) != peak_watch::NEVER
            || sampling::has_lines_on();
        if is_wanted && resident > high + growth.max(LEAST_GROWTH) {
            take_sample(resident, shared);
        }
        look_in_window(resident);
    }
}

/// Looks for the highest moment of a window, if somebody takes windows.
fn look_in_window(resident: u64) {
    if STATE.window_resident.fetch_max(resident, Relaxed) < resident {
        let bytes =
            LEDGER.snapshot().total_live_bytes + mapped::resident_of(mapped::COUNTED).unwrap_or(0);
        STATE.window.fetch_max(bytes, Relaxed);
    }
}

/// Ends a window and begins the next: the most bytes that were live and resident in libraries' maps right before memory was
/// given back; 0 if none was.
pub fn take_window() -> u64 {
    STATE.window_resident.store(0, Relaxed);
    STATE.window.swap(0, Relaxed)
}

/// Resident bytes at a moment of a tracked block.
pub fn look_in_block() -> u64 {
    let resident = resident_and_shared().map_or(0, |it| it.0);
    STATE.segment.fetch_max(resident, Relaxed);
    resident
}

/// The highest resident size that was seen since the last call with `ends`.
pub fn segment(ends: bool) -> u64 {
    match ends {
        true => STATE.segment.swap(0, Relaxed),
        false => STATE.segment.load(Relaxed),
    }
}

/// Looks at this moment, and finds out whose the maps are. Any thread, outside signal handlers.
pub fn look() {
    let high = STATE.high.load(Relaxed);
    if let Some((resident, shared)) = resident_and_shared().filter(|it| it.0 > high) {
        take_sample(resident, shared);
    }
    find_libraries();
}

fn take_sample(resident: u64, shared: u64) {
    STATE.high.store(resident, Relaxed);
    // Of the processor: a thread that must wait for it takes nobody's time.
    let begun = nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID);
    let mut sample = ResidentSample {
        time: time(),
        resident,
        shared,
        ledger: LEDGER.snapshot(),
        quick: balance::quick(),
        maps: [CallerMaps::default(); CALLERS],
    };
    let has_lines = sampling::has_lines_on()
        && sampling::with_in_handler(|samples| samples.begin_resident_peak()).is_some();
    let _ = mapped::each_resident(mapped::COUNTED, |range, resident| {
        if has_lines && range.sample != 0 {
            sampling::with_in_handler(|samples| {
                samples.add_resident(Account::Mapped as u8, range.sample, resident);
            });
        }
        let named = &mut sample.maps[..CALLERS - 1];
        let place = named
            .iter()
            .position(|it| it.mapped == 0 || it.caller == range.caller);
        let maps = &mut sample.maps[place.unwrap_or(CALLERS - 1)];
        if place.is_some() {
            maps.caller = range.caller;
        }
        maps.mapped += (range.end - range.start) as u64;
        maps.resident += resident;
    });
    // Other threads may have gone on meanwhile.
    if let Some(now) = resident_and_shared().filter(|now| now.0 > resident) {
        (sample.resident, sample.shared) = now;
        STATE.high.store(now.0, Relaxed);
    }
    // Other memory may lie against the data of a library.
    let ResidentSample { quick, shared, .. } = sample;
    let others = shared + sample.mapped() + quick.heaps + quick.stacks;
    let left = sample.resident.saturating_sub(others);
    sample.quick.zeroed = quick.zeroed.min(left);
    STATE.sample.set(&sample);
    let end = nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID);
    STATE.spent.fetch_add(end - begun, Relaxed);
    crate::resident::note(sample.resident);
}

/// Finds out which libraries' the maps of the sample are. Takes the dynamic linker's lock.
fn find_libraries() {
    let sample = STATE.sample.get();
    let Some(sample) = sample.filter(|sample| sample.named().is_none()) else {
        return;
    };
    let mut libraries = Libraries::NONE;
    sample.maps.iter().for_each(|it| libraries.note(it.caller));
    libraries.find();
    for maps in &sample.maps {
        libraries.add(maps.caller, maps.mapped, maps.resident);
    }
    STATE.named.set(&NamedMaps {
        time: sample.time,
        libraries: libraries.all,
    });
}

/// Forgets what was seen. The kernel's peak stays.
pub fn restart() {
    STATE.was_reset.store(true, Relaxed);
    STATE.sample.clear();
    STATE.high.store(0, Relaxed);
}

/// In a forked child, whose memory has a peak of its own.
pub fn begin_child(child: &Child) {
    STATE.was_reset.store(false, Relaxed);
    STATE.sample.clear_in_child(child);
    STATE.named.clear_in_child(child);
    STATE.high.store(0, Relaxed);
}

impl ResidentSample {
    /// Bytes of the libraries' maps that are resident.
    pub fn mapped(&self) -> u64 {
        self.maps.iter().map(|it| it.resident).sum()
    }

    /// Resident bytes of nobody above: other written data of libraries, the host's tables, libc's own heap.
    pub fn others(&self) -> u64 {
        let quick = self.quick;
        let named = self.shared + self.mapped() + quick.heaps + quick.stacks + quick.zeroed;
        self.resident.saturating_sub(named)
    }

    /// By how many bytes the process's `peak` is higher; None if that may be of another time.
    pub fn missed(&self, peak: u64) -> Option<u64> {
        let is_whole = !STATE.was_reset.load(Relaxed);
        is_whole.then(|| peak.saturating_sub(self.resident))
    }

    /// The maps by library; None if they were not found out. Any thread, also in a signal handler.
    pub fn named(&self) -> Option<HeldLatest<'static, NamedMaps>> {
        STATE.named.hold().filter(|named| named.time == self.time)
    }
}

/// The highest moment that was seen. Any thread, also in a signal handler.
pub fn highest() -> Option<HeldLatest<'static, ResidentSample>> {
    STATE.sample.hold()
}
