//! Sees the imports of modules: calls back when one begins and when it has ended.
//!
//! Every import of a module that is not there yet goes by `importlib._bootstrap._find_and_load`,
//! also the ones of C code, which look the function up in the module each time. A function of the
//! host's takes its place. Main interpreter alone. With the GIL.

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyObject};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// What is called around each import, nested ones too, in the importing thread.
#[derive(Clone, Copy)]
pub struct Watcher {
    pub begin: fn(),
    pub end: fn(),
}

static WATCHER: OnceLock<Watcher> = OnceLock::new();
/// CPython's own function; a reference is held for ever.
static ORIGINAL: AtomicPtr<PyObject> = AtomicPtr::new(null_mut());

unsafe extern "C" fn find_and_load(
    _module: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    let watcher = WATCHER.get();
    if let Some(watcher) = watcher {
        (watcher.begin)();
    }
    // SAFETY: called by Python with its arguments; the function is live.
    let result = unsafe { ffi::PyObject_Call(ORIGINAL.load(Relaxed), arguments, keywords) };
    if let Some(watcher) = watcher {
        (watcher.end)();
    }
    result
}

/// A definition that CPython keeps.
struct Definition(ffi::PyMethodDef);
// SAFETY: never written to after it was made.
unsafe impl Sync for Definition {}

static DEFINITION: Definition = Definition(ffi::PyMethodDef {
    ml_name: c"_find_and_load".as_ptr(),
    ml_meth: ffi::PyMethodDefPointer {
        PyCFunctionWithKeywords: find_and_load,
    },
    ml_flags: ffi::METH_VARARGS | ffi::METH_KEYWORDS as c_int,
    ml_doc: std::ptr::null(),
});

/// Has `watcher` called from here on. Once, after initialisation. False where this Python has no
/// such function.
pub fn watch(watcher: Watcher) -> bool {
    let name = c"_find_and_load".as_ptr();
    // SAFETY: the GIL is held; references that are not kept are released, an exception is cleared.
    unsafe {
        let bootstrap = ffi::PyImport_ImportModule(c"_frozen_importlib".as_ptr());
        let original = match bootstrap.is_null() {
            true => null_mut(),
            false => ffi::PyObject_GetAttrString(bootstrap, name),
        };
        let mut is_set = false;
        if !original.is_null() && WATCHER.set(watcher).is_ok() {
            ORIGINAL.store(original, Relaxed);
            let definition = (&raw const DEFINITION.0).cast_mut();
            let function = ffi::PyCFunction_NewEx(definition, null_mut(), null_mut());
            is_set =
                !function.is_null() && ffi::PyObject_SetAttrString(bootstrap, name, function) == 0;
            ffi::Py_XDECREF(function);
        }
        ffi::Py_XDECREF(bootstrap);
        ffi::PyErr_Clear();
        is_set
    }
}
