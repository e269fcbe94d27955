//! The entries of the module's and its types' tables: methods and attributes (methodobject.h,
//! descrobject.h). Constants; CPython keeps the tables.

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyGetSetDef, PyMethodDef};
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

/// A structure that CPython keeps and may write to.
#[repr(transparent)]
pub struct Shared<T>(pub T);
// SAFETY: CPython reads the tables, and writes to them under its own locks.
unsafe impl<T> Sync for Shared<T> {}

/// A function without arguments.
pub const fn method(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
) -> PyMethodDef {
    method_with(name, function, doc, ffi::METH_NOARGS)
}

/// A function of the kind that `flags` say.
pub const fn method_with(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
    flags: c_int,
) -> PyMethodDef {
    PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunction: function,
        },
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    }
}

/// A function with arguments by place and by name.
pub const fn with_keywords(
    name: &'static CStr,
    function: ffi::PyCFunctionWithKeywords,
    doc: &'static CStr,
) -> PyMethodDef {
    PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionWithKeywords: function,
        },
        ml_flags: ffi::METH_VARARGS | ffi::METH_KEYWORDS,
        ml_doc: doc.as_ptr(),
    }
}

/// A function with arguments by place, which are not put into a tuple.
pub const fn fast(
    name: &'static CStr,
    function: ffi::PyCFunctionFast,
    doc: &'static CStr,
) -> PyMethodDef {
    PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFast: function,
        },
        ml_flags: ffi::METH_FASTCALL,
        ml_doc: doc.as_ptr(),
    }
}

/// An attribute that can be read.
pub const fn attribute(name: &'static CStr, get: ffi::getter, doc: &'static CStr) -> PyGetSetDef {
    PyGetSetDef {
        name: name.as_ptr(),
        get: Some(get),
        set: None,
        doc: doc.as_ptr(),
        closure: null_mut(),
    }
}

/// The end of a table of attributes.
pub const fn attribute_end() -> PyGetSetDef {
    PyGetSetDef {
        name: std::ptr::null(),
        get: None,
        set: None,
        doc: std::ptr::null(),
        closure: null_mut(),
    }
}
