//! What the host changes in Python beside its own module: `sys.getallocatedblocks`, and a function
//! that is called when the script has ended. With the GIL, in the main interpreter.

#![allow(unsafe_code)]

use super::tables::{Shared, method};
use crate::endings;
use crate::faults;
use crate::ledger::{Account, LEDGER};
use pyo3::ffi::{self, PyObject};
use std::ffi::c_int;
use std::ptr::null_mut;

unsafe extern "C" fn allocated_blocks(_module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    let blocks = LEDGER.snapshot().account(Account::Obj).live_blocks;
    // SAFETY: called by Python, with the GIL.
    unsafe { ffi::PyLong_FromUnsignedLongLong(blocks) }
}

/// Lets `sys.getallocatedblocks()` answer from the ledger, in every interpreter, since pymalloc
/// has no blocks to count. Returns false where `sys` has no such function.
///
/// The method's entry in `sys`'s table is changed, so that name, text and identity stay.
pub fn answer_allocated_blocks() -> bool {
    // SAFETY: the GIL is held; the object is checked to be a built-in function, whose method
    // entry is a writable static of libpython.
    unsafe {
        let function = ffi::PySys_GetObject(c"getallocatedblocks".as_ptr());
        if function.is_null() || ffi::PyCFunction_CheckExact(function) == 0 {
            return false;
        }
        let entry = (*function.cast::<ffi::PyCFunctionObject>()).m_ml;
        (*entry).ml_meth = ffi::PyMethodDefPointer {
            PyCFunction: allocated_blocks,
        };
        true
    }
}

unsafe extern "C" fn script_ended(_module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    faults::disarm();
    endings::script_ended();
    super::dictionary::none()
}

static mut SCRIPT_ENDED: Shared<ffi::PyMethodDef> = Shared(method(
    c"script_ended",
    script_ended,
    c"Take the script's last figures.",
));

/// Has the live figures taken when the script has ended and its own `atexit` functions have
/// run: registered first, called last. Returns false where that failed.
pub fn watch_script_end() -> bool {
    // SAFETY: the GIL is held; new references are released, and an exception is cleared.
    unsafe {
        let function =
            ffi::PyCFunction_NewEx((&raw mut SCRIPT_ENDED).cast(), null_mut(), null_mut());
        let atexit = ffi::PyImport_ImportModule(c"atexit".as_ptr());
        let mut registered: c_int = 0;
        if !function.is_null() && !atexit.is_null() {
            let name = c"register".as_ptr();
            let result = ffi::PyObject_CallMethod(atexit, name, c"O".as_ptr(), function);
            registered = c_int::from(!result.is_null());
            ffi::Py_XDECREF(result);
        }
        ffi::Py_XDECREF(atexit);
        ffi::Py_XDECREF(function);
        if registered == 0 {
            ffi::PyErr_Clear();
        }
        registered != 0
    }
}
