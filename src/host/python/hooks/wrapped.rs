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
//! On a free-threaded build MEM and OBJ are CPython's own mimalloc, whose pages have the size (`cpython::layout::mimalloc_pages`).

#![allow(unsafe_code)]

use super as hooks;
use crate::cpython::functions::{KeptTable, Pointer, allocator};
use crate::cpython::layout::mimalloc_pages::{LAYOUTS, Layout, PROBES, layout_of};
use crate::cpython::pools;
use crate::heap::live_objects::{self, Age};
use crate::heap::{self, pages::PageView, sampling};
use crate::ledger::index::{ARENA, OBJ, POOLED, RAW};
use crate::ledger::{Account, LEDGER};
use crate::libc_exports::native::{mapped, next};
use pyo3::ffi::{PyMem_GetAllocator, PyMem_SetAllocator};
use pyo3::ffi::{PyMemAllocatorDomain, PyMemAllocatorEx, PyObjectArenaAllocator};
use std::ptr::null_mut;
use std::sync::OnceLock;

pub const DOMAINS: [PyMemAllocatorDomain; 3] = [
    PyMemAllocatorDomain::PYMEM_DOMAIN_RAW,
    PyMemAllocatorDomain::PYMEM_DOMAIN_MEM,
    PyMemAllocatorDomain::PYMEM_DOMAIN_OBJ,
];

/// `SMALL_REQUEST_THRESHOLD` of `obmalloc.c`.
const SMALL_REQUEST: usize = 512;

pyhost_os::state! {
    /// The allocators beneath the counting ones.
    static STATE: WrappedAllocators {
        domains: [KeptTable<PyMemAllocatorEx>; 3] = [const { KeptTable::new() }; 3],
        /// The layout of CPython's own mimalloc, on a free-threaded build, or [`UNKNOWN`].
        sizes: [OnceLock<usize>; 3] = [const { OnceLock::new() }; 3],
        /// What the marks of its segments have in common.
        common_mark: OnceLock<usize> = OnceLock::new(),
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
        // SAFETY: CPython fills its tables.
        let function = unsafe { table.$function.unwrap_unchecked() };
        function(table.ctx, $($argument),*)
    }};
}

/// How the sizes of a table's blocks are known: libc's function, or a heap of the host's, has them. Numbers are those of `LAYOUTS`.
const OF_LIBC: usize = usize::MAX;
/// The layout of CPython's own mimalloc is found at the first block.
const TO_BE_FOUND: usize = OF_LIBC - 1;
/// The layout is not known: blocks are booked without bytes.
const UNKNOWN: usize = OF_LIBC - 2;

/// Usable bytes of a block. `AT_ONCE`: of one of more than 2 GiB perhaps that alone, which no thread books at once.
///
/// # Safety
/// A live block of account `A`, whose size is known that way.
#[inline(always)]
unsafe fn usable<const A: usize, const S: usize, const AT_ONCE: bool>(block: Pointer) -> usize {
    // SAFETY: the caller's duty.
    let by = |layout: &Layout| unsafe { layout.size_of_block::<AT_ONCE>(block.addr()) };
    match S {
        // SAFETY: as above.
        OF_LIBC => unsafe {
            heap::usable_size(block.cast()).unwrap_or_else(|| next::usable_size(block.cast()))
        },
        TO_BE_FOUND => {
            let found = STATE.sizes[A].get_or_init(find_layout::<A>);
            LAYOUTS.get(*found).map_or(0, by)
        }
        _ => LAYOUTS.get(S).map_or(0, by),
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

/// Over the table that CPython had.
mod plain {
    use super::*;

    /// The table beneath. Not by the context of a table that others may take the place of: a thread may call by the other's.
    #[inline(always)]
    fn beneath<const A: usize, const S: usize>(ctx: Pointer) -> &'static PyMemAllocatorEx {
        match S {
            OF_LIBC => original::<A>(),
            // SAFETY: `plain_table` has put it there, and it is kept for good.
            _ => unsafe { &*ctx.cast() },
        }
    }

    /// Whether a cap allows a small block is asked when it is booked, as on the heap's own path.
    pub extern "C" fn malloc<const A: usize, const S: usize>(ctx: Pointer, size: usize) -> Pointer {
        if size > SMALL_REQUEST {
            return large::<A, S>(ctx, size);
        }
        let table = beneath::<A, S>(ctx);
        booked::<A, S>(table, original!(table, malloc(size)))
    }

    /// [`malloc`] of what is not small: a jump, as [`free_slowly`].
    #[inline(never)]
    fn large<const A: usize, const S: usize>(ctx: Pointer, size: usize) -> Pointer {
        if !heap::may_book::<A>(size) {
            return null_mut();
        }
        let table = beneath::<A, S>(ctx);
        booked::<A, S>(table, original!(table, malloc(size)))
    }

    pub extern "C" fn calloc<const A: usize, const S: usize>(
        ctx: Pointer,
        count: usize,
        size: usize,
    ) -> Pointer {
        if !heap::may_book::<A>(count.saturating_mul(size)) {
            return null_mut();
        }
        let table = beneath::<A, S>(ctx);
        booked::<A, S>(table, original!(table, calloc(count, size)))
    }

    pub extern "C" fn realloc<const A: usize, const S: usize>(
        ctx: Pointer,
        pointer: Pointer,
        size: usize,
    ) -> Pointer {
        resized::<A, S>(beneath::<A, S>(ctx), pointer, size)
    }

    /// Resizes a block of `table` that is booked to account `A`.
    pub fn resized<const A: usize, const S: usize>(
        table: &PyMemAllocatorEx,
        pointer: Pointer,
        size: usize,
    ) -> Pointer {
        if !heap::may_book::<A>(size) {
            return null_mut();
        }
        // SAFETY: CPython passes a live block, or null.
        let before = (!pointer.is_null()).then(|| unsafe { usable::<A, S, false>(pointer) });
        if S == OF_LIBC && heap::owns(pointer.cast()) {
            let moved = booked::<A, S>(table, original!(table, malloc(size)));
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
        let age = forgotten::<S>(pointer);
        let moved = original!(table, realloc(pointer, size));
        if moved.is_null() {
            if age.is_some() {
                live_objects::note(pointer.addr(), age);
            }
            sampling::put_back(Account::ALL[A], pointer.cast(), sample);
            LEDGER.count_failure(Account::ALL[A]);
        } else {
            if let Some(bytes) = before {
                heap::release_resized::<A>(pointer.cast(), bytes);
            }
            // SAFETY: a block that was just made.
            heap::book_resized::<A>(moved.cast(), unsafe { usable::<A, S, false>(moved) });
            noted::<S>(moved);
        }
        moved
    }

    /// Notes a block that was made, if live objects are kept.
    fn noted<const S: usize>(block: Pointer) {
        if S == TO_BE_FOUND {
            live_objects::note(block.addr(), None);
        }
    }

    /// Notes that a block, or null, is no more.
    fn forgotten<const S: usize>(block: Pointer) -> Option<Age> {
        let address = (S == TO_BE_FOUND && !block.is_null()).then_some(block.addr());
        address.and_then(live_objects::forget)
    }

    pub extern "C" fn free<const A: usize, const S: usize>(ctx: Pointer, pointer: Pointer) {
        // SAFETY: CPython passes a live block, or null.
        let is_released = !pointer.is_null()
            && unsafe {
                S < TO_BE_FOUND && heap::release_at_once::<A>(usable::<A, S, true>(pointer))
            };
        match is_released {
            true => original!(beneath::<A, S>(ctx), free(pointer)),
            false => free_slowly::<A, S>(ctx, pointer),
        }
    }

    /// [`free`], of any pointer. A jump, for which the caller keeps no registers.
    #[inline(never)]
    fn free_slowly<const A: usize, const S: usize>(ctx: Pointer, pointer: Pointer) {
        // SAFETY: CPython passes a live block, or null.
        if S == OF_LIBC && unsafe { free_own::<A>(pointer) } {
            return;
        }
        if !pointer.is_null() {
            forgotten::<S>(pointer);
            // SAFETY: as above.
            heap::release::<A>(pointer.cast(), unsafe { usable::<A, S, false>(pointer) });
        }
        original!(beneath::<A, S>(ctx), free(pointer));
    }

    /// Books a block that `table` made; null, and the block is free again, if a cap refuses it.
    #[inline(always)]
    pub fn booked<const A: usize, const S: usize>(
        table: &PyMemAllocatorEx,
        block: Pointer,
    ) -> Pointer {
        let is_plain = S != TO_BE_FOUND && !block.is_null();
        // SAFETY: a block that was just made.
        match is_plain && heap::book_at_once::<A>(unsafe { usable::<A, S, true>(block) }) {
            true => block,
            false => booked_slowly::<A, S>(table, block),
        }
    }

    #[cold]
    #[inline(never)]
    fn booked_slowly<const A: usize, const S: usize>(
        table: &PyMemAllocatorEx,
        block: Pointer,
    ) -> Pointer {
        if block.is_null() {
            LEDGER.count_failure(Account::ALL[A]);
            return block;
        }
        // SAFETY: as in `booked`.
        if !heap::book::<A>(block.cast(), unsafe { usable::<A, S, false>(block) }) {
            original!(table, free(block));
            return null_mut();
        }
        noted::<S>(block);
        block
    }
}

/// MEM and OBJ over pymalloc. `HEAP`: blocks beyond pymalloc come from the account's heap, not from RAW's allocator.
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
        super::plain::booked::<A, OF_LIBC>(raw, block)
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
            None => super::plain::resized::<A, OF_LIBC>(original::<RAW>(), pointer, size),
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
            heap::release::<A>(pointer.cast(), unsafe {
                usable::<A, OF_LIBC, false>(pointer)
            });
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

/// Finds the layout by requests at the domain's first block: before it there is no thread state, without which CPython's mimalloc has
/// no heap. The table for it takes the place of the one that finds it, which stays under debug hooks and injected failures, and to note
/// live objects.
#[cold]
fn find_layout<const A: usize>() -> usize {
    let own = original::<A>();
    let blocks = PROBES.map(|size| original!(own, malloc(size)));
    // SAFETY: as was just asked for.
    let found = unsafe { layout_of(blocks.map(|block| block.addr())) }.unwrap_or(UNKNOWN);
    if let Some(layout) = LAYOUTS.get(found) {
        // SAFETY: a live block.
        STATE
            .common_mark
            .get_or_init(|| unsafe { layout.common_mark(blocks[0].addr()) });
    }
    for block in blocks {
        original!(own, free(block));
    }
    let mut table = match found {
        0 => plain_table::<A, 0>(),
        1 => plain_table::<A, 1>(),
        _ => plain_table::<A, UNKNOWN>(),
    };
    let (finds, mut top) = (plain_table::<A, TO_BE_FOUND>(), table);
    // SAFETY: CPython fills one table, and copies the other. At the first request it has one thread.
    unsafe {
        PyMem_GetAllocator(DOMAINS[A], &mut top);
        if is_same(top.malloc, finds.malloc) && !live_objects::are_kept() {
            PyMem_SetAllocator(DOMAINS[A], &mut table);
        }
    }
    found
}

/// Whether the blocks of OBJ are booked without their bytes.
pub fn has_unknown_sizes() -> bool {
    STATE.sizes[OBJ].get() == Some(&UNKNOWN)
}

fn layout_of_objects() -> Option<&'static Layout> {
    let number = STATE.sizes[OBJ].get();
    number.and_then(|&number| LAYOUTS.get(number))
}

/// Calls `visit` for each page of CPython's own mimalloc that has objects, as `Layout::each_page`.
pub fn each_object_page(visit: &mut dyn FnMut(&PageView)) {
    if let (Some(layout), Some(&common)) = (layout_of_objects(), STATE.common_mark.get()) {
        mapped::each_resident(mapped::LEFT_OUT, |range, _| {
            layout.each_page(common, range.start..range.end, &mut *visit);
        });
    }
}

/// Calls `visit` with the address and the usable bytes of each live object that is kept of its age.
pub fn each_object(age: Age, mut visit: impl FnMut(usize, usize)) {
    if let Some(layout) = layout_of_objects() {
        live_objects::each(age, |block| {
            // SAFETY: a live block of CPython's mimalloc, which has this layout.
            visit(block, unsafe { layout.size_of_block::<false>(block) })
        });
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
    plain_table::<RAW, OF_LIBC>()
}

fn plain_table<const A: usize, const S: usize>() -> PyMemAllocatorEx {
    PyMemAllocatorEx {
        ctx: std::ptr::from_ref(original::<A>()).cast_mut().cast(),
        malloc: Some(plain::malloc::<A, S>),
        calloc: Some(plain::calloc::<A, S>),
        realloc: Some(plain::realloc::<A, S>),
        free: Some(plain::free::<A, S>),
    }
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
        return plain_table::<A, OF_LIBC>(); // PYTHONMALLOC=malloc: no pools
    }
    if cfg!(Py_GIL_DISABLED) {
        mapped::leave_out_objects();
        return plain_table::<A, TO_BE_FOUND>();
    }
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
