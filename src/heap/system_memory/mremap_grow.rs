//! Moves what a block holds to the longer block that takes its place.
//!
//! A long block that grows, of a list or a `bytearray`, is not copied: its pages of memory go to the
//! new addresses (`mremap`, as glibc does), which spares the copy, the faults of the new pages and
//! the time in which both are resident.

#![allow(unsafe_code)]

use crate::ledger::{LEDGER, Scope};
use crate::{bounded_heap, mimalloc::ffi, process::limits, system_memory::address_limit};
use pyhost_os::mapping::{empty, is_mapped, page_size};
use std::ptr::copy_nonoverlapping;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// From here on pages are moved. Shorter blocks are copied: the memory that they leave behind is used again at once.
const LEAST: usize = 4 << 20;

/// Each move may split a mapping in three, and a process has 65,530 of them
/// (`vm.max_map_count`), which other libraries need too.
const MOST_MOVES: u32 = 8_000;

/// The first moves are checked: more than threads make at the same time.
const CHECKED_MOVES: u32 = 64;

/// A block that begins to grow is expected to become as long as the one before it, up to this size. Less than an arena has (see
/// [`super::retention`]), so that no program needs more arenas for it.
const MOST_EXPECTED: usize = 32 << 20;
/// Blocks that grow in turns do not say how long the next will be: one does that has grown so many times alone.
const LEAST_STEPS: usize = 8;

/// A block below a higher cap than this gets no more addresses for it.
const MOST_BELOW_CAP: usize = 4 << 30;

pyhost_os::state! {
    /// How blocks have grown so far.
    static STATE: Growth {
        /// Moves of pages; [`MOST_MOVES`] if the system has none.
        moves: AtomicU32 = AtomicU32::new(0),
        /// Since a block began to grow: how long one became, and how many times one grew.
        longest: AtomicUsize = AtomicUsize::new(0),
        steps: AtomicUsize = AtomicUsize::new(0),
    }
}

/// A block that is alone in its page has grown to `size` bytes.
pub(crate) fn has_grown(size: usize) {
    STATE.steps.store(STATE.steps.load(Relaxed) + 1, Relaxed);
    if size > STATE.longest.load(Relaxed) {
        STATE.longest.store(size, Relaxed);
    }
}

/// How many bytes of addresses to look for, for a block that moves to grow to `size` bytes: as many again behind it. One that `begins`
/// to grow gets the place of the one before it, whose memory may still be there.
pub(crate) fn addresses_to_grow(size: usize, begins: bool) -> usize {
    let twice = size.saturating_mul(2).max(below_cap(size));
    if !begins {
        return twice;
    }
    let longest = STATE.longest.swap(0, Relaxed).min(MOST_EXPECTED);
    match STATE.steps.swap(0, Relaxed) < LEAST_STEPS {
        true => twice,
        false => longest.max(twice),
    }
}

/// The cap of all accounts, for a block of a sixteenth of it or more: while a block moves both count, so that one of more than half
/// of the cap could not grow again. Else 0.
fn below_cap(size: usize) -> usize {
    let cap = LEDGER.cap(Scope::Total).unwrap_or(0) as usize;
    let is_long = cap <= MOST_BELOW_CAP && size >= LEAST.max(cap / 16);
    if is_long { cap } else { 0 }
}

/// The bytes to allocate for a block that grows to `size` bytes: for objects more, so that it has room for the next growth. A list
/// grows by an eighth and 6 entries each time (`list_resize`), and mimalloc's sizes are at most a sixteenth apart up to 4 KiB,
/// but a fourth above. Not for large blocks, which grow where they lie.
#[inline]
pub(crate) fn room_to_grow(size: usize) -> usize {
    match size {
        513..=4096 => size + size / 4,
        4097..ffi::LARGE_SIZE_MAX => size + size / 8,
        _ => size,
    }
}

/// Moves `bytes` bytes from block to block; `from` holds anything afterwards.
///
/// # Safety
/// Two live blocks of mimalloc's that are at least that long, and that nobody else uses.
#[inline]
pub(crate) unsafe fn move_contents(from: *mut u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's duties.
    unsafe {
        let moved = match bytes < LEAST {
            true => 0,
            false => move_pages(from, to, bytes),
        };
        copy_nonoverlapping(from.add(moved), to.add(moved), bytes - moved);
    }
}

/// Moves the whole pages among the first `bytes` bytes, if that can be; how many bytes it moved.
///
/// # Safety
/// As for [`move_contents`].
#[cold]
unsafe fn move_pages(from: *mut u8, to: *mut u8, bytes: usize) -> usize {
    // The kernel's, whatever the processor's usual one: it rounds the length up to its own, and what
    // lies behind the last whole page would be gone before it is copied.
    let page = page_size() as usize;
    let aligned = (from.addr() | to.addr()).is_multiple_of(page);
    let whole = bytes - bytes % page;
    // The system refuses a move that passes a limit after it has unmapped the new block, and may then have no room for fresh
    // pages there: nothing is moved unless there is room for more, which other threads may take meanwhile.
    let least = 4 * bytes.max(ffi::ARENA_UNIT) as u64;
    let follows = || address_limit::is_on() && limits::of_memory().is_some();
    let is_near = || limits::room().is_some_and(|room| room.left < least);
    if !aligned || bounded_heap::size().is_some() || follows() || is_near() {
        return 0;
    }
    let earlier = STATE.moves.fetch_add(1, Relaxed);
    if earlier >= MOST_MOVES {
        STATE.moves.fetch_min(MOST_MOVES, Relaxed);
        return 0;
    }
    // SAFETY: pages that lie in the two blocks alone. The old ones stay mapped, and empty.
    unsafe {
        let move_there = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | MREMAP_DONTUNMAP;
        if libc::mremap(from.cast(), whole, whole, move_there, to) != libc::MAP_FAILED {
            // QEMU's user mode, which runs containers of another processor, takes a page whose contents were moved for one that is
            // not mapped (seen with 7.2): it ignores MREMAP_DONTUNMAP in its own list of pages, and a system call that is given
            // such a page fails with EFAULT.
            if earlier < CHECKED_MOVES && !is_mapped(from.addr()) {
                STATE.moves.store(MOST_MOVES, Relaxed);
                empty(from.addr(), whole);
            }
            return whole;
        }
        // An older kernel, a block that lies in two mappings, locked memory, or too many mappings.
        // Up to Linux 6.16 some of these are found after the new addresses were unmapped: the new block, which
        // holds nothing yet, gets fresh pages.
        STATE.moves.store(MOST_MOVES, Relaxed);
        empty(to.addr(), whole);
    }
    0
}

/// Linux 5.7 (`linux/mman.h`).
const MREMAP_DONTUNMAP: libc::c_int = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_os::mapping::Mapping;

    #[test]
    fn contents_arrive_whether_or_not_the_system_moves_pages() {
        let length = 4 * LEAST + 1234;
        for is_in_two_mappings in [false, true] {
            let memory = [(); 2].map(|()| Mapping::private(length).unwrap());
            let [from, to] = memory.each_ref().map(|memory| memory.start().as_ptr());
            // SAFETY: memory of the test's own, as long as said.
            unsafe {
                for at in 0..length {
                    from.add(at).write((at % 251) as u8);
                }
                if is_in_two_mappings {
                    libc::mprotect(from.cast(), 2 * LEAST, libc::PROT_READ);
                }
                move_contents(from, to, length);
                assert!((0..length).all(|at| to.add(at).read() == (at % 251) as u8));
                to.add(length - 1).write(1);
            }
        }
    }
}
