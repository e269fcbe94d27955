//! CPython's free lists: freed objects of common types, lists and tuples for instance, that are
//! handed out again without the allocator hearing of it.
//!
//! They are emptied by a full collection and by nothing else that every version offers. So that
//! it costs little and collects nothing, all objects are put aside for its length (`gc.freeze`).

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyObject};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Functions of `gc`; references that are held for ever.
struct Collector {
    freeze_count: *mut PyObject,
    freeze: *mut PyObject,
    collect: *mut PyObject,
    unfreeze: *mut PyObject,
}

// SAFETY: built-in functions, which are called with the GIL.
unsafe impl Send for Collector {}
// SAFETY: as above.
unsafe impl Sync for Collector {}

/// Whether the lists were emptied before, when no script had run.
static STARTED: AtomicBool = AtomicBool::new(false);
static COLLECTOR: OnceLock<Option<Collector>> = OnceLock::new();

fn find() -> Option<Collector> {
    // SAFETY: the GIL is held; the module's reference is kept, an exception is cleared.
    unsafe {
        let module = ffi::PyImport_ImportModule(c"gc".as_ptr());
        let function = |name: &std::ffi::CStr| match module.is_null() {
            true => null_mut(),
            false => ffi::PyObject_GetAttrString(module, name.as_ptr()),
        };
        let found = Collector {
            freeze_count: function(c"get_freeze_count"),
            freeze: function(c"freeze"),
            collect: function(c"collect"),
            unfreeze: function(c"unfreeze"),
        };
        ffi::PyErr_Clear();
        let all = [
            found.freeze_count,
            found.freeze,
            found.collect,
            found.unfreeze,
        ];
        all.iter()
            .all(|function| !function.is_null())
            .then_some(found)
    }
}

/// Empties the free lists, unless the script has put objects aside itself. With the GIL; keeps the
/// current exception.
pub fn clear() {
    let Some(collector) = COLLECTOR.get_or_init(find) else {
        return;
    };
    // SAFETY: the GIL is held; new references are released.
    unsafe {
        let (mut kind, mut value, mut trace) = (null_mut(), null_mut(), null_mut());
        #[allow(deprecated)]
        ffi::PyErr_Fetch(&mut kind, &mut value, &mut trace);
        let call = |function| {
            let result = ffi::PyObject_CallObject(function, null_mut());
            let number = match result.is_null() {
                true => -1,
                false if ffi::PyLong_Check(result) != 0 => ffi::PyLong_AsLong(result),
                false => 0,
            };
            ffi::Py_XDECREF(result);
            ffi::PyErr_Clear();
            number
        };
        // 3.12 starts with some put aside.
        let is_first = !STARTED.swap(true, Relaxed);
        if is_first || call(collector.freeze_count) == 0 {
            call(collector.freeze);
            call(collector.collect);
            call(collector.unfreeze);
        }
        #[allow(deprecated)]
        ffi::PyErr_Restore(kind, value, trace);
    }
}
