//! The threads of Python, and its further interpreters (PEP 554, PEP 684, `Py_NewInterpreter`).

use super::layout::INTERPRETERS_HAVE_GILS;
use super::objects::{Gil, has_other_interpreter};
use crate::heap;
use pyhost_os::process::another_thread_runs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The main thread, by its number: the one that pending calls run in. 0 before [`note_main`].
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// The calling thread is the main thread of a Python that has started.
pub fn note_main() {
    MAIN.store(heap::thread_number(), Relaxed);
}

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

/// The threads that still run after a moment in which others may end. The GIL is given up meanwhile.
pub fn wait_for_ends(gil: Gil<'_>) -> usize {
    let start = Instant::now();
    let may_end =
        || start.elapsed() < MOMENT || start.elapsed() < LONG_MOMENT && another_thread_runs();
    while gil.other_threads() > 0 && may_end() {
        gil.sleep(TURN);
    }
    gil.other_threads()
}

/// Waits a moment for threads that Python knows no more but that still free what is theirs. One that sleeps has nothing
/// of the kind left to do, and is not waited for. Without the GIL, or after finalisation.
pub fn wait_for_last_frees() {
    let start = Instant::now();
    while start.elapsed() < LONG_MOMENT && another_thread_runs() {
        std::thread::sleep(TURN);
    }
}

static SEEN: AtomicBool = AtomicBool::new(false);

/// Looks at the interpreter of the calling thread, whenever a module with an
/// `exec` function of its own is loaded: each interpreter loads some when it starts, and the audit
/// event of a new one is not raised if its maker had no thread state.
pub fn note_interpreter(gil: Gil<'_>) {
    if !gil.is_of_main_interpreter() {
        SEEN.store(true, Relaxed);
    }
}

/// Whether there ever was an interpreter beside the main one.
pub fn were_several_interpreters() -> bool {
    SEEN.load(Relaxed)
}

/// Whether threads may run Python code at the same time: on a free-threaded build always, else
/// when a second interpreter exists, which may have a GIL of its own (PEP 684).
pub fn several_gils() -> bool {
    cfg!(Py_GIL_DISABLED) || INTERPRETERS_HAVE_GILS && has_other_interpreter()
}
