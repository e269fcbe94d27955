//! The heaps under a limit on addresses or on data (`ulimit -v`, `ulimit -d`): what they do not use is not mapped.
//!
//! The kernel counts what is mapped, whether or not it is used. mimalloc maps an arena of 64 MiB or more at once and never
//! unmaps it: freed memory would not serve a thread's stack, a library, or a block that no run of an arena has room for.
//! Under a limit an arena is a range of addresses of which the kernel knows only the slices in use: a slice is mapped when
//! mimalloc commits it, and unmapped when it is given back. That is at the latest when the system refuses a map.
//!
//! A range needs no place holder: mimalloc and [`leak_check_addresses`] choose addresses where the kernel maps nothing by itself. Other arenas,
//! as on systems with short addresses, stay mapped, and give their memory back without access, which counts as data no longer.
//!
//! Any thread. Nothing here allocates or takes a lock.

#![allow(unsafe_code)]

use crate::mimalloc::{ffi, gate};
use crate::process::limits::{self, Room};
use crate::system_memory::leak_check_addresses;
use crate::threads::thread_state::{state, thread_id};
use pyhost_os::errno::{Errno, KeptErrno};
use pyhost_os::system_call::system_call;
use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

pyhost_os::state! {
    /// Whether addresses are limited.
    static STATE: AddressLimit {
        /// Whether there is a limit, or was.
        is_on: AtomicBool = AtomicBool::new(false),
        /// Bytes of a run of slices that is unmapped. A shorter one stays mapped: each may split a mapping, and a process has 65,530
        /// of them (`vm.max_map_count`).
        least_run: AtomicUsize = AtomicUsize::new(0),
    }
}
/// So many runs of the least length are as long as the limit.
const MOST_RUNS: u64 = 16_384;
/// A limit from which on the heaps follow it only when the system refuses a map: what is mapped by slices takes many mappings.
const HIGH: u64 = 4 << 30;

const SLICE: usize = 1 << ffi::SLICE_SHIFT;
/// An arena's description takes less than this part of the arena, by whole slices.
const DESCRIPTION: usize = 384;
const OPEN: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Whether the heaps keep below a limit.
#[inline]
pub(crate) fn is_on() -> bool {
    STATE.is_on.load(Relaxed)
}

/// Looks at the limits: before the first allocation, and after they were changed.
pub fn look() {
    if let Some(limit) = limits::of_memory().filter(|&limit| limit < HIGH) {
        follow(limit);
    }
}

/// The heaps keep below a limit from here on. What the arenas have free is unmapped. Returns false if they did so before.
fn follow(limit: u64) -> bool {
    let longest = usize::BITS << ffi::SLICE_SHIFT; // what mimalloc gives back at a time: a word of its bitmap
    let least_run = (limit / MOST_RUNS).min(longest.into()) as usize;
    STATE.least_run.store(least_run, Relaxed);
    if STATE.is_on.swap(true, Relaxed) {
        return false;
    }
    ffi::mi_option_set(ffi::PYHOST_ARENA_EAGER_COMMIT, 0);
    ffi::mi_option_set(ffi::PYHOST_PAGE_COMMIT_ON_DEMAND, 1);
    let _errno = KeptErrno::new();
    let _inside = gate::enter(state().slot(), thread_id());
    // SAFETY: inside the gate; the function has the type that mimalloc calls.
    unsafe {
        ffi::pyhost_adopt_arenas(null(), on_commit);
    }
    ffi::pyhost_purge(usize::MAX);
    true
}

/// Gives back what the arenas have free, because the system refused a map of so many bytes, or a thread. Returns false if
/// nothing was free, or no limit is the reason. A thread's stack is not known: it counts as half of the limit.
#[cold]
pub fn make_room(bytes: Option<usize>) -> bool {
    let is_why = |room: &Room| {
        let bytes = bytes.map_or(room.limit / 2, |bytes| bytes as u64);
        is_on() || (room.left + 1..=room.limit).contains(&bytes)
    };
    let room = limits::room().filter(is_why);
    if room.is_some_and(|room| follow(room.limit)) {
        return true;
    }
    if !is_on() {
        return false;
    }
    let _errno = KeptErrno::new();
    let _inside = gate::enter(state().slot(), thread_id());
    let (_, free) = ffi::count_bytes();
    if free > 0 {
        ffi::pyhost_purge(usize::MAX);
    }
    free > 0
}

/// What `map` maps, of so many bytes, which is tried once more if the heaps had something to give back under a limit. Not
/// while the table of libraries' maps is locked: a thread that forks waits for the lock, and would be waited for here.
pub fn in_room(bytes: usize, map: impl Fn() -> *mut c_void) -> *mut c_void {
    let is_full = || Errno::last() == Errno(libc::ENOMEM) && make_room(Some(bytes));
    match map() {
        libc::MAP_FAILED if is_full() => map(),
        found => found,
    }
}

/// The block that `allocate` makes, by mimalloc and inside the gate. If it makes none under a limit, it is asked again when
/// the thread's heaps have given up their empty pages: mimalloc itself takes those of one heap alone.
pub(crate) fn with_a_second_try(mut allocate: impl FnMut() -> *mut u8) -> *mut u8 {
    let block = allocate();
    if !block.is_null() || !is_on() {
        return block;
    }
    crate::collect();
    make_room(None);
    allocate()
}

/// Whether mimalloc has the addresses from `place` on for an arena without a map of all of them. `wish` is where it asked for
/// them. Nothing else of the executable asks for memory without access there.
pub(crate) fn needs_no_map(wish: usize, place: *mut u8, size: usize, access: c_int) -> bool {
    let is_arena = access == libc::PROT_NONE && size >= ffi::ARENA_UNIT;
    let description = (size / DESCRIPTION).next_multiple_of(SLICE);
    // SAFETY: addresses that nobody has: one that is mapped is none that mimalloc was given.
    is_arena
        && is_on()
        && leak_check_addresses::is_wish(wish)
        && leak_check_addresses::is_kept(place)
        && unsafe { map_fresh(place, description) }
}

/// Maps the slices of a run that mimalloc wants to use, if it lies in an arena. Returns `None` if it does not, or there is no
/// limit; else whether all of it is mapped.
pub(crate) fn commit(start: *mut c_void, bytes: usize) -> Option<bool> {
    // SAFETY: mimalloc's own slices; the function has the type that it calls.
    unsafe {
        let is_ours = is_on() && ffi::pyhost_adopt_arenas(start, on_commit);
        is_ours.then(|| map(start.cast(), bytes))
    }
}

/// Maps a run of which slices may be mapped already.
///
/// # Safety
/// Slices of an arena, which mimalloc is about to use.
unsafe fn map(start: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise. What is mapped there is the arena's.
    unsafe {
        let opens = |start: *mut u8, bytes| open(start, bytes) || map_fresh(start, bytes);
        opens(start, bytes)
            || (0..bytes)
                .step_by(SLICE)
                .all(|offset| opens(start.add(offset), SLICE.min(bytes - offset)))
    }
}

/// Makes a run usable that is mapped. The system call, not the function, which asks [`commit`].
///
/// # Safety
/// As for [`map`].
unsafe fn open(start: *mut u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { system_call(libc::SYS_mprotect, [start.addr(), bytes, OPEN as usize]) == 0 }
}

/// Maps a run where nothing is mapped. Returns false if anything is, or the system refuses.
///
/// # Safety
/// Addresses of an arena.
unsafe fn map_fresh(start: *mut u8, bytes: usize) -> bool {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: nothing is replaced. A kernel before Linux 4.17 maps elsewhere if there is anything.
    unsafe {
        let found = libc::mmap(start.cast(), bytes, OPEN, flags, -1, 0);
        if found != libc::MAP_FAILED && found != start.cast() {
            libc::munmap(found, bytes);
        }
        found == start.cast()
    }
}

/// mimalloc's question for slices, and its word that it has no use for some (`mi_commit_fun_t`): then returns whether it must
/// ask again before it uses them.
unsafe extern "C" fn on_commit(
    wanted: bool,
    start: *mut c_void,
    bytes: usize,
    _is_zero: *mut bool,
    _argument: *mut c_void,
) -> bool {
    // SAFETY: slices of an arena, which are mimalloc's.
    unsafe {
        if wanted {
            return map(start.cast(), bytes);
        }
        let is_long = bytes >= STATE.least_run.load(Relaxed);
        if is_long && leak_check_addresses::is_kept(start.cast()) && libc::munmap(start, bytes) == 0
        {
            return true;
        }
        libc::madvise(start, bytes, libc::MADV_DONTNEED);
        let none = libc::PROT_NONE as usize;
        is_long && system_call(libc::SYS_mprotect, [start.addr(), bytes, none]) == 0
    }
}
