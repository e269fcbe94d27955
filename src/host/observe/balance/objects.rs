//! Addresses of the process that are known before its mappings are read: the loaded objects'
//! zeroed data, which has mappings without a name, the executable's own range, and a few tables.

use super::rows::{Row, row_of};
use super::scratch::{Extents, Owner, add};
use crate::{heap::bfc::ChunkView, ledger::Account, process::loaded};
use pyhost_os::signals::handler_stack;
use std::ops::Range;

/// Collects what the dynamic linker knows; the executable's addresses.
///
/// Takes the linker's lock: not with the gate closed, when another thread may have the lock and wait at the gate.
pub fn add_loaded(extents: &mut Extents<'_>, page: usize) -> Range<usize> {
    let mut executable = 0..0;
    let mut is_executable = true;
    loaded::each(|object| {
        let row = match is_executable {
            true => Row::HostTables,
            false => row_of(object.path),
        };
        for segment in object.segments().filter(|it| it.kind == libc::PT_LOAD) {
            let Range { start, end } = segment.addresses;
            let of_file = segment.file_end.next_multiple_of(page);
            add(extents, of_file..end, Owner::Row(row), page);
            if is_executable {
                let first = if executable.end == 0 {
                    start
                } else {
                    executable.start
                };
                executable = first & !(page - 1)..end.next_multiple_of(page);
            }
        }
        is_executable = false;
    });
    executable
}

/// Adds the chunks of `--numpy bfc`, neighbours of one kind together. A memory page of
/// which several have a part is the first one's.
pub fn add_chunks(extents: &mut Extents<'_>, chunks: &[ChunkView], page: usize) {
    let owner = |chunk: &ChunkView| match chunk.allocation {
        Some(_) => Owner::Account(Account::Numpy),
        None => Owner::Row(Row::HeapKept),
    };
    for run in chunks.chunk_by(|one, next| owner(one) == owner(next)) {
        let (first, last) = (&run[0], &run[run.len() - 1]);
        let start = first.address.next_multiple_of(page);
        let end = (last.address + last.size).next_multiple_of(page);
        add(extents, start..end, owner(first), page);
    }
}

/// Adds the calling thread's stack for signal handlers, if it is a mapping of its own.
pub fn add_signal_stack(extents: &mut Extents<'_>, page: usize) {
    let stack = handler_stack();
    let (start, is_on) = (stack.ss_sp.addr(), stack.ss_flags & libc::SS_DISABLE == 0);
    if is_on && start.is_multiple_of(page) && stack.ss_size.is_multiple_of(page) {
        let range = start..start + stack.ss_size;
        add(extents, range, Owner::Row(Row::SignalStack), page);
    }
}
