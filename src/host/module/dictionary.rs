//! Makes Python objects of the host's figures. With the GIL.

#![allow(unsafe_code)]

use crate::report::Sink;
use pyo3::ffi::{self, PyObject};
use std::ptr::null_mut;

/// Builds a dictionary from the described values. Once a call has failed, it only counts the levels.
pub struct Dictionary {
    /// The open objects and lists, borrowed from their parents but for the first.
    open: Vec<*mut PyObject>,
    failed: bool,
}

impl Dictionary {
    /// What `describe` says, as a new dictionary; null with an exception set on failure. With the
    /// GIL.
    pub fn build(describe: impl FnOnce(&mut Self)) -> *mut PyObject {
        // SAFETY: the GIL is held.
        Self::build_in(unsafe { ffi::PyDict_New() }, describe)
    }

    /// As [`Dictionary::build`], a list.
    pub fn list(describe: impl FnOnce(&mut Self)) -> *mut PyObject {
        // SAFETY: the GIL is held.
        Self::build_in(unsafe { ffi::PyList_New(0) }, describe)
    }

    fn build_in(root: *mut PyObject, describe: impl FnOnce(&mut Self)) -> *mut PyObject {
        // SAFETY: the GIL is held; the reference is given up on failure.
        unsafe {
            if root.is_null() {
                return root;
            }
            let mut dictionary = Dictionary {
                open: vec![root],
                failed: false,
            };
            describe(&mut dictionary);
            if dictionary.failed {
                ffi::Py_DECREF(root);
                return null_mut();
            }
            root
        }
    }

    fn add(&mut self, key: &str, value: *mut PyObject) {
        // SAFETY: the GIL is held; `open` holds live dictionaries and lists; `value` is a new
        // reference or null with an exception set, and is given up here.
        unsafe {
            let parent = self.open.last().copied().unwrap_or(null_mut());
            if value.is_null() || parent.is_null() {
                self.failed = true;
                return;
            }
            let added = if ffi::PyList_Check(parent) != 0 {
                ffi::PyList_Append(parent, value)
            } else {
                let name = string(key);
                let added = if name.is_null() {
                    -1
                } else {
                    ffi::PyDict_SetItem(parent, name, value)
                };
                ffi::Py_XDECREF(name);
                added
            };
            ffi::Py_DECREF(value);
            self.failed |= added != 0;
        }
    }

    fn open(&mut self, key: &str, container: *mut PyObject) {
        self.add(key, container);
        // The parent holds it now, unless something failed.
        self.open
            .push(if self.failed { null_mut() } else { container });
    }
}

/// A new string object, or null with an exception set.
pub fn string(text: &str) -> *mut PyObject {
    // SAFETY: valid UTF-8 and its length; the GIL is held.
    unsafe { ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), text.len() as isize) }
}

/// A new reference to `None`. With the GIL.
pub fn none() -> *mut PyObject {
    // SAFETY: a live object, whose count is raised for the caller.
    unsafe {
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}

// SAFETY (all of the block): the GIL is held, and the calls make new objects.
impl Sink for Dictionary {
    fn begin(&mut self, key: &str) {
        // SAFETY: see the block.
        let object = unsafe { ffi::PyDict_New() };
        self.open(key, object);
    }

    fn begin_list(&mut self, key: &str) {
        // SAFETY: see the block.
        let list = unsafe { ffi::PyList_New(0) };
        self.open(key, list);
    }

    fn end(&mut self) {
        self.open.pop();
    }

    fn text(&mut self, key: &str, value: &str) {
        self.add(key, string(value));
    }

    fn int(&mut self, key: &str, value: i64) {
        // SAFETY: see the block.
        self.add(key, unsafe { ffi::PyLong_FromLongLong(value) });
    }

    fn fraction(&mut self, key: &str, value: f64) {
        // SAFETY: see the block.
        self.add(key, unsafe { ffi::PyFloat_FromDouble(value) });
    }

    fn flag(&mut self, key: &str, value: bool) {
        // SAFETY: see the block.
        self.add(key, unsafe { ffi::PyBool_FromLong(value.into()) });
    }

    fn null(&mut self, key: &str) {
        self.add(key, none());
    }
}
