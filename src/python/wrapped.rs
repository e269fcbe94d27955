//! Hooks that count over allocators that stay: CPython's own, for `--allocator system`, and
//! pymalloc under OBJ, for `--allocator pymalloc`.
//!
//! RAW and MEM blocks are libc's, so their size is `malloc_usable_size`. OBJ blocks of up to 512
//! bytes are pymalloc's, whose pools tell the size; larger ones pymalloc would take from RAW, so
//! the hook takes them itself, from RAW's own allocator or from the `obj` heap, and books them
//! to `obj`. What lies in a pool is also booked to `pooled`, since its arena is booked too.
//!
//! On a free-threaded build OBJ is CPython's own mimalloc, which the collector walks and which
//! exports no way to sizes: there the hook books blocks without bytes.

#![allow(unsafe_code)]

use super::pools;
use crate::heap::{self, Reallocated};
use crate::ledger::Account;
use crate::native::next;
use pyo3::ffi::{PyMemAllocatorEx, PyObjectArenaAllocator};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

const OBJ: usize = Account::Obj as usize;
const ARENA: usize = Account::Arena as usize;
const POOLED: usize = Account::Pooled as usize;

/// `SMALL_REQUEST_THRESHOLD` of `obmalloc.c`.
const SMALL_REQUEST: usize = 512;

/// A table that is wrapped. Raw pointers and functions: nothing that a thread could own.
struct Original<T>(OnceLock<T>);
// SAFETY: the tables hold function pointers and a context that CPython shares between threads.
unsafe impl<T> Sync for Original<T> {}

static DOMAINS: [Original<PyMemAllocatorEx>; 3] = [const { Original(OnceLock::new()) }; 3];
static ARENAS: Original<PyObjectArenaAllocator> = Original(OnceLock::new());

fn original<const A: usize>() -> &'static PyMemAllocatorEx {
    DOMAINS[A].0.get().expect("wrapped before it is called")
}

/// Calls a function of a wrapped table.
macro_rules! original {
    ($table:expr, $function:ident($($argument:expr),*)) => {{
        let table = $table;
        (table.$function.expect("CPython fills its tables"))(table.ctx, $($argument),*)
    }};
}

/// Usable bytes of a block of libc's or of a heap of the host's.
unsafe fn usable(pointer: *mut c_void) -> usize {
    // SAFETY: a live block.
    unsafe {
        heap::usable_size(pointer.cast()).unwrap_or_else(|| next::usable_size(pointer.cast()))
    }
}

/// RAW and MEM over the table that CPython had.
mod plain {
    use super::*;

    pub extern "C" fn malloc<const A: usize>(_ctx: *mut c_void, size: usize) -> *mut c_void {
        booked::<A>(original!(original::<A>(), malloc(size)))
    }

    pub extern "C" fn calloc<const A: usize>(
        _ctx: *mut c_void,
        count: usize,
        size: usize,
    ) -> *mut c_void {
        booked::<A>(original!(original::<A>(), calloc(count, size)))
    }

    pub extern "C" fn realloc<const A: usize>(
        _ctx: *mut c_void,
        pointer: *mut c_void,
        size: usize,
    ) -> *mut c_void {
        // SAFETY: CPython passes a live block, or null.
        let before = (!pointer.is_null()).then(|| unsafe { usable(pointer) });
        let moved = original!(original::<A>(), realloc(pointer, size));
        if moved.is_null() {
            heap::count_failure(Account::ALL[A]);
        } else {
            if let Some(bytes) = before {
                heap::release::<A>(bytes);
            }
            booked::<A>(moved);
        }
        moved
    }

    pub extern "C" fn free<const A: usize>(_ctx: *mut c_void, pointer: *mut c_void) {
        if !pointer.is_null() {
            // SAFETY: CPython passes a live block.
            heap::release::<A>(unsafe { usable(pointer) });
        }
        original!(original::<A>(), free(pointer));
    }

    pub fn booked<const A: usize>(block: *mut c_void) -> *mut c_void {
        if block.is_null() {
            heap::count_failure(Account::ALL[A]);
        } else {
            // SAFETY: a block that was just made.
            heap::book::<A>(unsafe { usable(block) });
        }
        block
    }
}

/// OBJ over pymalloc. `HEAP`: blocks beyond pymalloc come from the `obj` heap, not from RAW.
mod objects {
    use super::*;

    fn book_pooled(block: *mut c_void) -> *mut c_void {
        // SAFETY: a live block of OBJ, with the GIL.
        if let Some(bytes) = unsafe { pools::block_size(block.addr()) } {
            heap::book::<OBJ>(bytes);
            heap::book::<POOLED>(bytes);
        } else if block.is_null() {
            heap::count_failure(Account::Obj);
        } else if !heap::owns(block.cast()) {
            // No arena was to be had, or PYTHONMALLOC=malloc: pymalloc is not in use.
            // SAFETY: a live block of libc's.
            heap::book::<OBJ>(unsafe { usable(block) });
        }
        block
    }

    fn large<const HEAP: bool>(size: usize, zero: bool) -> *mut c_void {
        if HEAP {
            // SAFETY: CPython holds the GIL.
            return unsafe {
                if zero {
                    heap::allocate::<OBJ, true, true>(size).cast()
                } else {
                    heap::allocate::<OBJ, false, true>(size).cast()
                }
            };
        }
        let raw = original::<0>();
        let block = if zero {
            original!(raw, calloc(1, size))
        } else {
            original!(raw, malloc(size))
        };
        super::plain::booked::<OBJ>(block)
    }

    pub extern "C" fn malloc<const HEAP: bool>(_ctx: *mut c_void, size: usize) -> *mut c_void {
        if size > SMALL_REQUEST {
            return large::<HEAP>(size, false);
        }
        book_pooled(original!(original::<OBJ>(), malloc(size.max(1))))
    }

    pub extern "C" fn calloc<const HEAP: bool>(
        _ctx: *mut c_void,
        count: usize,
        size: usize,
    ) -> *mut c_void {
        let Some(bytes) = count.checked_mul(size) else {
            return null_mut();
        };
        if bytes > SMALL_REQUEST {
            return large::<HEAP>(bytes, true);
        }
        book_pooled(original!(original::<OBJ>(), calloc(1, bytes.max(1))))
    }

    pub extern "C" fn realloc<const HEAP: bool>(
        ctx: *mut c_void,
        pointer: *mut c_void,
        size: usize,
    ) -> *mut c_void {
        if pointer.is_null() {
            return malloc::<HEAP>(ctx, size);
        }
        // SAFETY: a live block of OBJ, with the GIL.
        let pooled = unsafe { pools::block_size(pointer.addr()) };
        match pooled {
            Some(before) if size <= SMALL_REQUEST => {
                let moved = original!(original::<OBJ>(), realloc(pointer, size.max(1)));
                if !moved.is_null() {
                    heap::release::<OBJ>(before);
                    heap::release::<POOLED>(before);
                    book_pooled(moved);
                }
                moved
            }
            Some(before) => {
                let moved = large::<HEAP>(size, false);
                if !moved.is_null() {
                    // SAFETY: two live blocks, each at least that long.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            pointer.cast::<u8>(),
                            moved.cast(),
                            before.min(size),
                        );
                    }
                    free::<HEAP>(ctx, pointer);
                }
                moved
            }
            None if HEAP => {
                // SAFETY: a live block, with the GIL.
                match unsafe { heap::reallocate::<OBJ, true>(pointer.cast(), size) } {
                    Reallocated::Block(block) => block.cast(),
                    Reallocated::Foreign => null_mut(),
                }
            }
            None => {
                // SAFETY: a live block.
                let before = unsafe { usable(pointer) };
                let moved = original!(original::<0>(), realloc(pointer, size));
                if !moved.is_null() {
                    heap::release::<OBJ>(before);
                }
                super::plain::booked::<OBJ>(moved)
            }
        }
    }

    pub extern "C" fn free<const HEAP: bool>(_ctx: *mut c_void, pointer: *mut c_void) {
        if pointer.is_null() {
            return;
        }
        // SAFETY: a live block of OBJ, with the GIL.
        if let Some(bytes) = unsafe { pools::block_size(pointer.addr()) } {
            heap::release::<OBJ>(bytes);
            heap::release::<POOLED>(bytes);
            original!(original::<OBJ>(), free(pointer));
        // SAFETY: a live block, with the GIL.
        } else if !HEAP || !unsafe { heap::free::<OBJ, true>(pointer.cast()) } {
            // SAFETY: a live block.
            heap::release::<OBJ>(unsafe { usable(pointer) });
            original!(original::<OBJ>(), free(pointer));
        }
    }
}

/// OBJ of a free-threaded build: blocks are counted, bytes are not.
#[cfg(Py_GIL_DISABLED)]
mod blocks_only {
    use super::*;

    fn counted(block: *mut c_void) -> *mut c_void {
        if block.is_null() {
            heap::count_failure(Account::Obj);
        } else {
            heap::book::<OBJ>(0);
        }
        block
    }

    pub extern "C" fn malloc(_ctx: *mut c_void, size: usize) -> *mut c_void {
        counted(original!(original::<OBJ>(), malloc(size)))
    }

    pub extern "C" fn calloc(_ctx: *mut c_void, count: usize, size: usize) -> *mut c_void {
        counted(original!(original::<OBJ>(), calloc(count, size)))
    }

    pub extern "C" fn realloc(_ctx: *mut c_void, pointer: *mut c_void, size: usize) -> *mut c_void {
        let moved = original!(original::<OBJ>(), realloc(pointer, size));
        if pointer.is_null() { counted(moved) } else { moved }
    }

    pub extern "C" fn free(_ctx: *mut c_void, pointer: *mut c_void) {
        if !pointer.is_null() {
            heap::release::<OBJ>(0);
        }
        original!(original::<OBJ>(), free(pointer));
    }
}

extern "C" fn arena_alloc(_ctx: *mut c_void, size: usize) -> *mut c_void {
    let arena = original!(ARENAS.0.get().expect("wrapped"), alloc(size));
    if arena.is_null() {
        heap::count_failure(Account::Arena);
    } else {
        pools::add_arena(arena.addr(), size);
        heap::book::<ARENA>(size);
    }
    arena
}

extern "C" fn arena_free(_ctx: *mut c_void, pointer: *mut c_void, size: usize) {
    pools::remove_arena(pointer.addr(), size);
    heap::release::<ARENA>(size);
    original!(ARENAS.0.get().expect("wrapped"), free(pointer, size));
}

/// Remembers `table` as the one under domain `A` and gives the counting table over it.
pub fn over<const A: usize>(table: PyMemAllocatorEx) -> PyMemAllocatorEx {
    let _ = DOMAINS[A].0.set(table);
    PyMemAllocatorEx {
        ctx: null_mut(),
        malloc: Some(plain::malloc::<A>),
        calloc: Some(plain::calloc::<A>),
        realloc: Some(plain::realloc::<A>),
        free: Some(plain::free::<A>),
    }
}

/// The counting table over OBJ; `on_heap`: requests beyond pymalloc come from the `obj` heap.
#[cfg(not(Py_GIL_DISABLED))]
pub fn over_objects(table: PyMemAllocatorEx, on_heap: bool) -> PyMemAllocatorEx {
    let _ = DOMAINS[OBJ].0.set(table);
    macro_rules! table {
        ($on_heap:literal) => {
            PyMemAllocatorEx {
                ctx: null_mut(),
                malloc: Some(objects::malloc::<$on_heap>),
                calloc: Some(objects::calloc::<$on_heap>),
                realloc: Some(objects::realloc::<$on_heap>),
                free: Some(objects::free::<$on_heap>),
            }
        };
    }
    if on_heap { table!(true) } else { table!(false) }
}

/// The counting table over OBJ of a free-threaded build.
#[cfg(Py_GIL_DISABLED)]
pub fn over_objects(table: PyMemAllocatorEx, _on_heap: bool) -> PyMemAllocatorEx {
    let _ = DOMAINS[OBJ].0.set(table);
    PyMemAllocatorEx {
        ctx: null_mut(),
        malloc: Some(blocks_only::malloc),
        calloc: Some(blocks_only::calloc),
        realloc: Some(blocks_only::realloc),
        free: Some(blocks_only::free),
    }
}

/// The counting arena allocator over `table`.
pub fn over_arenas(table: PyObjectArenaAllocator) -> PyObjectArenaAllocator {
    let _ = ARENAS.0.set(table);
    PyObjectArenaAllocator {
        ctx: null_mut(),
        alloc: Some(arena_alloc),
        free: Some(arena_free),
    }
}
