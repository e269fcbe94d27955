//! Memory outside the heaps in which a pointer keeps a block from being lost: the writable data of
//! every loaded library, the thread-local data and the stack of the calling thread.

#![allow(unsafe_code)]

use super::table::Table;
use crate::heap;
use std::ffi::{c_int, c_void};

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub start: usize,
    pub end: usize,
}

/// Libraries have a few pieces each.
const MOST_RANGES: usize = 1 << 16;

unsafe extern "C" fn add_library(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    ranges: *mut c_void,
) -> c_int {
    // SAFETY: what `dl_iterate_phdr` gives, and the table that `ranges` passed.
    unsafe {
        let (info, ranges) = (&*info, &mut *ranges.cast::<Table<Range>>());
        for index in 0..usize::from(info.dlpi_phnum) {
            let header = &*info.dlpi_phdr.add(index);
            let start = match header.p_type {
                libc::PT_LOAD if header.p_flags & libc::PF_W != 0 => {
                    (info.dlpi_addr + header.p_vaddr) as usize
                }
                libc::PT_TLS if !info.dlpi_tls_data.is_null() => info.dlpi_tls_data.addr(),
                _ => continue,
            };
            let end = start + header.p_memsz as usize;
            ranges.push(Range {
                start: start.next_multiple_of(8),
                end: end & !7,
            });
        }
    }
    0
}

/// The data of the libraries, their thread-local data, and the stack from `top` on.
pub fn ranges(top: *const u8) -> Option<Table<Range>> {
    unsafe extern "C" {
        /// Where the main thread's stack begins (ld.so).
        static __libc_stack_end: *mut c_void;
    }
    let mut ranges = Table::new(MOST_RANGES)?;
    // SAFETY: the function takes this table; a variable of the loader, set before `main`.
    let bottom = unsafe {
        libc::dl_iterate_phdr(Some(add_library), (&raw mut ranges).cast());
        __libc_stack_end.addr()
    };
    let top = top.addr();
    // On another thread's stack the distance is none of a stack.
    if top < bottom && bottom - top < 64 << 20 {
        ranges.push(Range {
            start: top.next_multiple_of(8),
            end: bottom & !7,
        });
    }
    Some(ranges)
}

/// What can be read without a fault, as far as the check needs to know: the libraries' data and the
/// pages of the heaps, freed blocks included.
pub struct Readable<'a>(pub &'a [Range]);

impl Readable<'_> {
    /// Whether `length` bytes at `address`, a multiple of 8, can be read.
    pub fn holds(&self, address: usize, length: usize) -> bool {
        if address == 0 || !address.is_multiple_of(8) {
            return false;
        }
        let Some(last) = address.checked_add(length - 1) else {
            return false;
        };
        let in_library = |range: &Range| range.start <= address && last < range.end;
        let in_heap = |address: usize| {
            let pointer = address as *mut u8;
            heap::is_in_page(pointer) || heap::guards::is_live(address)
        };
        (in_heap(address) && in_heap(last)) || self.0.iter().any(in_library)
    }

    /// The word at `address`.
    pub fn word(&self, address: usize) -> Option<usize> {
        // SAFETY: readable, as was just seen.
        self.holds(address, 8)
            .then(|| unsafe { *(address as *const usize) })
    }
}
