//! The threads of Python that there are.

#![allow(unsafe_code)]

use pyo3::ffi;
use std::time::Duration;

/// How often, and how long each time, a thread that has left its function is waited for: it is
/// joined before it has given its state back.
const TURNS: usize = 50;
const TURN: Duration = Duration::from_millis(2);

/// Threads of the calling interpreter, but for the calling one. With the GIL.
fn others() -> usize {
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

/// The threads that still run after a moment in which others may end. With the GIL, which is given
/// up meanwhile.
pub fn wait_for_ends() -> usize {
    for _ in 0..TURNS {
        if others() == 0 {
            return 0;
        }
        // SAFETY: the GIL is held, and taken again.
        unsafe {
            let own = ffi::PyEval_SaveThread();
            std::thread::sleep(TURN);
            ffi::PyEval_RestoreThread(own);
        }
    }
    others()
}

/// Has glibc load what a thread's early end needs, while there is memory: CPython up to 3.13 ends daemon
/// threads by `pthread_exit` while it finalises, and glibc, which loads its unwinder at the first one,
/// aborts where that fails. `backtrace(3)` loads the same, once.
pub fn load_unwinder() {
    let mut frame = std::ptr::null_mut();
    // SAFETY: room for one address, as the call is told.
    unsafe { libc::backtrace(&mut frame, 1) };
}
