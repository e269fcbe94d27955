//! The module's functions about caps: setting and asking for them, and what is known of refusals
//! and of big blocks.

#![allow(unsafe_code)]

use super::arguments::{raise, scope, size};
use super::dictionary::{Dictionary, none};
use super::tables::{method_with, with_keywords};
use crate::bytes::Bytes;
use crate::caps::{self, LimitError};
use crate::heap::{self, register};
use crate::ledger::Scope;
use crate::python::surface;
use crate::report;
use pyo3::ffi::{self, PyMethodDef, PyObject};
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;

const SET_DOC: &CStr = c"set_cap(size, account=None, *, soft=False)
--

Cap the live bytes of an account, or of all together where account is None, from here on.

size is a number of bytes, a str such as '64M', or None for no cap. With soft=True the soft cap is
set, past which memory is relieved and nothing fails. Holds for the process, not for its children.
Raises ValueError where the account has more live, or needs more than is left for its reserve.";

const GET_DOC: &CStr = c"get_cap(account=None, *, soft=False)
--

Return the cap in bytes of an account, or of all together where account is None; None without one.";

const HEADROOM_DOC: &CStr = c"headroom(account=None)
--

Return the size of the largest single request that is granted now, the reserve not counted: under
the lowest of all caps and open limits, or of one account's and the total's. None without any.

Blocks take more than was asked for, so the size is one that the heap does not round up: one that is
an eighth and 192 KiB larger may be refused. Other threads may take of it before the request.";

const LAST_DOC: &CStr = c"last_refusal()
--

Return the last request that a cap refused as a dictionary; None where there was none.

scope is whose cap it was ('total' or an account), account who was asked, size_bytes how much,
cap_bytes and live_bytes the cap and what was live; how is 'null' where CPython, NumPy or a library
made an error of it, 'raised' where the host raised MemoryError; limit tells of the block of code
where it was one of pyhost.limit(); traceback is a list, innermost line first.";

const BLOCKS_DOC: &CStr = c"big_blocks()
--

Return every live block of a mebibyte and more, largest first, as a list of dictionaries: account,
size_bytes, age_seconds, and file and line of its allocation (None where no Python code ran). At
most 8192 are known; the report tells how many more there were.";

const PRESSURE_DOC: &CStr = c"on_pressure(function, /)
--

Have function() called when a soft cap is passed, once an episode, in the main thread, after garbage
was collected. Returns function, so that it may be used as a decorator. What it raises is written
to sys.unraisablehook.";

/// Reads `(account=None, *, soft=False)`, behind a `size` where `with_size`.
unsafe fn parse(
    arguments: *mut PyObject,
    keywords: *mut PyObject,
    format: &CStr,
    with_size: bool,
) -> Option<(*mut PyObject, *mut PyObject, bool)> {
    let names = [
        c"size".as_ptr(),
        c"account".as_ptr(),
        c"soft".as_ptr(),
        std::ptr::null(),
    ];
    let (mut size, mut account): (*mut PyObject, *mut PyObject) = (null_mut(), null_mut());
    let mut soft: c_int = 0;
    // SAFETY: called by Python, with the GIL; the formats name the variables' types.
    let parsed = unsafe {
        if with_size {
            ffi::PyArg_ParseTupleAndKeywords(
                arguments,
                keywords,
                format.as_ptr(),
                names.as_ptr().cast_mut().cast(),
                &raw mut size,
                &raw mut account,
                &raw mut soft,
            )
        } else {
            ffi::PyArg_ParseTupleAndKeywords(
                arguments,
                keywords,
                format.as_ptr(),
                names[1..].as_ptr().cast_mut().cast(),
                &raw mut account,
                &raw mut soft,
            )
        }
    };
    (parsed != 0).then_some((size, account, soft != 0))
}

unsafe extern "C" fn set_cap(
    _: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL.
    unsafe {
        let Some((asked, account, soft)) = parse(arguments, keywords, c"O|O$p:set_cap", true)
        else {
            return null_mut();
        };
        let Some(scope) = scope("set_cap", account) else {
            return null_mut();
        };
        let bytes = match asked == ffi::Py_None() {
            true => None,
            false => match size("set_cap", asked) {
                None => return null_mut(),
                bytes => bytes,
            },
        };
        if soft {
            caps::set_soft(scope, bytes);
            return none();
        }
        match caps::set(scope, bytes, heap::slot()) {
            Ok(()) => none(),
            Err(LimitError::Low { live, least }) => {
                let text = format!(
                    "set_cap: {} has {} live; expected at least {}, with the reserve",
                    scope.name(),
                    Bytes(live),
                    Bytes(least)
                );
                raise(ffi::PyExc_ValueError, &text)
            }
            Err(LimitError::High(most)) => {
                let text = format!(
                    "set_cap: expected at most {}, which this build is limited to",
                    Bytes(most)
                );
                raise(ffi::PyExc_ValueError, &text)
            }
            Err(LimitError::Full) => raise(ffi::PyExc_RuntimeError, "set_cap: too many limits"),
        }
    }
}

/// An int, or `None`.
fn number(bytes: Option<u64>) -> *mut PyObject {
    match bytes {
        // SAFETY: with the GIL.
        Some(bytes) => unsafe { ffi::PyLong_FromUnsignedLongLong(bytes) },
        None => none(),
    }
}

unsafe extern "C" fn get_cap(
    _: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL.
    unsafe {
        let Some((_, account, soft)) = parse(arguments, keywords, c"|O$p:get_cap", false) else {
            return null_mut();
        };
        match scope("get_cap", account) {
            Some(scope) if soft => number(caps::soft(scope)),
            Some(scope) => number(caps::get(scope)),
            None => null_mut(),
        }
    }
}

unsafe extern "C" fn headroom(
    _: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    let names = [c"account".as_ptr(), std::ptr::null()];
    let mut account = null_mut();
    // SAFETY: called by Python, with the GIL; the format names the variable's type.
    unsafe {
        if ffi::PyArg_ParseTupleAndKeywords(
            arguments,
            keywords,
            c"|O:headroom".as_ptr(),
            names.as_ptr().cast_mut().cast(),
            &raw mut account,
        ) == 0
        {
            return null_mut();
        }
        let Some(of) = scope("headroom", account) else {
            return null_mut();
        };
        let all = of == Scope::Total;
        let least = Scope::all()
            .filter(|&scope| all || scope == of || scope == Scope::Total)
            .filter_map(|scope| caps::headroom(scope, heap::slot()))
            .min();
        number(least.map(heap::largest_within))
    }
}

unsafe extern "C" fn last_refusal(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    match caps::last() {
        None => none(),
        Some(refusal) => {
            Dictionary::build(|dictionary| report::describe_refusal(&refusal, dictionary))
        }
    }
}

unsafe extern "C" fn big_blocks(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    let mut blocks = Vec::new();
    register::each(|block| blocks.push(block));
    blocks.sort_by_key(|block| std::cmp::Reverse(block.bytes));
    Dictionary::list(|list| {
        for block in &blocks {
            report::describe_block(block, list);
        }
    })
}

unsafe extern "C" fn on_pressure(_: *mut PyObject, function: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and a live argument.
    unsafe {
        if ffi::PyCallable_Check(function) == 0 {
            return raise(
                ffi::PyExc_TypeError,
                "on_pressure: expected a function to call",
            );
        }
        if !surface::add_relief(function) {
            return null_mut();
        }
        ffi::Py_INCREF(function);
        function
    }
}

/// The functions, for the module's table.
pub const METHODS: [PyMethodDef; 6] = [
    with_keywords(c"set_cap", set_cap, SET_DOC),
    with_keywords(c"get_cap", get_cap, GET_DOC),
    with_keywords(c"headroom", headroom, HEADROOM_DOC),
    method_with(c"last_refusal", last_refusal, LAST_DOC, ffi::METH_NOARGS),
    method_with(c"big_blocks", big_blocks, BLOCKS_DOC, ffi::METH_NOARGS),
    method_with(c"on_pressure", on_pressure, PRESSURE_DOC, ffi::METH_O),
];
