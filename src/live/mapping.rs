//! Puts the card and the ledger onto memory that others can see, and a forked child's onto its own.
//!
//! The counters are updated as ever, by plain stores: a shared page costs no more. The kernel writes
//! the file, so it is there after SIGKILL and the OOM killer too. Nothing here allocates; in the
//! parent it is called while the process has one thread, in the child before anything is booked.

#![allow(unsafe_code)]

use crate::card::{CARD, Card};
use crate::descriptor::quietly;
use crate::errno::Errno;
use crate::ledger::{LEDGER, Ledger};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

const PARTS: [usize; 2] = [size_of::<Card>(), size_of::<Ledger>()];

/// Where the card and the ledger lie.
fn addresses() -> [*mut c_void; 2] {
    [
        (&raw const CARD).cast_mut().cast(),
        (&raw const LEDGER).cast_mut().cast(),
    ]
}

/// Whether the structures fill whole pages of this machine.
pub fn is_possible() -> bool {
    let page = crate::process::page_size() as usize;
    PARTS.iter().all(|part| part.is_multiple_of(page))
}

/// Writes both to a file and maps them onto it.
///
/// # Errors
/// The system's reason; then both lie in the process's own memory.
pub fn onto_file(file: c_int) -> Result<(), Errno> {
    let mapped = quietly(|| write_to(file)).and_then(|()| map_onto(file));
    mapped.inspect_err(|_| {
        // The first part may have been mapped.
        onto_memory(false);
    })
}

/// Writes both to a file, whole: a page that has no room on the disk would be a SIGBUS later.
fn write_to(file: c_int) -> Result<(), Errno> {
    let mut offset = 0;
    for (address, size) in addresses().into_iter().zip(PARTS) {
        // SAFETY: structures of atomics alone.
        match unsafe { libc::pwrite(file, address, size, offset) } {
            -1 => return Err(Errno::last()),
            written if written as usize == size => offset += size as libc::off_t,
            _ => return Err(Errno(libc::ENOSPC)),
        }
    }
    Ok(())
}

fn map_onto(file: c_int) -> Result<(), Errno> {
    let mut offset = 0;
    for (address, size) in addresses().into_iter().zip(PARTS) {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: structures of atomics alone that lie on pages of their own, which the file holds;
        // nothing is booked between the copy and the mapping, as this module's callers promise.
        unsafe {
            if libc::mmap(address, size, access, flags, file, offset) == libc::MAP_FAILED {
                return Err(Errno::last());
            }
        }
        offset += size as libc::off_t;
    }
    Ok(())
}

/// Moves both into anonymous memory, shared with later children or not; false where the system
/// refuses.
pub fn onto_memory(shared: bool) -> bool {
    addresses().into_iter().zip(PARTS).all(|(address, size)| {
        // SAFETY: as in `onto_file`; the copy is mapped over the structure in one step.
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
            std::ptr::copy_nonoverlapping(address.cast::<u8>(), copy.cast(), size);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            libc::mremap(copy, size, size, flags, address) != libc::MAP_FAILED
        }
    })
}
