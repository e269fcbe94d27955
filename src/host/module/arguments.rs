//! Arguments that several functions of the module take. With the GIL.

#![allow(unsafe_code)]

use super::dictionary::string;
use crate::bytes;
use crate::ledger::Scope;
use crate::python::text::with_text;
use pyo3::ffi::{self, PyObject};
use std::ptr::null_mut;

/// Sets an exception with a text of one line; null.
///
/// # Safety
/// `kind` is an exception's type.
pub unsafe fn raise(kind: *mut PyObject, text: &str) -> *mut PyObject {
    let text = string(text);
    if !text.is_null() {
        // SAFETY: the GIL is held; the caller's duty.
        unsafe {
            ffi::PyErr_SetObject(kind, text);
            ffi::Py_DECREF(text);
        }
    }
    null_mut()
}

/// The scope that an `account` argument names: null and None are the total. None with ValueError
/// set for another.
///
/// # Safety
/// `account` is null or live.
pub unsafe fn scope(function: &str, account: *mut PyObject) -> Option<Scope> {
    // SAFETY: the caller's duty.
    unsafe {
        if account.is_null() || account == ffi::Py_None() {
            return Some(Scope::Total);
        }
        let named = with_text(account, |text| {
            std::str::from_utf8(text).ok().and_then(Scope::named)
        });
        if let Some(Some(scope)) = named {
            return Some(scope);
        }
        let text = format!(
            "{function}: account must be None or one of 'raw', 'mem', 'obj', 'arena', 'numpy', \
             'native', 'total'"
        );
        raise(ffi::PyExc_ValueError, &text);
        None
    }
}

/// The bytes of a `size` argument: a positive whole number, or a text such as '64M'. None with
/// TypeError or ValueError set for another.
///
/// # Safety
/// `size` is live.
pub unsafe fn size(function: &str, size: *mut PyObject) -> Option<u64> {
    // SAFETY: the caller's duty.
    unsafe {
        if ffi::PyUnicode_Check(size) != 0 {
            let bytes = with_text(size, |text| {
                std::str::from_utf8(text).ok().and_then(bytes::parse)
            });
            if let Some(Some(bytes @ 1..)) = bytes {
                return Some(bytes);
            }
        } else if ffi::PyLong_Check(size) != 0 {
            let bytes = ffi::PyLong_AsLongLong(size);
            if bytes > 0 {
                return Some(bytes as u64);
            }
            ffi::PyErr_Clear();
        } else {
            let text = format!("{function}: size must be an int or a str such as '64M'");
            raise(ffi::PyExc_TypeError, &text);
            return None;
        }
        let text =
            format!("{function}: size must be a positive number of bytes, or a str such as '64M'");
        raise(ffi::PyExc_ValueError, &text);
        None
    }
}
