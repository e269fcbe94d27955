//! The threads of Python that there are.

#![allow(unsafe_code)]

use super::objects::Gil;
use crate::heap;
use pyhost_os::process::another_thread_runs;
use pyo3::ffi;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The main thread, by its number: the one that pending calls run in. 0 before [`note_main`].
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// The calling thread is the main thread of a Python that has started.
pub fn note_main() {
    MAIN.store(heap::thread_number(), Relaxed);
}

/// Whether the calling thread is the main thread.
pub fn is_main() -> bool {
    MAIN.load(Relaxed) == heap::thread_number()
}

/// In a forked child, whose main thread is the one that forked.
pub fn forked() {
    if has_main() {
        note_main();
    }
}

/// Whether [`note_main`] was called.
pub fn has_main() -> bool {
    MAIN.load(Relaxed) != 0
}

/// How long a thread that has left its function is waited for: up to 3.12 it is joined before it has
/// given its state back, the last of it without the GIL (`_PyThreadState_DeleteCurrent`).
const MOMENT: Duration = Duration::from_millis(100);
/// As long as it may wait for a processor.
const LONG_MOMENT: Duration = Duration::from_secs(1);
/// Between two looks.
const TURN: Duration = Duration::from_millis(2);

/// Threads of the calling interpreter, but for the calling one.
fn others(_gil: Gil<'_>) -> usize {
    // SAFETY: the GIL is held, without which no thread is added or removed.
    unsafe {
        let own = ffi::PyThreadState_Get();
        let mut thread = ffi::PyInterpreterState_ThreadHead(ffi::PyThreadState_GetInterpreter(own));
        let mut count = 0;
        while !thread.is_null() {
            count += usize::from(thread != own);
            thread = ffi::PyThreadState_Next(thread);
        }
        count
    }
}

/// The threads that still run after a moment in which others may end. The GIL is given up meanwhile.
pub fn wait_for_ends(gil: Gil<'_>) -> usize {
    let start = Instant::now();
    let may_end =
        || start.elapsed() < MOMENT || start.elapsed() < LONG_MOMENT && another_thread_runs();
    while others(gil) > 0 && may_end() {
        // SAFETY: the GIL is held, and taken again.
        unsafe {
            let own = ffi::PyEval_SaveThread();
            std::thread::sleep(TURN);
            ffi::PyEval_RestoreThread(own);
        }
    }
    others(gil)
}

/// Waits a moment for threads that Python knows no more but that still free what is theirs. One that
/// sleeps has nothing of the kind left to do, and is not waited for. Without the GIL, or after
/// finalisation.
pub fn wait_for_last_frees() {
    let start = Instant::now();
    while start.elapsed() < LONG_MOMENT && another_thread_runs() {
        std::thread::sleep(TURN);
    }
}

/// musl ends a thread without an unwinder.
#[cfg(target_env = "musl")]
pub fn load_unwinder() {}

/// Makes glibc load what a thread's early end needs, while there is memory: CPython up to 3.13 ends daemon
/// threads by `pthread_exit` while it finalises, and glibc, which loads its unwinder at the first one,
/// aborts if that fails. `backtrace(3)` loads the same, once.
#[cfg(target_env = "gnu")]
pub fn load_unwinder() {
    let mut frame = std::ptr::null_mut();
    // SAFETY: room for one address, which is the length that the call gets.
    unsafe { libc::backtrace(&mut frame, 1) };
}
