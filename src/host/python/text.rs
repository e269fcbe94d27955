//! The text of Python's strings.

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyObject};

/// Gives the UTF-8 of a string object to `take`. None, without an exception, for null and for what
/// is no string or has none. With the GIL.
///
/// # Safety
/// `object` is null or live.
pub unsafe fn with_text<T>(object: *mut PyObject, take: impl FnOnce(&[u8]) -> T) -> Option<T> {
    if object.is_null() {
        return None;
    }
    let mut length = 0;
    // SAFETY: the caller's duty; the text lives as long as the object, which `take` cannot end.
    unsafe {
        let text = ffi::PyUnicode_AsUTF8AndSize(object, &mut length);
        if text.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(take(std::slice::from_raw_parts(
            text.cast::<u8>(),
            length as usize,
        )))
    }
}
