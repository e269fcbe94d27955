//! Adds the module's heap types. With the GIL.

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyObject, PyType_Slot, PyType_Spec};
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::null_mut;

/// A slot of a type.
pub fn slot(slot: c_int, pfunc: *mut c_void) -> PyType_Slot {
    PyType_Slot { slot, pfunc }
}

/// Adds the type `pyhost.X`, `qualified`, with instances of `T`, to a module that is being executed;
/// false with an exception set on failure. The last of `slots` is the empty one.
///
/// # Safety
/// `module` is live; the slots are those of a type with such instances, and their texts, methods and
/// attributes are static.
pub unsafe fn add<T>(module: *mut PyObject, qualified: &CStr, slots: &mut [PyType_Slot]) -> bool {
    let mut spec = PyType_Spec {
        name: qualified.as_ptr(),
        basicsize: size_of::<T>() as c_int,
        itemsize: 0,
        flags: ffi::Py_TPFLAGS_DEFAULT as c_uint,
        slots: slots.as_mut_ptr(),
    };
    let name = &qualified[c"pyhost.".count_bytes()..];
    // SAFETY: the GIL is held; CPython copies what it is given, but for what the caller keeps.
    unsafe {
        let kind = ffi::PyType_FromModuleAndSpec(module, &mut spec, null_mut());
        if kind.is_null() {
            return false;
        }
        let added = ffi::PyObject_SetAttrString(module, name.as_ptr(), kind) == 0;
        ffi::Py_DECREF(kind);
        added
    }
}
