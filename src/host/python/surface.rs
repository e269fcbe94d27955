//! How refusals reach the script: the errors and the relief that the caps ask for, at safe points
//! of the main thread (`Py_AddPendingCall`).
//!
//! What the caps call runs inside the allocator. `Py_AddPendingCall` takes a lock that CPython
//! holds for a few stores only, and may be called without the GIL.

#![allow(unsafe_code)]

use super::place;
use crate::caps::{self, Refusal, Role, Told};
use crate::descriptor::format_into;
use crate::heap::{self, source_line};
use crate::peak;
use pyo3::ffi::{self, PyObject};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicUsize};

/// The thread that pending calls run in, by its number.
static MAIN: AtomicUsize = AtomicUsize::new(0);

/// The list of functions that relieve memory; null before the first.
static RELIEFS: AtomicPtr<PyObject> = AtomicPtr::new(null_mut());

/// Lets the caps reach the script. After initialisation, in the main thread. `first_refusal` keeps and shows what
/// surrounds the first refusal of an episode, `end` ends the process; both are called inside the allocator.
pub fn arm(first_refusal: fn(&Refusal), end: fn(&Refusal) -> !) {
    MAIN.store(heap::thread_number(), Relaxed);
    source_line::set_finder(place::line);
    watch_errors();
    // SAFETY: a function of the executable.
    unsafe { libc::pthread_atfork(None, None, Some(forked_in_child)) };
    caps::arm(caps::Python {
        place: place::place,
        is_running: || !place::is_finalizing(),
        post: || post(surface),
        post_pressure: || post(relieve),
        is_main: || MAIN.load(Relaxed) == heap::thread_number(),
        role,
        trace: place::trace,
        first_refusal,
        end,
    });
}

/// What the looks for the peak ask of Python.
pub fn peak_watcher() -> peak::Python {
    extern "C" fn look(_: *mut c_void) -> c_int {
        peak::look();
        0
    }
    peak::Python {
        post: || !place::is_finalizing() && post(look),
        is_main: || MAIN.load(Relaxed) == heap::thread_number(),
    }
}

/// What the garbage collector keeps before an object (`PyGC_Head`), but for free-threaded builds.
const COLLECTED: usize = 16;
/// What the debug hooks keep around a block.
const DEBUG_PADS: usize = 24;

/// What an object of so many bytes is, as far as its size and the frames of the calling thread show,
/// and whether an error passes there.
fn role(asked: usize, error_passes: bool) -> Role {
    // SAFETY: constants of types that are ready.
    let (function, traceback) = unsafe {
        (
            ffi::PyFunction_Type.tp_basicsize as usize,
            ffi::PyTraceBack_Type.tp_basicsize as usize,
        )
    };
    let is = |bytes| asked == COLLECTED + bytes || asked == COLLECTED + bytes + DEBUG_PADS;
    let is_frame = || place::is_frame(asked) || place::is_frame(asked.wrapping_sub(DEBUG_PADS));
    if error_passes && (is(traceback) || is_frame()) {
        Role::Unwinding
    } else if is(function) {
        Role::Function
    } else {
        Role::Plain
    }
}

/// What frees a `MemoryError`; null before [`watch_errors`].
static FREE_ERROR: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Has the caps count the `MemoryError`s that end. With the GIL; once.
fn watch_errors() {
    // SAFETY: a static type, whose function is replaced by one that calls it; the GIL is held.
    unsafe {
        let kind = ffi::PyExc_MemoryError.cast::<ffi::PyTypeObject>();
        if let Some(free) = (*kind).tp_dealloc {
            FREE_ERROR.store(free as *mut (), Relaxed);
            (*kind).tp_dealloc = Some(free_error);
        }
    }
}

/// Frees a `MemoryError`, and counts one that passed Python code: that gives it a traceback. One
/// that CPython made of a refusal and swallowed has none.
unsafe extern "C" fn free_error(error: *mut PyObject) {
    // SAFETY: called by Python with an exception that nobody else has; `watch_errors` alone stores,
    // and only a function of this type.
    unsafe {
        let exception = error.cast::<ffi::PyBaseExceptionObject>();
        if !(*exception).traceback.is_null() {
            caps::error_ended();
        }
        let free = FREE_ERROR.load(Relaxed);
        std::mem::transmute::<*mut (), ffi::destructor>(free)(error);
    }
}

/// Loads what Python would load to print an error: from 3.13 on `traceback` and some 25 modules behind
/// it, for which a script that is out of memory has no room. With the GIL.
pub fn prepare_errors() {
    if !cfg!(Py_3_13) {
        return;
    }
    for module in [c"traceback", c"ast", c"tokenize", c"unicodedata"] {
        // SAFETY: the GIL is held; a new reference is released, and an exception cleared.
        unsafe {
            ffi::Py_XDECREF(ffi::PyImport_ImportModule(module.as_ptr()));
            ffi::PyErr_Clear();
        }
    }
}

/// The forking thread is the child's main thread.
unsafe extern "C" fn forked_in_child() {
    MAIN.store(heap::thread_number(), Relaxed);
}

fn post(call: extern "C" fn(*mut c_void) -> c_int) -> bool {
    // SAFETY: a function of the executable, and no argument.
    unsafe { ffi::Py_AddPendingCall(Some(call), null_mut()) == 0 }
}

/// Raises the error that was posted for the main thread, if this is the place for it.
extern "C" fn surface(_: *mut c_void) -> c_int {
    let (Told::Now, Some(refusal)) = (caps::told(heap::slot()), caps::last()) else {
        return 0;
    };
    let mut text = [0u8; 320];
    let length = format_into(&mut text[..319], format_args!("{refusal}")).len();
    text[length] = 0;
    // SAFETY: a pending call holds the GIL; a text that ends in a zero byte.
    unsafe { ffi::PyErr_SetString(ffi::PyExc_MemoryError, text.as_ptr().cast()) };
    -1
}

/// Has `function` called when a soft cap is passed. With the GIL, in the main interpreter; false
/// with an exception set.
///
/// # Safety
/// `function` is live.
pub unsafe fn add_relief(function: *mut PyObject) -> bool {
    // SAFETY: the GIL is held; the list lives for ever.
    unsafe {
        if RELIEFS.load(Relaxed).is_null() {
            let list = ffi::PyList_New(0);
            if list.is_null() {
                return false;
            }
            RELIEFS.store(list, Relaxed);
        }
        ffi::PyList_Append(RELIEFS.load(Relaxed), function) == 0
    }
}

/// Relieves memory for each scope that is past its soft cap.
extern "C" fn relieve(_: *mut c_void) -> c_int {
    while let Some(scope) = caps::pressed() {
        // SAFETY: a pending call holds the GIL.
        unsafe {
            ffi::PyGC_Collect();
            heap::collect();
            call_reliefs();
            let live = caps::live(scope);
            let soft = caps::soft(scope).unwrap_or(0);
            let mut text = [0u8; 200];
            let line = format_args!(
                "soft cap of {} ({}) passed: {} live after collecting",
                crate::bytes::Bytes(soft),
                scope.name(),
                crate::bytes::Bytes(live)
            );
            let length = format_into(&mut text[..199], line).len();
            text[length] = 0;
            let text = CStr::from_ptr(text.as_ptr().cast());
            if ffi::PyErr_WarnEx(ffi::PyExc_ResourceWarning, text.as_ptr(), 1) != 0 {
                return -1; // the script made errors of such warnings
            }
        }
    }
    0
}

/// # Safety
/// The GIL is held and no exception is set.
unsafe fn call_reliefs() {
    // SAFETY: the caller's duties; the list and the functions in it are held while they run.
    unsafe {
        let reliefs = RELIEFS.load(Relaxed);
        let mut index = 0;
        while !reliefs.is_null() && index < ffi::PyList_Size(reliefs) {
            let function = ffi::PyList_GetItem(reliefs, index);
            ffi::Py_INCREF(function);
            let result = ffi::PyObject_CallObject(function, null_mut());
            if result.is_null() {
                ffi::PyErr_WriteUnraisable(function);
            }
            ffi::Py_XDECREF(result);
            ffi::Py_DECREF(function);
            index += 1;
        }
    }
}
