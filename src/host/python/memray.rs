//! Hands memory over to memray when it is loaded.
//!
//! memray puts its own functions in place of `malloc` and `mmap` in the tables by which libraries call them. The
//! heaps of the host do not call through these tables: memray would see the blocks of libraries alone, and none
//! of CPython's or NumPy's. So malloc, CPython's domains and NumPy's array data go back to libc, CPython and
//! NumPy, which memray then sees as under `python`. That is the moment for `memray run`, `memray attach`,
//! `memray.Tracker` and pytest-memray: all of them load the module first.

use crate::cpython::imports::{ExtensionWatcher, watch_extensions};
use crate::cpython::{frames, objects::Gil};
use crate::libc_exports::native::{self, Mode};
use crate::python::{hooks::domains, numpy};
use crate::{check::leaks, descriptor::notice, heap::bounded_heap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// memray's extension module.
const MEMRAY: &[u8] = b"memray._memray";

/// The end of the name of greenlet's extension module, in all versions and in packages with a copy of it.
const GREENLET: &[u8] = b"greenlet";

pyhost_os::state! {
    /// What the host gives memray when memray is loaded.
    static STATE: MemrayHandover {
        /// Whether there is something to hand over.
        armed: AtomicBool = AtomicBool::new(false),
        /// Whether CPython's debug hooks lie over the domains.
        debug_hooks: AtomicBool = AtomicBool::new(false),
    }
}

/// Watches for NumPy and memray being loaded. Memory is handed over to memray unless `--malloc` asks for malloc
/// to be served by the host. Once, after initialisation.
pub fn watch(gil: Gil<'_>, native: Option<Mode>, debug_hooks: bool) {
    if native.is_none_or(|asked| asked == Mode::Off) {
        STATE.debug_hooks.store(debug_hooks, Relaxed);
        STATE.armed.store(true, Relaxed);
    }
    let watcher = ExtensionWatcher {
        begins: extension_begins,
        loaded: numpy::extension_loaded,
    };
    if !watch_extensions(gil, watcher) {
        notice(format_args!(
            "the loading of NumPy and memray cannot be watched in this Python: array data is not \
             counted, and memray sees few allocations"
        ));
    }
    numpy::look_for_loaded(gil);
}

/// An extension module is about to be executed. No exception is set.
fn extension_begins(gil: Gil<'_>, name: &[u8]) {
    if name.ends_with(GREENLET) {
        frames::stacks_change();
    }
    if name == MEMRAY && STATE.armed.swap(false, Relaxed) {
        hand_over(gil);
    }
}

#[cold]
fn hand_over(gil: Gil<'_>) {
    if native::mode() == Mode::Off {
        numpy::hand_over(gil); // the rest is libc's and CPython's already
        return;
    }
    let bounded = bounded_heap::size().is_some();
    if bounded || !domains::hand_over(STATE.debug_hooks.load(Relaxed)) {
        let reason = match bounded {
            true => "--region keeps them in its heaps",
            false => {
                "another hook lies over them (tracemalloc, --fail, --guard with debug hooks, a free-threaded Python)"
            }
        };
        notice(format_args!(
            "memray is loaded, but sees few of CPython's allocations: {reason}; expected a start \
             without it, or memray run --trace-python-allocators"
        ));
        return;
    }
    native::hand_over();
    numpy::hand_over(gil);
    native::leave_to("memray");
    notice(format_args!(
        "memray is loaded: malloc and CPython's allocators are left to it from here on \
         (--malloc off)"
    ));
    if leaks::is_on() {
        leaks::disable();
        notice(format_args!(
            "--leak-check: memory is left to memray; nothing is checked"
        ));
    }
}
