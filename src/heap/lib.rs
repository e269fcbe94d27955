//! The heaps: a mimalloc heap for each account that has blocks of its own, and allocation that books as it goes.
//!
//! The account of a block is the heap of its page, which `free` finds on a line that it reads anyway: no header, no
//! table. `native` is mimalloc's main heap, since it must serve before `main`; the other heaps are made by [`start`].
//!
//! [`hot`] has the path of every request. Each other folder is one subject; what is public is listed below.
//!
//! All functions may be called from any thread at any moment, before `main` and while a thread
//! ends; those of `Mem` and `Obj` with the GIL. None panics or formats. Failure is null.

#![allow(unsafe_code)]

mod arrays;
pub mod bounded_heap;
pub mod call_site;
mod checks;
pub mod forks;
mod host;
mod hot;
mod mimalloc;
pub mod peak_watch;
pub mod sampling;
mod sizes;
mod system_memory;
mod tensorflow;
mod threads;

use call_site::CallSite;
use ledger::index::{NATIVE, NUMPY};
use ledger::{Account, Gils};
use mimalloc::ffi::{self, Theap};
use mimalloc::heaps::{self, HEAPS};
use mimalloc::{gate::Closed, pages::live_page};
use pyhost_ledger::{self as ledger, resident};
use pyhost_os::{bytes, descriptor, errno, process};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{ptr::null_mut, sync::atomic::AtomicBool};
use threads::thread_exit;
use threads::thread_state::{state, thread_id};

pub use arrays::{array_blocks, placement};
pub use call_site::source_line;
pub use checks::heap_walk::walk;
pub use checks::{
    checked_blocks, checked_requests, double_free, families, fill_bytes, guards, leak_mark,
    live_objects, out_of_bounds,
};
pub use host::{
    CapDecisions, Host, LineFinder, PeakWatcher, Request, UnitDecisions, end_start, register,
};
pub use hot::allocate::{allocate, allocate_aligned, allocate_counted};
pub use hot::booking::{
    attend_to_caps, book, book_at_once, book_resized, look_at_caps, may_book, release,
    release_at_once, release_resized, set_largest,
};
pub use hot::free::free;
pub use hot::reallocate::{reallocate, reallocate_checked};
pub use mimalloc::ffi::{ADDRESS_BITS, mi_version as version};
pub use mimalloc::{gate, internal_blocks, pages, pages::is_in_page};
pub use pyhost_tensorflow::bfc;
pub use sizes::{big_blocks, histogram, largest_classes};
pub use system_memory::{address_limit, leak_check_addresses, retention};
pub use tensorflow::{pool, region};
pub use threads::{thread_pointers, thread_state::thread_id as thread_number};

pyhost_os::state! {
    /// What was done before the first allocation, and whether blocks of the main heap are booked to `native` (`--malloc count`).
    static START: HeapStart {
        /// Not zero, so it does not lie in the memory that is to stay untouched until it refuses huge pages.
        is_fresh: AtomicBool = AtomicBool::new(true),
        has_options: AtomicBool = AtomicBool::new(false),
        counts_native: AtomicBool = AtomicBool::new(true),
    }
}

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
        system_memory::small_pages::start();
        ledger::own::open();
    }
}

/// Puts the handlers of thread ends in place and, with `heaps`, makes the heaps of the domains. Once, at the start of `main`, while
/// the process has one thread. Returns false if mimalloc gives no heap.
pub fn start(heaps: bool) -> bool {
    gate::register();
    thread_exit::watch();
    if !heaps {
        return true;
    }
    thread_exit::take_over_mimallocs();
    for (index, account) in Account::WITH_HEAP.into_iter().enumerate() {
        let heap = match index {
            0 => internal_blocks::first_heap(),
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

/// The allocation of the block whose bytes begin at `start`, if it is a checked or a guarded one.
pub fn call_site_of(closed: &Closed, start: usize) -> Option<CallSite> {
    guards::call_site_of(start).or_else(|| checked_blocks::call_site_of(closed, start))
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

/// Whether blocks of `account` are booked at all.
pub(crate) fn counts(account: Account) -> bool {
    account != Account::Native || counts_native()
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
        for theap in heaps::others(account).filter_map(known_theap_of) {
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

/// The theap of the calling thread in the account's heap, made if need be; null if there is no memory for it.
fn new_theap(account: Account) -> *mut Theap {
    let heap = match state().before.get() {
        0 => HEAPS.own[account as usize].load(Acquire),
        _ => heaps::heap_before(account),
    };
    // If mimalloc cannot make the first theap of a thread it reads through a null pointer
    // (`mi_heap_init_theap`), so it is not asked to.
    if !bounded_heap::has_room_for_a_thread() {
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
/// it. After [`bounded_heap::has_room_for_a_thread`].
fn make_theap(heap: *mut ffi::Heap) -> *mut Theap {
    let before = internal_blocks::table();
    // SAFETY: a heap that is never deleted.
    let theap = unsafe { ffi::mi_heap_theap(heap) };
    internal_blocks::table_changed(before);
    not_placeholder(theap)
}

/// mimalloc's placeholder for a failure refuses every request, so it is not kept.
fn not_placeholder(theap: *mut Theap) -> *mut Theap {
    match std::ptr::eq(theap, &raw const ffi::_mi_theap_empty_wrong) {
        true => null_mut(),
        false => theap,
    }
}

/// Reserves the region of `--region`, `size` bytes, in which all that the heaps take lies. Before every constructor and
/// while nothing was allocated; false if that is too late, or if the system gives no such range of addresses.
pub fn reserve_region(size: u64) -> bool {
    start_mimalloc() && bounded_heap::reserve(size)
}

/// Sets the options that must be set before mimalloc's first allocation; false if that is done.
fn start_mimalloc() -> bool {
    let first = !START.has_options.swap(true, Relaxed);
    if first {
        // `page_of` reads the page map at any address, so all of it must be there and readable.
        ffi::mi_option_set(ffi::PYHOST_PAGEMAP_COMMIT, 1);
        ffi::mi_option_set(ffi::PYHOST_MAX_VABITS, 0);
        retention::prepare();
    }
    first
}

/// Whether `pointer`, which may be any number, lies in a page of one of the heaps, or among the guarded blocks.
pub fn owns(pointer: *mut u8) -> bool {
    is_in_page(pointer) || guards::owns(pointer)
}

/// The largest size of a block that takes no more than `room` bytes: mimalloc rounds up to a fourth of
/// a power of two, to less up to 4 KiB (`patches.rs`), and from 512 KiB on, where a block has a page of its own, as the system's memory
/// is best asked for (`_mi_os_good_alloc_size`).
pub fn largest_within(room: u64) -> u64 {
    let step = match room {
        0..256 => 16,
        256..512 => 32,
        512..4096 => (1 << room.ilog2()) / 16,
        4096..0x8_0000 => (1 << room.ilog2()) / 4,
        0x8_0000..0x20_0000 => 64 << 10,
        0x20_0000..0x80_0000 => 256 << 10,
        0x80_0000..0x200_0000 => 1 << 20,
        _ => 4 << 20,
    };
    room / step * step
}

pub enum Reallocated {
    /// The block, moved or not; null if there was no memory, and the old block still lives.
    Block(*mut u8),
    /// The pointer is not mimalloc's; nothing was done.
    Foreign,
}

/// Usable bytes of a block, or None for a pointer that is neither mimalloc's nor guarded.
///
/// # Safety
/// As for [`free`].
pub unsafe fn usable_size(pointer: *mut u8) -> Option<usize> {
    // SAFETY: the caller's duties.
    match unsafe { live_page(pointer) } {
        Some(page) if checked_blocks::has(page) => {
            // SAFETY: as above.
            Some(unsafe { checked_blocks::size(page, pointer) })
        }
        Some(page) => Some(page.usable(pointer)),
        None => guards::size(pointer),
    }
}
