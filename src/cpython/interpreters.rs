//! Sees further interpreters (PEP 554, PEP 684, `Py_NewInterpreter`).

#![allow(unsafe_code)]

use super::objects::Gil;
use pyo3::ffi;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static SEEN: AtomicBool = AtomicBool::new(false);

/// Looks at the interpreter of the calling thread, whenever a module with an
/// `exec` function of its own is loaded: each interpreter loads some when it starts, and the audit
/// event of a new one is not raised if its maker had no thread state.
pub fn note(_gil: Gil<'_>) {
    // SAFETY: the GIL is held; both read a pointer.
    let is_main = unsafe { ffi::PyInterpreterState_Get() == ffi::PyInterpreterState_Main() };
    if !is_main {
        SEEN.store(true, Relaxed);
    }
}

/// Whether there ever was an interpreter beside the main one.
pub fn were_several() -> bool {
    SEEN.load(Relaxed)
}
