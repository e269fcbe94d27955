//! CPython's tables with a question in front of each request (PEP 445): the domains and the arena
//! allocator. What lies beneath serves, frees and books as it would without.

use super::fails_of;
use crate::cpython::functions::KeptTable;
use crate::ledger::Account;
use pyo3::ffi::{PyMemAllocatorDomain, PyMemAllocatorEx, PyObjectArenaAllocator};
use std::ffi::c_void;
use std::ptr::null_mut;

const RAW: usize = Account::Raw as usize;
const MEM: usize = Account::Mem as usize;
const OBJ: usize = Account::Obj as usize;
const ARENA: usize = Account::Arena as usize;

pyhost_os::state! {
    /// The tables beneath those that inject failures.
    static STATE: FaultTables {
        domains: [KeptTable<PyMemAllocatorEx>; 3] = [const { KeptTable::new() }; 3],
        arenas: KeptTable<PyObjectArenaAllocator> = KeptTable::new(),
    }
}

/// The table beneath; installed before the wrapper is.
fn beneath<const A: usize>() -> Option<&'static PyMemAllocatorEx> {
    STATE.domains[A].get()
}

extern "C" fn malloc<const A: usize>(ctx: *mut c_void, size: usize) -> *mut c_void {
    if fails_of::<A>(size) {
        return null_mut();
    }
    match beneath::<A>().and_then(|table| table.malloc) {
        Some(function) => function(ctx, size),
        None => null_mut(),
    }
}

extern "C" fn calloc<const A: usize>(ctx: *mut c_void, count: usize, size: usize) -> *mut c_void {
    if fails_of::<A>(count.saturating_mul(size)) {
        return null_mut();
    }
    match beneath::<A>().and_then(|table| table.calloc) {
        Some(function) => function(ctx, count, size),
        None => null_mut(),
    }
}

extern "C" fn realloc<const A: usize>(
    ctx: *mut c_void,
    pointer: *mut c_void,
    size: usize,
) -> *mut c_void {
    if fails_of::<A>(size) {
        return null_mut();
    }
    match beneath::<A>().and_then(|table| table.realloc) {
        Some(function) => function(ctx, pointer, size),
        None => null_mut(),
    }
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

extern "C" fn arena_alloc(ctx: *mut c_void, size: usize) -> *mut c_void {
    if fails_of::<ARENA>(size) {
        return null_mut();
    }
    match STATE.arenas.get().and_then(|table| table.alloc) {
        Some(function) => function(ctx, size),
        None => null_mut(),
    }
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
