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
//! On a free-threaded build MEM and OBJ are CPython's own mimalloc, whose pages the collector walks, and
//! have the size (`cpython::layout::mimalloc_pages`).

#![allow(unsafe_code)]

use super as hooks;
use crate::cpython::functions::{KeptTable, Pointer, allocator};
use crate::cpython::pools;
use crate::heap::{self, sampling};
#[cfg(not(Py_GIL_DISABLED))]
use crate::ledger::index::POOLED;
use crate::ledger::{Account, LEDGER, index::ARENA, index::OBJ, index::RAW};
use crate::libc_exports::native::next;
use pyo3::ffi::{PyMemAllocatorEx, PyObjectArenaAllocator};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// `SMALL_REQUEST_THRESHOLD` of `obmalloc.c`.
const SMALL_REQUEST: usize = 512;

pyhost_os::state! {
    /// The allocators beneath the counting ones.
    static STATE: WrappedAllocators {
        domains: [KeptTable<PyMemAllocatorEx>; 3] = [const { KeptTable::new() }; 3],
        /// Over [`WrappedAllocators::domains`] of a free-threaded build, once the layout of its mimalloc is known.
        chosen: [KeptTable<PyMemAllocatorEx>; 3] = [const { KeptTable::new() }; 3],
        /// The layout is none that is known.
        has_unknown_sizes: AtomicBool = AtomicBool::new(false),
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

/// How the usable bytes of another allocator's blocks are known.
trait Sizes {
    /// Whether there are also blocks of a heap of the host's.
    const HAS_OWN: bool;

    /// # Safety
    /// A live block.
    unsafe fn usable(pointer: Pointer) -> usize;

    /// As [`Sizes::usable`], but of a block of more than 2 GiB perhaps that alone: no thread books so much at once.
    ///
    /// # Safety
    /// A live block.
    #[inline(always)]
    unsafe fn usable_at_once(pointer: Pointer) -> usize {
        // SAFETY: the caller's duty.
        unsafe { Self::usable(pointer) }
    }
}

struct OfLibc;

impl Sizes for OfLibc {
    const HAS_OWN: bool = true;

    unsafe fn usable(pointer: Pointer) -> usize {
        // SAFETY: a live block.
        unsafe {
            heap::usable_size(pointer.cast()).unwrap_or_else(|| next::usable_size(pointer.cast()))
        }
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

    /// The table beneath, whose address is the context: not looked up.
    #[inline(always)]
    fn beneath(ctx: Pointer) -> &'static PyMemAllocatorEx {
        // SAFETY: `plain_table` has put it there, and it is kept for good.
        unsafe { &*ctx.cast() }
    }

    /// What is small is decided on when it is booked, as on the heap's own path.
    pub extern "C" fn malloc<const A: usize, S: Sizes>(ctx: Pointer, size: usize) -> Pointer {
        match size <= SMALL_REQUEST {
            true => booked::<A, S>(beneath(ctx), original!(beneath(ctx), malloc(size))),
            false => large::<A, S>(ctx, size),
        }
    }

    /// [`malloc`] of what is not small: a jump, as [`free_slowly`].
    #[inline(never)]
    fn large<const A: usize, S: Sizes>(ctx: Pointer, size: usize) -> Pointer {
        match heap::may_book::<A>(size) {
            true => booked::<A, S>(beneath(ctx), original!(beneath(ctx), malloc(size))),
            false => null_mut(),
        }
    }

    pub extern "C" fn calloc<const A: usize, S: Sizes>(
        ctx: Pointer,
        count: usize,
        size: usize,
    ) -> Pointer {
        if !heap::may_book::<A>(count.saturating_mul(size)) {
            return null_mut();
        }
        let table = beneath(ctx);
        booked::<A, S>(table, original!(table, calloc(count, size)))
    }

    pub extern "C" fn realloc<const A: usize, S: Sizes>(
        ctx: Pointer,
        pointer: Pointer,
        size: usize,
    ) -> Pointer {
        resized::<A, S>(beneath(ctx), pointer, size)
    }

    /// Resizes a block of `table` that is booked to account `A`.
    pub fn resized<const A: usize, S: Sizes>(
        table: &PyMemAllocatorEx,
        pointer: Pointer,
        size: usize,
    ) -> Pointer {
        if !heap::may_book::<A>(size) {
            return null_mut();
        }
        // SAFETY: CPython passes a live block, or null.
        let before = (!pointer.is_null()).then(|| unsafe { S::usable(pointer) });
        if S::HAS_OWN && heap::owns(pointer.cast()) {
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
        let moved = original!(table, realloc(pointer, size));
        if moved.is_null() {
            sampling::put_back(Account::ALL[A], pointer.cast(), sample);
            LEDGER.count_failure(Account::ALL[A]);
        } else {
            if let Some(bytes) = before {
                heap::release_resized::<A>(pointer.cast(), bytes);
            }
            // SAFETY: a block that was just made.
            heap::book_resized::<A>(moved.cast(), unsafe { S::usable(moved) });
        }
        moved
    }

    pub extern "C" fn free<const A: usize, S: Sizes>(ctx: Pointer, pointer: Pointer) {
        // SAFETY: CPython passes a live block, or null.
        if S::HAS_OWN && unsafe { free_own::<A>(pointer) } {
            return;
        }
        // SAFETY: as above.
        if pointer.is_null() || !heap::release_at_once::<A>(unsafe { S::usable_at_once(pointer) }) {
            return free_slowly::<A, S>(ctx, pointer);
        }
        original!(beneath(ctx), free(pointer));
    }

    /// [`free`], of any pointer. A jump, for which the caller keeps no registers.
    #[cold]
    #[inline(never)]
    fn free_slowly<const A: usize, S: Sizes>(ctx: Pointer, pointer: Pointer) {
        if !pointer.is_null() {
            // SAFETY: CPython passes a live block.
            heap::release::<A>(pointer.cast(), unsafe { S::usable(pointer) });
        }
        original!(beneath(ctx), free(pointer));
    }

    /// Books a block that `table` made; null, and the block is free again, if a cap refuses it.
    #[inline(always)]
    pub fn booked<const A: usize, S: Sizes>(table: &PyMemAllocatorEx, block: Pointer) -> Pointer {
        // SAFETY: a block that was just made.
        match !block.is_null() && heap::book_at_once::<A>(unsafe { S::usable_at_once(block) }) {
            true => block,
            false => booked_slowly::<A, S>(table, block),
        }
    }

    #[cold]
    #[inline(never)]
    fn booked_slowly<const A: usize, S: Sizes>(
        table: &PyMemAllocatorEx,
        block: Pointer,
    ) -> Pointer {
        if block.is_null() {
            LEDGER.count_failure(Account::ALL[A]);
            return block;
        }
        // SAFETY: as in `booked`.
        if !heap::book::<A>(block.cast(), unsafe { S::usable(block) }) {
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
        super::plain::booked::<A, OfLibc>(raw, block)
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
            None => super::plain::resized::<A, OfLibc>(original::<RAW>(), pointer, size),
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
            heap::release::<A>(pointer.cast(), unsafe { OfLibc::usable(pointer) });
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

/// MEM and OBJ of a free-threaded build, whose first request finds the layout of CPython's mimalloc: before it there is no thread
/// state, without which that has no heap.
#[cfg(Py_GIL_DISABLED)]
mod own_mimalloc {
    use super::*;
    use crate::cpython::layout::mimalloc_pages::{self as pages, Layout, Mimalloc212, Mimalloc252};
    use pyo3::ffi::{PyMem_GetAllocator, PyMem_SetAllocator, PyMemAllocatorDomain};

    struct Of<L>(std::marker::PhantomData<L>);

    impl<L: Layout> Sizes for Of<L> {
        const HAS_OWN: bool = false;

        unsafe fn usable(pointer: Pointer) -> usize {
            // SAFETY: the caller's duty; `find` has tried the layout.
            unsafe { pages::size_of_block::<L>(pointer.addr()) }
        }

        #[inline(always)]
        unsafe fn usable_at_once(pointer: Pointer) -> usize {
            // SAFETY: as above.
            unsafe { pages::page_and_size::<L>(pointer.addr()).1 }
        }
    }

    /// For a mimalloc that is not known: the ledger has blocks without bytes.
    struct Unknown;

    impl Sizes for Unknown {
        const HAS_OWN: bool = false;

        unsafe fn usable(_: Pointer) -> usize {
            0
        }
    }

    fn fits<L: Layout>(blocks: &[Pointer]) -> bool {
        let mut probes = blocks.iter().zip(pages::PROBES);
        // SAFETY: a live block, or null.
        probes.all(|(block, size)| {
            !block.is_null() && unsafe { pages::fits::<L>(block.addr(), size) }
        })
    }

    /// The table for the mimalloc that this libpython has.
    fn find<const A: usize>() -> PyMemAllocatorEx {
        let blocks = pages::PROBES.map(|size| original!(original::<A>(), malloc(size)));
        let table = if fits::<Mimalloc212>(&blocks) {
            plain_table::<A, Of<Mimalloc212>>()
        } else if fits::<Mimalloc252>(&blocks) {
            plain_table::<A, Of<Mimalloc252>>()
        } else {
            STATE.has_unknown_sizes.store(true, Relaxed);
            plain_table::<A, Unknown>()
        };
        for block in blocks {
            original!(original::<A>(), free(block));
        }
        table
    }

    /// Finds the table, and puts it in the place of [`table`]. That stays under debug hooks and injected failures, and calls what
    /// was found.
    #[cold]
    fn choose<const A: usize>() -> &'static PyMemAllocatorEx {
        const DOMAINS: [PyMemAllocatorDomain; 3] = [
            PyMemAllocatorDomain::PYMEM_DOMAIN_RAW,
            PyMemAllocatorDomain::PYMEM_DOMAIN_MEM,
            PyMemAllocatorDomain::PYMEM_DOMAIN_OBJ,
        ];
        let found = STATE.chosen[A].get_or_init(find::<A>);
        let mut top = plain_table::<A, Unknown>();
        // SAFETY: CPython fills the table, and copies it. At the first request it has one thread.
        unsafe {
            PyMem_GetAllocator(DOMAINS[A], &mut top);
            if is_same(top.malloc, table::<A>().malloc) {
                PyMem_SetAllocator(DOMAINS[A], (&raw const *found).cast_mut());
            }
        }
        found
    }

    fn chosen<const A: usize>() -> &'static PyMemAllocatorEx {
        STATE.chosen[A].get().unwrap_or_else(choose::<A>)
    }

    extern "C" fn malloc<const A: usize>(_ctx: Pointer, size: usize) -> Pointer {
        original!(chosen::<A>(), malloc(size))
    }

    extern "C" fn calloc<const A: usize>(_ctx: Pointer, count: usize, size: usize) -> Pointer {
        original!(chosen::<A>(), calloc(count, size))
    }

    extern "C" fn realloc<const A: usize>(_ctx: Pointer, pointer: Pointer, size: usize) -> Pointer {
        original!(chosen::<A>(), realloc(pointer, size))
    }

    extern "C" fn free<const A: usize>(_ctx: Pointer, pointer: Pointer) {
        original!(chosen::<A>(), free(pointer));
    }

    pub fn table<const A: usize>() -> PyMemAllocatorEx {
        allocator(malloc::<A>, calloc::<A>, realloc::<A>, free::<A>)
    }
}

/// Whether the blocks of OBJ are booked without their bytes.
pub fn has_unknown_sizes() -> bool {
    STATE.has_unknown_sizes.load(Relaxed)
}

/// Whether a table is that of OBJ which took the place of the one that was installed.
pub fn is_chosen(table: &PyMemAllocatorEx) -> bool {
    let chosen = STATE.chosen[OBJ].get();
    chosen.is_some_and(|chosen| is_same(chosen.malloc, table.malloc))
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
    plain_table::<RAW, OfLibc>()
}

fn plain_table<const A: usize, S: Sizes>() -> PyMemAllocatorEx {
    use plain::{calloc, free, malloc, realloc};
    let mut table = allocator(
        malloc::<A, S>,
        calloc::<A, S>,
        realloc::<A, S>,
        free::<A, S>,
    );
    table.ctx = std::ptr::from_ref(original::<A>()).cast_mut().cast();
    table
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
        return plain_table::<A, OfLibc>(); // PYTHONMALLOC=malloc: no pools
    }
    #[cfg(Py_GIL_DISABLED)]
    return own_mimalloc::table::<A>();
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
