//! `pyhost.buffer`: C memory of a chosen account, shared through the buffer protocol (PEP 3118)
//! with NumPy, `memoryview` and `ctypes`, and freed with its last user.
//!
//! The memory comes from the account's own public functions (`PyMem_RawCalloc` and so on, the
//! data handler for `numpy`), so that booking, debug hooks and tracemalloc treat it as theirs.
//! A heap type, one an interpreter. All functions need the GIL of their caller's interpreter.

#![allow(unsafe_code)]

use super::arguments::raise;
use super::dictionary::string;
use super::tables::{Shared, attribute, attribute_end};
use super::types::{self, slot};
use crate::ledger::Account;
use crate::numpy;
use pyo3::ffi::{self, Py_ssize_t, PyGetSetDef, PyObject};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

const DOC: &CStr = c"buffer(nbytes, *, align=64, account='numpy')
--

A zeroed, writable C buffer of nbytes bytes, aligned to align, from an account's allocator.

It is shared without a copy by whoever takes its memory through the buffer protocol, such as
numpy.frombuffer(b), memoryview(b) and ctypes' from_buffer(b), and freed with the last of them.

align is a power of two up to 1048576; account is 'raw', 'mem', 'obj', 'numpy' or 'native'. Raises
ValueError for other values and MemoryError where there is no memory.";

/// The largest alignment, in bytes.
const MAX_ALIGNMENT: Py_ssize_t = 1 << 20;

/// What every account's allocator aligns to.
const NATURAL_ALIGNMENT: usize = 16;

const ACCOUNTS: [Account; 5] = [
    Account::Raw,
    Account::Mem,
    Account::Obj,
    Account::Numpy,
    Account::Native,
];

/// An instance.
#[repr(C)]
struct Buffer {
    head: PyObject,
    /// The block, as its allocator gave it.
    block: *mut u8,
    /// The aligned start within it.
    start: *mut u8,
    length: Py_ssize_t,
    alignment: Py_ssize_t,
    account: Account,
}

fn allocate(account: Account, size: usize) -> *mut u8 {
    // SAFETY: the GIL is held.
    unsafe {
        match account {
            Account::Raw => ffi::PyMem_RawCalloc(1, size).cast(),
            Account::Mem => ffi::PyMem_Calloc(1, size).cast(),
            Account::Obj => ffi::PyObject_Calloc(1, size).cast(),
            Account::Numpy => numpy::allocate_zeroed(size),
            _ => libc::calloc(1, size).cast(),
        }
    }
}

/// # Safety
/// A block that [`allocate`] made for that account, not freed since.
unsafe fn free(account: Account, block: *mut u8) {
    // SAFETY: the caller's duty, and the GIL.
    unsafe {
        match account {
            Account::Raw => ffi::PyMem_RawFree(block.cast()),
            Account::Mem => ffi::PyMem_Free(block.cast()),
            Account::Obj => ffi::PyObject_Free(block.cast()),
            Account::Numpy => numpy::free(block),
            _ => libc::free(block.cast()),
        }
    }
}

unsafe extern "C" fn new(
    kind: *mut ffi::PyTypeObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    let names = [
        c"nbytes".as_ptr(),
        c"align".as_ptr(),
        c"account".as_ptr(),
        std::ptr::null(),
    ];
    let mut length: Py_ssize_t = 0;
    let mut alignment: Py_ssize_t = 64;
    let mut name: *const c_char = c"numpy".as_ptr();
    // SAFETY: called by Python, with the GIL; the format names the variables' types.
    unsafe {
        if ffi::PyArg_ParseTupleAndKeywords(
            arguments,
            keywords,
            c"n|$ns:buffer".as_ptr(),
            names.as_ptr().cast_mut().cast(),
            &raw mut length,
            &raw mut alignment,
            &raw mut name,
        ) == 0
        {
            return null_mut();
        }
        let name = CStr::from_ptr(name);
        if length < 0 {
            let text = format!("buffer: nbytes must not be negative, but is {length}");
            return raise(ffi::PyExc_ValueError, &text);
        }
        if !(1..=MAX_ALIGNMENT).contains(&alignment) || alignment & (alignment - 1) != 0 {
            let text = format!(
                "buffer: align must be a power of two up to {MAX_ALIGNMENT}, but is {alignment}"
            );
            return raise(ffi::PyExc_ValueError, &text);
        }
        let Some(account) = ACCOUNTS
            .into_iter()
            .find(|account| account.name().as_bytes() == name.to_bytes())
        else {
            let text = format!(
                "buffer: account must be one of 'raw', 'mem', 'obj', 'numpy', 'native', but is \
                 '{}'",
                name.to_string_lossy()
            );
            return raise(ffi::PyExc_ValueError, &text);
        };
        build(kind, length, alignment, account)
    }
}

/// # Safety
/// The buffer's type, checked values, and the GIL.
unsafe fn build(
    kind: *mut ffi::PyTypeObject,
    length: Py_ssize_t,
    alignment: Py_ssize_t,
    account: Account,
) -> *mut PyObject {
    let natural = match account {
        Account::Numpy => numpy::alignment(),
        _ => NATURAL_ALIGNMENT,
    };
    let room = match alignment as usize {
        more if more > natural => more,
        _ => 0,
    };
    // SAFETY: the caller's duties; the block is long enough to be aligned within.
    unsafe {
        let block = match (length as usize).max(1).checked_add(room) {
            Some(size) => allocate(account, size),
            None => null_mut(),
        };
        if block.is_null() {
            return ffi::PyErr_NoMemory();
        }
        let object = ffi::PyType_GenericAlloc(kind, 0).cast::<Buffer>();
        if object.is_null() {
            free(account, block);
            return null_mut();
        }
        (*object).block = block;
        (*object).start = block.add(block.align_offset(alignment as usize));
        (*object).length = length;
        (*object).alignment = alignment;
        (*object).account = account;
        object.cast()
    }
}

unsafe extern "C" fn dealloc(object: *mut PyObject) {
    // SAFETY: called by Python with the last reference; `build` set the fields.
    unsafe {
        let buffer = object.cast::<Buffer>();
        free((*buffer).account, (*buffer).block);
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn get_buffer(
    object: *mut PyObject,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> c_int {
    // SAFETY: called by Python; the view keeps the object, and so the memory.
    unsafe {
        let Buffer { start, length, .. } = *object.cast::<Buffer>();
        ffi::PyBuffer_FillInfo(view, object, start.cast(), length, 0, flags)
    }
}

unsafe extern "C" fn length(object: *mut PyObject) -> Py_ssize_t {
    // SAFETY: called by Python with an instance.
    unsafe { (*object.cast::<Buffer>()).length }
}

unsafe extern "C" fn repr(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    let buffer = unsafe { &*object.cast::<Buffer>() };
    string(&format!(
        "<pyhost.buffer of {} bytes at {:p}, aligned to {}, account '{}'>",
        buffer.length,
        buffer.start,
        buffer.alignment,
        buffer.account.name()
    ))
}

unsafe extern "C" fn get_nbytes(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { ffi::PyLong_FromSsize_t((*object.cast::<Buffer>()).length) }
}

unsafe extern "C" fn get_align(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { ffi::PyLong_FromSsize_t((*object.cast::<Buffer>()).alignment) }
}

unsafe extern "C" fn get_address(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { ffi::PyLong_FromVoidPtr((*object.cast::<Buffer>()).start.cast()) }
}

unsafe extern "C" fn get_account(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    string(unsafe { (*object.cast::<Buffer>()).account }.name())
}

static mut ATTRIBUTES: Shared<[PyGetSetDef; 5]> = Shared([
    attribute(c"nbytes", get_nbytes, c"Its length in bytes."),
    attribute(
        c"align",
        get_align,
        c"The alignment that was asked for, in bytes.",
    ),
    attribute(c"address", get_address, c"Where it starts, as an integer."),
    attribute(c"account", get_account, c"The name of its account."),
    attribute_end(),
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
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_getset, (&raw mut ATTRIBUTES).cast()),
        slot(ffi::Py_sq_length, length as *mut c_void),
        slot(ffi::Py_bf_getbuffer, get_buffer as *mut c_void),
        slot(0, null_mut()),
    ];
    // SAFETY: the caller's duty; texts and tables are static.
    unsafe { types::add::<Buffer>(module, c"pyhost.buffer", &mut slots) }
}
