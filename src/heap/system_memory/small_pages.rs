//! Keeps the heaps on small pages if the system has huge ones for everything.
//!
//! Many distributions set transparent huge pages to `always`: then the first byte of each 2 MiB (32 on ARM64 with pages
//! of 16 KiB) makes all of them resident, and the kernel joins later what the heaps have given back. The heaps' memory and
//! the host's own tables refuse that. Blocks of 4 MiB and more ask for huge pages there, as NumPy's arrays do
//! everywhere ([`crate::arrays::placement`]): they would have had them from libc's malloc. Under `--retain speed` nothing is
//! refused.

use crate::{bounded_heap, mimalloc::ffi, process};
use pyhost_os::errno::KeptErrno;
use pyhost_os::mapping::{advise_huge_pages, page_size, refuse_huge_pages_directly, whole_pages};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Bytes of a mapping that a huge page may have room in.
const LEAST_MAPPING: usize = 1 << 20;
/// Bytes of a block that asks for huge pages.
const LEAST_BLOCK: usize = 4 << 20;

pyhost_os::state! {
    /// The refusal of huge pages. Not zero, so it does not lie in the memory that is to stay untouched.
    static STATE: SmallPages {
        /// Whether mappings refuse huge pages.
        are_refused: AtomicBool = AtomicBool::new(true),
        /// The least bytes of a block that asks for huge pages; no block has more than this to begin with.
        asked_from: AtomicUsize = AtomicUsize::new(usize::MAX),
    }
}

/// Refuses huge pages for the host's static memory. Before anything is written there, which a call of libc's `madvise` does:
/// to find the function behind the host's own.
pub(crate) fn start() {
    let page = page_size() as usize;
    let start = (&raw const ffi::__bss_start).map_addr(|address| address & !(page - 1));
    let end = (&raw const ffi::_end).addr().next_multiple_of(page);
    refuse_huge_pages_directly(start.cast_mut(), end - start.addr());
}

/// Learns whether the system has huge pages for everything, and blocks are to ask for them; not in a bounded heap, which
/// counts by small pages. At the start of `main`.
pub(crate) fn learn() {
    if bounded_heap::size().is_none() && process::huge_pages_are("[always]") {
        STATE.asked_from.store(LEAST_BLOCK, Relaxed);
    }
}

/// Refuses huge pages no more: for mappings from here on.
pub(crate) fn stop() {
    STATE.are_refused.store(false, Relaxed);
}

/// Leaves `errno`: kernels without huge pages do not know the advice.
fn refuse(start: *mut u8, bytes: usize) {
    let _errno = KeptErrno::new();
    advise_huge_pages(start, bytes, false);
}

/// Called with each mapping of the executable's own objects, mimalloc among them.
pub fn was_mapped(start: *mut u8, bytes: usize, access: c_int, flags: c_int) {
    const OURS: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // What is reserved without access is opened by pieces; those of guard pages would join no longer.
    let is_open = access & libc::PROT_WRITE != 0;
    let is_large = bytes >= LEAST_MAPPING && is_open && flags & OURS == OURS;
    if is_large && STATE.are_refused.load(Relaxed) && start.cast() != libc::MAP_FAILED {
        refuse(start, bytes);
    }
}

/// Asks for huge pages beneath a block, if the system has them for everything and the block is large.
#[inline]
pub(crate) fn settled(block: *mut u8, bytes: usize) {
    if bytes >= STATE.asked_from.load(Relaxed) {
        let _errno = KeptErrno::new();
        let (start, bytes) = whole_pages(block, bytes);
        advise_huge_pages(start, bytes, true);
    }
}
