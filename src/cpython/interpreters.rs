//! Sees further interpreters (PEP 554, PEP 684, `Py_NewInterpreter`).

use super::layout::INTERPRETERS_HAVE_GILS;
use super::objects::{Gil, has_other_interpreter};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static SEEN: AtomicBool = AtomicBool::new(false);

/// Looks at the interpreter of the calling thread, whenever a module with an
/// `exec` function of its own is loaded: each interpreter loads some when it starts, and the audit
/// event of a new one is not raised if its maker had no thread state.
pub fn note(gil: Gil<'_>) {
    if !gil.is_of_main_interpreter() {
        SEEN.store(true, Relaxed);
    }
}

/// Whether there ever was an interpreter beside the main one.
pub fn were_several() -> bool {
    SEEN.load(Relaxed)
}

/// Whether threads may run Python code at the same time: on a free-threaded build always, else
/// when a second interpreter exists, which may have a GIL of its own (PEP 684).
pub fn several_gils() -> bool {
    cfg!(Py_GIL_DISABLED) || INTERPRETERS_HAVE_GILS && has_other_interpreter()
}
