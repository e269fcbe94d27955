//! Sees extension modules being loaded, by whatever route: `import`, C, a lazy loader, another finder.
//!
//! All loaders of extension modules end in `_imp.exec_dynamic` (`_imp.exec_builtin` where a module is
//! linked in). The entry of the method in `_imp`'s own table is changed, so that the function's
//! name, text and identity stay, in every interpreter. The cost is one look at the module's name
//! for each extension module.

#![allow(unsafe_code)]

use super::interpreters;
use super::text::with_text;
use pyo3::ffi::{self, PyMethodDefPointer, PyObject};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type Function = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;

/// What is called with the full name of each extension module, with the GIL and no exception set, in every
/// interpreter.
#[derive(Clone, Copy)]
pub struct Watcher {
    /// It is about to be executed.
    pub begins: fn(&[u8]),
    /// It has been executed, and is here.
    pub loaded: fn(&[u8], *mut PyObject),
}

static WATCHER: OnceLock<Watcher> = OnceLock::new();
static DYNAMIC: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static BUILTIN: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

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
        let watcher = WATCHER.get();
        if let Some(watcher) = watcher {
            with_name(module, watcher.begins);
        }
        let result = original(imp, module);
        if let Some(watcher) = watcher.filter(|_| !result.is_null()) {
            with_name(module, |name| (watcher.loaded)(name, module));
        }
        result
    }
}

/// Gives the full name of a module to `take`. With the GIL and no exception set, which it leaves so.
///
/// # Safety
/// A live object.
unsafe fn with_name(module: *mut PyObject, take: impl FnOnce(&[u8])) {
    // SAFETY: the caller's duty; the new reference is released.
    unsafe {
        if ffi::PyModule_Check(module) == 0 {
            return;
        }
        let name = ffi::PyModule_GetNameObject(module);
        with_text(name, take);
        ffi::PyErr_Clear();
        ffi::Py_XDECREF(name);
    }
}

/// Has `watcher` called for each extension module that is loaded from here on. Once, after
/// initialisation, with the GIL. False where `_imp` is not as expected.
pub fn watch(watcher: Watcher) -> bool {
    let _ = WATCHER.set(watcher);
    // SAFETY: the GIL is held; the new reference is released, and exceptions cleared.
    unsafe {
        let imp = ffi::PyImport_ImportModule(c"_imp".as_ptr());
        let watched = !imp.is_null()
            && replace(imp, c"exec_dynamic", exec_dynamic, &DYNAMIC)
            && replace(imp, c"exec_builtin", exec_builtin, &BUILTIN);
        ffi::Py_XDECREF(imp);
        ffi::PyErr_Clear();
        watched
    }
}

/// The module of this name, where it has been loaded already, such as by a `.pth` file. With the GIL; a
/// borrowed reference.
pub fn loaded_already(name: &CStr) -> Option<*mut PyObject> {
    // SAFETY: the GIL is held; an exception is cleared.
    unsafe {
        let module = ffi::PyDict_GetItemString(ffi::PyImport_GetModuleDict(), name.as_ptr());
        ffi::PyErr_Clear();
        (!module.is_null()).then_some(module)
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
