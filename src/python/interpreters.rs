//! Sees further interpreters being made (PEP 554, PEP 684, `Py_NewInterpreter`).

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyObject};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The event's name (PEP 578), raised by every version from 3.8 on.
const EVENT: &CStr = c"cpython.PyInterpreterState_New";

static SEEN: AtomicBool = AtomicBool::new(false);

type Hook = extern "C" fn(*const c_char, *mut PyObject, *mut c_void) -> c_int;

unsafe extern "C" {
    /// Adds a hook that is never removed (`sysmodule.h`).
    fn PySys_AddAuditHook(hook: Hook, data: *mut c_void) -> c_int;
}

extern "C" fn audit(event: *const c_char, _: *mut PyObject, _: *mut c_void) -> c_int {
    // SAFETY: CPython passes a name.
    if unsafe { CStr::from_ptr(event) } == EVENT {
        SEEN.store(true, Relaxed);
    }
    0
}

/// Watches from here on. After initialisation, with the GIL.
pub fn watch() {
    // SAFETY: a function of the executable; a refusal by a hook that was there before is cleared.
    unsafe {
        if PySys_AddAuditHook(audit, null_mut()) != 0 {
            ffi::PyErr_Clear();
        }
    }
}

/// Whether there was ever a second interpreter since [`watch`].
pub fn were_several() -> bool {
    SEEN.load(Relaxed)
}
