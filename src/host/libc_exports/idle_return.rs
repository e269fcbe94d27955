//! The functions by which a thread waits, as the executable exports them: a program that waits gives back the memory that
//! its heaps keep free.
//!
//! The heaps look at what is free when memory is freed or taken, which a program that sleeps does not do, and the host has
//! no thread of its own. So a wait that may be long, in a process that has freed memory since the heaps last gave back, is
//! made in two parts. If nothing has come by the end of the first one, and no thread has taken memory or emptied a page of the
//! heaps meanwhile, all that is free goes back; then the wait goes on.
//!
//! A signal that comes between the parts would not interrupt the wait. Handlers of Python run in the main thread, which
//! asks CPython after the first part whether one is due, and then ends the wait as the signal would have. From that
//! question on signals are blocked, and the second part waits with the caller's mask. A signal of the process that comes between
//! these two is handled by another thread, if there is one that does not block it: so the second part is made in slices, each
//! twice as long as the one before, and CPython is asked before each. Without such a signal no wait ends
//! early: CPython would wait for the GIL first, and could then miss data that came in time. Handlers in C are not asked
//! about, so only callers are made to wait so that need none: CPython's modules and the loops of uvloop and gevent.
//!
//! `sem_wait`, `read`, `accept` and `waitpid` are as without the host. The functions are C's, in `idle_return.c`: the caller's
//! address is known there alone. Any thread, and inside signal handlers: nothing here allocates or locks.

#![allow(unsafe_code)]

use crate::libc_exports::native::next::{self, call};
use crate::limit::{caps, recycling};
use crate::{errno::Errno, heap::retention::Wait, process::loaded};
use libc::{clockid_t, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use pyhost_os::signals::{FAULTS, SignalSet};
use pyhost_os::{clock::monotonic, process::is_first_thread};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{ffi::c_int, sync::OnceLock};

/// Nanoseconds of the first part. To have all of 128 MiB again takes about as long. No round number, at which timers end.
const FIRST: u64 = 53_000_000;
/// Descriptors that a set of `select` has room for.
const SET: usize = 1024;
const SECOND: u64 = 1_000_000_000;

pyhost_os::state! {
    /// What tells a wait of the interpreter's from others.
    static STATE: IdleReturn {
        /// Where the executable or the library with the interpreter's code lies; 0 before it is known.
        interpreter: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)],
        signal_is_due: OnceLock<fn() -> bool> = OnceLock::new(),
    }
}

/// A mask of signals to wait with; `None` for the thread's own.
type Mask<'a> = Option<&'a SignalSet>;

/// Makes waits give back memory. Once, by the only thread; `interpreter` is an address in CPython's code, and the function
/// says whether a signal has come whose handler in Python has not run yet: from any thread, without the GIL.
pub fn start(interpreter: usize, signal_is_due: fn() -> bool) {
    let _ = STATE.signal_is_due.set(signal_is_due);
    loaded::each(|object| {
        if object.holds(interpreter) {
            let parts = || object.segments().filter(|it| it.kind == libc::PT_LOAD);
            let start = parts().map(|it| it.addresses.start).min().unwrap_or(0);
            let end = parts().map(|it| it.addresses.end).max().unwrap_or(0);
            STATE.interpreter[0].store(start, Relaxed);
            STATE.interpreter[1].store(end, Relaxed);
        }
    });
    // Before glibc 2.35 nothing says without a lock which library an address lies in: then only the interpreter's own waits
    // are made in parts.
    let _ = pyhost_unwind::learn_objects();
}

/// Whether the caller's waits are made in parts.
fn may_part(caller: usize) -> bool {
    let [start, end] = [0, 1].map(|it| STATE.interpreter[it].load(Relaxed));
    if (start..end).contains(&caller) || start == 0 {
        return start != 0;
    }
    let Some(object) = pyhost_unwind::object_of(caller) else {
        return false;
    };
    let mut names = object.path().rsplit(|&byte| byte == b'/').skip(1);
    match names.next() {
        Some(b"lib-dynload" | b"uvloop") => true,
        Some(b"libev" | b"libuv") => names.next() == Some(b"gevent"),
        _ => false,
    }
}

/// Waits for so many nanoseconds, without end if `None`: as a `whole`, or in parts. `part` waits for so long with a mask of
/// signals, and returns 0 if nothing has come.
fn in_parts(
    nanoseconds: Option<u64>,
    caller: usize,
    whole: impl FnOnce() -> c_int,
    mut part: impl FnMut(Option<u64>, Mask<'_>) -> c_int,
) -> c_int {
    let is_long = nanoseconds.is_none_or(|nanoseconds| nanoseconds > FIRST);
    if is_long {
        caps::rests();
    }
    if recycling::is_on() && may_part(caller) && recycling::interrupts_wait() {
        Errno(libc::EINTR).set();
        return -1;
    }
    let begun = is_long.then(Wait::begins).flatten();
    let Some(begun) = begun.filter(|_| may_part(caller)) else {
        return whole();
    };
    let start = monotonic();
    let rest = || nanoseconds.map(|all| all.saturating_sub(monotonic() - start));
    let result = part(Some(FIRST), None);
    if result != 0 {
        return result;
    }
    begun.is_long();
    if !is_first_thread() {
        return part(rest(), None);
    }
    let mut blocked = SignalSet::all();
    for signal in FAULTS {
        blocked.remove(signal);
    }
    let mut slice = SECOND;
    loop {
        let rest = rest();
        let now = rest.map_or(slice, |rest| rest.min(slice));
        let mask = blocked.block();
        let result = match STATE.signal_is_due.get().is_some_and(|is_due| is_due()) {
            true => Err(Errno(libc::EINTR)),
            false => match part(Some(now), Some(&mask)) {
                -1 => Err(Errno::last()),
                result => Ok(result),
            },
        };
        mask.make_mask();
        match result {
            Ok(0) if rest.is_none_or(|rest| rest > now) => slice *= 2,
            Ok(result) => return result,
            // A sandbox may know none of the calls that take a mask.
            Err(Errno(libc::EPERM | libc::EACCES | libc::ENOSYS)) => return part(rest, None),
            Err(error) => {
                error.set();
                return -1;
            }
        }
    }
}

fn moment(nanoseconds: u64) -> timespec {
    timespec {
        tv_sec: (nanoseconds / SECOND) as _,
        tv_nsec: (nanoseconds % SECOND) as _,
    }
}

/// Calls back with a time as the kernel takes it: null without end.
fn with_moment<T>(nanoseconds: Option<u64>, wait: impl FnOnce(*const timespec) -> T) -> T {
    match nanoseconds {
        Some(nanoseconds) => wait(&moment(nanoseconds)),
        None => wait(null()),
    }
}

/// Nanoseconds of seconds and a part of one; `None` if the kernel would refuse them.
fn nanoseconds(seconds: impl TryInto<u64>, part: impl TryInto<u64>) -> Option<u64> {
    let (seconds, part) = (seconds.try_into().ok()?, part.try_into().ok()?);
    (part < SECOND).then(|| seconds.saturating_mul(SECOND).saturating_add(part))
}

/// Milliseconds as the functions below take them: without end below 0.
fn milliseconds(timeout: c_int) -> Option<u64> {
    Some(u64::try_from(timeout).ok()? * 1_000_000)
}

/// Milliseconds of a part, of which a begun one counts whole.
fn of_part(nanoseconds: Option<u64>) -> c_int {
    let milliseconds = nanoseconds.map(|all| all.div_ceil(1_000_000).try_into());
    milliseconds.map_or(-1, |all| all.unwrap_or(c_int::MAX))
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
    let part = |time, mask: Mask<'_>| match mask {
        None => wait(of_part(time)),
        // SAFETY: as above.
        Some(mask) => with_moment(time, |time| unsafe {
            call!(PPOLL(files, count, time, mask.as_ptr()), -1)
        }),
    };
    in_parts(milliseconds(timeout), caller, || wait(timeout), part)
}

/// `ppoll(2)`, by which CPython 3.15 polls.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_ppoll(
    files: *mut pollfd,
    count: nfds_t,
    time: *const timespec,
    signals: *const sigset_t,
    caller: usize,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    let wait = |time, mask| unsafe { call!(PPOLL(files, count, time, mask), -1) };
    // SAFETY: as above.
    let asked = unsafe { time.as_ref() }.map(|given| nanoseconds(given.tv_sec, given.tv_nsec));
    if asked == Some(None) {
        return wait(time, signals);
    }
    let whole = || wait(time, signals);
    in_parts(asked.flatten(), caller, whole, |time, mask| {
        let mask = mask.filter(|_| signals.is_null());
        let mask = mask.map_or(signals, SignalSet::as_ptr);
        with_moment(time, |time| wait(time, mask))
    })
}

/// `epoll_pwait(2)`, which without a mask is `epoll_wait(2)`: a sandbox may know that alone.
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
    let wait = |timeout, mask: *const sigset_t| unsafe {
        match mask.is_null() {
            true => call!(EPOLL_WAIT(file, events, most, timeout), -1),
            false => call!(EPOLL_PWAIT(file, events, most, timeout, mask), -1),
        }
    };
    let whole = || wait(timeout, signals);
    in_parts(milliseconds(timeout), caller, whole, |time, mask| {
        let mask = mask.filter(|_| signals.is_null());
        wait(of_part(time), mask.map_or(signals, SignalSet::as_ptr))
    })
}

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
        let asked = time.as_ref().map(|given| {
            let part = (given.tv_usec as libc::c_long).saturating_mul(1000);
            nanoseconds(given.tv_sec, part)
        });
        if asked == Some(None) || !(0..=SET as c_int).contains(&count) {
            return wait(time);
        }
        let sets = [reading, writing, exceptions].map(|set| Set::of(set, count as usize));
        let part = |part, mask: Mask<'_>| {
            sets.iter().for_each(Set::restore);
            with_moment(part, |part| match (mask, part.as_ref()) {
                (Some(mask), _) => {
                    libc::pselect(count, reading, writing, exceptions, part, mask.as_ptr())
                }
                (None, None) => wait(null_mut()),
                (None, Some(part)) => wait(&mut timeval {
                    tv_sec: part.tv_sec,
                    tv_usec: (part.tv_nsec + 999) / 1000,
                }),
            })
        };
        let result = in_parts(asked.flatten(), caller, || wait(time), part);
        if result < 0 {
            // The kernel leaves them as they were, too.
            sets.iter().for_each(Set::restore);
        }
        result
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
            unsafe { (self.place).copy_from_nonoverlapping(self.kept.as_ptr(), self.bytes) };
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
    let left = end.saturating_sub(monotonic());
    let part = |part, mask: Mask<'_>| match mask {
        // SAFETY: there are no files.
        Some(mask) => with_moment(part, |part| unsafe {
            call!(PPOLL(null_mut(), 0, part, mask.as_ptr()), -1)
        }),
        None => wait(&moment(monotonic().saturating_add(part.unwrap_or(0)))),
    };
    match in_parts(Some(left), caller, || wait(time), part) {
        -1 => Errno::last().0,
        // Or nearly.
        0 => wait(time),
        error => error,
    }
}
