//! The memory limit that a control group sets for this process, and what counts against it.
//!
//! [`group`] reads at start, on the main thread, and may allocate; [`Watch`] and [`own`] are for later, from any
//! thread. Nothing here writes to a group. The files are those of the kernel's `admin-guide/cgroup-v1/memory.rst` and
//! `admin-guide/cgroup-v2.rst`; where they are mounted is read from `/proc/self/mountinfo`, never assumed.
//!
//! A group's limit also binds the groups below it, so the lowest on the way up holds. `memory.high`
//! counts as a limit: beyond it a process is not killed, but anonymous memory cannot be reclaimed
//! and the process does little but wait. Limits above the group that a container shows as its
//! root cannot be seen; under version 1 `memory.stat` has them all the same.

#![deny(unsafe_code)]
mod mounts;
mod watch;

#[cfg(test)]
mod tests;

pub use watch::{Watch, own};

use crate::{bytes::Bytes, file, process::small_file};
use mounts::Group;
use std::path::{Path, PathBuf};
use std::{ffi::CStr, fmt, fs};

/// From here on a number in `memory.limit_in_bytes` means that there is no limit: the kernel
/// writes 2^63 rounded down to whole pages.
const UNLIMITED: u64 = 1 << 60;

/// The two interfaces of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// The unified hierarchy.
    V2,
}

impl Version {
    /// The files of a group that set a limit.
    fn limits(self) -> &'static [&'static str] {
        match self {
            Version::V1 => &["memory.limit_in_bytes"],
            Version::V2 => &["memory.max", "memory.high"],
        }
    }
}

/// Where version 1 has the lowest limit of a group and its ancestors.
const OF_ALL: &str = "hierarchical_memory_limit in memory.stat";

/// The lowest memory limit that binds this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLimit {
    /// Bytes, at least 0 and at most 2^60, which stands for none.
    pub bytes: u64,
    /// The interface that it was read through.
    pub version: Version,
    /// The file and, if that holds several numbers, which.
    name: &'static str,
    folder: PathBuf,
}

/// Displays as `128.0 MiB (memory.max of /sys/fs/cgroup/app)`.
impl fmt::Display for GroupLimit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(out, self.bytes, self.name)
    }
}

impl GroupLimit {
    fn write(&self, out: &mut fmt::Formatter<'_>, bytes: u64, name: &str) -> fmt::Result {
        let (limit, folder) = (Bytes(bytes), self.folder.display());
        write!(out, "{limit} ({name} of {folder})")
    }
}

/// The lowest memory limit among this process's groups and their ancestors; if none has one, that of the nearest group. Returns `None` if
/// the process is in no memory cgroup, or if its files are not readable. May exceed the machine's memory. Allocates.
pub fn group() -> Option<GroupLimit> {
    group_below(Path::new("/"))
}

/// As [`group`], of a system whose `/proc/self` and mounts lie below `root`.
fn group_below(root: &Path) -> Option<GroupLimit> {
    let groups = mounts::groups(root);
    // With equal limits the nearest group's: what counts against it is what this process and its relatives have.
    let limits = groups.iter().flat_map(limits);
    limits.min_by_key(|found| found.bytes)
}

/// All limits that bind a process of the group, the nearest first. Ends below the first ancestor that is not charged for its
/// descendants, as version 1 has them.
fn limits(group: &Group) -> Vec<GroupLimit> {
    let mut found = Vec::new();
    let at = |name, folder: &Path, bytes| GroupLimit {
        bytes,
        version: group.version,
        name,
        folder: folder.to_owned(),
    };
    let mut nearest: Option<&Path> = None;
    for folder in group.folders() {
        if nearest.is_some() && number(folder, "memory.use_hierarchy") == Some(0) {
            break;
        }
        let limit = |&name| Some(at(name, folder, number(folder, name)?));
        found.extend(group.version.limits().iter().filter_map(limit));
        if nearest.is_none() && folder.is_dir() {
            nearest = Some(folder);
        }
    }
    // Last, so that it stands only for limits that no file above has: that of ancestors out of sight, in version 1.
    let statistics = nearest.and_then(|folder| fs::read(folder.join("memory.stat")).ok());
    let limit_of_all = statistics.and_then(|text| limit_of_all(&text));
    if let (Some(folder), Some(bytes)) = (nearest, limit_of_all) {
        found.push(at(OF_ALL, folder, bytes));
    }
    found
}

/// The files that count out-of-memory kills, of version 1 and 2.
const EVENTS: [&str; 2] = ["memory.oom_control", "memory.events"];

/// The file that counts the out-of-memory kills of the nearest memory cgroup that has one. Allocates.
pub fn events() -> Option<PathBuf> {
    let groups = mounts::groups(Path::new("/"));
    let files = groups.iter().flat_map(|group| {
        let name = EVENTS[usize::from(group.version == Version::V2)];
        group.folders().map(move |folder| folder.join(name))
    });
    files.into_iter().find(|path| path.is_file())
}

/// How many processes the kernel has killed for want of memory in the group with that file. None if it does not say.
pub fn out_of_memory_kills(events: &CStr) -> Option<u64> {
    // Opening another file might have effects: the path may be forged.
    let name = events.to_bytes().rsplit(|&byte| byte == b'/').next()?;
    EVENTS.iter().find(|it| it.as_bytes() == name)?;
    let mode = file::status_of(events, 0).ok()?.st_mode;
    let mut text = [0; 512];
    let is_regular = mode & libc::S_IFMT == libc::S_IFREG;
    let text = is_regular.then(|| small_file::read_once(events, &mut text))?;
    watch::field(text?, b"oom_kill")
}

/// The number in a file of a group; None if there is no such file or number.
fn number(folder: &Path, name: &str) -> Option<u64> {
    limit_in(&fs::read(folder.join(name)).ok()?)
}

/// The limit that version 1's `memory.stat` tells of a group and its ancestors.
fn limit_of_all(statistics: &[u8]) -> Option<u64> {
    let bytes = watch::field(statistics, b"hierarchical_memory_limit")?;
    Some(bytes.min(UNLIMITED))
}

fn limit_in(text: &[u8]) -> Option<u64> {
    match text.trim_ascii() {
        b"max" => Some(UNLIMITED),
        text => Some(small_file::number::<u64>(text)?.min(UNLIMITED)),
    }
}
