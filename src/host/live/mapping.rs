//! Puts the card and the ledger onto memory that others can see, and a forked child's onto its own.
//!
//! The counters are updated as ever, by plain stores: a shared page costs no more. The kernel writes
//! the file, so it is there after SIGKILL and the OOM killer too. Nothing here allocates; in the
//! parent it is called while the process has one thread, in the child before anything is booked.

#![allow(unsafe_code)]

use crate::descriptor::quietly;
use crate::errno::Errno;
use pyhost_ledger::own;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;

/// The pages of the card and the ledger, on this machine.
fn pages() -> Option<Range<usize>> {
    own::pages(crate::process::page_size() as usize)
}

/// Whether the structures can be mapped on pages of this machine's size.
pub fn is_possible() -> bool {
    pages().is_some()
}

/// Writes both to a file and maps them onto it.
///
/// # Errors
/// The system's reason; then both lie in the process's own memory.
pub fn onto_file(file: c_int) -> Result<(), Errno> {
    let pages = pages().ok_or(Errno(libc::EINVAL))?;
    quietly(|| write_to(file, &pages)).and_then(|()| map_onto(file, &pages))
}

/// Writes both to a file, whole: a page that has no room on the disk would be a SIGBUS later. The file
/// ends with the ledger, but not with a page.
fn write_to(file: c_int, pages: &Range<usize>) -> Result<(), Errno> {
    let length = own::addresses().end - pages.start;
    // SAFETY: structures of atomics alone, and what fills the first page in front of them.
    match unsafe { libc::pwrite(file, pages.start as *const c_void, length, 0) } {
        -1 => Err(Errno::last()),
        written if written as usize == length => Ok(()),
        _ => Err(Errno(libc::ENOSPC)),
    }
}

fn map_onto(file: c_int, pages: &Range<usize>) -> Result<(), Errno> {
    let start = pages.start as *mut c_void;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: pages of structures of atomics alone and of nothing else, which the file holds; nothing is
    // booked between the copy and the mapping, as this module's callers promise. Where it fails nothing
    // was mapped.
    match unsafe { libc::mmap(start, pages.len(), access, flags, file, 0) } {
        libc::MAP_FAILED => Err(Errno::last()),
        _ => Ok(()),
    }
}

/// Moves both into anonymous memory, shared with later children or not; false where the system
/// refuses.
pub fn onto_memory(shared: bool) -> bool {
    let Some(pages) = pages() else { return false };
    let (start, size) = (pages.start as *mut c_void, pages.len());
    // SAFETY: as in `onto_file`; the copy is mapped over the structures in one step.
    unsafe {
        let kind = match shared {
            true => libc::MAP_SHARED,
            false => libc::MAP_PRIVATE,
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let copy = libc::mmap(null_mut(), size, access, kind | libc::MAP_ANONYMOUS, -1, 0);
        if copy == libc::MAP_FAILED {
            return false;
        }
        let used = own::addresses().end - pages.start;
        std::ptr::copy_nonoverlapping(start.cast::<u8>(), copy.cast(), used);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        libc::mremap(copy, size, size, flags, start) != libc::MAP_FAILED
    }
}
