//! Moments: nanoseconds of the system's clocks. Neither allocates nor locks.

use crate::{calls, mapping::FromZeros};
use humantime::{format_rfc3339_seconds, parse_rfc3339};
use std::fmt::{self, Display};
use std::time::{Duration, UNIX_EPOCH};

/// The time of a clock in nanoseconds; 0 if the clock does not exist.
pub fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec::zeroed();
    calls::clock_gettime(clock, &mut time);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since the epoch, of `CLOCK_REALTIME`.
pub fn now() -> u64 {
    nanoseconds(libc::CLOCK_REALTIME)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, which every process of a machine reads alike.
pub fn monotonic() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of [`monotonic`]'s clock as of the last tick, which is cheaper to read.
pub fn monotonic_coarse() -> u64 {
    nanoseconds(libc::CLOCK_MONOTONIC_COARSE)
}

/// Waits until something `is_so`: looks again after each `pause`, and returns false after `patience`. In nanoseconds.
pub fn wait_until(patience: u64, pause: u64, mut is_so: impl FnMut() -> bool) -> bool {
    let since = monotonic();
    while !is_so() {
        if monotonic() - since > patience {
            return false;
        }
        let pause = libc::timespec {
            tv_sec: 0,
            tv_nsec: pause as libc::c_long,
        };
        calls::nanosleep(&pause, None);
    }
    true
}

/// A moment of [`now`] in UTC, to the second, as RFC 3339: `2026-11-21T13:08:00Z`. Of any thread, and
/// of signal handlers too: `gmtime_r` may take the lock of the time zone.
#[derive(Clone, Copy, Debug)]
pub struct Utc(pub u64);

impl Utc {
    /// Reads the form that is shown, of years before 2262: signed numbers of 64 bits count no later nanosecond.
    pub fn of_text(text: &str) -> Option<Self> {
        let since = parse_rfc3339(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        let moment = Utc(i64::try_from(since.as_nanos()).ok()? as u64);
        // Whatever is shown otherwise was not of that form.
        (moment.to_string() == text).then_some(moment)
    }
}

impl Display for Utc {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(self.0)).fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_date_and_a_time_of_utc() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_795_266_480, "2026-11-21T13:08:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (13_569_465_599, "2399-12-31T23:59:59Z"),
        ] {
            assert_eq!(Utc(seconds * 1_000_000_000 + 7).to_string(), expected);
        }
    }

    #[test]
    fn a_moment_that_was_shown_is_read_again() {
        for seconds in (0..9_214_646_400).step_by(1_234_567) {
            let moment = Utc(seconds * 1_000_000_000);
            let read = Utc::of_text(&moment.to_string());
            assert_eq!(read.map(|read| read.0), Some(moment.0), "{moment}");
        }
        for text in "|2026|2026-11-21|2026-11-21T13:08:00|2026-11-21T13:08:00Z |2026-02-29T00:00:00Z|\
            2026-00-01T00:00:00Z|2026-13-01T00:00:00Z|2026-01-00T00:00:00Z|2026-01-01T24:00:00Z|\
            +026-01-01T00:00:00Z|1969-12-31T23:59:59Z|9999-01-01T00:00:00Z|2026-11-2\u{e9}T13:08:00Z"
            .split('|')
        {
            assert!(Utc::of_text(text).is_none(), "{text}");
        }
    }
}
