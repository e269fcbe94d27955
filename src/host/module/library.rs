//! The parts of the module that are Python: sources that the executable holds, run where one of their
//! names is first asked for (PEP 562), so that a host that needs none of them pays nothing.
//!
//! Each source is run in a dictionary of its own, once an interpreter, with the name of the module
//! that shows its objects; what it defines is then put into that module. No file, no path and no
//! import system has a part in it, so it works with `-I` and `-S`, in sub-interpreters and in
//! zipapps. Tracebacks find the lines by the loader that the dictionary names (`linecache`).
//!
//! With the GIL.

#![allow(unsafe_code)]

use super::NAME;
use super::arguments::raise;
use super::dictionary::{none, string};
use super::tables::{Shared, method, method_with};
use crate::bytes::{self, Bytes};
use crate::ledger::{LEDGER, REPORTED};
use crate::python::text::with_text;
use crate::resident::resident;
use pyo3::ffi::{self, PyMethodDef, PyObject};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source, with a zero at its end.
struct Part {
    /// As tracebacks show it: not in `<>`, which linecache passes over.
    file: &'static CStr,
    source: &'static str,
    /// The module that it belongs to.
    module: &'static CStr,
    /// What it defines for others, those that begin with `_` for the rest of the module.
    names: &'static [&'static CStr],
}

static PARTS: [Part; 2] = [
    Part {
        file: c"<pyhost>/snapshots.py",
        source: concat!(include_str!("library/snapshots.py"), "\0"),
        module: NAME,
        names: &[
            c"snapshot",
            c"Snapshot",
            c"Figures",
            c"Diff",
            c"DiffRow",
            c"_Accounts",
            c"_signed",
            c"_table",
        ],
    },
    Part {
        file: c"<pyhost>/tracking.py",
        source: concat!(include_str!("library/tracking.py"), "\0"),
        module: NAME,
        names: &[c"TrackedAccount", c"_accounts", c"_show", c"_wrap"],
    },
];

static PLUGIN: Part = Part {
    file: c"<pyhost>/pytest_plugin.py",
    source: concat!(include_str!("library/pytest_plugin.py"), "\0"),
    module: PLUGIN_NAME,
    names: &[],
};

/// The pytest plugin's module.
const PLUGIN_NAME: &CStr = c"pyhost_pytest";

/// What gives a source to `linecache`; kept in the dictionary in which the source is run.
const LOADER: &CStr = c"class _Source:
    def __init__(self, text):
        self.text = text
    def get_source(self, name):
        return self.text
__loader__ = _Source(__loader__)
del _Source
";

/// Runs a part in a new dictionary; null with an exception set on failure.
fn run(part: &Part) -> *mut PyObject {
    // SAFETY: the GIL is held; the texts end with a zero; references that are not given on are
    // released.
    unsafe {
        let globals = ffi::PyDict_New();
        if globals.is_null() {
            return globals;
        }
        let set = |key: &CStr, value: *mut PyObject| {
            let set =
                !value.is_null() && ffi::PyDict_SetItemString(globals, key.as_ptr(), value) == 0;
            ffi::Py_XDECREF(value);
            set
        };
        let builtins = ffi::PyEval_GetBuiltins();
        ffi::Py_XINCREF(builtins);
        let done = set(c"__builtins__", builtins)
            && set(c"__name__", string(&part.module.to_string_lossy()))
            && set(c"__loader__", string(&part.source[..part.source.len() - 1]))
            && execute(LOADER, c"<pyhost>", globals)
            && CStr::from_bytes_with_nul(part.source.as_bytes())
                .is_ok_and(|source| execute(source, part.file, globals));
        if !done {
            ffi::Py_DECREF(globals);
            return null_mut();
        }
        globals
    }
}

/// Runs a source; false with an exception set on failure.
///
/// # Safety
/// The GIL is held, `globals` is a live dictionary.
unsafe fn execute(source: &CStr, file: &CStr, globals: *mut PyObject) -> bool {
    // SAFETY: the caller's duty; references are released.
    unsafe {
        let code = ffi::Py_CompileString(source.as_ptr(), file.as_ptr(), ffi::Py_file_input);
        if code.is_null() {
            return false;
        }
        let result = ffi::PyEval_EvalCode(code, globals, globals);
        ffi::Py_DECREF(code);
        ffi::Py_XDECREF(result);
        !result.is_null()
    }
}

/// Runs the part that defines `name` and puts what it defines into `module`, where another thread
/// has not done so meanwhile: its objects stay then. A new reference to the named one.
///
/// # Safety
/// The GIL is held, `module` is the live module.
unsafe fn load(module: *mut PyObject, part: &Part, name: &CStr) -> *mut PyObject {
    // SAFETY: the caller's duty; the module's dictionary lives as long as it.
    unsafe {
        let globals = run(part);
        if globals.is_null() {
            return globals;
        }
        let dictionary = ffi::PyModule_GetDict(module);
        let first = ffi::PyDict_GetItemString(dictionary, part.names[0].as_ptr()).is_null();
        for name in part.names.iter().filter(|_| first) {
            let value = ffi::PyDict_GetItemString(globals, name.as_ptr());
            if value.is_null() || ffi::PyDict_SetItemString(dictionary, name.as_ptr(), value) != 0 {
                ffi::Py_DECREF(globals);
                return null_mut();
            }
        }
        ffi::Py_DECREF(globals);
        let value = ffi::PyDict_GetItemString(dictionary, name.as_ptr());
        ffi::Py_XINCREF(value);
        if value.is_null() && ffi::PyErr_Occurred().is_null() {
            let text = format!(
                "module 'pyhost' has no attribute '{}'",
                name.to_string_lossy()
            );
            return raise(ffi::PyExc_AttributeError, &text);
        }
        value
    }
}

/// An attribute of the module `pyhost`, as the script would get it; null with an exception set on
/// failure.
pub fn attribute(name: &CStr) -> *mut PyObject {
    // SAFETY: the GIL is held; the reference to the module is released.
    unsafe {
        let module = ffi::PyImport_ImportModule(NAME.as_ptr());
        if module.is_null() {
            return module;
        }
        let value = ffi::PyObject_GetAttrString(module, name.as_ptr());
        ffi::Py_DECREF(module);
        value
    }
}

unsafe extern "C" fn missing(module: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and the module; also by its `__getattr__`.
    unsafe {
        let found = with_text(name, |text| {
            let has = |part: &&Part| part.names.iter().any(|name| name.to_bytes() == text);
            let part = PARTS.iter().find(has)?;
            let name = part.names.iter().find(|name| name.to_bytes() == text)?;
            Some((part, *name))
        });
        match found {
            Some(Some((part, name))) => load(module, part, name),
            _ => {
                let shown = with_text(name, |text| String::from_utf8_lossy(text).into_owned());
                let text = format!(
                    "module 'pyhost' has no attribute '{}'",
                    shown.unwrap_or_default()
                );
                raise(ffi::PyExc_AttributeError, &text)
            }
        }
    }
}

unsafe extern "C" fn names(module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and the module; references are released.
    unsafe {
        let names = ffi::PyDict_Keys(ffi::PyModule_GetDict(module));
        if names.is_null() {
            return names;
        }
        let parts = PARTS.iter().flat_map(|part| part.names);
        for name in parts.filter(|name| name.to_bytes()[0] != b'_') {
            let text = string(&name.to_string_lossy());
            let known = text.is_null() || ffi::PySequence_Contains(names, text) != 0;
            let added = known || ffi::PyList_Append(names, text) == 0;
            ffi::Py_XDECREF(text);
            if !added || text.is_null() {
                ffi::Py_DECREF(names);
                return null_mut();
            }
        }
        names
    }
}

/// `(time, ((name, figures), ...), (live, peak), (resident, peak))`: what a snapshot is made of, in
/// the order of its fields, taken at once and before anything is allocated for it.
unsafe extern "C" fn moment(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    let snapshot = LEDGER.snapshot();
    let resident = resident();
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    // SAFETY: called by Python, with the GIL; the formats name the types of what follows, and `N`
    // takes a reference over.
    unsafe {
        let accounts = ffi::PyTuple_New(REPORTED.len() as isize);
        if accounts.is_null() {
            return accounts;
        }
        for (index, (account, figures)) in snapshot.accounts().enumerate() {
            let row = ffi::Py_BuildValue(
                c"N(KKKKKK)".as_ptr(),
                string(account.name()),
                figures.live_bytes,
                figures.peak_bytes,
                figures.live_blocks,
                figures.total_blocks,
                figures.refused,
                figures.failed,
            );
            if row.is_null() {
                ffi::Py_DECREF(accounts);
                return null_mut();
            }
            ffi::PyTuple_SetItem(accounts, index as isize, row);
        }
        ffi::Py_BuildValue(
            c"dN(KK)(KK)".as_ptr(),
            time.map_or(0.0, |time| time.as_secs_f64()),
            accounts,
            snapshot.total_live_bytes,
            snapshot.total_peak_bytes,
            resident.now.unwrap_or(0),
            resident.peak,
        )
    }
}

unsafe extern "C" fn text(_: *mut PyObject, bytes: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and a live argument.
    unsafe {
        let bytes = ffi::PyLong_AsUnsignedLongLong(bytes);
        match ffi::PyErr_Occurred().is_null() {
            true => string(&Bytes(bytes).to_string()),
            false => null_mut(),
        }
    }
}

unsafe extern "C" fn size(_: *mut PyObject, size: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL and a live argument.
    unsafe {
        let bytes = with_text(size, |text| {
            std::str::from_utf8(text).ok().and_then(bytes::parse)
        });
        match bytes {
            Some(Some(bytes)) => ffi::PyLong_FromUnsignedLongLong(bytes),
            _ => none(),
        }
    }
}

/// The functions, for the module's table.
pub const METHODS: [PyMethodDef; 5] = [
    method_with(
        c"__getattr__",
        missing,
        c"Run the part of the module that defines the name.",
        ffi::METH_O,
    ),
    method(
        c"__dir__",
        names,
        c"The names of the module, those of parts that were not run too.",
    ),
    method(c"_moment", moment, c"What a snapshot is made of."),
    method_with(
        c"_text",
        text,
        c"A number of bytes as people read it.",
        ffi::METH_O,
    ),
    method_with(
        c"_size",
        size,
        c"The bytes that a text such as '64M' means; None for another text.",
        ffi::METH_O,
    ),
];

unsafe extern "C" fn execute_plugin(module: *mut PyObject) -> c_int {
    // SAFETY: called by the import system with the GIL; the reference is released.
    unsafe {
        let globals = run(&PLUGIN);
        if globals.is_null() {
            return -1;
        }
        // Name, loader and specification stay the import system's.
        let dictionary = ffi::PyModule_GetDict(module);
        let doc = ffi::PyDict_GetItemString(globals, c"__doc__".as_ptr());
        let mut done =
            doc.is_null() || ffi::PyDict_SetItemString(dictionary, c"__doc__".as_ptr(), doc) == 0;
        done &= ffi::PyDict_Merge(dictionary, globals, 0) == 0;
        ffi::Py_DECREF(globals);
        if done { 0 } else { -1 }
    }
}

static mut PLUGIN_SLOTS: Shared<[ffi::PyModuleDef_Slot; 4]> =
    Shared(super::slots(execute_plugin as *mut c_void));

static mut PLUGIN_MODULE: Shared<ffi::PyModuleDef> = Shared(ffi::PyModuleDef {
    m_base: ffi::PyModuleDef_HEAD_INIT,
    m_name: PLUGIN_NAME.as_ptr(),
    m_doc: std::ptr::null(),
    m_size: 0,
    m_methods: null_mut(),
    m_slots: (&raw mut PLUGIN_SLOTS).cast(),
    m_traverse: None,
    m_clear: None,
    m_free: None,
});

extern "C" fn initialize_plugin() -> *mut PyObject {
    // SAFETY: called by the import system with the GIL; the definition lives for ever.
    unsafe { ffi::PyModuleDef_Init((&raw mut PLUGIN_MODULE).cast()) }
}

/// Makes `import pyhost_pytest` work. Before initialisation.
pub fn register() {
    // SAFETY: before initialisation, a constant name and a function of the executable.
    unsafe { ffi::PyImport_AppendInittab(PLUGIN_NAME.as_ptr(), Some(initialize_plugin)) };
}
