//! The built-in module `pyhost`: the report's figures for the script.
//!
//! Plain multi-phase FFI (PEP 489), so that sub-interpreters, also with a GIL of their own, can
//! import it. Every function needs the GIL of its caller's interpreter.

#![allow(unsafe_code)]

use crate::endings;
use crate::heap;
use crate::ledger::{Account, LEDGER};
use crate::report::{self, Sink};
use pyo3::ffi::{self, PyObject};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// The module's name.
pub const NAME: &CStr = c"pyhost";

const DOC: &CStr = c"Memory figures of this process, kept by the host that runs it.

Accounts: raw, mem and obj are CPython's allocator domains (PEP 445), arena is its arena
allocator, numpy is array data, native is the process's malloc family. Sizes are bytes that the
blocks really take.";

const MEMORY_STATS_DOC: &CStr = c"memory_stats()
--

Return the figures of this moment as a dictionary, as in a JSON report.

d['accounts'][name] holds live_bytes, peak_bytes, live_blocks, total_blocks, refused and failed;
d['total'] holds live_bytes and peak_bytes. Bytes are integers. May be called from any thread.";

const WALK_DOC: &CStr = c"_walk(account)
--

Return (ledger bytes, ledger blocks, walked bytes, walked blocks) of 'raw', 'mem' or 'obj', both
taken at one moment: the ledger's live figures, and a count of the blocks in the account's heap.

For tests of the ledger. No other thread may be allocating. Raises ValueError for an account
without a heap of its own.";

const RESET_DOC: &CStr = c"reset_peak_memory_stats()
--

Start every account's peak anew from what is live now.";

const SUMMARY_DOC: &CStr = c"memory_summary()
--

Return the figures of this moment as a table for people.";

/// Builds a dictionary out of what it is told. Once a call has failed it only keeps its balance.
struct Dictionary {
    /// The open objects and lists, borrowed from their parents but for the first.
    open: Vec<*mut PyObject>,
    failed: bool,
}

impl Dictionary {
    fn add(&mut self, key: &str, value: *mut PyObject) {
        // SAFETY: the GIL is held; `open` holds live dictionaries and lists; `value` is a new
        // reference or null with an exception set, and is given up here.
        unsafe {
            let parent = self.open.last().copied().unwrap_or(null_mut());
            if value.is_null() || parent.is_null() {
                self.failed = true;
                return;
            }
            let added = if ffi::PyList_Check(parent) != 0 {
                ffi::PyList_Append(parent, value)
            } else {
                let name = string(key);
                let added = if name.is_null() {
                    -1
                } else {
                    ffi::PyDict_SetItem(parent, name, value)
                };
                ffi::Py_XDECREF(name);
                added
            };
            ffi::Py_DECREF(value);
            self.failed |= added != 0;
        }
    }

    fn open(&mut self, key: &str, container: *mut PyObject) {
        self.add(key, container);
        // The parent holds it now, unless something failed.
        self.open
            .push(if self.failed { null_mut() } else { container });
    }
}

/// A new string object, or null with an exception set.
fn string(text: &str) -> *mut PyObject {
    // SAFETY: valid UTF-8 and its length; the GIL is held.
    unsafe { ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), text.len() as isize) }
}

/// A new reference to `None`. With the GIL.
fn none() -> *mut PyObject {
    // SAFETY: a live object, whose count is raised for the caller.
    unsafe {
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}

// SAFETY (all of the block): the GIL is held, and the calls make new objects.
impl Sink for Dictionary {
    fn begin(&mut self, key: &str) {
        // SAFETY: see the block.
        let object = unsafe { ffi::PyDict_New() };
        self.open(key, object);
    }

    fn begin_list(&mut self, key: &str) {
        // SAFETY: see the block.
        let list = unsafe { ffi::PyList_New(0) };
        self.open(key, list);
    }

    fn end(&mut self) {
        self.open.pop();
    }

    fn text(&mut self, key: &str, value: &str) {
        self.add(key, string(value));
    }

    fn int(&mut self, key: &str, value: i64) {
        // SAFETY: see the block.
        self.add(key, unsafe { ffi::PyLong_FromLongLong(value) });
    }

    fn seconds(&mut self, key: &str, value: f64) {
        // SAFETY: see the block.
        self.add(key, unsafe { ffi::PyFloat_FromDouble(value) });
    }

    fn flag(&mut self, key: &str, value: bool) {
        // SAFETY: see the block.
        self.add(key, unsafe { ffi::PyBool_FromLong(value.into()) });
    }

    fn null(&mut self, key: &str) {
        self.add(key, none());
    }
}

unsafe extern "C" fn memory_stats(_module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL.
    unsafe {
        let root = ffi::PyDict_New();
        if root.is_null() {
            return null_mut();
        }
        let mut dictionary = Dictionary {
            open: vec![root],
            failed: false,
        };
        endings::with_report(|report| report.describe(&mut dictionary));
        if dictionary.failed {
            ffi::Py_DECREF(root);
            return null_mut();
        }
        root
    }
}

unsafe extern "C" fn memory_summary(_module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    let mut text = String::new();
    endings::with_report(|report| {
        let _ = report::table(report, &mut text);
    });
    string(&text)
}

unsafe extern "C" fn reset_peak_memory_stats(
    _module: *mut PyObject,
    _: *mut PyObject,
) -> *mut PyObject {
    LEDGER.reset_peaks();
    none()
}

unsafe extern "C" fn walk(_module: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL. Nothing allocates in the walked heap between the
    // two counts: the names are compared and the snapshot is taken on the stack.
    unsafe {
        let mut length = 0;
        let text = ffi::PyUnicode_AsUTF8AndSize(name, &mut length);
        if text.is_null() {
            return null_mut();
        }
        let text = std::slice::from_raw_parts(text.cast::<u8>(), length as usize);
        let account = Account::ALL
            .into_iter()
            .find(|account| account.name().as_bytes() == text);
        let ledger = LEDGER.snapshot();
        match account.and_then(|account| heap::walk(account).map(|found| (account, found))) {
            Some((account, found)) => {
                let booked = ledger.account(account);
                ffi::Py_BuildValue(
                    c"KKKK".as_ptr(),
                    booked.live_bytes,
                    booked.live_blocks,
                    found.bytes,
                    found.blocks,
                )
            }
            None => {
                let text = c"expected an account with a heap of its own: 'raw', 'mem', 'obj'";
                ffi::PyErr_SetString(ffi::PyExc_ValueError, text.as_ptr());
                null_mut()
            }
        }
    }
}

/// A structure that CPython keeps and may write to.
#[repr(transparent)]
struct Shared<T>(T);
// SAFETY: CPython reads the tables, and writes to them under its own locks.
unsafe impl<T> Sync for Shared<T> {}

const fn method(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
) -> ffi::PyMethodDef {
    method_with(name, function, doc, ffi::METH_NOARGS)
}

const fn method_with(
    name: &'static CStr,
    function: ffi::PyCFunction,
    doc: &'static CStr,
    flags: c_int,
) -> ffi::PyMethodDef {
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunction: function,
        },
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    }
}

static mut METHODS: Shared<[ffi::PyMethodDef; 5]> = Shared([
    method(c"memory_stats", memory_stats, MEMORY_STATS_DOC),
    method(
        c"reset_peak_memory_stats",
        reset_peak_memory_stats,
        RESET_DOC,
    ),
    method(c"memory_summary", memory_summary, SUMMARY_DOC),
    method_with(c"_walk", walk, WALK_DOC, ffi::METH_O),
    ffi::PyMethodDef::zeroed(),
]);

/// Slots of PEP 489, with what each version knows of: several interpreters (3.12), no GIL (3.13).
static mut SLOTS: Shared<[ffi::PyModuleDef_Slot; 3]> = Shared([
    #[cfg(Py_3_12)]
    ffi::PyModuleDef_Slot {
        slot: ffi::Py_mod_multiple_interpreters,
        value: ffi::Py_MOD_PER_INTERPRETER_GIL_SUPPORTED,
    },
    #[cfg(Py_3_13)]
    ffi::PyModuleDef_Slot {
        slot: ffi::Py_mod_gil,
        value: ffi::Py_MOD_GIL_NOT_USED,
    },
    END,
    #[cfg(not(Py_3_12))]
    END,
    #[cfg(not(Py_3_13))]
    END,
]);

const END: ffi::PyModuleDef_Slot = ffi::PyModuleDef_Slot {
    slot: 0,
    value: null_mut::<c_void>(),
};

static mut MODULE: Shared<ffi::PyModuleDef> = Shared(ffi::PyModuleDef {
    m_base: ffi::PyModuleDef_HEAD_INIT,
    m_name: NAME.as_ptr(),
    m_doc: DOC.as_ptr(),
    m_size: 0,
    m_methods: (&raw mut METHODS).cast(),
    m_slots: (&raw mut SLOTS).cast(),
    m_traverse: None,
    m_clear: None,
    m_free: None,
});

extern "C" fn initialize() -> *mut PyObject {
    // SAFETY: called by the import system with the GIL; the definition lives for ever.
    unsafe { ffi::PyModuleDef_Init((&raw mut MODULE).cast()) }
}

/// Makes `import pyhost` work. Before initialisation.
pub fn register() {
    // SAFETY: before initialisation, a constant name and a function of the executable.
    unsafe { ffi::PyImport_AppendInittab(NAME.as_ptr(), Some(initialize)) };
}

unsafe extern "C" fn allocated_blocks(_module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    let blocks = LEDGER.snapshot().account(Account::Obj).live_blocks;
    // SAFETY: called by Python, with the GIL.
    unsafe { ffi::PyLong_FromUnsignedLongLong(blocks) }
}

/// Lets `sys.getallocatedblocks()` answer from the ledger, in every interpreter, since pymalloc
/// has no blocks to count. Returns false where `sys` has no such function.
///
/// The method's entry in `sys`'s table is changed, so that name, text and identity stay.
pub fn answer_allocated_blocks() -> bool {
    // SAFETY: the GIL is held; the object is checked to be a built-in function, whose method
    // entry is a writable static of libpython.
    unsafe {
        let function = ffi::PySys_GetObject(c"getallocatedblocks".as_ptr());
        if function.is_null() || ffi::PyCFunction_CheckExact(function) == 0 {
            return false;
        }
        let entry = (*function.cast::<ffi::PyCFunctionObject>()).m_ml;
        (*entry).ml_meth = ffi::PyMethodDefPointer {
            PyCFunction: allocated_blocks,
        };
        true
    }
}

unsafe extern "C" fn script_ended(_module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    endings::script_ended();
    none()
}

static mut SCRIPT_ENDED: Shared<ffi::PyMethodDef> = Shared(method(
    c"script_ended",
    script_ended,
    c"Take the script's last figures.",
));

/// Has the live figures taken when the script has ended and its own `atexit` functions have
/// run: registered first, called last. Returns false where that failed.
pub fn watch_script_end() -> bool {
    // SAFETY: the GIL is held; new references are released, and an exception is cleared.
    unsafe {
        let function =
            ffi::PyCFunction_NewEx((&raw mut SCRIPT_ENDED).cast(), null_mut(), null_mut());
        let atexit = ffi::PyImport_ImportModule(c"atexit".as_ptr());
        let mut registered: c_int = 0;
        if !function.is_null() && !atexit.is_null() {
            let name = c"register".as_ptr();
            let result = ffi::PyObject_CallMethod(atexit, name, c"O".as_ptr(), function);
            registered = c_int::from(!result.is_null());
            ffi::Py_XDECREF(result);
        }
        ffi::Py_XDECREF(atexit);
        ffi::Py_XDECREF(function);
        if registered == 0 {
            ffi::PyErr_Clear();
        }
        registered != 0
    }
}
