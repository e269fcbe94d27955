//! The module's functions about size classes and the resident size.

#![allow(unsafe_code)]

use super::arguments::raise;
use super::dictionary::{Dictionary, none};
use super::tables::{method, with_keywords};
use crate::balance;
use crate::heap::histogram::{ACCOUNTS_WITH_CLASSES, Histogram};
use crate::ledger::Account;
use crate::python::text::with_text;
use crate::report::{self, Sink};
use pyo3::ffi::{self, PyMethodDef, PyObject};
use std::ffi::CStr;
use std::ptr::null_mut;

const HISTOGRAM_DOC: &CStr = c"size_histogram(account=None)
--

Return the live blocks of an account by size class, as a list of dictionaries, smallest first.

block_bytes is the size of the class's blocks (from 512 KiB on that of the largest that it may have),
live_blocks and live_bytes are what is allocated and not freed, capacity_bytes what the pages of the
class hold, free blocks included. account is 'raw', 'mem', 'obj', 'numpy' or 'native'; with None a
dictionary of lists by account is returned. Walks the heaps; may be called from any thread.";

const FRAGMENTATION_DOC: &CStr = c"fragmentation(account=None)
--

Return the part of what an account's pages hold that is not live, from 0.0 to 1.0.

account is as for size_histogram(); with None a dictionary by account is returned.";

const BALANCE_DOC: &CStr = c"balance_sheet()
--

Return what is resident in memory at this moment, explained row by row, as a dictionary.

d['resident_bytes'] is the sum; d['rows'] is a list of dictionaries with name, kind ('account', 'heap',
'file', 'stack' or 'anonymous') and resident_bytes; d['remainder_bytes'] is what no row explains.
Returns None where the kernel does not tell what is resident.";

/// The account of an `account` argument: `Ok(None)` is all. `Err` with an exception set for another.
unsafe fn parse(
    function: &str,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> Result<Option<Account>, ()> {
    let names = [c"account".as_ptr(), std::ptr::null()];
    let mut name: *mut PyObject = null_mut();
    // SAFETY: called by Python, with the GIL; the format names the variable's type.
    unsafe {
        let parsed = ffi::PyArg_ParseTupleAndKeywords(
            arguments,
            keywords,
            c"|O".as_ptr(),
            names.as_ptr().cast_mut().cast(),
            &raw mut name,
        );
        if parsed == 0 {
            return Err(());
        }
        if name.is_null() || name == ffi::Py_None() {
            return Ok(None);
        }
        let found = with_text(name, |text| {
            let mut all = ACCOUNTS_WITH_CLASSES.into_iter();
            all.find(|account| account.name().as_bytes() == text)
        });
        if let Some(Some(account)) = found {
            return Ok(Some(account));
        }
        let text = format!(
            "{function}: account must be None or one of 'raw', 'mem', 'obj', 'numpy', 'native'"
        );
        raise(ffi::PyExc_ValueError, &text);
        Err(())
    }
}

/// What `tell` makes of the classes of this moment; null with MemoryError set where there is no memory.
fn with_classes(tell: impl FnOnce(&Histogram) -> *mut PyObject) -> *mut PyObject {
    match Histogram::taken() {
        Some(histogram) => tell(&histogram),
        // SAFETY: the GIL is held.
        None => unsafe { ffi::PyErr_NoMemory() },
    }
}

unsafe extern "C" fn size_histogram(
    _module: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called by Python.
    match unsafe { parse("size_histogram", arguments, keywords) } {
        Err(()) => null_mut(),
        Ok(Some(account)) => with_classes(|histogram| {
            Dictionary::list(|list| report::describe_classes(histogram.of(account), list))
        }),
        Ok(None) => with_classes(|histogram| {
            Dictionary::build(|dictionary| report::describe_histogram(histogram, dictionary))
        }),
    }
}

unsafe extern "C" fn fragmentation(
    _module: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called by Python.
    match unsafe { parse("fragmentation", arguments, keywords) } {
        Err(()) => null_mut(),
        Ok(Some(account)) => with_classes(|histogram| {
            let figure = histogram.of(account).fragmentation();
            // SAFETY: the GIL is held.
            unsafe { ffi::PyFloat_FromDouble(figure) }
        }),
        Ok(None) => with_classes(|histogram| {
            Dictionary::build(|dictionary| {
                for account in ACCOUNTS_WITH_CLASSES {
                    let figure = histogram.of(account).fragmentation();
                    dictionary.fraction(account.name(), figure);
                }
            })
        }),
    }
}

unsafe extern "C" fn balance_sheet(_module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    match balance::take() {
        None => none(),
        Some(balance) => {
            Dictionary::build(|dictionary| report::describe_balance(&balance, dictionary))
        }
    }
}

/// For the module's table.
pub const METHODS: [PyMethodDef; 3] = [
    with_keywords(c"size_histogram", size_histogram, HISTOGRAM_DOC),
    with_keywords(c"fragmentation", fragmentation, FRAGMENTATION_DOC),
    method(c"balance_sheet", balance_sheet, BALANCE_DOC),
];
