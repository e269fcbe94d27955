//! Sees NumPy being loaded, by whatever route: `import`, C, a lazy loader, another finder.
//!
//! All loaders of extension modules end in `_imp.exec_dynamic` (`_imp.exec_builtin` where NumPy is
//! linked in). The entry of the method in `_imp`'s own table is changed, so that the function's
//! name, text and identity stay, in every interpreter. The cost is one look at the module's name
//! for each extension module.

#![allow(unsafe_code)]

use crate::python::interpreters;
use crate::python::text::with_text;
use pyo3::ffi::{self, PyMethodDefPointer, PyObject};
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type Function = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

/// How the full name of NumPy's extension module ends, also where another package carries a copy.
const EXTENSION: &[u8] = b"._multiarray_umath";

/// Where the module is found once it is loaded: 2.x, then 1.x.
const NAMES: [&CStr; 2] = [
    c"numpy._core._multiarray_umath",
    c"numpy.core._multiarray_umath",
];

static DYNAMIC: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static BUILTIN: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static LOADED: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" fn exec_dynamic(imp: *mut PyObject, module: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python.
    unsafe { exec(&DYNAMIC, imp, module) }
}

unsafe extern "C" fn exec_builtin(imp: *mut PyObject, module: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python.
    unsafe { exec(&BUILTIN, imp, module) }
}

unsafe fn exec(
    original: &AtomicPtr<()>,
    imp: *mut PyObject,
    module: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the function that the entry held before, of this type.
    unsafe {
        interpreters::note();
        let original: Function = std::mem::transmute(original.load(Relaxed));
        let result = original(imp, module);
        if !result.is_null() && is_numpys_extension(module) {
            loaded(module);
        }
        result
    }
}

/// With the GIL and no exception set, which it leaves so.
unsafe fn is_numpys_extension(module: *mut PyObject) -> bool {
    // SAFETY: a live object; the new reference is released.
    unsafe {
        if ffi::PyModule_Check(module) == 0 {
            return false;
        }
        let name = ffi::PyModule_GetNameObject(module);
        let is_numpys = with_text(name, |name| name.ends_with(EXTENSION));
        ffi::PyErr_Clear();
        ffi::Py_XDECREF(name);
        is_numpys == Some(true)
    }
}

unsafe fn loaded(module: *mut PyObject) {
    let call = LOADED.load(Relaxed);
    // SAFETY: `watch` stored a function of this type before anything could call it.
    unsafe { std::mem::transmute::<*mut (), fn(*mut PyObject)>(call)(module) };
}

/// Has `then` called, with the GIL and no exception set, with each NumPy extension module that has
/// been loaded, in every interpreter; at once with one that is loaded already (by a `.pth` file).
///
/// Once, after initialisation, with the GIL. False where `_imp` is not as expected.
pub fn watch(then: fn(*mut PyObject)) -> bool {
    LOADED.store(then as *mut (), Relaxed);
    // SAFETY: the GIL is held; new references are released, and exceptions cleared.
    unsafe {
        let imp = ffi::PyImport_ImportModule(c"_imp".as_ptr());
        let watched = !imp.is_null()
            && replace(imp, c"exec_dynamic", exec_dynamic, &DYNAMIC)
            && replace(imp, c"exec_builtin", exec_builtin, &BUILTIN);
        ffi::Py_XDECREF(imp);
        let modules = ffi::PyImport_GetModuleDict();
        for name in NAMES {
            let module = ffi::PyDict_GetItemString(modules, name.as_ptr());
            if !module.is_null() && is_numpys_extension(module) {
                loaded(module);
                break;
            }
        }
        ffi::PyErr_Clear();
        watched
    }
}

/// # Safety
/// `imp` is a live module; the GIL.
unsafe fn replace(imp: *mut PyObject, name: &CStr, by: Function, original: &AtomicPtr<()>) -> bool {
    // SAFETY: the object is checked to be a built-in function of one argument, whose method entry
    // is a writable static of libpython.
    unsafe {
        let function = ffi::PyObject_GetAttrString(imp, name.as_ptr());
        let is_builtin = !function.is_null() && ffi::PyCFunction_CheckExact(function) != 0;
        let mut replaced = false;
        if is_builtin {
            let entry = (*function.cast::<ffi::PyCFunctionObject>()).m_ml;
            if (*entry).ml_flags == ffi::METH_O {
                let before: Function = (*entry).ml_meth.PyCFunction;
                original.store(before as *mut (), Relaxed);
                (*entry).ml_meth = PyMethodDefPointer { PyCFunction: by };
                replaced = true;
            }
        }
        ffi::Py_XDECREF(function);
        ffi::PyErr_Clear();
        replaced
    }
}
