//! The functions by which a thread waits, as the executable exports them: a program that waits gives back the memory that
//! its heaps keep free.
//!
//! The heaps look at what is free when memory is freed or taken, which a program that sleeps does not do, and the host has
//! no thread of its own. So a wait that may be long is made in two parts. If nothing has come by the end of the first one,
//! and no page of the heaps has become empty meanwhile, in whichever thread, all that is free goes back; then the wait goes
//! on. A wait that ends within the first part is the same call as without the host.
//!
//! Not seen: waits in `read`, `accept`, `waitpid`, on a condition, and by a call of the kernel; those are no longer nor
//! shorter than without the host, either.
//!
//! Any thread, and inside signal handlers: nothing here allocates or locks. What preloaded libraries do in these functions
//! they do in both parts.

#![allow(unsafe_code)]

use crate::heap::profile::Wait;
use crate::native::next::{self, call};
use libc::{clockid_t, epoll_event, fd_set, nfds_t, pollfd, sem_t, sigset_t, timespec, timeval};
use std::ffi::c_int;

/// Milliseconds of the first part. To have all of 128 MiB again takes about as long.
const FIRST: c_int = 50;
const FIRST_NANOSECONDS: i64 = FIRST as i64 * 1_000_000;
/// Descriptors that a set of `select` has room for.
const SET: usize = 1024;

/// Nanoseconds of a clock.
fn now(clock: clockid_t) -> i64 {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills the structure.
    unsafe { libc::clock_gettime(clock, &mut time) };
    nanoseconds(&time)
}

fn nanoseconds(time: &timespec) -> i64 {
    let whole = time.tv_sec.saturating_mul(1_000_000_000);
    whole.saturating_add(time.tv_nsec)
}

fn moment(nanoseconds: i64) -> timespec {
    timespec {
        tv_sec: nanoseconds / 1_000_000_000,
        tv_nsec: nanoseconds % 1_000_000_000,
    }
}

/// Waits for `timeout` milliseconds, without end below 0. `wait` returns 0 if nothing has come.
fn in_two(timeout: c_int, wait: impl Fn(c_int) -> c_int) -> c_int {
    let is_short = (0..=FIRST).contains(&timeout);
    let Some(begun) = Wait::begins().filter(|_| !is_short) else {
        return wait(timeout);
    };
    let start = now(libc::CLOCK_MONOTONIC);
    match wait(FIRST) {
        0 => begun.is_long(),
        result => return result,
    }
    let passed = (now(libc::CLOCK_MONOTONIC) - start) / 1_000_000;
    wait(match timeout {
        ..0 => timeout,
        _ => (i64::from(timeout) - passed).max(0) as c_int,
    })
}

/// Waits until a moment of a clock, without end if there is none. `wait` waits until the moment that it is given, and
/// returns false if that came first.
fn until(clock: clockid_t, end: Option<&timespec>, wait: impl FnOnce(&timespec) -> bool) -> bool {
    let Some(begun) = Wait::begins() else {
        return false;
    };
    let first = now(clock).saturating_add(FIRST_NANOSECONDS);
    if end.is_some_and(|end| nanoseconds(end) <= first) {
        return false;
    }
    let is_over = wait(&moment(first));
    if !is_over {
        begun.is_long();
    }
    is_over
}

/// `poll(2)`.
///
/// # Safety
/// As the manual says, like all functions below.
#[unsafe(no_mangle)]
unsafe extern "C" fn poll(files: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    in_two(timeout, |timeout| unsafe {
        call!(POLL(files, count, timeout), -1)
    })
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
    in_two(timeout, |timeout| unsafe {
        call!(EPOLL_WAIT(file, events, most, timeout), -1)
    })
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
    in_two(timeout, |timeout| unsafe {
        call!(EPOLL_PWAIT(file, events, most, timeout, signals), -1)
    })
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
        let wait = |time| call!(SELECT(count, reading, writing, exceptions, time), -1);
        let asked = time.as_ref().map(|time| {
            nanoseconds(&timespec {
                tv_sec: time.tv_sec,
                tv_nsec: time.tv_usec.saturating_mul(1000),
            })
        });
        let is_short = asked.is_some_and(|asked| asked <= FIRST_NANOSECONDS);
        let begun = Wait::begins().filter(|_| !is_short && (0..=SET as c_int).contains(&count));
        let Some(begun) = begun else {
            return wait(time);
        };
        // An array of longs, of which the kernel writes as many as it needs.
        let bytes = (count as usize).div_ceil(usize::BITS as usize) * size_of::<usize>();
        let sets = [reading, writing, exceptions];
        let mut kept = [[0_u8; SET / 8]; 3];
        for (set, kept) in sets.iter().zip(&mut kept) {
            if !set.is_null() {
                set.cast::<u8>()
                    .copy_to_nonoverlapping(kept.as_mut_ptr(), bytes);
            }
        }
        let start = now(libc::CLOCK_MONOTONIC);
        let mut first = timeval {
            tv_sec: 0,
            tv_usec: (FIRST * 1000).into(),
        };
        let result = wait(&mut first);
        if result == 0 {
            begun.is_long();
        }
        if let (Some(asked), Some(time)) = (asked, time.as_mut()) {
            let left = moment((asked.saturating_sub(now(libc::CLOCK_MONOTONIC) - start)).max(0));
            time.tv_sec = left.tv_sec;
            time.tv_usec = left.tv_nsec / 1000;
        }
        if result != 0 {
            return result;
        }
        for (set, kept) in sets.iter().zip(&kept) {
            if !set.is_null() {
                set.cast::<u8>()
                    .copy_from_nonoverlapping(kept.as_ptr(), bytes);
            }
        }
        wait(time)
    }
}

/// `clock_nanosleep(2)`. In two parts only to a moment: the rest of another sleep would have to be told if it is
/// interrupted.
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
        let sleep = |time| call!(CLOCK_NANOSLEEP(clock, flags, time, left), libc::ENOSYS);
        let mut result = 0;
        if flags == libc::TIMER_ABSTIME
            && let Some(end) = time.as_ref()
        {
            until(clock, Some(end), |first| {
                result = sleep(first);
                result != 0
            });
        }
        match result {
            0 => sleep(time),
            result => result,
        }
    }
}

/// Waits for a semaphore until the first part is over. Returns whether that decided the result: 0 or -1.
///
/// # Safety
/// A semaphore.
unsafe fn first_wait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    end: Option<&timespec>,
) -> Option<c_int> {
    let wait = next::SEM_CLOCKWAIT.get()?; // of glibc 2.30
    let mut result = 0;
    let is_over = until(clock, end, |first| {
        // SAFETY: the caller's promise.
        result = unsafe { wait(semaphore, clock, first) };
        // SAFETY: the calling thread's own.
        result == 0 || unsafe { *libc::__errno_location() } == libc::EINTR
    });
    is_over.then_some(result)
}

/// `sem_wait(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_wait(semaphore: *mut sem_t) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    unsafe {
        let first = first_wait(semaphore, libc::CLOCK_MONOTONIC, None);
        first.unwrap_or_else(|| call!(SEM_WAIT(semaphore), -1))
    }
}

/// `sem_timedwait(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_timedwait(semaphore: *mut sem_t, end: *const timespec) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    unsafe {
        let first = end
            .as_ref()
            .and_then(|end| first_wait(semaphore, libc::CLOCK_REALTIME, Some(end)));
        first.unwrap_or_else(|| call!(SEM_TIMEDWAIT(semaphore, end), -1))
    }
}

/// `sem_clockwait(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_clockwait(
    semaphore: *mut sem_t,
    clock: clockid_t,
    end: *const timespec,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    unsafe {
        let first = end
            .as_ref()
            .and_then(|end| first_wait(semaphore, clock, Some(end)));
        first.unwrap_or_else(|| call!(SEM_CLOCKWAIT(semaphore, clock, end), -1))
    }
}
