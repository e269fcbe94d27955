//! Installs the host's allocators: the three domains of PEP 445 and the arenas.
//!
//! The moment is after pre-initialisation and before initialisation. Earlier, a `PYTHONMALLOC`
//! or `-X dev` would put CPython's own allocators back; later, blocks would already have been
//! made. What was asked for is read off the tables that pre-initialisation left.

#![allow(unsafe_code)]

use super::wrapped::{self, over_pymalloc};
use crate::allocator::Allocator;
use crate::faults;
use crate::hooks;
use crate::ledger::Account;
use pyo3::ffi::{self, PyMemAllocatorDomain, PyMemAllocatorEx, PyObjectArenaAllocator};
use std::ffi::{CStr, c_char};
use std::mem::zeroed;

const RAW: usize = Account::Raw as usize;
const MEM: usize = Account::Mem as usize;
const OBJ: usize = Account::Obj as usize;

/// What the interpreter's own options and environment ask of the allocators.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// `PYTHONMALLOC` names an allocator: the nearest of the host's.
    pub allocator: Option<Allocator>,
    /// `-X dev`, `PYTHONDEVMODE`, `PYTHONMALLOC=debug` and the like, or a debug build.
    pub debug_hooks: bool,
}

fn get(domain: PyMemAllocatorDomain) -> PyMemAllocatorEx {
    // SAFETY: the structure is plain data, which the call fills.
    unsafe {
        let mut table: PyMemAllocatorEx = zeroed();
        ffi::PyMem_GetAllocator(domain, &mut table);
        table
    }
}

/// The table under CPython's debug hooks, or the table itself where it is none of theirs.
///
/// A debug hook's context is `debug_alloc_api_t` of `obmalloc.c`: a letter, then the table
/// underneath. CPython's other tables of that moment have no context.
fn without_debug_hooks(table: PyMemAllocatorEx) -> PyMemAllocatorEx {
    #[repr(C)]
    struct DebugContext {
        _api: c_char,
        table: PyMemAllocatorEx,
    }
    if table.ctx.is_null() {
        return table;
    }
    // SAFETY: see above; the structure is the same from 3.6 on.
    unsafe { std::ptr::read(&raw const (*table.ctx.cast::<DebugContext>()).table) }
}

/// Reads what was asked for, after pre-initialisation.
pub fn asked() -> Asked {
    let raw = get(PyMemAllocatorDomain::PYMEM_DOMAIN_RAW);
    Asked {
        allocator: allocator_of_environment(),
        debug_hooks: !raw.ctx.is_null(),
    }
}

/// The nearest of the host's allocators to the one that `PYTHONMALLOC` names. Pre-initialisation
/// has refused names that CPython does not know.
fn allocator_of_environment() -> Option<Allocator> {
    // SAFETY: pre-initialisation sets the flag (`-E`, `-I`); reading an int.
    #[allow(deprecated)]
    let ignored = unsafe { ffi::Py_IgnoreEnvironmentFlag } != 0;
    // SAFETY: the string is read at once, while the process has one thread.
    let name = unsafe { libc::getenv(c"PYTHONMALLOC".as_ptr()) };
    if ignored || name.is_null() {
        return None;
    }
    // SAFETY: a string of the environment.
    match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"pymalloc" | b"pymalloc_debug" => Some(Allocator::Pymalloc),
        b"malloc" | b"malloc_debug" => Some(Allocator::System),
        b"mimalloc" | b"mimalloc_debug" => Some(Allocator::Mimalloc),
        _ => None,
    }
}

/// Installs `allocator`, and CPython's debug hooks over it where `debug_hooks`.
///
/// Once, between pre-initialisation and initialisation, while the process has one thread.
pub fn install(allocator: Allocator, debug_hooks: bool) {
    use PyMemAllocatorDomain::{PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ, PYMEM_DOMAIN_RAW};
    let own = |domain| without_debug_hooks(get(domain));
    match allocator {
        Allocator::Mimalloc => {
            set(PYMEM_DOMAIN_RAW, hooks::domain::<RAW>());
            set(PYMEM_DOMAIN_MEM, hooks::domain::<MEM>());
            if cfg!(Py_GIL_DISABLED) {
                // The collector finds its objects in the pages of CPython's own mimalloc.
                set(
                    PYMEM_DOMAIN_OBJ,
                    over_pymalloc::<OBJ, true>(own(PYMEM_DOMAIN_OBJ)),
                );
            } else {
                set(PYMEM_DOMAIN_OBJ, hooks::domain::<OBJ>());
            }
            set_arenas(hooks::arenas());
        }
        Allocator::Pymalloc => {
            set(PYMEM_DOMAIN_RAW, hooks::domain::<RAW>());
            set(PYMEM_DOMAIN_MEM, hooks::domain::<MEM>());
            set(
                PYMEM_DOMAIN_OBJ,
                over_pymalloc::<OBJ, true>(own(PYMEM_DOMAIN_OBJ)),
            );
            set_arenas(wrapped::over_arenas::<false>(hooks::arenas()));
        }
        Allocator::System => {
            // All three are read before any is changed: debug hooks share their context.
            let (raw, mem, obj) = (
                own(PYMEM_DOMAIN_RAW),
                own(PYMEM_DOMAIN_MEM),
                own(PYMEM_DOMAIN_OBJ),
            );
            set(PYMEM_DOMAIN_RAW, wrapped::over_raw(raw));
            set(PYMEM_DOMAIN_MEM, over_pymalloc::<MEM, false>(mem));
            set(PYMEM_DOMAIN_OBJ, over_pymalloc::<OBJ, false>(obj));
            set_arenas(wrapped::over_arenas::<true>(get_arenas()));
        }
    }
    if debug_hooks {
        // SAFETY: before initialisation, and after the tables that it wraps.
        unsafe { ffi::PyMem_SetupDebugHooks() };
    }
}

fn set(domain: PyMemAllocatorDomain, mut table: PyMemAllocatorEx) {
    if faults::is_on() {
        table = faults::tables::over(domain, table);
    }
    // SAFETY: CPython copies the table; its functions live as long as the process.
    unsafe { ffi::PyMem_SetAllocator(domain, &mut table) };
}

fn get_arenas() -> PyObjectArenaAllocator {
    // SAFETY: plain data, which the call fills.
    unsafe {
        let mut table: PyObjectArenaAllocator = zeroed();
        ffi::PyObject_GetArenaAllocator(&mut table);
        table
    }
}

fn set_arenas(mut table: PyObjectArenaAllocator) {
    if faults::is_on() {
        table = faults::tables::over_arenas(table);
    }
    // SAFETY: CPython copies the table; its functions live as long as the process.
    unsafe { ffi::PyObject_SetArenaAllocator(&mut table) };
}
