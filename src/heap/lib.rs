//! The heaps: a mimalloc heap for each account that has blocks of its own, and allocation that books as it goes.
//!
//! The account of a block is the heap of its page, which `free` finds on a line that it reads
//! anyway: no header, no table. `native` is mimalloc's main heap, since it must serve before
//! `main`; the other heaps are made by [`start`].
//!
//! A small request takes the inlined path: pop a block from the thread's own page, book it in
//! the thread's own slot. Everything else (no free block, larger sizes, another thread's page, a
//! bound of the ledger) takes the slow path, inside the [`gate`].
//!
//! A freed block goes to the head of its page's list, and is the next that is given: mimalloc's own
//! `free` puts it on a second list, which is taken up when the first is used up, so that a program
//! that allocates and frees walks through a whole page of 64 KiB, a size class, while pymalloc stays
//! on one line of the cache.
//!
//! The cost of the hooks in machine code (x86-64, release), for a small block of the calling thread:
//! `malloc` 24 instructions, `calloc` 31 and a store or a `memset`, `free` 35, a `realloc` in
//! place about 45. Of `malloc`, 9 are the accounting: the cell's address, a load, an add, a
//! compare with the bound, a store, a compare with the highest so far, an increment; of `free` 8,
//! and 10 find the page of a pointer that may belong to any thread. Nothing is locked; the only calls are
//! to the slow paths, as jumps.
//!
//! All functions may be called from any thread at any moment, before `main` and while a thread
//! ends; those of `Mem` and `Obj` with the GIL. None panics or formats. Failure is null.

#![allow(unsafe_code)]

pub mod apart;
pub mod arrays;
mod blocks;
mod booking;
pub mod bound;
pub mod checked;
pub mod classes;
mod ends;
mod ffi;
pub mod fills;
pub mod forks;
pub mod freed;
pub mod gate;
pub mod guards;
mod heaps;
pub mod heights;
pub mod histogram;
mod host;
pub mod limited;
pub mod mark;
mod moving;
mod names;
pub mod origin;
pub mod outside;
pub mod own;
mod own_calls;
pub mod pages;
pub mod placement;
mod probes;
pub mod register;
pub mod retention;
pub mod sampling;
pub mod seen_threads;
mod small_pages;
pub mod source_line;
mod tensorflow;
mod thread;
mod walk;
pub mod watched;

use booking::{admits, book_new, release_block};
use ffi::{Block, Page, Theap};
use freed::NativeBlock;
use gate::Closed;
use heaps::HEAPS;
use ledger::{Account, Gils};
use origin::Origin;
use pages::{live_page, page_of};
use pyhost_ledger::{self as ledger, resident};
use pyhost_os::{bytes, descriptor, errno, process};
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use thread::{ThreadState, state, thread_id};

pub use booking::{
    attend_to_caps, book, book_resized, count_failure, look_at_caps, may_book, release,
    release_resized, set_largest,
};
pub use ffi::ADDRESS_BITS;
pub use host::{CapDecisions, Host, LineFinder, PeakWatcher, Request, register};
pub use pages::is_in_page;
pub use pyhost_tensorflow::bfc;
pub use tensorflow::{pool, region};
pub use walk::walk;

const NATIVE: usize = Account::Native as usize;

/// What was done before the first allocation, and whether blocks of the main heap are booked to `native` (`--malloc count`).
struct HeapStart {
    /// Not zero, so it does not lie in the memory that is to stay untouched until it refuses huge pages.
    is_fresh: AtomicBool,
    has_options: AtomicBool,
    counts_native: AtomicBool,
}

static START: HeapStart = HeapStart {
    is_fresh: AtomicBool::new(true),
    has_options: AtomicBool::new(false),
    counts_native: AtomicBool::new(true),
};

/// The functions that the ledger calls, for callers that end one of its segments.
pub static GILS: Gils = Gils {
    several: several_gils,
    barrier: gate::barrier_everywhere,
};

/// Opens the ledger, and keeps static memory on small pages. By the only thread, before anything is booked or limited: an
/// executable calls it before all constructors. A library is preloaded after those of others have allocated; there the first
/// booking calls it. A second call does nothing.
pub fn begin() {
    if START.is_fresh.swap(false, Relaxed) {
        small_pages::start();
        ledger::own::open();
    }
}

/// Puts the handlers of thread ends in place and, with `heaps`, makes the heaps of the domains. Once, at the start of `main`, while
/// the process has one thread. Returns false if mimalloc gives no heap.
pub fn start(heaps: bool) -> bool {
    gate::register();
    ends::watch();
    if !heaps {
        return true;
    }
    ends::take_over_mimallocs();
    for account in [
        Account::Raw,
        Account::Mem,
        Account::Obj,
        Account::Arena,
        Account::Numpy,
    ] {
        let heap = match account {
            Account::Raw => own::first_heap(),
            _ => ffi::mi_heap_new(),
        };
        if heap.is_null() {
            return false;
        }
        HEAPS.own[account as usize].store(heap, Release);
    }
    pages::find_map();
    pages::has_map()
}

/// Whether [`start`] has made the heaps of the domains.
pub fn has_heaps() -> bool {
    !HEAPS.own[Account::Mem as usize].load(Relaxed).is_null()
}

/// The allocation of a live block whose bytes begin at `start`, if it is a checked or a guarded one.
///
/// # Safety
/// A live block, of whatever kind.
pub unsafe fn origin_of(start: usize) -> Option<Origin> {
    // SAFETY: the caller's promise.
    guards::origin_of(start).or_else(|| unsafe { checked::origin_of(start as *mut u8) })
}

fn several_gils() -> bool {
    host::host().is_some_and(|host| (host.several_gils)())
}

/// Chooses whether blocks of the main heap are booked.
pub fn count_native(count: bool) {
    START.counts_native.store(count, Relaxed);
}

/// Whether blocks of the main heap are booked.
pub fn counts_native() -> bool {
    START.counts_native.load(Relaxed)
}

/// mimalloc's version, as `major * 10000 + minor * 100 + patch` (`mi_version` of mimalloc 3).
pub fn version() -> i32 {
    ffi::mi_version()
}

/// A number that is the calling thread's own while it lives.
pub fn thread_number() -> usize {
    thread_id()
}

/// The calling thread's slot of the ledger.
pub fn slot() -> &'static crate::ledger::Slot {
    state().slot()
}

/// Gives what the calling thread's theaps keep and do not use back to the system.
pub fn collect() {
    let state = state();
    let _inside = gate::enter(state.slot(), thread_id());
    for account in Account::ALL {
        let theap = state.known_theap(account);
        if !std::ptr::eq(theap, &raw const ffi::_mi_theap_empty) {
            // SAFETY: a theap of the calling thread.
            unsafe { ffi::mi_theap_collect(theap, true) };
        }
        let others = heaps::sampled(account).chain(heaps::checked(account));
        for theap in others.filter_map(known_theap_of) {
            // SAFETY: a theap of the calling thread.
            unsafe { ffi::mi_theap_collect(theap, true) };
        }
    }
}

/// The calling thread's theap in a heap, if it has one.
fn known_theap_of(heap: *mut ffi::Heap) -> Option<*mut Theap> {
    // SAFETY: a heap that is never deleted.
    let theap = unsafe { ffi::_mi_heap_theap_get_peek(heap) };
    (!theap.is_null()).then_some(theap)
}

/// Runs `work` while no other thread is in a slow path: for a look at the blocks of the heaps, which
/// `work` must not allocate from.
pub fn alone<T>(work: impl FnOnce(&Closed) -> T) -> T {
    gate::while_closed(state().slot(), thread_id(), work)
}

/// Whether the calling thread may call [`alone`] from inside the process's `malloc`: it is not in a slow path
/// of the heap itself, as a signal handler may be, and does not fork.
pub fn may_be_alone() -> bool {
    let slot = state().slot();
    !crate::ledger::LEDGER.is_overflow(slot) && slot.busy.load(Relaxed) == 0 && gate::is_open()
}

/// The theap of the calling thread in the account's heap, made if need be; null if there is no
/// memory for it.
fn new_theap(account: Account) -> *mut Theap {
    let heap = match state().before.get() {
        0 => HEAPS.own[account as usize].load(Acquire),
        _ => heaps::heap_before(account),
    };
    // If mimalloc cannot make the first theap of a thread it reads through a null pointer
    // (`mi_heap_init_theap`), so it is not asked to.
    if !bound::has_room_for_a_thread() {
        return null_mut();
    }
    let theap = if heap.is_null() {
        start_mimalloc();
        not_placeholder(ffi::mi_theap_get_default())
    } else {
        make_theap(heap)
    };
    pages::find_map();
    theap
}

/// The theap of the calling thread in a heap that is never deleted, made if need be; null if mimalloc has no memory for
/// it. After [`bound::has_room_for_a_thread`].
fn make_theap(heap: *mut ffi::Heap) -> *mut Theap {
    let before = own::table();
    // SAFETY: a heap that is never deleted.
    let theap = unsafe { ffi::mi_heap_theap(heap) };
    own::table_changed(before);
    not_placeholder(theap)
}

/// mimalloc's placeholder for a failure refuses every request, so it is not kept.
fn not_placeholder(theap: *mut Theap) -> *mut Theap {
    match std::ptr::eq(theap, &raw const ffi::_mi_theap_empty_wrong) {
        true => null_mut(),
        false => theap,
    }
}

/// Reserves the region of `--region`, `size` bytes, in which all that the heaps take lies. Before
/// every constructor and while nothing was allocated; false if that is too late, or if the
/// system gives no such range of addresses.
pub fn reserve_region(size: u64) -> bool {
    start_mimalloc() && bound::reserve(size)
}

/// Sets the options that must be set before mimalloc's first allocation; false if that is done.
fn start_mimalloc() -> bool {
    let first = !START.has_options.swap(true, Relaxed);
    if first {
        // `page_of` reads the page map at any address, so all of it must be there
        // and readable.
        ffi::mi_option_set(ffi::OPTION_PAGEMAP_COMMIT, 1);
        ffi::mi_option_set(ffi::OPTION_MAX_VABITS, 0);
        retention::prepare();
    }
    first
}

/// Whether `pointer`, which may be any number, lies in a page of one of the heaps, or among the guarded blocks.
pub fn owns(pointer: *mut u8) -> bool {
    is_in_page(pointer) || guards::owns(pointer)
}

/// Pops a block for `size` bytes, of which the bits of `mask` are 0, from the calling thread's
/// own page and books it; null if the slow path must do it. The GIL is held if `A` is an account of the GIL.
#[inline(always)]
fn pop<const A: usize, const ZERO: bool, const BOOK: bool>(size: usize, mask: usize) -> *mut u8 {
    let state = state();
    pop_from::<A, ZERO, BOOK>(state, state.theaps[A].get(), size, mask)
}

/// [`pop`] from a theap of the calling thread's in the heap of `A`.
#[inline(always)]
fn pop_from<const A: usize, const ZERO: bool, const BOOK: bool>(
    state: &ThreadState,
    theap: *mut Theap,
    size: usize,
    mask: usize,
) -> *mut u8 {
    // Of `native` no block has less than 16 bytes (see `freed`): by steps of 16 from 16 on, as
    // mimalloc's own sizes are from there. 0 wraps around, and takes the slow path.
    let index = match A == NATIVE {
        true if size.wrapping_sub(1) >= ffi::SMALL_SIZE_MAX => return null_mut(),
        true => size.div_ceil(freed::LEAST) * (freed::LEAST / size_of::<usize>()),
        false if size > ffi::SMALL_SIZE_MAX => return null_mut(),
        false => size.div_ceil(size_of::<usize>()),
    };
    // SAFETY: the table has an entry for each size up to the limit, each entry is a page of
    // the calling thread or the empty page, and only this thread pops from it.
    unsafe {
        let page = (*theap).pages_free_direct[index];
        let block = *(*page).free.place();
        if block.is_null()
            || block.addr() & mask != 0
            || (BOOK && !state.slot.get().book::<A>((*page).block_size))
        {
            return null_mut();
        }
        *(*page).free.place() = (*block).next;
        *(*page).used.place() += 1;
        if A == NATIVE {
            NativeBlock::at(block.cast()).unmark();
        }
        if ZERO {
            if *(*page).free_is_zero.place() {
                (*block).next = null_mut();
            } else {
                std::ptr::write_bytes(block.cast::<u8>(), 0, (*page).block_size);
            }
        }
        block.cast()
    }
}

/// Allocates `size` bytes, zeroed if `ZERO`, booked to account `A` if `BOOK`. Null on
/// failure. `A` is an account's index; the GIL is held if the account is of the GIL, or its counts go wrong.
#[inline(always)]
pub fn allocate<const A: usize, const ZERO: bool, const BOOK: bool>(size: usize) -> *mut u8 {
    let block = pop::<A, ZERO, BOOK>(size, 0);
    if !block.is_null() {
        return block;
    }
    allocate_slow(Account::ALL[A], size, ZERO)
}

/// [`allocate`] for a thread that counts its bytes for [`sampling`]; for another one it is slower. Books.
#[inline(always)]
pub fn allocate_counted<const A: usize, const ZERO: bool>(size: usize) -> *mut u8 {
    let block = sampling::pop::<A, ZERO>(state(), size, 0);
    if !block.is_null() {
        return block;
    }
    if !state().is_sampling() {
        return allocate_after_samples::<A, ZERO>(size);
    }
    allocate_uncounted(Account::ALL[A], size, ZERO)
}

/// [`allocate`] by a hook that still counts though no samples are taken, because another hook keeps it from being replaced.
#[cold]
#[inline(never)]
fn allocate_after_samples<const A: usize, const ZERO: bool>(size: usize) -> *mut u8 {
    allocate::<A, ZERO, true>(size)
}

/// A block that mimalloc gave, without the mark that it may have from an earlier life.
///
/// # Safety
/// Null, or a live block of the account, which nobody else has.
unsafe fn given_out(account: Account, block: *mut u8) -> *mut u8 {
    if account == Account::Native {
        // SAFETY: the caller's promise; a block of `native` has 16 bytes.
        unsafe {
            if let Some(page) = live_page(block) {
                NativeBlock::at(page.start_of(block)).unmark_if_marked();
            }
        }
    }
    block
}

#[cold]
#[inline(never)]
fn allocate_slow(account: Account, size: usize, zero: bool) -> *mut u8 {
    if state().is_sampling() {
        let block = sampling::pop_any(account, size, zero);
        if !block.is_null() {
            return block;
        }
    }
    allocate_uncounted(account, size, zero)
}

/// Allocates by mimalloc's own functions; the request is not counted for a sample yet.
#[cold]
#[inline(never)]
fn allocate_uncounted(account: Account, size: usize, zero: bool) -> *mut u8 {
    sampling::look_if_asked(account);
    let state = state();
    let slot = state.slot();
    if guards::wants(size)
        && let Some(block) = guards::allocate(account, size, 1)
    {
        return block;
    }
    let inside = gate::enter(slot, thread_id());
    if !admits(slot, account, size) {
        return null_mut();
    }
    let (theap, is_sample) = sampling::theap(state, account, size, &inside);
    let mut usable = 0;
    let given = match account {
        Account::Native => size.max(freed::LEAST),
        _ => size,
    };
    // SAFETY: a theap of the calling thread, inside the gate, and the block that it gave.
    unsafe {
        let block = if theap.is_null() {
            null_mut()
        } else {
            if retention::give_back_what_is_due(theap) {
                region::give_back_what_is_due();
            }
            let pages = (*theap).page_count.get();
            let block = limited::with_a_second_try(|| {
                ffi::_mi_theap_malloc_zero(theap, given, zero, &mut usable).cast()
            });
            if is_sample && (*theap).page_count.get() != pages {
                sampling::page_comes(block);
            }
            block
        };
        let block = given_out(account, book_new(account, block, usable, size));
        if is_sample && !block.is_null() {
            sampling::take(account, block, usable, size, &inside);
        }
        block
    }
}

/// Allocates `size` bytes aligned to `alignment`, a power of two, booked to `account`.
#[cold]
pub fn allocate_aligned(account: Account, size: usize, alignment: usize) -> *mut u8 {
    if account == Account::Native
        && guards::wants(size)
        && let Some(block) = guards::allocate(account, size, alignment)
    {
        return block;
    }
    let state = state();
    let slot = state.slot();
    let inside = gate::enter(slot, thread_id());
    if !admits(slot, account, size) {
        return null_mut();
    }
    let (theap, is_sample) = sampling::theap(state, account, size, &inside);
    let given = size.max(freed::LEAST);
    // SAFETY: a theap of the calling thread, inside the gate, and the block that it gave.
    unsafe {
        let block = match theap.is_null() {
            true => null_mut(),
            false => limited::with_a_second_try(|| {
                ffi::mi_theap_malloc_aligned(theap, given, alignment).cast()
            }),
        };
        let usable = live_page(block).map_or(0, |page| page.block_size);
        let block = given_out(account, book_new(account, block, usable, size));
        if is_sample && !block.is_null() {
            sampling::take(account, block, usable, size, &inside);
        }
        block
    }
}

/// Frees a block of account `A`, or of any other account, off which it then goes. Returns false
/// for a pointer that is not mimalloc's, having done nothing.
///
/// # Safety
/// `pointer` is null or was allocated and not freed since, by whatever allocator. The GIL is
/// held if `A` is an account of the GIL. Unless `A` is `Native`, [`start`] has made the heaps. A guarded block
/// counts as none of mimalloc's: see [`guards::free`].
#[inline(always)]
pub unsafe fn free<const A: usize, const BOOK: bool>(pointer: *mut u8) -> bool {
    // SAFETY: the caller's duties; the page of a live block.
    unsafe {
        let page = match A {
            NATIVE => page_of::<false>(pointer),
            _ => page_of::<true>(pointer),
        };
        if page.is_null() {
            return pointer.is_null();
        }
        push_or_free::<A, BOOK>(page, pointer);
    }
    true
}

/// Frees a block, by the inlined path if it can be.
///
/// # Safety
/// As for [`push`].
#[inline(always)]
unsafe fn push_or_free<const A: usize, const BOOK: bool>(page: *mut Page, block: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe {
        if !push::<A, BOOK>(page, block) {
            free_slow(page, block, Account::ALL[A]);
        }
    }
}

/// Pushes a block back to its page and takes it off the ledger; false, having done nothing, if
/// the slow path must do it.
///
/// # Safety
/// `page` is the page of the live `block`. The GIL is held if `A` is an account of the GIL.
#[inline(always)]
unsafe fn push<const A: usize, const BOOK: bool>(page: *mut Page, block: *mut u8) -> bool {
    // SAFETY: the page of a live block. If its thread word equals the caller's, without flags,
    // the caller owns it and the pointer is the start of a block.
    unsafe {
        if (*page).xthread_id.load(Relaxed) != thread_id()
            || (*page).heap != HEAPS.own[A].load(Relaxed)
            || (A == NATIVE
                && (!freed::is_start(&*page, block) || NativeBlock::at(block).is_marked()))
            || (BOOK && !state().slot.get().release::<A>((*page).block_size))
        {
            return false;
        }
        if A == NATIVE {
            NativeBlock::at(block).mark();
        }
        if link(page, block) {
            retire(page);
        }
        true
    }
}

/// Puts a block at the head of its page's list; whether the page is empty now, and not retired yet.
///
/// # Safety
/// As for [`push`], of a page whose thread word equals the caller's.
#[inline(always)]
unsafe fn link(page: *mut Page, block: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let block = block.cast::<Block>();
        (*block).next = *(*page).free.place();
        *(*page).free.place() = block;
        *(*page).free_is_zero.place() = false; // as where mimalloc joins its lists
        *(*page).used.place() -= 1;
        *(*page).used.place() == 0 && *(*page).retire_expire.place() == 0
    }
}

/// # Safety
/// An empty page of the calling thread that is not retired yet, as in mimalloc's own `mi_free_block_local`.
#[cold]
#[inline(never)]
unsafe fn retire(page: *mut Page) {
    let inside = gate::enter(state().slot(), thread_id());
    // SAFETY: the caller's promise.
    unsafe {
        freed::keep_in_mind(&*page);
        let bytes = (*page).bytes();
        ffi::_mi_page_retire(page);
        retention::came_free(bytes, &inside);
    }
}

/// # Safety
/// As for [`push`].
#[cold]
#[inline(never)]
unsafe fn free_slow(place: *mut Page, pointer: *mut u8, caller: Account) {
    // SAFETY: the page of a live block, until it is freed, inside the gate; a block of `native` has 16 bytes.
    unsafe {
        let page = &*place;
        if page.block_size >= register::BIG {
            heights::falls();
        }
        if checked::has(page) {
            return checked::free(page, pointer, caller);
        }
        let inside = gate::enter(state().slot(), thread_id());
        let account = page.account();
        check_live(page, pointer, account);
        let emptied = page.emptied_by_a_free();
        if emptied > 0 {
            freed::keep_in_mind(page);
        }
        release_block(account, pointer, page.block_size, caller);
        let is_sample = sampling::released(account, pointer, page.heap, &inside);
        if account == Account::Native {
            NativeBlock::at(page.start_of(pointer)).mark();
        }
        // The few samples of a size would walk through a whole page, too.
        if is_sample && page.xthread_id.load(Relaxed) == thread_id() {
            if link(place, pointer) {
                ffi::_mi_page_retire(place);
            }
        } else {
            ffi::mi_free(pointer.cast());
        }
        retention::came_free(emptied, &inside);
    }
}

/// Ends the process if `pointer` is not the start of a live block, as far as that can be seen: of
/// `native` always, of other accounts if it lies in the middle of a block.
///
/// # Safety
/// It lies in `page`, which is of the account.
unsafe fn check_live(page: &Page, pointer: *mut u8, account: Account) {
    let bytes = page.block_size;
    if let Some(offset) = page.misplaced(pointer) {
        freed::refuse(format_args!(
            "free(): invalid pointer {pointer:p}: {offset} bytes into a block of {bytes} bytes of the \
             account {}",
            account.name()
        ));
    }
    // SAFETY: the start of a block of the page; those of `native` have 16 bytes.
    if account == Account::Native && unsafe { NativeBlock::at(page.start_of(pointer)) }.is_marked()
    {
        freed::refuse_twice(pointer, bytes, account);
    }
}

/// The largest size of a block that takes no more than `room` bytes: mimalloc rounds up to a fourth of
/// a power of two, and from 512 KiB on, where a block has a page of its own, as the system's memory
/// is best asked for (`_mi_os_good_alloc_size`).
pub fn largest_within(room: u64) -> u64 {
    let step = match room {
        0..1024 => 16,
        1024..0x8_0000 => (1 << room.ilog2()) / 4,
        0x8_0000..0x20_0000 => 64 << 10,
        0x20_0000..0x80_0000 => 256 << 10,
        0x80_0000..0x200_0000 => 1 << 20,
        _ => 4 << 20,
    };
    room / step * step
}

/// The result of [`reallocate`].
pub enum Reallocated {
    /// The block, moved or not; null if there was no memory, and the old block still lives.
    Block(*mut u8),
    /// The pointer is not mimalloc's; nothing was done.
    Foreign,
}

/// Resizes a block, which becomes account `A`'s. A null pointer allocates; a size of 0 is kept
/// as a block.
///
/// # Safety
/// As for [`free`].
#[inline]
pub unsafe fn reallocate<const A: usize, const BOOK: bool>(
    pointer: *mut u8,
    size: usize,
) -> Reallocated {
    if pointer.is_null() {
        return Reallocated::Block(allocate::<A, false, BOOK>(size));
    }
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        let Some(page) = live_page(pointer) else {
            return reallocate_guarded::<A, BOOK>(pointer, size);
        };
        let same_heap = || {
            page.heap == HEAPS.own[A].load(Relaxed) || page.heap == HEAPS.sampled[A].load(Relaxed)
        };
        if A == NATIVE
            && same_heap()
            && (!freed::is_start(page, pointer) || NativeBlock::at(pointer).is_marked())
        {
            check_live(page, pointer, Account::Native);
        }
        if !same_heap() && checked::has(page) {
            return watched::reallocate::<A>(pointer, size);
        }
        let usable = page.usable(pointer);
        if size <= usable && size >= usable / 2 && size > 0 && same_heap() {
            return Reallocated::Block(pointer);
        }
        let asked = match size > usable {
            true => booking::within_reach(Account::ALL[A], size, moving::room_to_grow(size)),
            false => size,
        };
        let moved = allocate::<A, false, BOOK>(asked);
        if !moved.is_null() {
            moving::move_contents(pointer, moved, size.min(usable));
            push_or_free::<A, BOOK>((&raw const *page).cast_mut(), pointer);
        }
        Reallocated::Block(moved)
    }
}

/// Moves a guarded block, whose end must stay at its page.
///
/// # Safety
/// As for [`reallocate`].
#[cold]
#[inline(never)]
unsafe fn reallocate_guarded<const A: usize, const BOOK: bool>(
    pointer: *mut u8,
    size: usize,
) -> Reallocated {
    let Some(before) = guards::size(pointer) else {
        guards::refuse_if_wrong(pointer, Some(0), "realloc()");
        return Reallocated::Foreign;
    };
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        let moved = allocate::<A, false, BOOK>(size);
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(pointer, moved, size.min(before));
            guards::free(pointer, Account::ALL[A]);
        }
        Reallocated::Block(moved)
    }
}

/// Usable bytes of a block, or None for a pointer that is neither mimalloc's nor guarded.
///
/// # Safety
/// As for [`free`].
pub unsafe fn usable_size(pointer: *mut u8) -> Option<usize> {
    // SAFETY: the caller's duties.
    match unsafe { live_page(pointer) } {
        // SAFETY: as above.
        Some(page) if checked::has(page) => Some(unsafe { checked::size(page, pointer) }),
        Some(page) => Some(page.usable(pointer)),
        None => guards::size(pointer),
    }
}
