//! Puts the card and the ledger onto memory that others can see, and a forked child's onto its own.
//!
//! The counters are updated as ever, by plain stores: a shared page costs no more. The kernel writes
//! the file, so it is there after SIGKILL and the OOM killer too. Nothing here allocates; in the
//! parent it is called while the process has one thread, in the child before anything is booked.

#![allow(unsafe_code)]

use crate::descriptor::quietly;
use crate::errno::Errno;
use pyhost_ledger::own;
use pyhost_os::mapping::{Mapping, page_size};
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// The pages of the card and the ledger, on this machine.
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
    let length = own::addresses().end - pages.start;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    // SAFETY: pages of structures of atomics alone and of what fills the first page in front of them; nothing is
    // booked between the copy and the mapping, as this module's callers promise. Where it fails nothing was mapped.
    unsafe {
        // Whole: a page that has no room on the disk would be a SIGBUS later.
        quietly(|| {
            let mut done = 0;
            while done < length {
                // After a part, the rest has the system's reason.
                match libc::pwrite(file, start.add(done), length - done, done as libc::off_t) {
                    -1 => return Err(Errno::last()),
                    0 => return Err(Errno(libc::ENOSPC)),
                    written => done += written as usize,
                }
            }
            Ok(())
        })?;
        match libc::mmap(start, pages.len(), access, flags, file, 0) {
            libc::MAP_FAILED => Err(Errno::last()),
            _ => Ok(()),
        }
    }
}

/// Moves both into anonymous memory, shared with later children or not; false where the system
/// refuses.
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
    unsafe {
        std::ptr::copy_nonoverlapping(start.cast::<u8>(), copy.as_ptr(), used);
        libc::mremap(copy.as_ptr().cast(), size, size, flags, start) != libc::MAP_FAILED
    }
}
