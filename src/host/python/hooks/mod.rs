//! The functions that CPython is given: PEP 445's allocator of a domain and of the arenas, on
//! the heap of their account.
//!
//! One generic set, instantiated an account. CPython checks sizes against `PY_SSIZE_T_MAX`
//! before it calls; the heap refuses larger ones itself. A size of 0 gives a block of its own,
//! `realloc(p, 0)` resizes. The MEM and OBJ sets need the GIL; RAW and the arenas do not.
//!
//! `ctx` is the address of an `Account`, so that a reader of the tables can distinguish them. The hooks know their
//! account by type.

#![allow(unsafe_code)]

pub mod domains;
mod watched;
mod wrapped;

use crate::cpython::functions::{Pointer, allocator};
use crate::heap::{self, Reallocated};
use crate::ledger::{Account, index::ARENA};
use crate::{libc_exports::native::next, limit::caps};
use pyo3::ffi::{PyMemAllocatorEx, PyObjectArenaAllocator};
pub use wrapped::{each_object, each_object_page, has_unknown_sizes};

/// The target of each table's `ctx`.
static CONTEXTS: [Account; crate::ledger::ACCOUNTS] = Account::ALL;

/// With `COUNT` the bytes are counted for samples.
#[inline(always)]
fn allocate<const A: usize, const COUNT: bool, const ZERO: bool>(size: usize) -> Pointer {
    match COUNT {
        true => heap::allocate_counted::<A, ZERO>(size).cast(),
        false => heap::allocate::<A, ZERO, true>(size).cast(),
    }
}

extern "C" fn malloc<const A: usize, const COUNT: bool>(_ctx: Pointer, size: usize) -> Pointer {
    allocate::<A, COUNT, false>(size)
}

extern "C" fn calloc<const A: usize, const COUNT: bool>(
    _ctx: Pointer,
    count: usize,
    size: usize,
) -> Pointer {
    match count.checked_mul(size) {
        Some(bytes) => allocate::<A, COUNT, true>(bytes),
        None => std::ptr::null_mut(),
    }
}

extern "C" fn realloc<const A: usize>(_ctx: Pointer, pointer: Pointer, size: usize) -> Pointer {
    // SAFETY: CPython passes a live block, or null.
    unsafe {
        match heap::reallocate::<A, true>(pointer.cast(), size) {
            Reallocated::Block(block) => block.cast(),
            Reallocated::Foreign => next::realloc(pointer.cast(), size.max(1)).cast(),
        }
    }
}

extern "C" fn free<const A: usize>(_ctx: Pointer, pointer: Pointer) {
    // SAFETY: CPython passes a live block, or null. It has the tables after the heaps were made.
    unsafe {
        if !heap::free::<A, true>(pointer.cast()) {
            next::free::<A>(pointer.cast());
        }
    }
}

/// As [`malloc`], under `--debug-hooks` or a `--guard` of small blocks; these are freed as others are.
extern "C" fn watched_malloc<const A: usize>(_ctx: Pointer, size: usize) -> Pointer {
    heap::checked_requests::allocate::<A, false>(size, 1).cast()
}

extern "C" fn watched_calloc<const A: usize>(_ctx: Pointer, count: usize, size: usize) -> Pointer {
    match count.checked_mul(size) {
        Some(bytes) => heap::checked_requests::allocate::<A, true>(bytes, 1).cast(),
        None => std::ptr::null_mut(),
    }
}

extern "C" fn watched_realloc<const A: usize>(
    _ctx: Pointer,
    pointer: Pointer,
    size: usize,
) -> Pointer {
    // SAFETY: CPython passes a live block, or null.
    unsafe {
        match heap::reallocate_checked::<A>(pointer.cast(), size) {
            Reallocated::Block(block) => block.cast(),
            Reallocated::Foreign => next::realloc(pointer.cast(), size.max(1)).cast(),
        }
    }
}

/// The alignment of pymalloc's pools up to CPython 3.9, whatever the kernel's page; later ones have
/// 16 KiB, and pymalloc leaves out what lies before the first.
const ARENA_ALIGNMENT: usize = 4096;

/// From this size on it is an arena of pymalloc's; below, a chunk of a thread's data stack (16 KiB
/// unless a single frame takes more).
const LEAST_ARENA: usize = 256 << 10;

extern "C" fn arena_alloc(_ctx: Pointer, size: usize) -> Pointer {
    let arena = heap::allocate_aligned(Account::Arena, size, ARENA_ALIGNMENT);
    if size < LEAST_ARENA && !arena.is_null() {
        caps::stack_moved(size as i64);
    }
    arena.cast()
}

extern "C" fn arena_free(_ctx: Pointer, pointer: Pointer, size: usize) {
    if size < LEAST_ARENA {
        caps::stack_moved(-(size as i64));
    }
    // SAFETY: an arena that `arena_alloc` made.
    unsafe {
        heap::free::<ARENA, true>(pointer.cast());
    }
}

/// The `ctx` of an account's table.
pub fn context(account: Account) -> Pointer {
    (&raw const CONTEXTS[account as usize]).cast_mut().cast()
}

/// The table of a domain whose blocks are booked to account `A`, which `counts` their bytes for samples.
pub fn domain<const A: usize>(counts: bool) -> PyMemAllocatorEx {
    match counts {
        true => table::<A, true>(),
        false => table::<A, false>(),
    }
}

fn table<const A: usize, const COUNT: bool>() -> PyMemAllocatorEx {
    let mut table = match heap::checked_requests::is_on() {
        true => allocator(
            watched_malloc::<A>,
            watched_calloc::<A>,
            watched_realloc::<A>,
            free::<A>,
        ),
        false => allocator(
            malloc::<A, COUNT>,
            calloc::<A, COUNT>,
            realloc::<A>,
            free::<A>,
        ),
    };
    table.ctx = context(Account::ALL[A]);
    table
}

pub fn arenas() -> PyObjectArenaAllocator {
    PyObjectArenaAllocator {
        ctx: context(Account::Arena),
        alloc: Some(arena_alloc),
        free: Some(arena_free),
    }
}
