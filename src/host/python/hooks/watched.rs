//! A look at each pointer before CPython's debug hooks get it (`--debug-hooks`): they read the bytes in front of it, and of a
//! block that was freed, or is another family's, print whatever lies there. What is right is passed on, and what the hooks
//! find by themselves they report as ever.

#![allow(unsafe_code)]

use crate::heap::checked_blocks;
use crate::ledger::Account;
use pyo3::ffi::PyMemAllocatorEx;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// The tables of a domain: of CPython's hooks, and beneath them.
struct Tables {
    hooks: PyMemAllocatorEx,
    beneath: PyMemAllocatorEx,
}

struct Kept(OnceLock<Tables>);
// SAFETY: the tables hold function pointers and contexts that CPython shares between threads.
unsafe impl Sync for Kept {}

static TABLES: [Kept; 3] = [const { Kept(OnceLock::new()) }; 3];

/// The table to call for a block that was made before. CPython 3.15's tracemalloc keeps the table that was there at its start,
/// and frees by it what it made before a second `PyMem_SetupDebugHooks`: such a block has the head of the hooks.
fn next_for<const A: usize>(pointer: *mut c_void) -> Option<&'static PyMemAllocatorEx> {
    let table = next::<A>()?;
    // SAFETY: what a program passes to `free`.
    match unsafe { checked_blocks::is_behind_hooks(pointer.cast()) } {
        true => TABLES[A].0.get().map(|tables| &tables.hooks),
        false => Some(table),
    }
}

/// The table to call. The hooks keep the table that they lie over in their context, and a second `PyMem_SetupDebugHooks`
/// puts them over these functions: then they have looked already, and what is beneath serves.
fn next<const A: usize>() -> Option<&'static PyMemAllocatorEx> {
    let Tables { hooks, beneath } = TABLES[A].0.get()?;
    // SAFETY: the context of a debug hook, as `domains` has found it: the table follows a word.
    let over = unsafe { std::ptr::read(hooks.ctx.cast::<usize>().wrapping_add(2)) };
    match over == malloc::<A> as *const () as usize {
        true => Some(beneath),
        false => Some(hooks),
    }
}

extern "C" fn malloc<const A: usize>(_ctx: *mut c_void, size: usize) -> *mut c_void {
    match next::<A>() {
        Some(PyMemAllocatorEx {
            ctx,
            malloc: Some(function),
            ..
        }) => function(*ctx, size),
        _ => null_mut(),
    }
}

extern "C" fn calloc<const A: usize>(_ctx: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match next::<A>() {
        Some(PyMemAllocatorEx {
            ctx,
            calloc: Some(function),
            ..
        }) => function(*ctx, count, size),
        _ => null_mut(),
    }
}

extern "C" fn realloc<const A: usize>(
    _ctx: *mut c_void,
    pointer: *mut c_void,
    size: usize,
) -> *mut c_void {
    let Some(table) = next_for::<A>(pointer) else {
        return null_mut();
    };
    if is_of_hooks::<A>(table) {
        // SAFETY: what a program passes to `realloc`.
        unsafe {
            checked_blocks::look_at_pythons(pointer.cast(), Account::ALL[A], name::<A>(true))
        };
    }
    match table.realloc {
        Some(function) => function(table.ctx, pointer, size),
        None => null_mut(),
    }
}

extern "C" fn free<const A: usize>(_ctx: *mut c_void, pointer: *mut c_void) {
    let Some(table) = next_for::<A>(pointer) else {
        return;
    };
    if is_of_hooks::<A>(table) {
        // SAFETY: what a program passes to `free`.
        unsafe {
            checked_blocks::look_at_pythons(pointer.cast(), Account::ALL[A], name::<A>(false))
        };
    }
    if let Some(function) = table.free {
        function(table.ctx, pointer);
    }
}

fn is_of_hooks<const A: usize>(table: &PyMemAllocatorEx) -> bool {
    let kept = TABLES[A].0.get();
    kept.is_some_and(|kept| std::ptr::eq(&raw const kept.hooks, table))
}

/// The function that the program has called, most likely.
fn name<const A: usize>(is_realloc: bool) -> &'static str {
    match (Account::ALL[A], is_realloc) {
        (Account::Raw, false) => "PyMem_RawFree()",
        (Account::Raw, true) => "PyMem_RawRealloc()",
        (Account::Mem, false) => "PyMem_Free()",
        (Account::Mem, true) => "PyMem_Realloc()",
        (_, false) => "PyObject_Free()",
        (_, true) => "PyObject_Realloc()",
    }
}

/// The table over the `hooks` of a domain, which lie over `beneath`. Once a domain.
pub fn over<const A: usize>(
    hooks: PyMemAllocatorEx,
    beneath: PyMemAllocatorEx,
) -> PyMemAllocatorEx {
    let ctx = hooks.ctx;
    if TABLES[A].0.set(Tables { hooks, beneath }).is_err() {
        return hooks;
    }
    PyMemAllocatorEx {
        ctx,
        malloc: Some(malloc::<A>),
        calloc: Some(calloc::<A>),
        realloc: Some(realloc::<A>),
        free: Some(free::<A>),
    }
}
