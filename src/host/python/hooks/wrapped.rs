//! Hooks that count over allocators that stay: CPython's own, for `--allocator system`, and
//! pymalloc under OBJ, for `--allocator pymalloc`.
//!
//! RAW blocks are libc's, so their size is `malloc_usable_size`. MEM and OBJ blocks of up to 512 bytes are pymalloc's,
//! whose pools have the size; larger ones pymalloc would take from RAW, so the hook takes them itself, from RAW's own
//! allocator or from the account's heap, and books them to the domain that asked. What lies in a pool is also booked to
//! `pooled`, since its arena is booked too. If `PYTHONMALLOC=malloc` made libc the allocator of all domains there are
//! no pools, and every size is libc's. If CPython's allocators take the place of the host's late
//! (`domains::hand_over`), blocks of before are freed to the heap that they came from.
//!
//! On a free-threaded build MEM and OBJ are CPython's own mimalloc, which the collector walks and
//! which exports no way to sizes: there the hooks book blocks without bytes.

#![allow(unsafe_code)]

use super as hooks;
use crate::cpython::functions::{KeptTable, Pointer, allocator};
use crate::cpython::pools;
use crate::heap::{self, sampling};
#[cfg(not(Py_GIL_DISABLED))]
use crate::ledger::index::POOLED;
use crate::ledger::{Account, LEDGER, index::ARENA, index::RAW};
use crate::libc_exports::native::next;
use pyo3::ffi::{PyMemAllocatorEx, PyObjectArenaAllocator};
use std::ptr::null_mut;

/// `SMALL_REQUEST_THRESHOLD` of `obmalloc.c`.
#[cfg(not(Py_GIL_DISABLED))]
const SMALL_REQUEST: usize = 512;

pyhost_os::state! {
    /// The allocators beneath the counting ones.
    static STATE: WrappedAllocators {
        domains: [KeptTable<PyMemAllocatorEx>; 3] = [const { KeptTable::new() }; 3],
        arenas: KeptTable<PyObjectArenaAllocator> = KeptTable::new(),
        /// CPython's own, if they took the place of [`WrappedAllocators::arenas`] late.
        late_arenas: KeptTable<PyObjectArenaAllocator> = KeptTable::new(),
    }
}

fn arenas() -> &'static PyObjectArenaAllocator {
    let table = STATE.late_arenas.get().or_else(|| STATE.arenas.get());
    table.expect("wrapped before it is called")
}

fn original<const A: usize>() -> &'static PyMemAllocatorEx {
    STATE.domains[A].get().expect("wrapped before it is called")
}

/// Calls a function of a wrapped table.
macro_rules! original {
    ($table:expr, $function:ident($($argument:expr),*)) => {{
        let table = $table;
        (table.$function.expect("CPython fills its tables"))(table.ctx, $($argument),*)
    }};
}

/// Usable bytes of a block of libc's or of a heap of the host's.
unsafe fn usable(pointer: Pointer) -> usize {
    // SAFETY: a live block.
    unsafe {
        heap::usable_size(pointer.cast()).unwrap_or_else(|| next::usable_size(pointer.cast()))
    }
}

/// Frees a block of a heap of the host's, which is from before CPython's allocators were handed over. False,
/// having done nothing, for any other.
///
/// # Safety
/// Null or a live block; with the GIL if `A` is an account of the GIL.
unsafe fn free_own<const A: usize>(pointer: Pointer) -> bool {
    if !heap::owns(pointer.cast()) {
        return false;
    }
    hooks::free::<A>(null_mut(), pointer);
    true
}

/// RAW over the table that CPython had.
mod plain {
    use super::*;

    pub extern "C" fn malloc<const A: usize>(_ctx: Pointer, size: usize) -> Pointer {
        if !heap::may_book::<A>(size) {
            return null_mut();
        }
        booked::<A>(original::<A>(), original!(original::<A>(), malloc(size)))
    }

    pub extern "C" fn calloc<const A: usize>(_ctx: Pointer, count: usize, size: usize) -> Pointer {
        if !heap::may_book::<A>(count.saturating_mul(size)) {
            return null_mut();
        }
        let table = original::<A>();
        booked::<A>(table, original!(table, calloc(count, size)))
    }

    pub extern "C" fn realloc<const A: usize>(
        _ctx: Pointer,
        pointer: Pointer,
        size: usize,
    ) -> Pointer {
        resized::<A>(original::<A>(), pointer, size)
    }

    /// Resizes a block of `table` that is booked to account `A`.
    pub fn resized<const A: usize>(
        table: &PyMemAllocatorEx,
        pointer: Pointer,
        size: usize,
    ) -> Pointer {
        if !heap::may_book::<A>(size) {
            return null_mut();
        }
        // SAFETY: CPython passes a live block, or null.
        let before = (!pointer.is_null()).then(|| unsafe { usable(pointer) });
        if heap::owns(pointer.cast()) {
            let moved = booked::<A>(table, original!(table, malloc(size)));
            if !moved.is_null() {
                let kept = before.unwrap_or_default().min(size);
                // SAFETY: two live blocks, each at least that long.
                unsafe {
                    std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), moved.cast(), kept);
                    free_own::<A>(pointer);
                }
            }
            return moved;
        }
        let sample = sampling::take_out(Account::ALL[A], pointer.cast());
        let moved = original!(table, realloc(pointer, size));
        if moved.is_null() {
            sampling::put_back(Account::ALL[A], pointer.cast(), sample);
            LEDGER.count_failure(Account::ALL[A]);
        } else {
            if let Some(bytes) = before {
                heap::release_resized::<A>(pointer.cast(), bytes);
            }
            // SAFETY: a block that was just made.
            heap::book_resized::<A>(moved.cast(), unsafe { usable(moved) });
        }
        moved
    }

    pub extern "C" fn free<const A: usize>(_ctx: Pointer, pointer: Pointer) {
        // SAFETY: CPython passes a live block, or null.
        if unsafe { free_own::<A>(pointer) } {
            return;
        }
        if !pointer.is_null() {
            // SAFETY: CPython passes a live block.
            heap::release::<A>(pointer.cast(), unsafe { usable(pointer) });
        }
        original!(original::<A>(), free(pointer));
    }

    /// Books a block that `table` made; null, and the block is free again, if a cap refuses it.
    pub fn booked<const A: usize>(table: &PyMemAllocatorEx, block: Pointer) -> Pointer {
        if block.is_null() {
            LEDGER.count_failure(Account::ALL[A]);
            return block;
        }
        // SAFETY: a block that was just made.
        if !heap::book::<A>(block.cast(), unsafe { usable(block) }) {
            original!(table, free(block));
            return null_mut();
        }
        block
    }
}

/// MEM and OBJ over pymalloc. `HEAP`: blocks beyond pymalloc come from the account's heap, not from RAW's allocator.
#[cfg(not(Py_GIL_DISABLED))]
mod pymalloc {
    use super::*;

    /// Books what pymalloc gave for a request of `size` bytes. A block outside the pools, which pymalloc took from RAW
    /// for want of an arena, is given back and replaced, so that every block outside the pools is of one kind.
    fn settle<const A: usize, const HEAP: bool>(
        block: Pointer,
        size: usize,
        zero: bool,
    ) -> Pointer {
        if block.is_null() {
            LEDGER.count_failure(Account::ALL[A]);
            return block;
        }
        // SAFETY: a live block of the domain, with the GIL.
        match unsafe { pools::block_size(block.addr()) } {
            Some(bytes) => {
                if !heap::book::<A>(block.cast(), bytes) {
                    original!(original::<A>(), free(block));
                    return null_mut();
                }
                heap::book::<POOLED>(null_mut(), bytes);
                block
            }
            None => {
                original!(original::<A>(), free(block));
                large::<A, HEAP>(size, zero)
            }
        }
    }

    fn large<const A: usize, const HEAP: bool>(size: usize, zero: bool) -> Pointer {
        if HEAP {
            return match zero {
                true => heap::allocate::<A, true, true>(size).cast(),
                false => heap::allocate::<A, false, true>(size).cast(),
            };
        }
        if !heap::may_book::<A>(size) {
            return null_mut();
        }
        let raw = original::<RAW>();
        let block = match zero {
            true => original!(raw, calloc(1, size)),
            false => original!(raw, malloc(size)),
        };
        super::plain::booked::<A>(raw, block)
    }

    extern "C" fn malloc<const A: usize, const HEAP: bool>(_ctx: Pointer, size: usize) -> Pointer {
        if size > SMALL_REQUEST {
            return large::<A, HEAP>(size, false);
        }
        let block = original!(original::<A>(), malloc(size.max(1)));
        settle::<A, HEAP>(block, size.max(1), false)
    }

    extern "C" fn calloc<const A: usize, const HEAP: bool>(
        _ctx: Pointer,
        count: usize,
        size: usize,
    ) -> Pointer {
        let Some(bytes) = count.checked_mul(size) else {
            return null_mut();
        };
        if bytes > SMALL_REQUEST {
            return large::<A, HEAP>(bytes, true);
        }
        let block = original!(original::<A>(), calloc(1, bytes.max(1)));
        settle::<A, HEAP>(block, bytes.max(1), true)
    }

    extern "C" fn realloc<const A: usize, const HEAP: bool>(
        ctx: Pointer,
        pointer: Pointer,
        size: usize,
    ) -> Pointer {
        if pointer.is_null() {
            return malloc::<A, HEAP>(ctx, size);
        }
        // SAFETY: a live block of the domain, with the GIL.
        match unsafe { pools::block_size(pointer.addr()) } {
            // As pymalloc: a block stays if it fits and wastes no more than a quarter.
            Some(before) if size <= before && 4 * size > 3 * before => pointer,
            Some(before) => {
                // Never a realloc of pymalloc's: it may leave the pools.
                let moved = malloc::<A, HEAP>(ctx, size);
                if !moved.is_null() {
                    let (from, kept) = (pointer.cast::<u8>(), before.min(size));
                    // SAFETY: two live blocks, each at least that long.
                    unsafe { std::ptr::copy_nonoverlapping(from, moved.cast(), kept) };
                    free::<A, HEAP>(ctx, pointer);
                }
                moved
            }
            None if HEAP => hooks::realloc::<A>(ctx, pointer, size),
            None => super::plain::resized::<A>(original::<RAW>(), pointer, size),
        }
    }

    extern "C" fn free<const A: usize, const HEAP: bool>(ctx: Pointer, pointer: Pointer) {
        if pointer.is_null() {
            return;
        }
        // SAFETY: a live block of the domain, with the GIL.
        if let Some(bytes) = unsafe { pools::block_size(pointer.addr()) } {
            heap::release::<A>(pointer.cast(), bytes);
            heap::release::<POOLED>(null_mut(), bytes);
            original!(original::<A>(), free(pointer));
            return;
        }
        if HEAP {
            return hooks::free::<A>(ctx, pointer);
        }
        // SAFETY: a live block, with the GIL.
        if !unsafe { free_own::<A>(pointer) } {
            // SAFETY: a live block of RAW's own allocator.
            heap::release::<A>(pointer.cast(), unsafe { usable(pointer) });
            original!(original::<RAW>(), free(pointer));
        }
    }

    pub fn table<const A: usize, const HEAP: bool>() -> PyMemAllocatorEx {
        allocator(
            malloc::<A, HEAP>,
            calloc::<A, HEAP>,
            realloc::<A, HEAP>,
            free::<A, HEAP>,
        )
    }
}

/// MEM and OBJ of a free-threaded build: blocks are counted, bytes are not.
#[cfg(Py_GIL_DISABLED)]
mod blocks_only {
    use super::*;

    fn counted<const A: usize>(block: Pointer) -> Pointer {
        if block.is_null() {
            LEDGER.count_failure(Account::ALL[A]);
        } else {
            heap::book::<A>(null_mut(), 0);
        }
        block
    }

    extern "C" fn malloc<const A: usize>(_ctx: Pointer, size: usize) -> Pointer {
        counted::<A>(original!(original::<A>(), malloc(size)))
    }

    extern "C" fn calloc<const A: usize>(_ctx: Pointer, count: usize, size: usize) -> Pointer {
        counted::<A>(original!(original::<A>(), calloc(count, size)))
    }

    extern "C" fn realloc<const A: usize>(_ctx: Pointer, pointer: Pointer, size: usize) -> Pointer {
        let moved = original!(original::<A>(), realloc(pointer, size));
        match pointer.is_null() {
            true => counted::<A>(moved),
            false => moved,
        }
    }

    extern "C" fn free<const A: usize>(_ctx: Pointer, pointer: Pointer) {
        if !pointer.is_null() {
            heap::release::<A>(null_mut(), 0);
        }
        original!(original::<A>(), free(pointer));
    }

    pub fn table<const A: usize>() -> PyMemAllocatorEx {
        allocator(malloc::<A>, calloc::<A>, realloc::<A>, free::<A>)
    }
}

/// `BOOK`: the table underneath does not book by itself.
extern "C" fn arena_alloc<const BOOK: bool>(_ctx: Pointer, size: usize) -> Pointer {
    let arena = original!(arenas(), alloc(size));
    if !arena.is_null() {
        pools::add_arena(arena.addr(), size);
    }
    if BOOK && arena.is_null() {
        LEDGER.count_failure(Account::Arena);
    } else if BOOK && !heap::book::<ARENA>(arena.cast(), size) {
        pools::remove_arena(arena.addr(), size);
        original!(arenas(), free(arena, size));
        return null_mut();
    }
    arena
}

extern "C" fn arena_free<const BOOK: bool>(_ctx: Pointer, pointer: Pointer, size: usize) {
    // 3.12 and later free every slot of a sub-interpreter's arena table, also empty ones.
    if pointer.is_null() {
        return;
    }
    pools::remove_arena(pointer.addr(), size);
    // SAFETY: a live arena; the account needs no GIL.
    if BOOK && unsafe { free_own::<ARENA>(pointer) } {
        return;
    }
    if BOOK {
        heap::release::<ARENA>(pointer.cast(), size);
    }
    original!(arenas(), free(pointer, size));
}

/// Remembers `table` as RAW's own and gives the counting table over it.
pub fn over_raw(table: PyMemAllocatorEx) -> PyMemAllocatorEx {
    let _ = STATE.domains[RAW].set(table);
    plain_table::<RAW>()
}

fn plain_table<const A: usize>() -> PyMemAllocatorEx {
    use plain::{calloc, free, malloc, realloc};
    allocator(malloc::<A>, calloc::<A>, realloc::<A>, free::<A>)
}

type Malloc = extern "C" fn(Pointer, usize) -> Pointer;

/// Whether two tables have one function.
pub fn is_same(left: Option<Malloc>, right: Option<Malloc>) -> bool {
    left.map(|function| function as usize) == right.map(|function| function as usize)
}

/// Remembers `table` as the own one of MEM or OBJ and gives the counting table over it. With
/// `HEAP` requests beyond pymalloc come from the account's heap.
pub fn over_pymalloc<const A: usize, const HEAP: bool>(own: PyMemAllocatorEx) -> PyMemAllocatorEx {
    let _ = STATE.domains[A].set(own);
    if !HEAP && is_same(own.malloc, original::<RAW>().malloc) {
        return plain_table::<A>(); // PYTHONMALLOC=malloc: no pools
    }
    #[cfg(Py_GIL_DISABLED)]
    return blocks_only::table::<A>();
    #[cfg(not(Py_GIL_DISABLED))]
    pymalloc::table::<A, HEAP>()
}

/// The arena allocator over `table` that knows which addresses are arenas, and counts them if `BOOK`.
pub fn over_arenas<const BOOK: bool>(table: PyObjectArenaAllocator) -> PyObjectArenaAllocator {
    if STATE.arenas.set(table).is_err() {
        let _ = STATE.late_arenas.set(table);
    }
    PyObjectArenaAllocator {
        ctx: null_mut(),
        alloc: Some(arena_alloc::<BOOK>),
        free: Some(arena_free::<BOOK>),
    }
}
