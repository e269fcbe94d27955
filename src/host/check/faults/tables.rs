//! CPython's tables with a question in front of each request (PEP 445): the domains and the arena
//! allocator. What lies beneath serves, frees and books as it would without.

use super::fails_of;
use crate::cpython::functions::{KeptTable, Pointer};
use crate::ledger::index::{ARENA, MEM, OBJ, RAW};
use pyo3::ffi::{PyMemAllocatorDomain, PyMemAllocatorEx, PyObjectArenaAllocator};
use std::ptr::null_mut;

pyhost_os::state! {
    /// The tables beneath those that inject failures.
    static STATE: FaultTables {
        domains: [KeptTable<PyMemAllocatorEx>; 3] = [const { KeptTable::new() }; 3],
        arenas: KeptTable<PyObjectArenaAllocator> = KeptTable::new(),
    }
}

/// Calls a function of the table beneath, which is installed before the wrapper is; null if the request is to fail.
macro_rules! ask {
    ($account:ident, $size:expr, $table:expr, $function:ident($($argument:expr),*)) => {
        match $table.get().and_then(|table| table.$function) {
            Some(function) if !fails_of::<$account>($size) => function($($argument),*),
            _ => null_mut(),
        }
    };
}

extern "C" fn malloc<const A: usize>(ctx: Pointer, size: usize) -> Pointer {
    ask!(A, size, STATE.domains[A], malloc(ctx, size))
}

extern "C" fn calloc<const A: usize>(ctx: Pointer, count: usize, size: usize) -> Pointer {
    let bytes = count.saturating_mul(size);
    ask!(A, bytes, STATE.domains[A], calloc(ctx, count, size))
}

extern "C" fn realloc<const A: usize>(ctx: Pointer, pointer: Pointer, size: usize) -> Pointer {
    ask!(A, size, STATE.domains[A], realloc(ctx, pointer, size))
}

fn wrap<const A: usize>(table: PyMemAllocatorEx) -> PyMemAllocatorEx {
    // The context and `free` stay those of the table beneath.
    let wrapper = PyMemAllocatorEx {
        ctx: table.ctx,
        malloc: Some(malloc::<A>),
        calloc: Some(calloc::<A>),
        realloc: Some(realloc::<A>),
        free: table.free,
    };
    match STATE.domains[A].set(table) {
        Ok(()) => wrapper,
        Err(table) => table,
    }
}

/// The table of a domain that asks first. Once a domain.
pub fn over(domain: PyMemAllocatorDomain, table: PyMemAllocatorEx) -> PyMemAllocatorEx {
    match domain {
        PyMemAllocatorDomain::PYMEM_DOMAIN_RAW => wrap::<RAW>(table),
        PyMemAllocatorDomain::PYMEM_DOMAIN_MEM => wrap::<MEM>(table),
        PyMemAllocatorDomain::PYMEM_DOMAIN_OBJ => wrap::<OBJ>(table),
    }
}

extern "C" fn arena_alloc(ctx: Pointer, size: usize) -> Pointer {
    ask!(ARENA, size, STATE.arenas, alloc(ctx, size))
}

/// The arena allocator that asks first. Once.
pub fn over_arenas(table: PyObjectArenaAllocator) -> PyObjectArenaAllocator {
    let wrapper = PyObjectArenaAllocator {
        ctx: table.ctx,
        alloc: Some(arena_alloc),
        free: table.free,
    };
    match STATE.arenas.set(table) {
        Ok(()) => wrapper,
        Err(table) => table,
    }
}
