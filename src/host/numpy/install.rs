//! Puts the host's handler in the place of NumPy's default one.
//!
//! NumPy keeps the current handler in a context variable, whose default serves every context that
//! has not set another: all threads, fresh contexts and those copied before. So the default
//! itself is replaced, and the capsule that `PyDataMem_SetHandler(NULL)` puts back. Arrays that
//! NumPy made while it was loading keep the handler that they were born with.
//!
//! A context variable does not let its default be changed: its structure (`PyContextVar` of
//! CPython's `contextvars`) is searched for the old default, which must be there exactly once. All
//! is verified before the first change; where anything is not as expected, nothing is changed.

#![allow(unsafe_code)]

use super::capi::{DataMemHandler, FIRST_FEATURE, HANDLER_CAPSULE, KNOWN_ABIS, Table};
use pyo3::ffi::{self, PyObject};
use std::fmt;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering::Release};

/// Why a NumPy is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Before 1.22 there are no handlers.
    TooOld,
    /// No table, or one of another ABI.
    UnknownTable,
    /// The default handler or its context variable is not where it was in 1.22 to 2.5.
    UnknownDefault,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Refusal::TooOld => "it has no data handlers (NEP 49), as NumPy has from 1.22 on",
            Refusal::UnknownTable => "its table of functions is not one that is known",
            Refusal::UnknownDefault => "its default data handler is not where it was up to 2.5",
        })
    }
}

/// Makes `handler` the default of the NumPy whose `_multiarray_umath` is `extension`. With the
/// GIL; leaves no exception. Once more for the same NumPy does nothing.
///
/// # Safety
/// `extension` is a live module whose loading has ended; `handler` lives for ever.
pub unsafe fn install(
    extension: *mut PyObject,
    handler: *mut DataMemHandler,
) -> Result<(), Refusal> {
    // SAFETY: the GIL is held, and what each call needs is verified before it.
    unsafe {
        let table = Table::of(extension).ok_or(Refusal::UnknownTable)?;
        if !KNOWN_ABIS.contains(&table.abi()) {
            return Err(Refusal::UnknownTable);
        }
        if table.feature() < FIRST_FEATURE {
            return Err(Refusal::TooOld);
        }
        let place = table.default_handler();
        if place.is_null() || (*place).is_null() {
            return Err(Refusal::UnknownDefault);
        }
        let before = *place;
        if ffi::PyCapsule_IsValid(before, HANDLER_CAPSULE.as_ptr()) == 0 {
            return Err(Refusal::UnknownDefault);
        }
        if std::ptr::eq(
            ffi::PyCapsule_GetPointer(before, HANDLER_CAPSULE.as_ptr()),
            handler.cast(),
        ) {
            return Ok(()); // a further interpreter shares NumPy's statics
        }
        let capsule = ffi::PyCapsule_New(handler.cast(), HANDLER_CAPSULE.as_ptr(), None);
        let variable = match capsule.is_null() {
            true => null_mut(),
            false => current_variable(table, capsule),
        };
        let default = default_of(variable, before);
        ffi::Py_XDECREF(variable); // NumPy keeps it
        let Some(default) = default else {
            ffi::PyErr_Clear();
            ffi::Py_XDECREF(capsule);
            return Err(Refusal::UnknownDefault);
        };
        // Each place has a reference of its own. What they held of the old capsule is kept: a
        // thread may be on its way with it.
        ffi::Py_INCREF(capsule);
        let change = Change {
            places: [default, &*place.cast::<AtomicPtr<PyObject>>()],
            before,
        };
        change
            .places
            .iter()
            .for_each(|place| place.store(capsule, Release));
        if let Ok(mut changes) = CHANGES.lock() {
            changes.push(change);
        }
        Ok(())
    }
}

/// The two places of a NumPy that hold its default handler, and what they held before.
struct Change {
    places: [&'static AtomicPtr<PyObject>; 2],
    before: *mut PyObject,
}
// SAFETY: the places are statics of NumPy's and a word of a variable that it keeps; the GIL guards them.
unsafe impl Send for Change {}

/// All that [`install`] did. Locked with the GIL held, and never across a call of Python's.
static CHANGES: Mutex<Vec<Change>> = Mutex::new(Vec::new());

/// Puts NumPy's own default handler back, wherever [`install`] took its place. With the GIL.
pub fn undo() {
    if let Ok(mut changes) = CHANGES.lock() {
        for change in changes.drain(..) {
            // The references of before were kept; those of the host's capsule are now.
            change
                .places
                .iter()
                .for_each(|place| place.store(change.before, Release));
        }
    }
}

/// A new reference to the context variable in which NumPy keeps the current handler: the one that
/// `PyDataMem_SetHandler` changes in a context that was empty. Null, or with an exception set,
/// where there is none.
///
/// # Safety
/// The GIL; a table with handlers; a handler's capsule.
unsafe fn current_variable(table: Table, capsule: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller's duties; new references are released.
    unsafe {
        let context = ffi::PyContext_New();
        if context.is_null() || ffi::PyContext_Enter(context) != 0 {
            ffi::Py_XDECREF(context);
            return null_mut();
        }
        let before = table.set_handler(capsule);
        ffi::PyContext_Exit(context);
        ffi::Py_XDECREF(before);
        let mut found: *mut PyObject = null_mut();
        let variables = ffi::PyObject_GetIter(context);
        while !variables.is_null() && found.is_null() {
            let variable = ffi::PyIter_Next(variables);
            if variable.is_null() {
                break;
            }
            let value = ffi::PyObject_GetItem(context, variable);
            ffi::Py_XDECREF(value);
            match std::ptr::eq(value, capsule) {
                true => found = variable,
                false => ffi::Py_DECREF(variable),
            }
        }
        ffi::Py_XDECREF(variables);
        ffi::Py_DECREF(context);
        found
    }
}

/// The one word of a context variable that holds `default`.
///
/// # Safety
/// `variable` is null or a live object; it outlives the result.
unsafe fn default_of<'a>(
    variable: *mut PyObject,
    default: *mut PyObject,
) -> Option<&'a AtomicPtr<PyObject>> {
    // SAFETY: the words of the object, whose size its type has.
    unsafe {
        if variable.is_null() || ffi::PyContextVar_CheckExact(variable) == 0 {
            return None;
        }
        let words = (*ffi::Py_TYPE(variable)).tp_basicsize as usize / size_of::<usize>();
        let header = size_of::<PyObject>() / size_of::<usize>();
        let mut hits = (header..words)
            .map(|index| &*variable.cast::<AtomicPtr<PyObject>>().add(index))
            .filter(|word| std::ptr::eq(word.as_ptr().read(), default));
        match (hits.next(), hits.next()) {
            (Some(word), None) => Some(word),
            _ => None,
        }
    }
}
