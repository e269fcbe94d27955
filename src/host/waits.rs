//! The functions by which a thread waits, as the executable exports them: a program that waits gives back the memory that
//! its heaps keep free.
//!
//! The heaps look at what is free when memory is freed or taken, which a program that sleeps does not do, and the host has
//! no thread of its own. So a wait that may be long, in a process that has freed memory since the heaps last gave back, is
//! made in two parts. If nothing has come by the end of the first one, and no page of the heaps has become empty meanwhile,
//! in whichever thread, all that is free goes back; then the wait goes on.
//!
//! Between the parts signals are blocked, and each part waits with the caller's mask: a signal that came between them
//! would interrupt nothing, and its handler's word would be lost. A lock has no wait of that kind (`sem_wait`), nor has
//! `read`, `accept` or `waitpid`: those are as without the host.
//!
//! Any thread, and inside signal handlers: nothing here allocates or locks.

#![allow(unsafe_code)]

use crate::heap::profile::Wait;
use crate::native::next::{self, call};
use libc::{clockid_t, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use pyhost_os::moment::monotonic;
use pyhost_os::signals::SignalSet;
use std::ffi::c_int;
use std::ptr::{from_ref, null_mut};

/// Nanoseconds of the first part. To have all of 128 MiB again takes about as long.
const FIRST: u64 = 50_000_000;
/// Descriptors that a set of `select` has room for.
const SET: usize = 1024;
const SECOND: u64 = 1_000_000_000;
/// Signals of faults, which no thread can put off.
const FAULTS: [c_int; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
];

/// Waits for so many nanoseconds, without end if `None`, in two parts; `None` if this wait is to be made in one. `wait`
/// waits with a mask of signals, and returns 0 if nothing has come.
fn in_two(
    nanoseconds: Option<u64>,
    mut wait: impl FnMut(Option<&timespec>, &SignalSet) -> c_int,
) -> Option<c_int> {
    if nanoseconds.is_some_and(|nanoseconds| nanoseconds <= FIRST) {
        return None;
    }
    let begun = Wait::begins()?;
    let mut blocked = SignalSet::all();
    for signal in FAULTS {
        blocked.remove(signal);
    }
    let start = monotonic();
    let mask = blocked.block();
    let mut result = wait(Some(&moment(FIRST)), &mask);
    if result == 0 {
        begun.is_long();
        let rest = nanoseconds.map(|all| moment(all.saturating_sub(monotonic() - start)));
        result = wait(rest.as_ref(), &mask);
    }
    mask.make_mask();
    Some(result)
}

fn moment(nanoseconds: u64) -> timespec {
    timespec {
        tv_sec: (nanoseconds / SECOND) as libc::time_t,
        tv_nsec: (nanoseconds % SECOND) as _,
    }
}

/// Nanoseconds of seconds and a part of one; `None` if the kernel would refuse them.
fn nanoseconds(seconds: i64, part: i64) -> Option<u64> {
    let (seconds, part) = (u64::try_from(seconds).ok()?, u64::try_from(part).ok()?);
    (part < SECOND).then(|| seconds.saturating_mul(SECOND).saturating_add(part))
}

/// Milliseconds as the functions below take them: without end below 0.
fn milliseconds(timeout: c_int) -> Option<u64> {
    u64::try_from(timeout)
        .ok()
        .map(|timeout| timeout * 1_000_000)
}

/// Milliseconds of a part, of which a begun one counts whole.
fn part(time: Option<&timespec>) -> c_int {
    let Some(time) = time else { return -1 };
    let all = nanoseconds(time.tv_sec, time.tv_nsec).unwrap_or(0);
    c_int::try_from(all.div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

fn pointer(time: Option<&timespec>) -> *const timespec {
    time.map_or(std::ptr::null(), from_ref)
}

/// `poll(2)`.
///
/// # Safety
/// As the manual says, like all functions below.
#[unsafe(no_mangle)]
unsafe extern "C" fn poll(files: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    unsafe {
        in_two(milliseconds(timeout), |time, mask| {
            libc::ppoll(files, count, pointer(time), mask.as_ptr())
        })
        .unwrap_or_else(|| call!(POLL(files, count, timeout), -1))
    }
}

/// `epoll_wait(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_wait(
    file: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    unsafe {
        in_two(milliseconds(timeout), |time, mask| {
            let timeout = part(time);
            call!(EPOLL_PWAIT(file, events, most, timeout, mask.as_ptr()), -1)
        })
        .unwrap_or_else(|| call!(EPOLL_WAIT(file, events, most, timeout), -1))
    }
}

/// `epoll_pwait(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(
    file: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    signals: *const sigset_t,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    unsafe {
        in_two(milliseconds(timeout), |time, mask| {
            let timeout = part(time);
            let mask = if signals.is_null() {
                mask.as_ptr()
            } else {
                signals
            };
            call!(EPOLL_PWAIT(file, events, most, timeout, mask), -1)
        })
        .unwrap_or_else(|| call!(EPOLL_PWAIT(file, events, most, timeout, signals), -1))
    }
}

/// `select(2)`. As the kernel does, it writes what is left of the time.
#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: c_int,
    reading: *mut fd_set,
    writing: *mut fd_set,
    exceptions: *mut fd_set,
    time: *mut timeval,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties; the sets have room for as many descriptors as are asked for.
    unsafe {
        let plain = || call!(SELECT(count, reading, writing, exceptions, time), -1);
        let asked = match time.as_ref() {
            None => None,
            Some(time) => match nanoseconds(time.tv_sec, time.tv_usec.saturating_mul(1000)) {
                None => return plain(),
                asked => asked,
            },
        };
        if !(0..=SET as c_int).contains(&count) {
            return plain();
        }
        let sets = [reading, writing, exceptions].map(|set| Set::of(set, count as usize));
        let start = monotonic();
        let result = in_two(asked, |part, mask| {
            sets.iter().for_each(Set::restore);
            let mask = mask.as_ptr();
            libc::pselect(count, reading, writing, exceptions, pointer(part), mask)
        });
        let Some(result) = result else {
            return plain();
        };
        if let (Some(asked), Some(time)) = (asked, time.as_mut()) {
            let left = moment(asked.saturating_sub(monotonic() - start));
            (time.tv_sec, time.tv_usec) = (left.tv_sec, left.tv_nsec / 1000);
        }
        result
    }
}

/// A set of descriptors, which each part of a wait needs as the caller gave it.
struct Set {
    place: *mut u8,
    bytes: usize,
    kept: [u8; SET / 8],
}

impl Set {
    /// # Safety
    /// Null, or an array of longs with a bit for each of the `count` descriptors, at most [`SET`].
    unsafe fn of(set: *mut fd_set, count: usize) -> Set {
        let mut kept = [0; SET / 8];
        let bytes = match set.is_null() {
            true => 0,
            false => count.div_ceil(usize::BITS as usize) * size_of::<usize>(),
        };
        let place = set.cast::<u8>();
        if bytes > 0 {
            // SAFETY: the caller's promise.
            unsafe { place.copy_to_nonoverlapping(kept.as_mut_ptr(), bytes) };
        }
        Set { place, bytes, kept }
    }

    fn restore(&self) {
        if self.bytes > 0 {
            // SAFETY: as in `of`.
            unsafe {
                self.place
                    .copy_from_nonoverlapping(self.kept.as_ptr(), self.bytes)
            };
        }
    }
}

/// `clock_nanosleep(2)`. In two parts only to a moment of the clock that `ppoll` waits by: the rest of another sleep would
/// have to be written if it is interrupted.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    unsafe {
        if clock == libc::CLOCK_MONOTONIC
            && flags == libc::TIMER_ABSTIME
            && let Some(end) = time.as_ref()
            && let Some(end) = nanoseconds(end.tv_sec, end.tv_nsec)
        {
            let slept = in_two(Some(end.saturating_sub(monotonic())), |part, mask| {
                libc::ppoll(null_mut(), 0, pointer(part), mask.as_ptr())
            });
            if slept.is_some_and(|result| result < 0) {
                return libc::EINTR;
            }
        }
        // After a sleep in two parts the moment is there, or nearly.
        call!(CLOCK_NANOSLEEP(clock, flags, time, left), libc::ENOSYS)
    }
}
