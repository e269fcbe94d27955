//! Addresses of the process that are known before its mappings are read: the loaded objects'
//! zeroed data, which has mappings without a name, the executable's own range, and a few tables.

#![allow(unsafe_code)]

use super::files;
use super::rows::Row;
use super::scratch::{Array, Extent, Owner};
use crate::heap::bfc::ChunkView;
use std::ffi::{CStr, c_int, c_void};
use std::mem::zeroed;
use std::ops::Range;

/// Collects what the dynamic linker knows; the executable's addresses.
///
/// Takes the linker's lock: not with the gate closed, where another thread may have the lock and
/// wait at the gate.
pub fn add_loaded(extents: &mut Array<'_, Extent>, page: usize) -> Range<usize> {
    struct Found<'a, 'b> {
        extents: &'a mut Array<'b, Extent>,
        executable: Range<usize>,
        is_first: bool,
        page: usize,
    }
    unsafe extern "C" fn each(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the linker passes a description of an object, and what `add_loaded` passed.
        let (object, found) = unsafe { (&*object, &mut *found.cast::<Found<'_, '_>>()) };
        let is_executable = std::mem::take(&mut found.is_first);
        let row = match is_executable || object.dlpi_name.is_null() {
            true => Row::HostTables,
            // SAFETY: a string of the linker's, while it has its lock.
            false => files::row_of(unsafe { CStr::from_ptr(object.dlpi_name) }.to_bytes()),
        };
        let count = usize::from(object.dlpi_phnum);
        // SAFETY: a table of so many headers, in memory that is mapped.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, count) };
        for header in headers.iter().filter(|it| it.p_type == libc::PT_LOAD) {
            let start = object.dlpi_addr as usize + header.p_vaddr as usize;
            let end = start + header.p_memsz as usize;
            let of_file = (start + header.p_filesz as usize).next_multiple_of(found.page);
            let range = of_file..end;
            found.extents.add(range, Owner::Row(row), found.page);
            if is_executable {
                let known = &mut found.executable;
                let first = if known.end == 0 { start } else { known.start };
                *known = first & !(found.page - 1)..end.next_multiple_of(found.page);
            }
        }
        0
    }
    let mut found = Found {
        extents,
        executable: 0..0,
        is_first: true,
        page,
    };
    // SAFETY: `each` has the type that is called, and gets what it casts to.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    found.executable
}

/// Adds the chunks of `--numpy-allocator bfc`, neighbours of one kind together. A memory page of
/// which several have a part is the first one's.
pub fn add_chunks(extents: &mut Array<'_, Extent>, chunks: &[ChunkView], page: usize) {
    let owner = |chunk: &ChunkView| match chunk.allocation {
        Some(_) => Owner::Arrays,
        None => Owner::Row(Row::HeapKept),
    };
    for run in chunks.chunk_by(|one, next| owner(one) == owner(next)) {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let start = first.address.next_multiple_of(page);
        let end = (last.address + last.size).next_multiple_of(page);
        extents.add(start..end, owner(first), page);
    }
}

/// Adds the calling thread's stack for signal handlers, where it is a mapping of its own.
pub fn add_signal_stack(extents: &mut Array<'_, Extent>, page: usize) {
    // SAFETY: fills a structure of ours.
    let stack = unsafe {
        let mut stack: libc::stack_t = zeroed();
        libc::sigaltstack(std::ptr::null(), &mut stack);
        stack
    };
    let (start, is_on) = (stack.ss_sp.addr(), stack.ss_flags & libc::SS_DISABLE == 0);
    if is_on && start.is_multiple_of(page) && stack.ss_size.is_multiple_of(page) {
        let range = start..start + stack.ss_size;
        extents.add(range, Owner::Row(Row::SignalStack), page);
    }
}

/// The size that libc gives a thread's stack, its guard included, and that of the guard.
pub fn default_stack() -> (usize, usize) {
    // SAFETY: fills a structure of ours, which is then asked and given up.
    unsafe {
        let mut attributes: libc::pthread_attr_t = zeroed();
        let (mut stack, mut guard) = (0, 0);
        if pthread_getattr_default_np(&mut attributes) == 0 {
            libc::pthread_attr_getstacksize(&attributes, &mut stack);
            libc::pthread_attr_getguardsize(&attributes, &mut guard);
            libc::pthread_attr_destroy(&mut attributes);
        }
        (stack, guard)
    }
}

unsafe extern "C" {
    /// Of glibc and musl; not in the `libc` crate.
    fn pthread_getattr_default_np(attributes: *mut libc::pthread_attr_t) -> c_int;
}
