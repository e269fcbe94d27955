//! `pyhost.fail`: a block of the script in which requests for memory fail.
//!
//! A heap type, one an interpreter; its instances are context managers. `__exit__` takes its
//! arguments as a C array (`METH_FASTCALL`), since a tuple for them would itself be a request that
//! may fail, and the block would stay open. All functions need the GIL of their caller's
//! interpreter.

#![allow(unsafe_code)]

use super::arguments::raise;
use super::dictionary::none;
use super::tables::{Shared, attribute, attribute_end, fast, method};
use super::types::{self, slot};
use crate::bytes::Expected;
use crate::faults::{self, Handle, Spec};
use crate::python::text::with_text;
use pyo3::ffi::{self, Py_ssize_t, PyGetSetDef, PyObject};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const DOC: &CStr = c"fail(spec=None)
--

A context manager: within its block requests for memory fail, in all threads.

spec is a rule as --fail takes it, such as 'obj=3' (the third request of obj from here on), 'every=5',
'numpy=above=64K'. Rules of blocks around it and of the command line hold as well; those that say
when=open hold in each block. Without spec the block has no rule of its own.

After the block, or within it, requests is how many requests its own rule counted, and injected how
many of them it let fail:

    for n in itertools.count(1):
        with pyhost.fail(f'mem+obj={n}') as fault:
            work()  # must raise MemoryError or give its result
        if not fault.injected:
            break  # work makes no more requests

The block itself catches nothing. Raises ValueError for a spec that is none, and RuntimeError where
the host was started without --fail: --fail when=open lets scripts use it.";

/// An instance.
#[repr(C)]
struct Fail {
    head: PyObject,
    spec: Option<Spec>,
    /// Where the block is open.
    open: Option<Handle>,
    requests: u64,
    injected: u64,
}

unsafe extern "C" fn new(
    kind: *mut ffi::PyTypeObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    let names = [c"spec".as_ptr(), std::ptr::null()];
    let mut text: *mut PyObject = null_mut();
    // SAFETY: called by Python, with the GIL; the format names the variable's type. The allocator
    // of the type gives zeroed memory that holds an instance.
    unsafe {
        if ffi::PyArg_ParseTupleAndKeywords(
            arguments,
            keywords,
            c"|O:fail".as_ptr(),
            names.as_ptr().cast_mut().cast(),
            &raw mut text,
        ) == 0
        {
            return null_mut();
        }
        if !faults::is_on() {
            return raise(
                ffi::PyExc_RuntimeError,
                "fail: the host was started without --fail; expected --fail when=open, or \
                 PYHOST_FAIL=when=open",
            );
        }
        let mut spec = None;
        if !text.is_null() && !std::ptr::eq(text, ffi::Py_None()) {
            let parsed = with_text(text, |text| {
                let shown = String::from_utf8_lossy(text).into_owned();
                shown.parse::<Spec>().map_err(|Expected(expected)| {
                    format!("fail: bad spec '{shown}'; expected {expected}")
                })
            });
            match parsed {
                Some(Ok(parsed)) => spec = parsed.is_a_rule().then_some(parsed),
                Some(Err(message)) => return raise(ffi::PyExc_ValueError, &message),
                None => return raise(ffi::PyExc_TypeError, "fail: expected a str or None"),
            }
        }
        let Some(allocate) = (*kind).tp_alloc else {
            return null_mut();
        };
        let object = allocate(kind, 0).cast::<Fail>();
        if !object.is_null() {
            (&raw mut (*object).spec).write(spec);
            (&raw mut (*object).open).write(None);
        }
        object.cast()
    }
}

unsafe extern "C" fn dealloc(object: *mut PyObject) {
    // SAFETY: called by Python with an instance that nobody has any more; its type is a heap type,
    // which each instance keeps.
    unsafe {
        close(&mut *object.cast());
        let kind = ffi::Py_TYPE(object);
        if let Some(free) = (*kind).tp_free {
            free(object.cast());
        }
        ffi::Py_DECREF(kind.cast());
    }
}

fn close(fail: &mut Fail) {
    if let Some(handle) = fail.open.take() {
        (fail.requests, fail.injected) = faults::close(handle);
    }
}

unsafe extern "C" fn enter(object: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe {
        let fail = object.cast::<Fail>();
        if (*fail).open.is_some() {
            return raise(ffi::PyExc_RuntimeError, "fail: its block is open already");
        }
        // Nothing is allocated from here on: the first request is the block's own.
        match faults::open((*fail).spec.as_ref()) {
            Some(handle) => (*fail).open = Some(handle),
            None => return raise(ffi::PyExc_RuntimeError, "fail: too many blocks are open"),
        }
        ffi::Py_INCREF(object);
        object
    }
}

unsafe extern "C" fn exit(
    object: *mut PyObject,
    _arguments: *mut *mut PyObject,
    _count: Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    close(unsafe { &mut *object.cast() });
    none()
}

unsafe extern "C" fn get_requests(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe {
        let fail = &*object.cast::<Fail>();
        let requests = fail.open.map_or(fail.requests, |handle| handle.seen().0);
        ffi::PyLong_FromUnsignedLongLong(requests)
    }
}

unsafe extern "C" fn get_injected(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe {
        let fail = &*object.cast::<Fail>();
        let injected = fail.open.map_or(fail.injected, |handle| handle.seen().1);
        ffi::PyLong_FromUnsignedLongLong(injected)
    }
}

static mut ATTRIBUTES: Shared<[PyGetSetDef; 3]> = Shared([
    attribute(
        c"requests",
        get_requests,
        c"How many requests its own rule counted.",
    ),
    attribute(
        c"injected",
        get_injected,
        c"How many requests its own rule let fail.",
    ),
    attribute_end(),
]);

static mut METHODS: Shared<[ffi::PyMethodDef; 3]> = Shared([
    method(c"__enter__", enter, c"Open the block."),
    fast(c"__exit__", exit, c"Close the block."),
    ffi::PyMethodDef::zeroed(),
]);

/// Adds the type to a module that is being executed; false with an exception set on failure. With
/// the GIL.
///
/// # Safety
/// `module` is live.
pub unsafe fn add(module: *mut PyObject) -> bool {
    let mut slots = [
        slot(ffi::Py_tp_doc, DOC.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_new, new as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_methods, (&raw mut METHODS).cast()),
        slot(ffi::Py_tp_getset, (&raw mut ATTRIBUTES).cast()),
        slot(0, null_mut()),
    ];
    // SAFETY: the caller's duty; texts and tables are static.
    unsafe { types::add::<Fail>(module, c"pyhost.fail", &mut slots) }
}
