//! Puts the header and the ledger onto memory that others can see, and a forked child's onto its own.
//!
//! The counters are updated as ever, by plain stores: a shared page costs no more. The kernel writes
//! the file, so it is there after SIGKILL and the OOM killer too. Nothing here allocates; in the
//! parent it is called while the process has one thread, in the child before anything is booked.
//!
//! Whoever makes the file shorter takes the pages away, and the next access is a SIGBUS. So a copy is kept ([`keep`]), a tenth
//! of a second old at most while the process allocates, which takes their place ([`restore`]).

#![allow(unsafe_code)]

use crate::ledger::{LEDGER, Ledger};
use crate::{descriptor::quietly, errno::Errno};
use pyhost_ledger::own;
use pyhost_os::file::write_memory;
use pyhost_os::mapping::{Mapping, Shared, empty, page_size};
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::{hint, ops::Range, ptr::with_exposed_provenance, slice};

/// The pages of the header and the ledger, on this machine.
fn pages() -> Option<Range<usize>> {
    own::pages(page_size() as usize)
}

/// Whether the structures can be mapped on pages of this machine's size.
pub fn is_possible() -> bool {
    pages().is_some()
}

/// Writes both to a file and maps them onto it. The file ends with the ledger, but not with a page.
///
/// # Errors
/// The system's reason; then both lie in the process's own memory.
pub fn onto_file(file: c_int) -> Result<(), Errno> {
    let pages = pages().ok_or(Errno(libc::EINVAL))?;
    let start = pages.start as *mut c_void;
    // Whole: a page that has no room on the disk would be a SIGBUS later.
    quietly(|| write_memory(&file, pages.start..own::addresses().end))?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: pages of structures of atomics alone and of what fills the first page in front of them; nothing is
    // booked between the copy and the mapping, as this module's callers promise. If it fails nothing was mapped.
    unsafe {
        if libc::mmap(start, pages.len(), access, flags, file, 0) == libc::MAP_FAILED {
            return Err(Errno::last());
        }
    }
    if PAGES.copies.load(Relaxed) == 0
        && let Some(copies) = Mapping::reserve(2 * pages.len())
    {
        PAGES.copies.store(copies.leak().addr().get(), Relaxed);
    }
    keep();
    PAGES.state.store(IN_FILE, Release);
    Ok(())
}

pyhost_os::state! {
    /// Where the pages of header and ledger are.
    static PAGES: LedgerPages {
        /// The address of two copies of the pages, of which the second is used when it takes their place; 0 if there are none.
        copies: AtomicUsize = AtomicUsize::new(0),
        /// The pages of the file of the samples: the first, and their bytes.
        lines: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2],
        /// Where the record lies: one of the three below.
        state: AtomicU8 = AtomicU8::new(IN_MEMORY),
    }
}
const IN_MEMORY: u8 = 0;
const IN_FILE: u8 = 1;
const LEAVES_FILE: u8 = 2;

/// Whether the record lies in a file, which somebody may make shorter.
pub fn is_in_file() -> bool {
    PAGES.state.load(Acquire) == IN_FILE
}

/// Copies words that are not equal already: pages of zeros stay untouched.
fn copy(from: usize, to: usize, bytes: usize) {
    let words = |address: usize| {
        let start = with_exposed_provenance::<AtomicU64>(address);
        // SAFETY: mapped pages that stay mapped, of which every pattern of bits is a number; whoever stores there stores
        // atomically.
        unsafe { slice::from_raw_parts(start, bytes / 8) }
    };
    for (from, to) in words(from).iter().zip(words(to)) {
        let word = from.load(Relaxed);
        if word != to.load(Relaxed) {
            to.store(word, Relaxed);
        }
    }
}

/// Takes the copy. Any thread, also inside the allocator.
pub fn keep() {
    let (Some(pages), copies) = (pages(), PAGES.copies.load(Relaxed)) else {
        return;
    };
    // A file that was made shorter, and longer again, has zeros, which are no SIGBUS.
    let is_lost = is_in_file() && !LEDGER.has_magic();
    if copies != 0 && !(is_lost && super::goes_on_without_file(pages.start)) {
        copy(pages.start, copies, pages.len());
    }
}

/// Puts the copy in the place of the pages, if `address` is one of theirs and they were in a file that is gone. Returns whether
/// this call did, and not one of another thread; `None` if an access there cannot be tried again. Any thread, in a signal
/// handler; what was counted since the copy is lost.
pub fn restore(address: usize) -> Option<bool> {
    let pages = pages().filter(|pages| pages.contains(&address))?;
    let copies = PAGES.copies.load(Relaxed);
    let state = &PAGES.state;
    let left = state.compare_exchange(IN_FILE, LEAVES_FILE, AcqRel, Acquire);
    if left.is_err() {
        while PAGES.state.load(Acquire) == LEAVES_FILE {
            hint::spin_loop(); // another thread is at it
        }
        return Some(false);
    }
    if copies == 0 {
        PAGES.state.store(IN_MEMORY, Release);
        return None;
    }
    let (size, second) = (pages.len(), copies + pages.len());
    copy(copies, second, size);
    let ledger = second + (own::addresses().start - pages.start) + own::LEDGER_AT;
    // SAFETY: the second copy of a ledger, which nobody else knows.
    unsafe { &*with_exposed_provenance::<Ledger>(ledger) }.leave_all();
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: as in `onto_file`; the copy is mapped over the structures in one step. The system call, since the exported
    // function takes a lock.
    let result = unsafe { libc::syscall(libc::SYS_mremap, second, size, size, flags, pages.start) };
    let is_done = result as usize == pages.start;
    if is_done {
        // The first copy stays: another thread may be writing it.
        PAGES.copies.store(0, Relaxed);
    }
    PAGES.state.store(IN_MEMORY, Release);
    is_done.then_some(true)
}

/// Moves both into anonymous memory, shared with later children or not; false if the system refuses.
pub fn onto_memory(shared: bool) -> bool {
    let Some(pages) = pages() else { return false };
    let (start, size) = (pages.start as *mut c_void, pages.len());
    let copy = match shared {
        true => Mapping::shared(size),
        false => Mapping::private(size),
    };
    let Some(copy) = copy.map(Mapping::leak) else {
        return false;
    };
    let used = own::addresses().end - pages.start;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: as in `onto_file`; the copy is mapped over the structures in one step.
    let is_done = unsafe {
        std::ptr::copy_nonoverlapping(start.cast::<u8>(), copy.as_ptr(), used);
        libc::mremap(copy.as_ptr().cast(), size, size, flags, start) != libc::MAP_FAILED
    };
    // Not before: a file that is made shorter meanwhile is `restore`'s matter.
    if is_done {
        PAGES.state.store(IN_MEMORY, Relaxed);
    }
    is_done
}

/// The samples have these pages, until [`forget_lines`].
pub(super) fn keep_lines(pages: &Shared<AtomicU64>) {
    let addresses = pages.addresses();
    let bytes = addresses.len().next_multiple_of(page_size() as usize);
    PAGES.lines[0].store(addresses.start, Relaxed);
    PAGES.lines[1].store(bytes, Relaxed);
}

/// The samples have given the file's pages up: what is mapped there from now on is not theirs. So it is in a forked child.
pub(super) fn forget_lines() {
    PAGES.lines[1].store(0, Relaxed);
}

/// Puts empty pages in the place of the file's, if `address` is one of theirs: what is written there is for other processes,
/// which do not find it any more until the file is renewed. In the handler of SIGBUS.
pub(super) fn lines_go_on(address: usize) -> bool {
    let [start, bytes] = PAGES.lines.each_ref().map(|place| place.load(Relaxed));
    // SAFETY: pages that the samples own, and write atomic words to. While they give them up no signal comes.
    (start..start + bytes).contains(&address) && unsafe { empty(start, bytes) }
}
