//! The line of Python that a thread is at.

#![allow(unsafe_code)]

use super::text::with_text;
use pyo3::ffi::{self, PyFrameObject, PyObject};
use std::ptr::null_mut;

/// Whether code belongs to NumPy itself, by its file.
fn is_numpys(file: &[u8]) -> bool {
    file.windows(7).any(|part| part == b"/numpy/") || file.starts_with(b"<__array_function__")
}

/// Copies the file of the innermost frame that is not NumPy's own to `file`, cut at the front
/// where it is too long; its length and the line. (0, 0) where there is none, or no GIL.
///
/// May allocate objects. Keeps the current exception.
pub fn script_line(file: &mut [u8]) -> (usize, i32) {
    // SAFETY: without the GIL nothing else is called; new references are released.
    unsafe {
        if ffi::PyGILState_Check() == 0 || ffi::PyGILState_GetThisThreadState().is_null() {
            return (0, 0);
        }
        let (mut kind, mut value, mut trace) = (null_mut(), null_mut(), null_mut());
        #[allow(deprecated)]
        ffi::PyErr_Fetch(&mut kind, &mut value, &mut trace);
        let mut found = (0, 0);
        let mut frame = ffi::PyEval_GetFrame();
        ffi::Py_XINCREF(frame.cast());
        while !frame.is_null() {
            let name = file_of(frame);
            let is_scripts = with_text(name, |text| {
                let is_scripts = !is_numpys(text);
                if is_scripts || found.0 == 0 {
                    let tail = &text[text.len().saturating_sub(file.len())..];
                    file[..tail.len()].copy_from_slice(tail);
                    found = (tail.len(), ffi::PyFrame_GetLineNumber(frame));
                }
                is_scripts
            });
            ffi::Py_XDECREF(name);
            let caller = match is_scripts {
                Some(true) => null_mut(),
                _ => ffi::PyFrame_GetBack(frame),
            };
            ffi::Py_DECREF(frame.cast());
            frame = caller;
        }
        #[allow(deprecated)]
        ffi::PyErr_Restore(kind, value, trace);
        found
    }
}

/// A new reference to the name of the frame's file, or null.
///
/// # Safety
/// A live frame, and the GIL.
unsafe fn file_of(frame: *mut PyFrameObject) -> *mut PyObject {
    // SAFETY: the caller's duties.
    unsafe {
        let code: *mut PyObject = ffi::PyFrame_GetCode(frame).cast();
        // Interned: `PyObject_GetAttrString` makes a string each time, and from 3.11 on CPython's
        // method cache, which goes by the name's address, would keep hundreds of them.
        let attribute = ffi::PyUnicode_InternFromString(c"co_filename".as_ptr());
        let name = match attribute.is_null() {
            true => null_mut(),
            false => ffi::PyObject_GetAttr(code, attribute),
        };
        ffi::PyErr_Clear();
        ffi::Py_XDECREF(attribute);
        ffi::Py_DECREF(code);
        name
    }
}
