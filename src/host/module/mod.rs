//! The built-in module `pyhost`: the report's figures for the script.
//!
//! Plain multi-phase FFI (PEP 489), so that sub-interpreters, also with a GIL of their own, can
//! import it. Every function needs the GIL of its caller's interpreter.

#![allow(unsafe_code)]

mod arguments;
mod buffer;
mod caps;
mod dictionary;
mod faults;
mod library;
mod limit;
mod sizes;
mod tables;
mod track;
mod track_spans;
mod types;
mod watches;

pub use watches::{answer_allocated_blocks, watch_script_end};

use crate::card::CARD;
use crate::endings;
use crate::heap::bfc::{BinStatistics, ChunkView};
use crate::heap::{self, region};
use crate::ledger::{Account, LEDGER};
use crate::python::text::with_text;
use crate::report::{self, Sink};
use dictionary::{Dictionary, none, string};
use pyhost_os::moment;
use pyo3::ffi::{self, PyObject};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use tables::{Shared, method, method_with, with_keywords};

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

Return (ledger bytes, ledger blocks, walked bytes, walked blocks) of 'raw', 'mem', 'obj' or
'numpy', both taken at one moment: the ledger's live figures, and a count of the blocks in the account's heap.

For tests of the ledger. No other thread may be allocating. Raises ValueError for an account
without a heap of its own.";

const MARK_DOC: &CStr = c"mark(name, /)
--

Name this moment: the timeline of --timeline and pyhostctl show it.

The first 48 bytes of the name are kept, in UTF-8, and the latest 64 marks until the sampler has
seen them. Costs well below a microsecond; may be called from any thread. Raises TypeError where
name is no str.";

const RESET_DOC: &CStr = c"reset_peak_memory_stats()
--

Start every account's peak anew from what is live now.";

const MAP_DOC: &CStr = c"numpy_memory_map(text=False)
--

Return the region of --numpy-allocator bfc at this moment, as a dictionary or as text.

d['region'] holds its sums, d['bins'] the sums of each of the 21 bins, d['chunks'] every chunk by
ascending address: address, bytes, requested_bytes, allocation (its number, None where free) and
bin. Bytes are integers. May be called from any thread. Raises RuntimeError where there is no
region.";

const SUMMARY_DOC: &CStr = c"memory_summary()
--

Return the figures of this moment as a table for people.";

unsafe extern "C" fn memory_stats(_module: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // The figures are taken before anything is allocated for the dictionary.
    endings::with_report(|report| Dictionary::build(|dictionary| report.describe(dictionary)))
        .unwrap_or_else(|| Dictionary::build(|_| ()))
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
    track_spans::reset_peaks();
    none()
}

unsafe extern "C" fn mark(_module: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL.
    let marked = unsafe {
        with_text(name, |text| {
            CARD.mark(&String::from_utf8_lossy(text), moment::monotonic());
        })
    };
    match marked {
        Some(()) => none(),
        None => {
            let text = c"expected the name of a mark, a str";
            // SAFETY: with the GIL.
            unsafe { ffi::PyErr_SetString(ffi::PyExc_TypeError, text.as_ptr()) };
            null_mut()
        }
    }
}

unsafe extern "C" fn walk(_module: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    // SAFETY: called by Python, with the GIL. Nothing allocates in the walked heap between the
    // two counts: the names are compared and the snapshot is taken on the stack.
    unsafe {
        let account = with_text(name, |text| {
            let mut all = Account::ALL.into_iter();
            all.find(|account| account.name().as_bytes() == text)
        })
        .flatten();
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
                let text =
                    c"expected an account with a heap of its own: 'raw', 'mem', 'obj', 'numpy'";
                ffi::PyErr_SetString(ffi::PyExc_ValueError, text.as_ptr());
                null_mut()
            }
        }
    }
}

unsafe extern "C" fn numpy_memory_map(
    _module: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    let names = [c"text".as_ptr(), std::ptr::null()];
    let mut as_text: c_int = 0;
    // SAFETY: called by Python, with the GIL; the format names the variable's type.
    unsafe {
        if ffi::PyArg_ParseTupleAndKeywords(
            arguments,
            keywords,
            c"|p:numpy_memory_map".as_ptr(),
            names.as_ptr().cast_mut().cast(),
            &raw mut as_text,
        ) == 0
        {
            return null_mut();
        }
        let Some((map, chunks)) = region::map() else {
            let text = c"numpy_memory_map: there is no region; expected --numpy-allocator bfc";
            ffi::PyErr_SetString(ffi::PyExc_RuntimeError, text.as_ptr());
            return null_mut();
        };
        if as_text != 0 {
            let mut text = String::new();
            let _ = map.write(&chunks, &mut text);
            return string(&text);
        }
        Dictionary::build(|dictionary| {
            report::describe_region(&map.statistics, dictionary);
            dictionary.begin_list("bins");
            map.bins
                .iter()
                .for_each(|bin| describe_bin(bin, dictionary));
            dictionary.end();
            dictionary.begin_list("chunks");
            chunks
                .iter()
                .for_each(|chunk| describe_chunk(chunk, dictionary));
            dictionary.end();
        })
    }
}

fn describe_bin(bin: &BinStatistics, sink: &mut impl Sink) {
    sink.begin("");
    sink.int("from_bytes", bin.from_bytes as i64);
    match bin.to_bytes {
        Some(to) => sink.int("to_bytes", to as i64),
        None => sink.null("to_bytes"),
    }
    sink.int("total_chunks", bin.total_chunks as i64);
    sink.int("total_bytes", bin.total_bytes as i64);
    sink.int("live_chunks", bin.live_chunks as i64);
    sink.int("live_bytes", bin.live_bytes as i64);
    sink.int("requested_bytes", bin.requested_bytes as i64);
    sink.int("free_chunks", bin.free_chunks as i64);
    sink.int("free_bytes", bin.free_bytes as i64);
    sink.end();
}

fn describe_chunk(chunk: &ChunkView, sink: &mut impl Sink) {
    sink.begin("");
    sink.int("address", chunk.address as i64);
    sink.int("bytes", chunk.size as i64);
    sink.int("requested_bytes", chunk.requested as i64);
    match chunk.allocation {
        Some(number) => sink.int("allocation", number as i64),
        None => sink.null("allocation"),
    }
    sink.int("bin", chunk.bin as i64);
    sink.end();
}

/// The module's own functions; those of its parts follow.
const FUNCTIONS: [ffi::PyMethodDef; 6] = [
    method(c"memory_stats", memory_stats, MEMORY_STATS_DOC),
    method(
        c"reset_peak_memory_stats",
        reset_peak_memory_stats,
        RESET_DOC,
    ),
    method(c"memory_summary", memory_summary, SUMMARY_DOC),
    with_keywords(c"numpy_memory_map", numpy_memory_map, MAP_DOC),
    method_with(c"mark", mark, MARK_DOC, ffi::METH_O),
    method_with(c"_walk", walk, WALK_DOC, ffi::METH_O),
];

/// How many functions there are, and the entry that ends the table.
const METHOD_COUNT: usize = {
    let parts = caps::METHODS.len() + library::METHODS.len() + sizes::METHODS.len();
    FUNCTIONS.len() + parts + 1
};

const fn all_methods() -> [ffi::PyMethodDef; METHOD_COUNT] {
    let mut all = [ffi::PyMethodDef::zeroed(); METHOD_COUNT];
    let mut next = 0;
    let parts: [&[ffi::PyMethodDef]; 4] = [
        &FUNCTIONS,
        &caps::METHODS,
        &library::METHODS,
        &sizes::METHODS,
    ];
    let mut part = 0;
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[next] = parts[part][index];
            next += 1;
            index += 1;
        }
        part += 1;
    }
    all
}

static mut METHODS: Shared<[ffi::PyMethodDef; METHOD_COUNT]> = Shared(all_methods());

unsafe extern "C" fn execute(module: *mut PyObject) -> c_int {
    // SAFETY: called by the import system with the GIL.
    match unsafe {
        buffer::add(module) && limit::add(module) && faults::add(module) && track::add(module)
    } {
        true => 0,
        false => -1,
    }
}

/// Slots of PEP 489, with what each version knows of: several interpreters (3.12), no GIL (3.13).
const fn slots(execute: *mut c_void) -> [ffi::PyModuleDef_Slot; 4] {
    [
        ffi::PyModuleDef_Slot {
            slot: ffi::Py_mod_exec,
            value: execute,
        },
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
    ]
}

static mut SLOTS: Shared<[ffi::PyModuleDef_Slot; 4]> = Shared(slots(execute as *mut c_void));

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
    library::register();
}
