//! `pyhost.track`: a context manager that measures one block of code, and a decorator.
//!
//! A heap type, one an interpreter; written against the C API so that nothing of Python is allocated
//! between the figures of its begin and the block, or between the block and the figures of its end.
//! What needs no such care (accounts as objects, the table, decorated functions) is Python, see
//! [`super::library`]. With the GIL.

#![allow(unsafe_code)]

use super::arguments::{raise, scope};
use super::dictionary::{none, string};
use super::library;
use super::tables::{Shared, attribute, attribute_end, fast, method};
use super::track_spans as spans;
use super::types::{self, slot};
use crate::bytes::Bytes;
use crate::heap;
use crate::ledger::{Account, LEDGER, Marks, Others, Peaks, Scope, Slot, Snapshot};
use pyo3::ffi::{self, Py_ssize_t, PyGetSetDef, PyMethodDef, PyObject};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::time::Instant;

const DOC: &CStr = c"track(function=None, /, *, account=None)
--

Context manager that measures what its block does to the memory of the process:

    with pyhost.track() as t:
        work()
    print(t.peak_growth_bytes, t.growth_bytes, t.accounts['obj'].allocations)

peak_bytes, peak_growth_bytes, growth_bytes, growth_blocks and allocations are those of account, or of
all together where it is None; accounts has them for each. All are there during the block, too. Bytes
are those that the blocks really take; peaks of 'mem' and 'obj' are exact under one GIL, others never
low, and high by at most 64 KiB a thread. Blocks nest and overlap, in all threads, and leave the peaks
of the process as they are. One object may be used for one block after another.

What other threads allocate meanwhile is counted too; threads and other_allocations tell of it.

As a decorator, @pyhost.track or @pyhost.track(account='obj'), it measures each call, and the
function's last_track is that of the latest call to end. Coroutine functions and generators are
measured from their first step to their end.";

/// How far an instance is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open(u64),
    Closed,
}

/// An instance.
#[repr(C)]
struct Track {
    head: PyObject,
    scope: Scope,
    state: State,
    begin: Snapshot,
    /// From here on of the block that has ended.
    end: Snapshot,
    peaks: Peaks,
    started: Option<Instant>,
    seconds: f64,
    others: Others,
    /// The slot of the thread that entered, and what all threads had allocated then.
    own: Option<&'static Slot>,
    marks: Marks,
}

/// The figures of an instance, of the block that has ended or runs.
struct Measured {
    begin: Snapshot,
    end: Snapshot,
    peaks: Peaks,
    seconds: f64,
    others: Others,
}

/// A scope's part of it.
struct Figures {
    peak: u64,
    peak_growth: u64,
    growth: i64,
    blocks: i64,
    allocations: u64,
}

impl Measured {
    fn of(&self, scope: Scope) -> Figures {
        let live = |snapshot: &Snapshot| match scope {
            Scope::Account(account) => snapshot.account(account).live_bytes,
            Scope::Total => snapshot.total_live_bytes,
        };
        let sum = |snapshot: &Snapshot, figure: fn(&crate::ledger::AccountFigures) -> u64| {
            let of_scope = |account| scope == Scope::Total || scope == Scope::Account(account);
            let accounts = snapshot.accounts();
            let chosen = accounts.filter(|&(account, _)| of_scope(account));
            chosen.map(|(_, figures)| figure(figures)).sum::<u64>()
        };
        let (begin, end) = (live(&self.begin), live(&self.end));
        let peak = match scope {
            Scope::Account(account) => self.peaks.account(account),
            Scope::Total => self.peaks.total,
        };
        let peak = peak.max(begin).max(end);
        let blocks = |snapshot| sum(snapshot, |figures| figures.live_blocks);
        let allocations = |snapshot| sum(snapshot, |figures| figures.total_blocks);
        Figures {
            peak,
            peak_growth: peak - begin,
            growth: end as i64 - begin as i64,
            blocks: blocks(&self.end) as i64 - blocks(&self.begin) as i64,
            allocations: allocations(&self.end).saturating_sub(allocations(&self.begin)),
        }
    }
}

impl Track {
    /// None where the block was never entered.
    fn measured(&self) -> Option<Measured> {
        let (end, peaks, seconds, others) = match self.state {
            State::New => return None,
            State::Open(number) => {
                let (end, peaks) = spans::look(number);
                (end, peaks, self.elapsed(), self.others_now())
            }
            State::Closed => (self.end, self.peaks, self.seconds, self.others),
        };
        Some(Measured {
            begin: self.begin,
            end,
            peaks,
            seconds,
            others,
        })
    }

    fn elapsed(&self) -> f64 {
        self.started
            .map_or(0.0, |started| started.elapsed().as_secs_f64())
    }

    fn others_now(&self) -> Others {
        self.own.map_or(Others::default(), |own| {
            LEDGER.others_since(&self.marks, own)
        })
    }

    fn close(&mut self) {
        if let State::Open(number) = self.state {
            (self.end, self.peaks) = spans::end(number);
            self.seconds = self.elapsed();
            self.others = self.others_now();
            self.state = State::Closed;
        }
    }
}

unsafe extern "C" fn new(
    kind: *mut ffi::PyTypeObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    let names = [c"".as_ptr(), c"account".as_ptr(), std::ptr::null()];
    let (mut function, mut account): (*mut PyObject, *mut PyObject) = (null_mut(), null_mut());
    // SAFETY: called by Python, with the GIL; the format names the variables' types. The fields of
    // an instance are plain values, for each of which zeroes are one or which are written here.
    unsafe {
        if ffi::PyArg_ParseTupleAndKeywords(
            arguments,
            keywords,
            c"|O$O:track".as_ptr(),
            names.as_ptr().cast_mut().cast(),
            &raw mut function,
            &raw mut account,
        ) == 0
        {
            return null_mut();
        }
        let Some(scope) = scope("track", account) else {
            return null_mut();
        };
        if !function.is_null() && function != ffi::Py_None() {
            return wrap(function, scope);
        }
        let object = ffi::PyType_GenericAlloc(kind, 0).cast::<Track>();
        if !object.is_null() {
            (&raw mut (*object).scope).write(scope);
            (&raw mut (*object).state).write(State::New);
            (&raw mut (*object).started).write(None);
            (&raw mut (*object).own).write(None);
        }
        object.cast()
    }
}

/// A function that tracks each call of another; null with an exception set on failure.
///
/// # Safety
/// `function` is live.
unsafe fn wrap(function: *mut PyObject, scope: Scope) -> *mut PyObject {
    // SAFETY: the caller's duty, and the GIL; references that are not given on are released.
    unsafe {
        if ffi::PyCallable_Check(function) == 0 {
            return raise(
                ffi::PyExc_TypeError,
                "track: expected a function to decorate, or account=NAME",
            );
        }
        let wrap = library::attribute(c"_wrap");
        if wrap.is_null() {
            return null_mut();
        }
        let account = name(scope);
        let wrapped = match account.is_null() {
            true => null_mut(),
            false => {
                ffi::PyObject_CallFunctionObjArgs(wrap, function, account, null_mut::<PyObject>())
            }
        };
        ffi::Py_XDECREF(account);
        ffi::Py_DECREF(wrap);
        wrapped
    }
}

unsafe extern "C" fn call(
    object: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    let mut function: *mut PyObject = null_mut();
    let names = [c"".as_ptr(), std::ptr::null()];
    // SAFETY: called by Python, with the GIL and an instance.
    unsafe {
        if ffi::PyArg_ParseTupleAndKeywords(
            arguments,
            keywords,
            c"O:track".as_ptr(),
            names.as_ptr().cast_mut().cast(),
            &raw mut function,
        ) == 0
        {
            return null_mut();
        }
        wrap(function, (*object.cast::<Track>()).scope)
    }
}

unsafe extern "C" fn enter(object: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and an instance.
    unsafe {
        let track = &mut *object.cast::<Track>();
        if matches!(track.state, State::Open(_)) {
            let text = "track: its block is running already; expected one track for each block";
            return raise(ffi::PyExc_RuntimeError, text);
        }
        let own = heap::slot();
        track.own = Some(own);
        track.marks = LEDGER.marks();
        track.started = Some(Instant::now());
        let Some((number, begin)) = spans::begin() else {
            return ffi::PyErr_NoMemory();
        };
        track.begin = begin;
        track.state = State::Open(number);
        ffi::Py_INCREF(object);
        object
    }
}

/// `METH_FASTCALL`: a tuple for the arguments would be counted.
unsafe extern "C" fn exit(
    object: *mut PyObject,
    _arguments: *mut *mut PyObject,
    _count: Py_ssize_t,
) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and an instance.
    unsafe { (*object.cast::<Track>()).close() };
    none()
}

unsafe extern "C" fn dealloc(object: *mut PyObject) {
    // SAFETY: called by Python with the last reference.
    unsafe {
        (*object.cast::<Track>()).close();
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_Free(object.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

fn name(scope: Scope) -> *mut PyObject {
    string(scope.name())
}

/// An attribute out of what was measured; null with RuntimeError set before the block.
///
/// # Safety
/// `object` is an instance.
unsafe fn tell(
    object: *mut PyObject,
    tell: impl FnOnce(&Measured, Scope) -> *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller's duty, and the GIL.
    unsafe {
        let track = &*object.cast::<Track>();
        match track.measured() {
            Some(measured) => tell(&measured, track.scope),
            None => raise(
                ffi::PyExc_RuntimeError,
                "track: nothing was measured yet; expected a block that was entered",
            ),
        }
    }
}

unsafe extern "C" fn get_peak(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { tell(object, |m, scope| int(m.of(scope).peak as i64)) }
}

unsafe extern "C" fn get_peak_growth(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { tell(object, |m, scope| int(m.of(scope).peak_growth as i64)) }
}

unsafe extern "C" fn get_growth(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { tell(object, |m, scope| int(m.of(scope).growth)) }
}

unsafe extern "C" fn get_blocks(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { tell(object, |m, scope| int(m.of(scope).blocks)) }
}

unsafe extern "C" fn get_allocations(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { tell(object, |m, scope| int(m.of(scope).allocations as i64)) }
}

unsafe extern "C" fn get_threads(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { tell(object, |m, _| int(i64::from(m.others.threads))) }
}

unsafe extern "C" fn get_others(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    unsafe { tell(object, |m, _| int(m.others.blocks as i64)) }
}

unsafe extern "C" fn get_seconds(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance, and the GIL.
    unsafe { tell(object, |m, _| ffi::PyFloat_FromDouble(m.seconds)) }
}

unsafe extern "C" fn get_account(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    name(unsafe { (*object.cast::<Track>()).scope })
}

unsafe extern "C" fn get_accounts(object: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called by Python with an instance, and the GIL; references that are not given on are
    // released.
    unsafe {
        tell(object, |measured, _| {
            let build = library::attribute(c"_accounts");
            let rows = ffi::PyList_New(0);
            let mut filled = !build.is_null() && !rows.is_null();
            for (account, _) in measured.begin.accounts() {
                let row = if filled {
                    row(account, measured)
                } else {
                    null_mut()
                };
                filled = !row.is_null() && ffi::PyList_Append(rows, row) == 0;
                ffi::Py_XDECREF(row);
            }
            let accounts = match filled {
                true => ffi::PyObject_CallFunctionObjArgs(build, rows, null_mut::<PyObject>()),
                false => null_mut(),
            };
            ffi::Py_XDECREF(rows);
            ffi::Py_XDECREF(build);
            accounts
        })
    }
}

/// An account's name and figures, in the order of `TrackedAccount`.
///
/// # Safety
/// The GIL is held.
unsafe fn row(account: Account, measured: &Measured) -> *mut PyObject {
    let figures = measured.of(Scope::Account(account));
    let name = account.name();
    // SAFETY: the format names the types of what follows.
    unsafe {
        ffi::Py_BuildValue(
            c"NKKLLK".as_ptr(),
            string(name),
            figures.peak,
            figures.peak_growth,
            figures.growth,
            figures.blocks,
            figures.allocations,
        )
    }
}

fn int(value: i64) -> *mut PyObject {
    // SAFETY: with the GIL.
    unsafe { ffi::PyLong_FromLongLong(value) }
}

unsafe extern "C" fn repr(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python with an instance.
    let track = unsafe { &*object.cast::<Track>() };
    let scope = track.scope.name();
    let Some(measured) = track.measured() else {
        return string(&format!("<pyhost.track of {scope}, not entered>"));
    };
    let figures = measured.of(track.scope);
    let sign = if figures.growth < 0 { '-' } else { '+' };
    let state = match track.state {
        State::Open(_) => ", open",
        _ => "",
    };
    string(&format!(
        "<pyhost.track of {scope}: peak {} above the begin, growth {sign}{}, {:.3} s{state}>",
        Bytes(figures.peak_growth),
        Bytes(figures.growth.unsigned_abs()),
        measured.seconds
    ))
}

unsafe extern "C" fn show(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python with an instance, and the GIL.
    unsafe {
        if (*object.cast::<Track>()).state == State::New {
            return repr(object);
        }
        let show = library::attribute(c"_show");
        if show.is_null() {
            return null_mut();
        }
        let text = ffi::PyObject_CallFunctionObjArgs(show, object, null_mut::<PyObject>());
        ffi::Py_DECREF(show);
        text
    }
}

static mut METHODS: Shared<[PyMethodDef; 3]> = Shared([
    method(
        c"__enter__",
        enter,
        c"__enter__($self, /)\n--\n\nBegin to measure.",
    ),
    fast(
        c"__exit__",
        exit,
        c"__exit__($self, /, *exception)\n--\n\nEnd to measure.",
    ),
    PyMethodDef::zeroed(),
]);

static mut ATTRIBUTES: Shared<[PyGetSetDef; 11]> = Shared([
    attribute(
        c"peak_bytes",
        get_peak,
        c"The most bytes that were live in the block.",
    ),
    attribute(
        c"peak_growth_bytes",
        get_peak_growth,
        c"How far that is above what was live at the begin.",
    ),
    attribute(
        c"growth_bytes",
        get_growth,
        c"Live bytes at the end less those at the begin.",
    ),
    attribute(
        c"growth_blocks",
        get_blocks,
        c"Live blocks at the end less those at the begin.",
    ),
    attribute(
        c"allocations",
        get_allocations,
        c"Blocks that were allocated in the block.",
    ),
    attribute(
        c"threads",
        get_threads,
        c"How many other threads allocated meanwhile, at least: those that ran one after another may \
          count as one.",
    ),
    attribute(
        c"other_allocations",
        get_others,
        c"Blocks that other threads allocated meanwhile.",
    ),
    attribute(c"seconds", get_seconds, c"How long it took."),
    attribute(
        c"account",
        get_account,
        c"What the figures are of: an account's name, or 'total'.",
    ),
    attribute(
        c"accounts",
        get_accounts,
        c"The figures of each account, by its name.",
    ),
    attribute_end(),
]);

/// Adds the type to a module that is being executed; false with an exception set on failure.
///
/// # Safety
/// `module` is live.
pub unsafe fn add(module: *mut PyObject) -> bool {
    let mut slots = [
        slot(ffi::Py_tp_doc, DOC.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_new, new as *mut c_void),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_call, call as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_str, show as *mut c_void),
        slot(ffi::Py_tp_methods, (&raw mut METHODS).cast()),
        slot(ffi::Py_tp_getset, (&raw mut ATTRIBUTES).cast()),
        slot(0, null_mut()),
    ];
    // SAFETY: the caller's duty; texts and tables are static.
    unsafe { types::add::<Track>(module, c"pyhost.track", &mut slots) }
}
