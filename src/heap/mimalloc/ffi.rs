//! The few mimalloc functions that are called, and mirrors of the two structures that the hot path reads.
//!
//! The `mimalloc` crate keeps its bindings private and offers neither heaps nor pages, so they
//! are declared here, after `mimalloc.h`, `mimalloc/types.h` and `mimalloc/internal.h` of
//! mimalloc 3. `layout.c` proves the offsets at build time. Nothing outside `heap` uses this.

// Links the library in; its Rust side is not used.
use crate::mimalloc::gate::Closed;
use mimalloc as _;
use pyhost_os::mapping::Mapping;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicUsize};
use std::{cell::UnsafeCell, ptr::null_mut};

/// A block on a free list (`mi_block_t`).
#[repr(C)]
pub struct Block {
    pub next: *mut Block,
}

/// A field of a page that its owner changes, by plain stores, while others read it.
#[repr(transparent)]
pub struct Owners<T>(UnsafeCell<T>);

impl<T: Copy> Owners<T> {
    /// The value of a moment: a volatile read of a word sees a plain store whole.
    pub fn get(&self) -> T {
        // SAFETY: the field of a page that is there.
        unsafe { self.0.get().read_volatile() }
    }

    /// Its place, for the owner of the page.
    #[inline(always)]
    pub fn place(&self) -> *mut T {
        self.0.get()
    }
}

/// A run of blocks of one size, owned by one thread (`mi_page_t`). What has no cell is constant while a block lives.
#[repr(C)]
pub struct Page {
    /// Owner's thread pointer, with two flag bits; equal to [`crate::threads::thread_state::thread_id`] only when the calling
    /// thread owns the page, the page is not in the full queue and has no aligned blocks inside.
    pub xthread_id: AtomicUsize,
    pub free: Owners<*mut Block>,
    pub used: Owners<u16>,
    pub capacity: Owners<u16>,
    pub reserved: u16,
    pub retire_expire: Owners<u8>,
    pub free_is_zero: Owners<bool>,
    pub local_free: Owners<*mut Block>,
    pub xthread_free: AtomicUsize,
    /// The usable size, since no padding is compiled in.
    pub block_size: usize,
    pub page_start: *mut u8,
    pub theap: Owners<*mut Theap>,
    /// Null for the main heap.
    pub heap: *mut Heap,
    /// Its neighbours in its owner's queue of pages of this size; null in no queue.
    pub next: Owners<*mut Page>,
    pub previous: Owners<*mut Page>,
}

/// A thread's part of a heap (`mi_theap_t`), up to its table of pages by size.
#[repr(C)]
pub struct Theap {
    _opaque: [u8; PAGE_COUNT],
    /// Its pages, empty ones too; changed by its thread.
    pub page_count: Owners<usize>,
    _rest: [u8; FREE_DIRECT - PAGE_COUNT - size_of::<usize>()],
    pub pages_free_direct: [*mut Page; 129],
    /// Its pages that may have free blocks, by [`queue_of`].
    pub queues: [Queue; 104],
}

/// Pages of a size, of which the first is tried first (`mi_page_queue_t`).
#[repr(C)]
pub struct Queue {
    pub first: *mut Page,
    _last: *mut Page,
    _count: u32,
    block_size: u32,
}

/// The queue in [`Theap::queues`] for blocks of `size` bytes, more than 512 and no more than [`LARGE_SIZE_MAX`] (`mi_bin`, see
/// `patches.rs`).
#[inline]
pub fn queue_of(size: usize) -> usize {
    let units = (size - 1) / 16;
    let bit = units.ilog2() as usize;
    match bit < 8 {
        true => 16 * bit + (units >> (bit - 4) & 15) - 54,
        false => 4 * bit + (units >> (bit - 2) & 3) + 42,
    }
}

/// Offsets in [`Theap`].
const PAGE_COUNT: usize = if IS_64_BIT { 176 } else { 164 };
const FREE_DIRECT: usize = if IS_64_BIT { 272 } else { 212 };

pub const IS_64_BIT: bool = cfg!(target_pointer_width = "64");

/// A first-class heap (`mi_heap_t`).
#[repr(C)]
pub struct Heap {
    _opaque: [u8; 0],
}

/// Asked to commit memory of an arena, or told to give it back; returns whether that was done (`mi_commit_fun_t`).
pub type CommitFunction = unsafe extern "C" fn(
    commit: bool,
    start: *mut c_void,
    size: usize,
    is_zero: *mut bool,
    argument: *mut c_void,
) -> bool;

/// The largest size with an entry in [`Theap::pages_free_direct`] (`MI_SMALL_SIZE_MAX`).
pub const SMALL_SIZE_MAX: usize = 128 * size_of::<usize>();
/// The largest block that shares its page with others (`MI_LARGE_MAX_OBJ_SIZE`).
pub const LARGE_SIZE_MAX: usize = size_of::<usize>() << SLICE_SHIFT;
/// The flag in [`Page::xthread_id`] of a page with aligned blocks (`MI_PAGE_HAS_INTERIOR_POINTERS`).
pub const HAS_INTERIOR_POINTERS: usize = 2;
/// The flags in [`Page::xthread_id`] (`MI_PAGE_FLAG_MASK`).
pub const FLAGS: usize = 3;
/// Bits of an address below a page-map entry (`MI_ARENA_SLICE_SHIFT`).
pub const SLICE_SHIFT: usize = if IS_64_BIT { 16 } else { 15 };
/// The least that mimalloc takes as an arena (`MI_ARENA_MIN_SIZE`), and what it rounds down to.
pub const ARENA_UNIT: usize = (if IS_64_BIT { 512 } else { 256 }) << SLICE_SHIFT;
/// Bits of an address that the page map is for (`MI_MAX_VABITS`): all that the kernel gives to a
/// process that does not ask for more.
pub const ADDRESS_BITS: usize = match (IS_64_BIT, cfg!(target_arch = "x86_64")) {
    (false, _) => 32,
    (_, true) => 47,
    (_, false) => 48,
};
/// Bits of the second level of the page map (`MI_PAGE_MAP_SUB_SHIFT`).
pub const SUBMAP_SHIFT: usize = 13;
/// A part of the page map: a page is entered for each of its slices.
pub type Submap = [AtomicPtr<Page>; 1 << SUBMAP_SHIFT];
/// The page map. Its parts come as they are needed, and stay.
pub type PageMap = [AtomicPtr<Submap>; 1 << (ADDRESS_BITS - SLICE_SHIFT - SUBMAP_SHIFT)];

const _: () = {
    use std::mem::offset_of;
    /// Behind so many words and eight bytes.
    const fn words(words: usize) -> usize {
        words * size_of::<usize>() + 8
    }
    assert!(offset_of!(Page, local_free) == words(2));
    assert!(offset_of!(Page, block_size) == words(4));
    assert!(offset_of!(Page, heap) == words(7));
    assert!(offset_of!(Theap, page_count) == PAGE_COUNT);
    assert!(offset_of!(Theap, pages_free_direct) == FREE_DIRECT);
};

// SAFETY: the declarations are those of the pinned version's headers. The safe ones take any argument, from any
// thread: options out of range are ignored, and of addresses only the number counts. Callers of the others state
// why the function's conditions hold.
unsafe extern "C" {
    /// The theap of a thread that has none yet: every page in it is empty.
    pub static _mi_theap_empty: Theap;
    /// A placeholder for a theap that could not be made.
    pub static _mi_theap_empty_wrong: Theap;
    /// The map from address to page; null before the first allocation.
    pub safe static _mi_page_map: AtomicPtr<PageMap>;
    /// The key whose destructor ends a thread's part of mimalloc.
    pub static mut _mi_heap_default_key: libc::pthread_key_t;

    pub safe fn mi_option_set(option: c_int, value: libc::c_long);
    pub safe fn mi_option_get(option: c_int) -> libc::c_long;
    pub safe fn mi_option_set_default(option: c_int, value: libc::c_long);
    pub fn mi_manage_os_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
    ) -> bool;
    pub fn mi_manage_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        exclusive: bool,
        commit: CommitFunction,
        argument: *mut c_void,
        arena: *mut c_void,
    ) -> bool;
    /// `major * 10000 + minor * 100 + patch`.
    pub safe fn mi_version() -> c_int;
    pub safe fn mi_heap_new() -> *mut Heap;
    pub fn mi_heap_theap(heap: *mut Heap) -> *mut Theap;
    /// As [`mi_heap_theap`], but null if the thread has none yet.
    pub fn _mi_heap_theap_get_peek(heap: *const Heap) -> *mut Theap;
    pub safe fn mi_theap_get_default() -> *mut Theap;
    pub fn mi_theap_collect(theap: *mut Theap, force: bool);
    pub fn _mi_theap_malloc_zero(
        theap: *mut Theap,
        size: usize,
        zero: bool,
        usable: *mut usize,
    ) -> *mut c_void;
    pub fn mi_theap_malloc_aligned(theap: *mut Theap, size: usize, alignment: usize)
    -> *mut c_void;
    pub fn mi_free(block: *mut c_void);
    pub fn _mi_page_retire(page: *mut Page);
    pub fn _mi_thread_done(theap: *mut Theap);
    pub safe fn _mi_meta_is_meta_page(start: *mut c_void) -> bool;

    // The linker's: the addresses of the host's static memory.
    pub safe static __bss_start: u8;
    pub safe static _end: u8;

    // Of `sampling::probes`: two zero bytes each, which tracers change alone, and functions that do nothing.
    pub safe static otel_memory_alloc_semaphore: AtomicU16;
    pub safe static otel_memory_free_semaphore: AtomicU16;
    pub safe fn pyhost_probe_alloc(block: *mut u8, size: u64, weight: u64);
    pub safe fn pyhost_probe_free(block: *mut u8);

    // Of `arenas.c`: the numbers of options, and functions.
    pub safe static PYHOST_ALLOW_LARGE_OS_PAGES: c_int;
    pub safe static PYHOST_ARENA_EAGER_COMMIT: c_int;
    pub safe static PYHOST_ARENA_MAX_OBJECT_SIZE: c_int;
    pub safe static PYHOST_ARENA_RESERVE: c_int;
    pub safe static PYHOST_DISALLOW_OS_ALLOC: c_int;
    pub safe static PYHOST_MAX_VABITS: c_int;
    pub safe static PYHOST_PAGEMAP_COMMIT: c_int;
    pub safe static PYHOST_PAGE_COMMIT_ON_DEMAND: c_int;
    pub safe static PYHOST_PAGE_FULL_RETAIN: c_int;
    pub safe static PYHOST_PURGE_DELAY: c_int;
    pub safe static PYHOST_RESERVE_HUGE_OS_PAGES: c_int;
    pub safe static PYHOST_RESERVE_OS_MEMORY: c_int;
    pub safe fn pyhost_thread_table() -> *mut c_void;
    pub safe fn pyhost_count_slices(used: &mut usize, waiting: &mut usize);
    pub safe fn pyhost_purge(bytes: usize);
    pub fn pyhost_take_back(page: *mut Page, block: *mut c_void) -> bool;
    pub fn pyhost_extend_page(page: *mut Page, size: usize) -> bool;
    pub fn pyhost_shorten_page(page: *mut Page, size: usize, was_used: bool) -> bool;
    pub fn pyhost_adopt_arenas(address: *const c_void, commit: CommitFunction) -> bool;
    fn pyhost_each_arena(heap: *mut Heap, visit: Visit, arg: *mut c_void);
    fn pyhost_each_own_block(heap: *mut Heap, visit: Visit, arg: *mut c_void);
    fn pyhost_each_thread(heap: *mut Heap, visit: Visit, arg: *mut c_void);
    fn pyhost_each_used(heap: *mut Heap, visit: Visit, arg: *mut c_void);
}

/// Gives mimalloc `size` bytes of a mapping, from its first multiple of `alignment` on, which are open.
pub fn manage(memory: Mapping, alignment: usize, size: usize) {
    let start = memory.start().as_ptr();
    let offset = start.align_offset(alignment);
    assert!(offset.saturating_add(size) <= memory.bytes());
    memory.leak();
    // SAFETY: fresh memory, which mimalloc owns for good from here on.
    unsafe { mi_manage_os_memory(start.add(offset).cast(), size, true, false, true, -1) };
}

/// Bytes of the arenas' slices that are in use, and of those that are free and wait to be given back.
pub fn count_bytes() -> (usize, usize) {
    let (mut used, mut free) = (0, 0);
    pyhost_count_slices(&mut used, &mut free);
    (used << SLICE_SHIFT, free << SLICE_SHIFT)
}

/// Called for an entry of a list of `arenas.c`: an address or a thread, and of an arena two lengths in bytes.
type Visit = unsafe extern "C" fn(arg: *mut c_void, entry: usize, bytes: usize, own: usize);

/// Calls `visit` for each entry of a list that does not change meanwhile: it only grows, or the gate is closed.
fn each(
    walk: unsafe extern "C" fn(*mut Heap, Visit, *mut c_void),
    heap: *mut Heap,
    mut visit: &mut dyn FnMut(usize, usize, usize),
) {
    unsafe extern "C" fn pass_on(arg: *mut c_void, entry: usize, bytes: usize, own: usize) {
        // SAFETY: `arg` is the visitor that `each` passed, on its own stack.
        let visit = unsafe { &mut *arg.cast::<&mut dyn FnMut(usize, usize, usize)>() };
        visit(entry, bytes, own);
    }
    // SAFETY: the callers' lists do not change. `pass_on` gets what it casts to.
    unsafe { walk(heap, pass_on, (&raw mut visit).cast()) };
}

/// Other memory of mimalloc: for future pages, and for its own description of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arena {
    /// Its first address.
    pub start: usize,
    /// Behind its last.
    pub end: usize,
    /// Where its description ends, which comes first.
    pub own_end: usize,
}

/// Calls `visit` for each of mimalloc's arenas, in the order in which they were made. The list only grows.
pub fn each_arena(mut visit: impl FnMut(Arena)) {
    each(pyhost_each_arena, null_mut(), &mut |start, bytes, own| {
        visit(Arena {
            start,
            end: start + bytes,
            own_end: start + own,
        });
    });
}

/// Calls `visit` with the thread pointer of each thread that has ever allocated and is not gone.
pub fn each_thread(_closed: &Closed, mut visit: impl FnMut(usize)) {
    each(pyhost_each_thread, null_mut(), &mut |thread, _, _| {
        visit(thread)
    });
}

/// Calls `visit` for each of mimalloc's own blocks in the main heap.
pub fn each_own_block(_closed: &Closed, mut visit: impl FnMut(usize)) {
    each(pyhost_each_own_block, null_mut(), &mut |block, _, _| {
        visit(block)
    });
}

/// Calls `visit` with the usable bytes of the blocks of each page of a heap, null for the main one, that has live ones, and with how
/// many these are. Only fields of pages are read, which are in memory that stays.
pub fn each_used(heap: *mut Heap, mut visit: impl FnMut(u64, u64)) {
    each(pyhost_each_used, heap, &mut |bytes, used, _| {
        visit(bytes as u64, used as u64)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        safe fn _mi_bin(size: usize) -> usize;
    }

    #[test]
    fn each_size_has_the_queue_of_the_next_size_of_blocks() {
        // SAFETY: constant, and there throughout.
        let queues = unsafe { &_mi_theap_empty.queues };
        let block = |queue: usize| queues[queue].block_size as usize;
        for size in 1..=LARGE_SIZE_MAX {
            let queue = _mi_bin(size);
            let is_next = queue == 1 || size > block(queue - 1);
            assert!(is_next && size <= block(queue), "{size}");
            assert!(size <= 512 || queue_of(size) == queue, "{size}");
            let most_unused = match size {
                1..=512 => 16.max(size / 8),
                513..=4096 => size / 16,
                _ => size / 4,
            };
            assert!(block(queue) - size <= most_unused, "{size}");
        }
        assert_eq!(_mi_bin(LARGE_SIZE_MAX + 1), queues.len() - 2);
    }
}
