//! The limits that the caller set for the process (`ulimit`), as far as they reach what the host does.
//! Nothing here allocates.

use crate::calls::{self, Limit, Resource};
use crate::errno::KeptErrno;
use crate::mapping::{FromZeros, page_size};
use crate::process::{pages_of_statm, small_file};

/// Less than this is too little for a Python whose memory comes from mimalloc: its heaps begin with a few MiB while
/// `malloc` begins with some KiB.
const LEAST_DATA: u64 = 32 << 20;
/// The same for addresses. The host starts with 30 MiB, stock Python with 17.
const LEAST_ADDRESSES: u64 = 64 << 20;

/// A limit in bytes, and the option of `ulimit` that sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ulimit {
    /// Such as `ulimit -d`.
    pub command: &'static str,
    /// The soft limit.
    pub bytes: u64,
}

/// Bytes that the process may map, of any memory or of private writable memory; `None` if neither is limited.
pub fn of_memory() -> Option<u64> {
    let limits = [libc::RLIMIT_AS, libc::RLIMIT_DATA];
    limits.into_iter().filter_map(bytes).min()
}

/// What a limit on memory leaves, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub limit: u64,
    /// What the process may still map; 0 if the system does not say.
    pub left: u64,
}

/// The least room that a limit on memory leaves; `None` if there is none. Keeps `errno`.
pub fn room() -> Option<Room> {
    of_memory()?;
    let _errno = KeptErrno::new();
    let mut text = [0; 160];
    let text = small_file::read_once(c"/proc/self/statm", &mut text).unwrap_or_default();
    // The fields are those of all addresses and of private writable memory.
    let limits = [(libc::RLIMIT_AS, 0), (libc::RLIMIT_DATA, 5)].into_iter();
    let rooms = limits.filter_map(|(resource, field)| {
        let limit = bytes(resource)?;
        let mapped = pages_of_statm(text, field).map(|pages| pages * page_size());
        let left = limit.saturating_sub(mapped.unwrap_or(limit));
        Some(Room { limit, left })
    });
    rooms.min_by_key(|room| room.left)
}

/// The limit that leaves too little for heaps of the host's own, if there is one.
pub fn too_tight() -> Option<Ulimit> {
    let limits = [
        ("ulimit -d", libc::RLIMIT_DATA, LEAST_DATA),
        ("ulimit -v", libc::RLIMIT_AS, LEAST_ADDRESSES),
    ];
    limits.into_iter().find_map(|(command, resource, least)| {
        let bytes = bytes(resource).filter(|bytes| *bytes < least)?;
        Some(Ulimit { command, bytes })
    })
}

/// The limit of a resource that has none (`RLIM64_INFINITY`).
pub(crate) const NO_LIMIT: u64 = u64::MAX;

/// The soft limit of a resource in bytes, `None` if it is unlimited.
pub fn bytes(resource: Resource) -> Option<u64> {
    Some(soft(resource)).filter(|&limit| limit != NO_LIMIT)
}

/// A soft limit, as the system has it.
pub(crate) fn soft(resource: Resource) -> u64 {
    let mut limit = Limit::zeroed();
    calls::getrlimit(resource, &mut limit);
    limit.rlim_cur
}
