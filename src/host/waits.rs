//! The functions by which a thread waits, as the executable exports them: a program that waits gives back the memory that
//! its heaps keep free.
//!
//! The heaps look at what is free when memory is freed or taken, which a program that sleeps does not do, and the host has
//! no thread of its own. So a wait that may be long, in a process that has freed memory since the heaps last gave back,
//! ends after its first 50 ms as if a signal had come (`EINTR`). If no page of the heaps has become empty meanwhile, in
//! whichever thread, all that is free goes back first. The caller then waits for the rest.
//!
//! Only callers are told so that wait again after every signal: CPython's own modules (PEP 475) and the loops of uvloop and
//! gevent. CPython looks for signals before it waits again, so one that comes while memory goes back is not missed; a wait
//! that went on here would miss it, and with signals blocked another thread would get it. `sem_wait`, `read`, `accept` and
//! `waitpid` are as without the host.
//!
//! The functions are C's, in `waits.c`: the caller's address is known there alone. Any thread, and inside signal handlers:
//! nothing here allocates or locks.

#![allow(unsafe_code)]

use crate::errno::Errno;
use crate::heap::profile::Wait;
use crate::native::next::{self, call};
use crate::process::loaded;
use libc::{clockid_t, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use pyhost_os::moment::monotonic;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Nanoseconds of the first part. To have all of 128 MiB again takes about as long.
const FIRST: u64 = 50_000_000;
const FIRST_MILLISECONDS: c_int = (FIRST / 1_000_000) as c_int;
/// Descriptors that a set of `select` has room for.
const SET: usize = 1024;
const SECOND: u64 = 1_000_000_000;
/// Parts of the paths of libraries that wait again after a signal, beside the interpreter itself.
const WAIT_AGAIN: [&[u8]; 3] = [b"/lib-dynload/", b"/uvloop/", b"/gevent/"];

/// Where the executable or the library with the interpreter's code lies; 0 before it is known.
static INTERPRETER: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

thread_local! {
    /// Whether the thread was told of a signal that did not come: its next wait is the rest of that one.
    static IS_REST: Cell<bool> = const { Cell::new(false) };
}

/// Has waits give back memory. Once, by the only thread; `interpreter` is an address in CPython's code.
pub fn start(interpreter: usize) {
    loaded::each(|object| {
        if object.holds(interpreter) {
            let parts = || object.segments().filter(|it| it.kind == libc::PT_LOAD);
            let start = parts().map(|it| it.addresses.start).min().unwrap_or(0);
            let end = parts().map(|it| it.addresses.end).max().unwrap_or(0);
            INTERPRETER[0].store(start, Relaxed);
            INTERPRETER[1].store(end, Relaxed);
        }
    });
    // Before glibc 2.35 nothing says without a lock which library an address lies in: then only the interpreter's own waits
    // are made in parts.
    let _ = pyhost_unwind::learn_objects();
}

/// Whether the caller waits again after a signal.
fn waits_again(caller: usize) -> bool {
    let [start, end] = [0, 1].map(|it| INTERPRETER[it].load(Relaxed));
    if (start..end).contains(&caller) {
        return true;
    }
    let Some(object) = pyhost_unwind::object_of(caller) else {
        return false;
    };
    let holds = |part: &&[u8]| object.path().windows(part.len()).any(|it| it == *part);
    WAIT_AGAIN.iter().any(holds)
}

/// Waits for so many nanoseconds, without end if `None`: the `first` part of it, which returns 0 if nothing has come, or
/// the `whole`. -1 and `EINTR` after a first part in which nothing came.
fn in_parts(
    nanoseconds: Option<u64>,
    caller: usize,
    whole: impl FnOnce() -> c_int,
    first: impl FnOnce() -> c_int,
) -> c_int {
    let is_rest = IS_REST.replace(false);
    let may_part = !is_rest && nanoseconds.is_none_or(|nanoseconds| nanoseconds > FIRST);
    let begun = may_part.then(Wait::begins).flatten();
    let Some(begun) = begun.filter(|_| waits_again(caller)) else {
        return whole();
    };
    let result = first();
    if result != 0 {
        return result;
    }
    begun.is_long();
    IS_REST.set(true);
    Errno(libc::EINTR).set();
    -1
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

/// `poll(2)`.
///
/// # Safety
/// As the manual says, like all functions below. The caller is the one of the exported function.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_poll(
    files: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    caller: usize,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    let wait = |timeout| unsafe { call!(POLL(files, count, timeout), -1) };
    let first = || wait(FIRST_MILLISECONDS);
    in_parts(milliseconds(timeout), caller, || wait(timeout), first)
}

/// `epoll_wait(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_epoll_wait(
    file: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    caller: usize,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    let wait = |timeout| unsafe { call!(EPOLL_WAIT(file, events, most, timeout), -1) };
    let first = || wait(FIRST_MILLISECONDS);
    in_parts(milliseconds(timeout), caller, || wait(timeout), first)
}

/// `epoll_pwait(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_epoll_pwait(
    file: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: c_int,
    signals: *const sigset_t,
    caller: usize,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    let wait = |timeout| unsafe { call!(EPOLL_PWAIT(file, events, most, timeout, signals), -1) };
    let first = || wait(FIRST_MILLISECONDS);
    in_parts(milliseconds(timeout), caller, || wait(timeout), first)
}

/// `select(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_select(
    count: c_int,
    reading: *mut fd_set,
    writing: *mut fd_set,
    exceptions: *mut fd_set,
    time: *mut timeval,
    caller: usize,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties; the sets have room for as many descriptors as are asked for.
    unsafe {
        let wait = |time| call!(SELECT(count, reading, writing, exceptions, time), -1);
        let asked = match time.as_ref() {
            None => None,
            Some(given) => match nanoseconds(given.tv_sec, given.tv_usec.saturating_mul(1000)) {
                None => return wait(time),
                asked => asked,
            },
        };
        if !(0..=SET as c_int).contains(&count) {
            return wait(time);
        }
        let first = || {
            let sets = [reading, writing, exceptions].map(|set| Set::of(set, count as usize));
            let mut part = timeval {
                tv_sec: 0,
                tv_usec: (FIRST / 1000) as _,
            };
            let result = wait(&mut part);
            if result == 0 {
                // A wait that a signal interrupts leaves the sets as they were.
                sets.iter().for_each(Set::restore);
            }
            result
        };
        in_parts(asked, caller, || wait(time), first)
    }
}

/// A set of descriptors as a caller gave it.
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

/// `clock_nanosleep(2)`. In parts only to a moment of the clock that [`monotonic`] reads: the rest of another sleep would
/// have to be written if it is interrupted.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
    caller: usize,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    let wait = |time| unsafe { call!(CLOCK_NANOSLEEP(clock, flags, time, left), libc::ENOSYS) };
    // SAFETY: as above.
    let end = unsafe { time.as_ref() }.and_then(|it| nanoseconds(it.tv_sec, it.tv_nsec));
    let (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, Some(end)) = (clock, flags, end) else {
        return wait(time);
    };
    let now = monotonic();
    let first = || {
        let end = now.saturating_add(FIRST);
        wait(&timespec {
            tv_sec: (end / SECOND) as libc::time_t,
            tv_nsec: (end % SECOND) as _,
        })
    };
    let whole = || wait(time);
    match in_parts(Some(end.saturating_sub(now)), caller, whole, first) {
        -1 => libc::EINTR,
        result => result,
    }
}
