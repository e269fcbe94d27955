//! Installs the host's allocators: the three domains of PEP 445 and the arenas.
//!
//! The moment is after pre-initialisation and before initialisation. Earlier, a `PYTHONMALLOC`
//! or `-X dev` would put CPython's own allocators back; later, blocks would already have been
//! made. What was asked for is read off the tables that pre-initialisation left.

#![allow(unsafe_code)]

use super as hooks;
use super::watched;
use super::wrapped::{self, DOMAINS, over_pymalloc};
use crate::heap::{checked_blocks, guards, out_of_bounds, sampling};
use crate::ledger::index::{MEM, OBJ, RAW};
use crate::{allocator::Allocator, check::faults, process::loaded};
use pyo3::ffi::{self, PyMemAllocatorDomain, PyMemAllocatorEx, PyObjectArenaAllocator};
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{mem::zeroed, sync::OnceLock};

struct Tables {
    domains: [PyMemAllocatorEx; 3],
    arenas: PyObjectArenaAllocator,
}
// SAFETY: the tables hold function pointers and contexts that CPython shares between threads.
unsafe impl Send for Tables {}
// SAFETY: as above; they are only read.
unsafe impl Sync for Tables {}

pyhost_os::state! {
    /// CPython's allocators before and after [`install`].
    static STATE: InstalledDomains {
        /// CPython's own tables, without debug hooks, from before [`install`].
        own: OnceLock<Tables> = OnceLock::new(),
        /// The tables that [`install`] left, with debug hooks.
        installed: OnceLock<Tables> = OnceLock::new(),
        /// [`install`] has left debug hooks.
        debug_hooks: AtomicBool = AtomicBool::new(false),
    }
}

/// The interpreter's own options and variables for the allocators.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// `PYTHONMALLOC` names an allocator: the nearest of the host's.
    pub allocator: Option<Allocator>,
    /// `-X dev`, `PYTHONDEVMODE`, `PYTHONMALLOC=debug` and the like, or a debug build.
    pub debug_hooks: bool,
    /// A preloaded library has put its own allocator in place of CPython's: it counts on being asked for
    /// every block, and its blocks are its own.
    pub is_taken: bool,
}

fn get(domain: PyMemAllocatorDomain) -> PyMemAllocatorEx {
    // SAFETY: the structure is plain data, which the call fills.
    unsafe {
        let mut table: PyMemAllocatorEx = zeroed();
        ffi::PyMem_GetAllocator(domain, &mut table);
        table
    }
}

/// `debug_alloc_api_t` of `obmalloc.c`, from 3.6 on: a letter, then the table underneath.
#[repr(C)]
struct DebugContext {
    _api: c_char,
    table: PyMemAllocatorEx,
}

/// The table under CPython's debug hooks, or the table itself if it is none of theirs.
///
/// A debug hook's context is a [`DebugContext`]. CPython's other tables of that moment have no context; those of a
/// preloaded library have whatever they need.
fn without_debug_hooks(table: PyMemAllocatorEx) -> PyMemAllocatorEx {
    if table.ctx.is_null() || !is_pythons(&table) {
        return table;
    }
    // SAFETY: see above.
    unsafe { std::ptr::read(&raw const (*table.ctx.cast::<DebugContext>()).table) }
}

/// Whether the functions of a table are libpython's. Before the host's own are installed: a static libpython
/// lies in the executable.
fn is_pythons(table: &PyMemAllocatorEx) -> bool {
    let own = ffi::PyMem_GetAllocator as *const () as usize;
    let malloc = table.malloc.map(|malloc| malloc as *const () as usize);
    loaded::is_same(malloc.unwrap_or(0), own)
}

/// Reads what was asked for, after pre-initialisation.
pub fn asked() -> Asked {
    let raw = get(PyMemAllocatorDomain::PYMEM_DOMAIN_RAW);
    let is_taken = |domain| !is_pythons(&without_debug_hooks(get(domain)));
    Asked {
        allocator: allocator_of_environment(),
        debug_hooks: !raw.ctx.is_null() && is_pythons(&raw),
        is_taken: DOMAINS.into_iter().any(is_taken),
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

/// Installs `allocator`, and CPython's debug hooks over it if `debug_hooks`.
///
/// Once, between pre-initialisation and initialisation, while the process has one thread.
pub fn install(allocator: Allocator, debug_hooks: bool) {
    use PyMemAllocatorDomain::{PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ, PYMEM_DOMAIN_RAW};
    // All are read before any is changed: debug hooks share their context.
    let own = STATE.own.get_or_init(|| Tables {
        domains: DOMAINS.map(|domain| without_debug_hooks(get(domain))),
        arenas: get_arenas(),
    });
    let [_, _, obj] = own.domains;
    let counts = sampling::is_on();
    match allocator {
        Allocator::Mimalloc => {
            set(PYMEM_DOMAIN_RAW, hooks::domain::<RAW>(counts));
            set(PYMEM_DOMAIN_MEM, hooks::domain::<MEM>(counts));
            if cfg!(Py_GIL_DISABLED) {
                // The collector finds its objects in the pages of CPython's own mimalloc.
                set(PYMEM_DOMAIN_OBJ, over_pymalloc::<OBJ, true>(obj));
            } else {
                set(PYMEM_DOMAIN_OBJ, hooks::domain::<OBJ>(counts));
            }
            set_arenas(hooks::arenas());
        }
        Allocator::Pymalloc => {
            set(PYMEM_DOMAIN_RAW, hooks::domain::<RAW>(counts));
            set(PYMEM_DOMAIN_MEM, hooks::domain::<MEM>(counts));
            set(PYMEM_DOMAIN_OBJ, over_pymalloc::<OBJ, true>(obj));
            set_arenas(wrapped::over_arenas::<false>(hooks::arenas()));
        }
        Allocator::System => count_over(own),
    }
    if debug_hooks {
        // SAFETY: before initialisation, and after the tables that it wraps.
        unsafe { ffi::PyMem_SetupDebugHooks() };
        STATE.debug_hooks.store(true, Relaxed);
        out_of_bounds::put_hooks_on();
        let serves_all = allocator == Allocator::Mimalloc && !cfg!(Py_GIL_DISABLED);
        let guards_all = guards::are_on() && serves_all;
        if guards_all {
            guards::lie_over_hooks();
        }
        if checked_blocks::is_on() || guards_all {
            watch::<RAW>(PYMEM_DOMAIN_RAW);
            watch::<MEM>(PYMEM_DOMAIN_MEM);
            watch::<OBJ>(PYMEM_DOMAIN_OBJ);
        }
    }
    let _ = STATE.installed.set(Tables {
        domains: DOMAINS.map(get),
        arenas: get_arenas(),
    });
}

/// Makes the host look at each pointer before CPython's debug hooks get it, which [`install`] has put over a domain.
fn watch<const A: usize>(domain: PyMemAllocatorDomain) {
    let hooks = get(domain);
    if hooks.ctx.is_null() {
        return;
    }
    // SAFETY: the context of a debug hook; see `without_debug_hooks`.
    let beneath = unsafe { std::ptr::read(&raw const (*hooks.ctx.cast::<DebugContext>()).table) };
    let mut over = watched::over::<A>(hooks, beneath);
    // SAFETY: CPython copies the table; its functions live as long as the process.
    unsafe { ffi::PyMem_SetAllocator(domain, &mut over) };
}

/// Counts over CPython's own tables. What a preloaded library has put there stays as it is: it takes a block
/// that it did not make for one of its own.
fn count_over(own: &Tables) {
    let [raw, mem, obj] = own.domains;
    let counting = [
        wrapped::over_raw(raw),
        over_pymalloc::<MEM, false>(mem),
        over_pymalloc::<OBJ, false>(obj),
    ];
    for ((domain, own), counting) in DOMAINS.into_iter().zip(&own.domains).zip(counting) {
        if is_pythons(own) {
            set(domain, counting);
        }
    }
    set_arenas(wrapped::over_arenas::<true>(own.arenas));
}

/// Hands the domains back to CPython's own allocators, which are counted as by [`Allocator::System`]; blocks
/// of before stay where they are until they are freed. After initialisation, with the GIL: a thread that
/// asks for raw memory meanwhile uses one table or the other, and no function reads its context.
///
/// False, having done nothing, if another hook lies over the host's tables (tracemalloc, `--fail`).
pub fn hand_over(debug_hooks: bool) -> bool {
    let (Some(own), Some(installed)) = (STATE.own.get(), STATE.installed.get()) else {
        return false;
    };
    let is_ours = (0..DOMAINS.len()).all(|domain| {
        let now = get(DOMAINS[domain]);
        is_same(&now, &installed.domains[domain]) || is_same(&now, &kinds()[domain].now)
    });
    if !is_ours || faults::is_on() || guards::do_lie_over_hooks() || cfg!(Py_GIL_DISABLED) {
        return false;
    }
    count_over(own);
    if debug_hooks {
        // SAFETY: with the GIL, over tables without debug hooks.
        unsafe { ffi::PyMem_SetupDebugHooks() };
    }
    true
}

/// The host's own tables of a domain: those for this moment and those that it would have if samples began or ended.
struct Kinds {
    now: PyMemAllocatorEx,
    other: PyMemAllocatorEx,
}

fn kinds() -> [Kinds; 3] {
    fn of<const A: usize>() -> Kinds {
        let counts = sampling::is_on();
        let (now, other) = (hooks::domain::<A>(counts), hooks::domain::<A>(!counts));
        Kinds { now, other }
    }
    [of::<RAW>(), of::<MEM>(), of::<OBJ>()]
}

fn is_same(left: &PyMemAllocatorEx, right: &PyMemAllocatorEx) -> bool {
    left.ctx == right.ctx && wrapped::is_same(left.malloc, right.malloc)
}

/// Whether these tables of RAW, MEM and OBJ are tracemalloc's. Their contexts are the tables beneath, of MEM, RAW and OBJ in a
/// row: `allocators` of `_tracemalloc.c` up to 3.11, of `_PyRuntime.tracemalloc` from 3.12 on.
fn are_tracemallocs(tables: &[PyMemAllocatorEx; 3]) -> bool {
    let [raw, mem, obj] = tables.each_ref().map(|table| table.ctx.addr());
    let size = size_of::<PyMemAllocatorEx>();
    mem != 0
        && mem.is_multiple_of(align_of::<PyMemAllocatorEx>())
        && raw == mem.wrapping_add(size)
        && obj == raw.wrapping_add(size)
}

/// Makes the domains count bytes for samples, or count no more, when samples have begun or ended: also under tracemalloc, which
/// puts the tables that it found back when it stops. With the GIL, also inside the allocator: a thread that asks for raw memory
/// meanwhile uses one table or the other, whose contexts and blocks are the same.
///
/// False if another hook lies over one of the host's tables (`--fail`). What that passes on is sampled in any case: the other
/// table is slower, and no more.
pub fn follow_samples() -> bool {
    let Some(installed) = STATE.installed.get() else {
        return false;
    };
    let tops = DOMAINS.map(get);
    let is_traced = are_tracemallocs(&tops);
    let mut follows = true;
    for (number, Kinds { mut now, other }) in kinds().into_iter().enumerate() {
        let beneath = tops[number].ctx.cast::<PyMemAllocatorEx>();
        let table = match is_traced {
            // SAFETY: one of tracemalloc's tables, which live as long as the process.
            true => unsafe { std::ptr::read(beneath) },
            false => tops[number],
        };
        if is_same(&table, &other) {
            // SAFETY: CPython copies the table; its functions live as long as the process. The words of tracemalloc's that
            // change are addresses of functions for the same blocks.
            unsafe {
                match is_traced {
                    true => std::ptr::write(beneath, now),
                    false => ffi::PyMem_SetAllocator(DOMAINS[number], &mut now),
                }
            }
        } else if is_same(&table, &installed.domains[number])
            || cfg!(Py_GIL_DISABLED) && table.ctx == installed.domains[number].ctx
        {
            // Under debug hooks; or over pymalloc or the system's malloc, which look at each block.
            let has_hooks = STATE.debug_hooks.load(Relaxed);
            let debug = table.ctx.cast::<DebugContext>();
            // SAFETY: the context of a debug hook, as `install` has left it; see `without_debug_hooks`. The words of the
            // table that change are addresses of functions for the same blocks.
            unsafe {
                if has_hooks && is_same(&(*debug).table, &other) {
                    (*debug).table = now;
                }
            }
        } else if !is_same(&table, &now) {
            follows = false;
        }
    }
    follows
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
