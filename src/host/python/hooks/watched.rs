//! A look at each pointer before CPython's debug hooks get it (`--debug-hooks`): they read the bytes in front of it, and of a
//! block that was freed, or is another family's, print whatever lies there. What is right is passed on, and what the hooks
//! find by themselves they report as ever. Requests that `--guard` asks to be guarded are served here, and do not reach the
//! hooks: a block ends at its page, without a pad, is filled as the hooks would, and is looked at when it is freed.

#![allow(unsafe_code)]

use crate::check::faults;
use crate::cpython::functions::{KeptTable, Pointer, allocator};
use crate::descriptor::notice;
use crate::heap::{call_site::native_stacks, checked_blocks, fill_bytes::FRESH, guards};
use crate::ledger::{Account, index::MEM, index::RAW};
use pyo3::ffi::{self, PyMemAllocatorEx};
use std::ptr::null_mut;

/// The tables of each domain: of CPython's hooks, and beneath them.
static TABLES: [KeptTable<[PyMemAllocatorEx; 2]>; 3] = [const { KeptTable::new() }; 3];

/// The table to call for a block that was made before. CPython 3.15's tracemalloc keeps the table that was there at its start,
/// and frees by it what it made before a second `PyMem_SetupDebugHooks`: such a block has the head of the hooks.
fn next_for<const A: usize>(pointer: Pointer) -> Option<&'static PyMemAllocatorEx> {
    let table = next::<A>()?;
    // SAFETY: what a program passes to `free`.
    match unsafe { checked_blocks::bytes_behind_hooks(pointer.cast()) } {
        Some(_) => TABLES[A].get().map(|[hooks, _]| hooks),
        None => Some(table),
    }
}

/// The table to call. The hooks keep the table that they lie over in their context, and a second `PyMem_SetupDebugHooks`
/// puts them over these functions: then they have looked already, and what is beneath serves.
fn next<const A: usize>() -> Option<&'static PyMemAllocatorEx> {
    let [hooks, beneath] = TABLES[A].get()?;
    // SAFETY: the context of a debug hook, as `domains` has found it: the table follows a word.
    let over = unsafe { std::ptr::read(hooks.ctx.cast::<usize>().wrapping_add(2)) };
    match over == malloc::<A> as *const () as usize {
        true => Some(beneath),
        false => Some(hooks),
    }
}

extern "C" fn malloc<const A: usize>(_ctx: Pointer, size: usize) -> Pointer {
    if holds_gil::<A>("Malloc")
        && let Some(block) = guarded::<A>(size, Some(FRESH))
    {
        return block;
    }
    let function = |table: &PyMemAllocatorEx| Some(table.malloc?(table.ctx, size));
    next::<A>().and_then(function).unwrap_or(null_mut())
}

extern "C" fn calloc<const A: usize>(_ctx: Pointer, count: usize, size: usize) -> Pointer {
    if holds_gil::<A>("Calloc")
        && let Some(block) = count
            .checked_mul(size)
            .and_then(|bytes| guarded::<A>(bytes, None))
    {
        return block;
    }
    let function = |table: &PyMemAllocatorEx| Some(table.calloc?(table.ctx, count, size));
    next::<A>().and_then(function).unwrap_or(null_mut())
}

extern "C" fn realloc<const A: usize>(ctx: Pointer, pointer: Pointer, size: usize) -> Pointer {
    if pointer.is_null() {
        return malloc::<A>(ctx, size);
    }
    let Some(table) = looked::<A>(pointer, true) else {
        return null_mut();
    };
    // A block that was not guarded moves as soon as one is to be.
    // SAFETY: what a program passes to `realloc`.
    let unguarded = || unsafe { checked_blocks::bytes_behind_hooks(pointer.cast()) };
    let (before, moved) = match guards::size(pointer.cast()) {
        Some(before) => (before, Some(malloc::<A>(ctx, size))),
        None if guards::are_on() && has_gil::<A>() => match unguarded() {
            Some(before) => (before, guarded::<A>(size, Some(FRESH))),
            None => (0, None),
        },
        None => (0, None),
    };
    let Some(moved) = moved else {
        let function = |table: &PyMemAllocatorEx| Some(table.realloc?(table.ctx, pointer, size));
        return function(table).unwrap_or(null_mut());
    };
    if !moved.is_null() {
        let (from, to) = (pointer.cast::<u8>(), moved.cast());
        // SAFETY: both blocks live, and are at least that long.
        unsafe { std::ptr::copy_nonoverlapping(from, to, before.min(size)) };
        give_back::<A>(table, pointer, true);
    }
    moved
}

extern "C" fn free<const A: usize>(_ctx: Pointer, pointer: Pointer) {
    if let Some(table) = looked::<A>(pointer, false) {
        give_back::<A>(table, pointer, false);
    }
}

/// Frees a block that was looked at. Without the GIL CPython's hooks get it, and end the process before they look at it.
fn give_back<const A: usize>(table: &PyMemAllocatorEx, pointer: Pointer, is_realloc: bool) {
    if guards::owns(pointer.cast()) && has_gil::<A>() {
        guards::free_by(pointer.cast(), Account::ALL[A], name::<A>(is_realloc));
    } else if let Some(function) = table.free {
        function(table.ctx, pointer);
    }
}

/// A guarded block of `size` bytes, each `fill` or 0; null if it is refused; `None` if none is asked for, or there is no room.
fn guarded<const A: usize>(size: usize, fill: Option<u8>) -> Option<Pointer> {
    if !guards::wants(size) || !next::<A>().is_some_and(is_of_hooks::<A>) {
        return None;
    }
    if faults::fails_of::<A>(size) {
        return Some(null_mut());
    }
    guards::allocate_filled(Account::ALL[A], size, 1, fill).map(|block| block.cast())
}

/// Whether a table is that of CPython's hooks.
fn is_of_hooks<const A: usize>(table: &'static PyMemAllocatorEx) -> bool {
    let kept = TABLES[A].get();
    kept.is_some_and(|[hooks, _]| std::ptr::eq(hooks, table))
}

/// Whether the thread has a right to the domain. If not it names the calls; CPython's hooks are about to end the process.
fn holds_gil<const A: usize>(function: &str) -> bool {
    let holds = has_gil::<A>();
    if !holds {
        let domain = if A == MEM { "PyMem" } else { "PyObject" };
        notice(format_args!(
            "{domain}_{function}(): called without the GIL"
        ));
        native_stacks::report(0, 0);
    }
    holds
}

fn has_gil<const A: usize>() -> bool {
    // SAFETY: any thread may ask.
    A == RAW || unsafe { ffi::PyGILState_Check() } != 0
}

/// The table to call for a block that was made before, which is looked at first if the table is that of the hooks.
fn looked<const A: usize>(pointer: Pointer, is_realloc: bool) -> Option<&'static PyMemAllocatorEx> {
    holds_gil::<A>(if is_realloc { "Realloc" } else { "Free" });
    let table = next_for::<A>(pointer)?;
    if is_of_hooks::<A>(table) {
        let name = name::<A>(is_realloc);
        // SAFETY: what a program passes to `free` or `realloc`.
        unsafe { checked_blocks::look_at_pythons(pointer.cast(), Account::ALL[A], name) };
    }
    Some(table)
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
    let mut over = allocator(malloc::<A>, calloc::<A>, realloc::<A>, free::<A>);
    over.ctx = hooks.ctx;
    match TABLES[A].set([hooks, beneath]) {
        Ok(()) => over,
        Err(_) => hooks,
    }
}
