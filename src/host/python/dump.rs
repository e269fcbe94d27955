//! SIGUSR2 has the report of the moment written, where a file for it was asked for and the script
//! leaves the signal at its default.
//!
//! Python's own machinery carries the signal: its C handler only notes it, and what is called for it
//! runs in the main thread between two instructions, also where that sleeps or waits. So nothing is
//! done in the signal handler, and no lock of CPython's is taken there, as `Py_AddPendingCall` would.
//!
//! What is called is an `int` of value 0 that can be called: `signal.getsignal` tells it as
//! `SIG_DFL`, and `signal.signal` gives that back as the handler of before. With the GIL, in the
//! main thread of the main interpreter. A script's own handler takes its place.

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyObject, PyType_Slot, PyType_Spec};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Writes the report.
static WRITE: OnceLock<fn()> = OnceLock::new();

/// The handler.
unsafe extern "C" fn call(
    _handler: *mut PyObject,
    _arguments: *mut PyObject,
    _keywords: *mut PyObject,
) -> *mut PyObject {
    if let Some(write) = WRITE.get() {
        write();
    }
    // SAFETY: the GIL is held; the reference is the caller's.
    unsafe {
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}

/// The type of the handler, a subclass of `int`; null with an exception set on failure.
///
/// # Safety
/// The GIL is held.
unsafe fn new_type() -> *mut PyObject {
    let mut slots = [
        PyType_Slot {
            slot: ffi::Py_tp_call,
            pfunc: call as *mut c_void,
        },
        PyType_Slot {
            slot: 0,
            pfunc: null_mut(),
        },
    ];
    let mut spec = PyType_Spec {
        name: c"pyhost.SIG_DFL".as_ptr(),
        basicsize: 0, // int's
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the caller's duty; CPython copies the slots, and the name is static.
    unsafe {
        let bases = ffi::PyTuple_Pack(1, &raw mut ffi::PyLong_Type);
        if bases.is_null() {
            return null_mut();
        }
        let kind = ffi::PyType_FromSpecWithBases(&mut spec, bases);
        ffi::Py_DECREF(bases);
        kind
    }
}

/// Puts the handler in place, which calls `write`, where the signal is at its default. After initialisation, once;
/// false where that is not so, or failed.
pub fn watch(write: fn()) -> bool {
    let _ = WRITE.set(write);
    let signal = libc::SIGUSR2 as c_int;
    // SAFETY: the GIL is held; new references are released, and exceptions cleared.
    unsafe {
        let module = ffi::PyImport_ImportModule(c"_signal".as_ptr());
        let kind = new_type();
        let mut done = false;
        if !module.is_null() && !kind.is_null() {
            let name = c"getsignal".as_ptr();
            let now = ffi::PyObject_CallMethod(module, name, c"i".as_ptr(), signal);
            let default = ffi::PyObject_GetAttrString(module, c"SIG_DFL".as_ptr());
            if !now.is_null()
                && !default.is_null()
                && ffi::PyObject_RichCompareBool(now, default, ffi::Py_EQ) == 1
            {
                let handler = ffi::PyObject_CallFunction(kind, c"i".as_ptr(), 0 as c_int);
                let name = c"signal".as_ptr();
                let format = c"iO".as_ptr();
                if !handler.is_null() {
                    let old = ffi::PyObject_CallMethod(module, name, format, signal, handler);
                    done = !old.is_null();
                    ffi::Py_XDECREF(old);
                }
                ffi::Py_XDECREF(handler);
            }
            ffi::Py_XDECREF(now);
            ffi::Py_XDECREF(default);
        }
        ffi::Py_XDECREF(kind);
        ffi::Py_XDECREF(module);
        ffi::PyErr_Clear();
        done
    }
}
