//! Moments: nanoseconds of the system's clocks. Neither allocates nor locks.

#![allow(unsafe_code)]

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills a structure of ours.
    unsafe { libc::clock_gettime(clock, &mut time) };
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
