//! Puts the host's handler in the place of NumPy's default one.
//!
//! NumPy keeps the current handler in a context variable, whose default serves every context that
//! has not set another: all threads, fresh contexts and those copied before. So the default
//! itself is replaced, and the capsule that `PyDataMem_SetHandler(NULL)` puts back. Arrays that
//! NumPy made while it was loading keep the handler that they were born with.
//!
//! A context variable does not let its default be changed: its structure (`PyContextVar` of
//! CPython's `contextvars`) is searched for the old default, which must be there exactly once. All
//! is verified before the first change; if anything is not as expected, nothing is changed.

use super::STATE;
use super::capi::{DataMemHandler, HANDLER_CAPSULE, Table, UnsupportedNumpy};
use crate::cpython::objects::{Gil, Kept, Object, Owned, Returned, or_none};
use pyo3::ffi::PyObject;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering::Release};

/// Makes `handler` the default of the NumPy whose `_multiarray_umath` is `extension`, which has been executed. Leaves
/// no exception. Once more for the same NumPy does nothing.
pub fn install(
    extension: &Object<'_>,
    handler: &'static DataMemHandler,
) -> Result<(), UnsupportedNumpy> {
    let gil = extension.gil();
    let table = Table::of(extension)?;
    let before = table
        .default_handler(gil)
        .ok_or(UnsupportedNumpy::UnknownDefault)?;
    let own =
        or_none(before.capsule(Some(HANDLER_CAPSULE))).ok_or(UnsupportedNumpy::UnknownDefault)?;
    if std::ptr::eq(own.as_ptr(), (&raw const *handler).cast()) {
        return Ok(()); // a further interpreter shares NumPy's statics
    }
    let find = || -> Returned<'_, _> {
        let capsule = gil.new_capsule(NonNull::from(handler).cast(), HANDLER_CAPSULE)?;
        let variable = current_variable(&table, &capsule)?;
        let places = variable.and_then(|variable| table.places(variable, before));
        Ok(places.map(|places| (capsule, places)))
    };
    let (capsule, places) = or_none(find())
        .flatten()
        .ok_or(UnsupportedNumpy::UnknownDefault)?;
    let before = before.to_owned().keep();
    // Each place has a reference of its own. What they held of the old capsule is kept: a
    // thread may be on its way with it.
    for place in places {
        place.store(capsule.to_owned().into_pointer(), Release);
    }
    if let Ok(mut changes) = STATE.changes.lock() {
        changes.push(Change { places, before });
    }
    Ok(())
}

/// The two places of a NumPy that hold its default handler, and what they held before.
pub(super) struct Change {
    places: [&'static AtomicPtr<PyObject>; 2],
    before: Kept,
}

/// Puts NumPy's own default handler back, wherever [`install`] took its place.
pub fn undo(gil: Gil<'_>) {
    if let Ok(mut changes) = STATE.changes.lock() {
        for change in changes.drain(..) {
            // The references of before were kept; those of the host's capsule are now.
            let before = change.before.get(gil).pointer();
            for place in change.places {
                place.store(before, Release);
            }
        }
    }
}

/// The context variable in which NumPy keeps the current handler: the one that
/// `PyDataMem_SetHandler` changes in a context that was empty. None if it changes none. NumPy keeps the variable.
fn current_variable<'a>(table: &Table, capsule: &Object<'a>) -> Returned<'a, Option<Owned<'a>>> {
    let gil = capsule.gil();
    let context = gil.new_context()?;
    context.run_in(|| table.set_handler(capsule))??;
    let variables = context.to_list()?;
    for variable in (0..).map_while(|index| variables.at(index)) {
        if context.subscript(&variable)?.is(capsule) {
            return Ok(Some(variable));
        }
    }
    Ok(None)
}
