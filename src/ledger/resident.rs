//! The resident size of this process, now and at its highest, and what is known of its children's.
//!
//! The peak is `VmHWM` of `/proc/self/status`, which belongs to the memory of this program. The
//! kernel's other figure, `ru_maxrss`, belongs to the process and survives `exec`: for a program that
//! a large process started it is the size of that process. It is the fallback if `/proc` is not
//! readable. No function here allocates or locks; a signal handler may call them.

#![deny(unsafe_code)]

use crate::own::HEADER;
use pyhost_os::{calls, clock, file, mapping::FromZeros, process::small_file};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Where a peak comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `VmHWM`: the peak of this program.
    HighWaterMark,
    /// `ru_maxrss`: an upper bound, which includes the program that `exec` replaced.
    Usage,
}

pyhost_os::named!(Source: "VmHWM" HighWaterMark, "ru_maxrss" Usage);

/// Memory of the process as the kernel sees it, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// Resident now; None if `/proc` is not readable.
    pub now: Option<u64>,
    /// The most that was resident; at least every resident size that this process has reported.
    pub peak: u64,
    pub source: Source,
}

/// Notes a resident size that a report or a timeline may show, from whichever file: the kernel's files
/// count in different ways, and a report must not show a size above its peak. The header keeps the
/// highest, since the sampler notes sizes too, and since it is there after a kill.
pub fn note(bytes: u64) {
    HEADER.resident_peak.fetch_max(bytes, Relaxed);
}

/// `ru_maxrss` at the start of this program, in bytes: what is above it is this program's.
static EARLIER_USAGE: AtomicU64 = AtomicU64::new(0);
/// When the peak was last noted from `ru_maxrss`, in milliseconds of `CLOCK_MONOTONIC_COARSE`; `NEVER`
/// if nobody reads the header.
static NOTED_AT: AtomicU64 = AtomicU64::new(NEVER);
const NEVER: u64 = u64::MAX;
/// Milliseconds between two notes at least.
const PAUSE: u64 = 100;

/// What else is to be done as often, and when a ceiling has changed.
static ALSO: OnceLock<fn()> = OnceLock::new();

/// Makes [`note_growth`] note the peak, and do something more, from here on: somebody may read the header after a kill.
pub fn keep_noting(also: fn()) {
    let _ = ALSO.set(also);
    NOTED_AT.store(0, Relaxed);
    resident();
}

/// Notes the peak, at most ten times a second. Called when the ledger is booked to past a thread's
/// own cell; a system call without a descriptor, of which the script could see nothing.
#[inline]
pub fn note_growth() {
    let before = NOTED_AT.load(Relaxed);
    if before != NEVER {
        note_growth_since(before);
    }
}

#[cold]
fn note_growth_since(before: u64) {
    let now = clock::monotonic_coarse() / 1_000_000;
    if now.saturating_sub(before) < PAUSE {
        return;
    }
    NOTED_AT.store(now, Relaxed);
    let usage = usage(libc::RUSAGE_SELF);
    if usage > EARLIER_USAGE.load(Relaxed) {
        note(usage);
    }
    keep();
}

/// Does what else is to be done.
pub(crate) fn keep() {
    if let Some(also) = ALSO.get() {
        also();
    }
}

/// In a forked child, whose header says that nothing was noted: its memory has a peak of its own, and it has waited for no child yet.
pub fn begin_child() {
    EARLIER_USAGE.store(0, Relaxed);
    EARLIER_CHILD.store(0, Relaxed);
}

pub fn resident() -> Resident {
    let status = Status::read();
    let (peak, source) = match status.high_water_mark {
        Some(peak) => (peak, Source::HighWaterMark),
        None => (usage(libc::RUSAGE_SELF), Source::Usage),
    };
    // Not the fallback, which is an upper bound.
    let sizes = [status.resident, status.high_water_mark];
    sizes.into_iter().flatten().for_each(note);
    Resident {
        now: status.resident,
        peak: peak.max(HEADER.resident_peak.load(Relaxed)),
        source,
    }
}

/// The largest child that was waited for before this program began, by another that `exec` replaced.
static EARLIER_CHILD: AtomicU64 = AtomicU64::new(0);

/// Notes which children are not this program's. Once, at the start.
pub fn start() {
    EARLIER_CHILD.store(usage(libc::RUSAGE_CHILDREN), Relaxed);
    EARLIER_USAGE.store(usage(libc::RUSAGE_SELF), Relaxed);
}

/// The resident peak of the largest child that was waited for, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargestChild {
    /// The peak; None if the kernel's figure may be this process's own size.
    pub peak: Option<u64>,
    /// The kernel's figure, which no child's peak exceeds; 0 without a child.
    pub at_most: u64,
}

impl LargestChild {
    /// Judges the kernel's figure. A child that calls `exec` keeps, as its own highest, the size that its parent had at
    /// the fork. So the figure is a child's own only if it is above the parent's peak; by an eighth, since the kernel's
    /// counters are approximate (by 64 memory pages a processor and more).
    fn judge(figure: u64, earlier: u64, own_peak: u64) -> Self {
        let is_childs = figure > earlier && figure > own_peak + own_peak / 8;
        LargestChild {
            peak: is_childs.then_some(figure),
            at_most: figure,
        }
    }
}

pub fn largest_child(own_peak: u64) -> LargestChild {
    let figure = usage(libc::RUSAGE_CHILDREN);
    LargestChild::judge(figure, EARLIER_CHILD.load(Relaxed), own_peak)
}

/// `ru_maxrss` in bytes.
fn usage(who: libc::c_int) -> u64 {
    let mut usage = libc::rusage::zeroed();
    calls::getrusage(who, &mut usage);
    usage.ru_maxrss as u64 * 1024
}

/// Two lines of `/proc/self/status`, of one moment: the second is never below the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Status {
    resident: Option<u64>,
    high_water_mark: Option<u64>,
}

impl Status {
    fn read() -> Self {
        let mut status = Status::default();
        let Some(file) = small_file::open(c"/proc/self/status") else {
            return status;
        };
        // The list of groups comes before the lines that are wanted, and may have any length.
        let mut room = [0u8; 2048];
        let mut held = 0;
        while let Ok(read) = file::read(&file, &mut room[held..]) {
            held += read;
            let whole = room[..held].iter().rposition(|&byte| byte == b'\n');
            let done = match whole {
                Some(newline) => newline + 1,
                None if held == room.len() => held,
                None => 0,
            };
            status.take_lines(&room[..done]);
            room.copy_within(done..held, 0);
            held -= done;
            if read == 0 || status.resident.is_some() {
                break;
            }
        }
        status
    }

    /// `VmHWM` is the line right before `VmRSS`.
    fn take_lines(&mut self, text: &[u8]) {
        for line in text.split(|&byte| byte == b'\n') {
            if let Some(value) = line.strip_prefix(b"VmHWM:") {
                self.high_water_mark = small_file::kilobytes(value);
            } else if let Some(value) = line.strip_prefix(b"VmRSS:") {
                self.resident = small_file::kilobytes(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_high_water_mark_and_never_below_a_size_that_was_read() {
        let first = resident();
        assert_eq!(first.source, Source::HighWaterMark);
        assert!(first.now.unwrap() > 100_000);
        assert!(first.peak >= first.now.unwrap());
        note(first.peak + 4096);
        assert!(resident().peak >= first.peak + 4096);
    }

    #[test]
    fn the_lines_of_a_status_are_read_whatever_else_there_is() {
        let mut status = Status::default();
        status.take_lines(b"Name:\tx\nGroups:\t1 2 3\nVmPeak:\t  99 kB\nVmHWM:\t   32 kB\n");
        status.take_lines(b"VmRSS:\t   12 kB\nRssAnon:\t 7 kB\n");
        assert_eq!(status.high_water_mark, Some(32 * 1024));
        assert_eq!(status.resident, Some(12 * 1024));
        let mut garbage = Status::default();
        garbage.take_lines(b"VmHWM:\t kB\nVmRSS:\t-1 kB\nVmRSS:\t12\n");
        assert_eq!(garbage, Status::default());
    }

    #[test]
    fn a_childs_figure_counts_only_above_its_parents_peak() {
        let judge = |figure, earlier, own| LargestChild::judge(figure, earlier, own).peak;
        assert_eq!(judge(600, 0, 100), Some(600));
        assert_eq!(judge(600, 600, 100), None, "a child of the program before");
        assert_eq!(judge(100, 0, 100), None, "the parent's size at the fork");
        assert_eq!(judge(0, 0, 100), None, "no child");
    }
}
