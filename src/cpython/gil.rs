//! Informs the ledger whether several interpreters may run at once.

#![allow(unsafe_code)]

use crate::layout::INTERPRETERS_HAVE_GILS;
use pyo3::ffi;

/// Whether threads may run Python code at the same time: on a free-threaded build always, else
/// when a second interpreter exists, which may have a GIL of its own (PEP 684).
pub fn several() -> bool {
    if cfg!(Py_GIL_DISABLED) {
        return true;
    }
    if !INTERPRETERS_HAVE_GILS {
        return false;
    }
    // New interpreters are put at the head of the list, so the main one stays there while it is
    // alone.
    // SAFETY: both read a pointer of the runtime; no lock, no GIL, valid before initialisation.
    unsafe { ffi::PyInterpreterState_Head() != ffi::PyInterpreterState_Main() }
}
