//! `pyhost.limit`: a context manager that caps one block of code. A heap type, one an interpreter;
//! written against the C API so that no error can be raised between its opening and the block, or
//! between the block and its end. With the GIL.

#![allow(unsafe_code)]

use super::arguments::{raise, scope, size};
use super::dictionary::{none, string};
use super::tables::{Shared, method, method_with};
use super::types::{self, slot};
use crate::bytes::Bytes;
use crate::caps;
use crate::heap;
use crate::ledger::Scope;
use pyo3::ffi::{self, PyMethodDef, PyObject};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const DOC: &CStr = c"limit(size, account=None)
--

Context manager that caps how much an account, or all together where account is None, may grow while
its block runs: process-wide, from what is live when the block is entered.

size is a number of bytes or a str such as '64M'. A request past it raises MemoryError, of which
pyhost.last_refusal() tells which block it was. Limits nest, and the lowest holds; at its end the
block's limit is gone. To handle the error inside the block Python gets up to an eighth of size, at
least 4 MiB, more, but never more than the cap.";

const ENTER_DOC: &CStr = c"__enter__($self, /)\n--\n\nOpen the limit.";
const EXIT_DOC: &CStr = c"__exit__($self, /, *exception)\n--\n\nClose the limit.";

/// An instance.
#[repr(C)]
struct Limiter {
    head: PyObject,
    scope: Scope,
    bytes: u64,
    /// One past the number of the open limit; 0 while it is closed.
    open: usize,
}

unsafe extern "C" fn new(
    kind: *mut ffi::PyTypeObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    let names = [c"size".as_ptr(), c"account".as_ptr(), std::ptr::null()];
    let (mut asked, mut account): (*mut PyObject, *mut PyObject) = (null_mut(), null_mut());
    // SAFETY: called by Python, with the GIL; the format names the variables' types.
    unsafe {
        if ffi::PyArg_ParseTupleAndKeywords(
            arguments,
            keywords,
            c"O|O:limit".as_ptr(),
            names.as_ptr().cast_mut().cast(),
            &raw mut asked,
            &raw mut account,
        ) == 0
        {
            return null_mut();
        }
        let Some(bytes) = size("limit", asked) else {
            return null_mut();
        };
        let Some(scope) = scope("limit", account) else {
            return null_mut();
        };
        let object = ffi::PyType_GenericAlloc(kind, 0).cast::<Limiter>();
        if !object.is_null() {
            (*object).scope = scope;
            (*object).bytes = bytes;
            (*object).open = 0;
        }
        object.cast()
    }
}

unsafe extern "C" fn enter(object: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and an instance.
    unsafe {
        let limiter = object.cast::<Limiter>();
        if (*limiter).open != 0 {
            let text = "limit: its block is running already; expected one limit for each block";
            return raise(ffi::PyExc_RuntimeError, text);
        }
        let limit = caps::Limit::here((*limiter).bytes);
        match caps::enter((*limiter).scope, limit, heap::slot()) {
            Ok(number) => {
                (*limiter).open = number + 1;
                ffi::Py_INCREF(object);
                object
            }
            Err(_) => raise(
                ffi::PyExc_RuntimeError,
                "limit: too many are open; expected at most 64 at a time",
            ),
        }
    }
}

unsafe fn close(limiter: *mut Limiter) {
    // SAFETY: an instance, as the caller promises.
    unsafe {
        if let Some(number) = (*limiter).open.checked_sub(1) {
            (*limiter).open = 0;
            caps::leave(number, heap::slot());
        }
    }
}

unsafe extern "C" fn exit(object: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and an instance.
    unsafe { close(object.cast()) };
    none()
}

unsafe extern "C" fn dealloc(object: *mut PyObject) {
    // SAFETY: called by Python with the last reference.
    unsafe {
        close(object.cast());
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn repr(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    let limiter = unsafe { &*object.cast::<Limiter>() };
    let state = if limiter.open == 0 { "" } else { ", open" };
    string(&format!(
        "<pyhost.limit of {} on {}{state}>",
        Bytes(limiter.bytes),
        limiter.scope.name()
    ))
}

static mut METHODS: Shared<[PyMethodDef; 3]> = Shared([
    method(c"__enter__", enter, ENTER_DOC),
    method_with(c"__exit__", exit, EXIT_DOC, ffi::METH_VARARGS),
    PyMethodDef::zeroed(),
]);

/// Adds the type to a module that is being executed; false with an exception set on failure.
///
/// # Safety
/// `module` is live.
pub unsafe fn add(module: *mut PyObject) -> bool {
    let mut slots = [
        slot(ffi::Py_tp_doc, DOC.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_new, new as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_methods, (&raw mut METHODS).cast()),
        slot(0, null_mut()),
    ];
    // SAFETY: the caller's duty; texts and tables are static.
    unsafe { types::add::<Limiter>(module, c"pyhost.limit", &mut slots) }
}
