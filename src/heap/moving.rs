//! Moves what a block holds to the longer block that takes its place.
//!
//! A long block that grows, of a list or a `bytearray`, is not copied: its pages of memory go to the
//! new addresses (`mremap`, as glibc does), which spares the copy, the faults of the new pages and
//! the time in which both are resident.

#![allow(unsafe_code)]

use super::bound;
use std::ptr::copy_nonoverlapping;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const OS_PAGE: usize = 4096;

/// From here on moving pages is faster than copying them: 64 entries of the page table.
const LEAST: usize = 256 << 10;

/// Each move may split a mapping in three, and a process has 65,530 of them
/// (`vm.max_map_count`), which other libraries need too.
const MOST_MOVES: u32 = 8_000;

/// Moves so far; [`MOST_MOVES`] where the system has none.
static MOVES: AtomicU32 = AtomicU32::new(0);

/// What a block that grows to `size` bytes asks for: where objects lie, an eighth more, since
/// what grows once grows again, by an eighth each time (`list_resize`), and mimalloc's sizes
/// are an eighth apart.
#[inline]
pub(super) fn room_to_grow(size: usize) -> usize {
    match size {
        513..LEAST => size + size / 8,
        _ => size,
    }
}

/// Moves `bytes` bytes from block to block; `from` holds anything afterwards.
///
/// # Safety
/// Two live blocks of mimalloc's that are at least that long, and that nobody else uses.
#[inline]
pub(super) unsafe fn move_contents(from: *mut u8, to: *mut u8, bytes: usize) {
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
    let aligned = (from.addr() | to.addr()).is_multiple_of(OS_PAGE);
    let whole = bytes & !(OS_PAGE - 1);
    if !aligned || bound::size().is_some() || MOVES.fetch_add(1, Relaxed) >= MOST_MOVES {
        MOVES.fetch_min(MOST_MOVES, Relaxed);
        return 0;
    }
    // SAFETY: pages that lie in the two blocks alone. The old ones stay mapped, and empty.
    let result = unsafe {
        libc::mremap(
            from.cast(),
            whole,
            whole,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | MREMAP_DONTUNMAP,
            to,
        )
    };
    if result == libc::MAP_FAILED {
        // An older kernel, locked memory, or too many mappings.
        MOVES.store(MOST_MOVES, Relaxed);
        return 0;
    }
    whole
}

/// Linux 5.7 (`linux/mman.h`).
const MREMAP_DONTUNMAP: libc::c_int = 4;
