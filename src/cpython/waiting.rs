//! The calls of a sample of a thread that runs no Python: of a library's own thread. The memory is the line's that waits for
//! it, in a call of that library.
//!
//! Nobody says which line waits for which thread. So all threads of Python are looked at that are in a call of C: one that has
//! given up the GIL and computes, or waits for another thread and not for what is CPython's own (a lock, the GIL); and the
//! holder of the GIL if it waits so. If one is left it is the one, else each gets a share of the samples. A call of the host's
//! own, the innermost, says so. If none is left there is no line.
//!
//! The caps notify that line's thread when libraries have grown.
//!
//! For callers inside an allocator, as [`super::frames`]. A thread without the GIL cannot run Python while the calling thread has
//! the mutex by which it would take that, so its structures may be read. The holder of the GIL may go on at any moment. So
//! what is its own is copied by the system, which refuses addresses that are gone; and it counts only if its clock says that it
//! has not run meanwhile. Locks are taken at once or not at all.

#![allow(unsafe_code)]

use super::frames::{Taker, give_calls};
use crate::heap::pages;
use crate::heap::sampling::{Call, HOSTS_FILE, Step};
use pyhost_os::{clock::nanoseconds, errno::KeptErrno, process::system_call_of};
use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

// SAFETY: as `frames.c` defines them. Threads of the list last between `pyhost_take_threads` and `pyhost_leave_threads`.
unsafe extern "C" {
    safe fn pyhost_take_threads() -> c_int;
    safe fn pyhost_leave_threads();
    fn pyhost_next_thread(
        thread: *const c_void,
        clock: &mut libc::clockid_t,
        is_still: &mut c_int,
    ) -> *const c_void;
    fn pyhost_read_thread(thread: *const c_void, is_still: c_int) -> c_int;
    safe fn pyhost_is_of_runtime(address: usize) -> c_int;
    fn pyhost_thread_number(thread: *const c_void) -> usize;
}

/// Threads that are asked about; in a program with more that may wait there is no line.
pub const MOST: usize = 8;

#[derive(Clone, Copy)]
struct Waiting {
    thread: *const c_void,
    is_still: bool,
    /// It computes; or it is about to take the GIL, or has just given it up.
    runs: bool,
    clock: libc::clockid_t,
    time: u64,
}

impl Waiting {
    /// Whether it has run since it was looked at, or the system does not say.
    fn has_run(&self) -> bool {
        self.time == 0 || nanoseconds(self.clock) != self.time
    }
}

#[derive(Default)]
struct Found {
    threads: [Option<Waiting>; MOST],
    count: usize,
    /// Threads contend for the GIL.
    is_contended: bool,
}

/// The locks, until it is dropped.
struct Locks;

impl Drop for Locks {
    fn drop(&mut self) {
        pyhost_leave_threads();
    }
}

impl Locks {
    fn take() -> Option<Locks> {
        (pyhost_take_threads() != 0).then(|| Locks)
    }

    /// `None` if there are too many.
    fn find(&self) -> Option<Found> {
        let mut found = Found::default();
        let (mut thread, mut clock, mut is_still) = (null(), 0, 0);
        for asked in 0.. {
            // SAFETY: the locks are held, and the thread is null or of the list.
            thread = unsafe { pyhost_next_thread(thread, &mut clock, &mut is_still) };
            if thread.is_null() {
                break;
            }
            if asked == MOST {
                return None;
            }
            found.look_at(thread, clock, is_still != 0);
        }
        // Such a thread comes no further while the mutex is held.
        if found.is_contended || found.count > 1 {
            let is_contended = found.is_contended;
            let computes = |it: &Waiting| !it.runs || !is_contended && it.has_run();
            found.threads = found.threads.map(|place| place.filter(computes));
            found.threads.sort_unstable_by_key(Option::is_none);
            found.count = found.threads.iter().flatten().count();
        }
        Some(found)
    }
}

impl Found {
    fn look_at(&mut self, thread: *const c_void, clock: libc::clockid_t, is_still: bool) {
        let before = nanoseconds(clock);
        // The number of the thread, as the kernel makes the clock's of it (include/linux/posix-timers.h).
        let runs = match system_call_of(!(clock >> 3)) {
            Some((libc::SYS_futex, address)) => {
                let is_of_runtime = pyhost_is_of_runtime(address) != 0;
                self.is_contended |= is_of_runtime;
                if is_of_runtime || pages::is_raw(address) {
                    return;
                }
                false
            }
            Some((-1 | libc::SYS_sched_yield, _)) => true,
            _ => return,
        };
        if runs && !is_still {
            self.is_contended = true;
            return;
        }
        self.threads[self.count] = Some(Waiting {
            thread,
            is_still,
            runs,
            clock,
            time: if runs { nanoseconds(clock) } else { before },
        });
        self.count += 1;
    }

    fn one(&self) -> Option<Waiting> {
        static TURN: AtomicU64 = AtomicU64::new(0);
        // Not one after the other, as the threads that allocate may take turns.
        let drawn = TURN
            .fetch_add(1, Relaxed)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            >> 32;
        self.threads[(drawn % self.count.max(1) as u64) as usize]
    }
}

/// The thread of Python that waits for the calling one, or one of several: its number, as of [`own_number`]. Any thread.
pub fn number() -> Option<usize> {
    let _errno = KeptErrno::new();
    let locks = Locks::take()?;
    let waiting = locks.find()?.one()?;
    // SAFETY: the locks are held, and the thread is of the list.
    Some(unsafe { pyhost_thread_number(waiting.thread) })
}

/// How many threads of Python are in a call of C that may wait for the calling one; 1 if that is unknown. Any thread.
pub fn count() -> usize {
    let _errno = KeptErrno::new();
    let found = Locks::take().and_then(|locks| locks.find());
    found.map_or(1, |found| found.count.max(1))
}

/// The calling thread's number, 0 of the main thread; `None` if it runs no Python code, or if this Python does not say.
pub fn own_number() -> Option<usize> {
    // SAFETY: null is the calling thread.
    Some(unsafe { pyhost_thread_number(null()) }).filter(|&number| number != usize::MAX)
}

/// Gives the calls of the thread of Python that waits for the calling one to `take`, outermost first, if there is one. By one
/// thread at a time.
pub fn calls(take: Taker<'_>) {
    let _errno = KeptErrno::new();
    let Some(locks) = Locks::take() else { return };
    let Some(found) = locks.find() else { return };
    let Some(waiting) = found.one() else { return };
    // SAFETY: the locks are held, and the thread is of the list.
    let is_read = unsafe { pyhost_read_thread(waiting.thread, waiting.is_still.into()) != 0 };
    if !is_read || !waiting.is_still && waiting.has_run() {
        return;
    }
    // SAFETY: what stands still does so while the locks are held.
    unsafe { give_calls(waiting.is_still, take) };
    let mut several = *b"waiting: 2 candidates";
    several[9] = b'0' + found.count as u8;
    take(Step::Whole(Call {
        file: HOSTS_FILE.as_bytes(),
        function: if found.count == 1 {
            b"waiting"
        } else {
            &several
        },
        line: 0,
        native: None,
    }));
}
