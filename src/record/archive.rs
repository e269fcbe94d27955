//! The archive of a directory of `--live`: the files of processes that were killed, once their end was reported.
//!
//! Files are named in an open directory. Nothing here allocates: a forked child archives the files of its siblings.

use crate::file::{read_header, start_in_file};
use pyhost_ledger::header::{Header, Magic};
use pyhost_os::file::{self, Fd, each_name};
use pyhost_os::{calls, path_template::format_into};
use std::{ffi::CStr, os::fd::AsRawFd};

/// How the names of files end.
pub const SUFFIX: &str = ".live";
/// How the names of the files with samples of lines end, each beside its process's.
pub const LINES_SUFFIX: &str = ".lines";
/// How the names of larger files of samples end behind that, until they take the place of the smaller ones.
pub const DRAFT_SUFFIX: &str = ".new";
/// The folder, inside the directory, of the files of processes that were killed, once their end was reported.
pub const ARCHIVE: &str = "killed";
/// How many of the killed are kept, and how many bytes their files may take: the directory is in memory. The latest
/// is kept in any case.
const KEPT: usize = 64;
const ROOM: u64 = 8 << 20;
/// Room for a file's name, and a zero byte.
const NAME: usize = 160;

/// Calls `act` with the name of a file of the process that has the file `name`. None if the name is no such name.
fn with_name<T>(name: &[u8], suffix: &str, act: impl FnOnce(&CStr) -> T) -> Option<T> {
    let stem = str::from_utf8(name).ok()?.strip_suffix(SUFFIX)?;
    let mut room = [0; NAME];
    format_into(&mut room, format_args!("{stem}{suffix}"));
    CStr::from_bytes_until_nul(&room).ok().map(act)
}

/// Reads the header of the file `name` of an open directory. None if it is no host's file of this version.
pub fn header_of(directory: &Fd, name: &[u8]) -> Option<Header> {
    // A pipe of that name must not stop the reader.
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = with_name(name, SUFFIX, |name| Fd::open_in(directory, name, flags))?.ok()?;
    let start = start_in_file(file::status(&file).ok()?.st_size as u64)?;
    read_header(&file, start as u64).filter(|header| header.magic() == Magic::Known)
}

/// Moves the file `name` of an open directory into the archive, and the samples beside it. Returns whether this caller
/// did: of several that try one succeeds.
pub fn put(directory: &Fd, name: &[u8]) -> bool {
    let made = file::make_folder_in(directory, c"killed");
    let Ok(archive) = made.and_then(|()| Fd::folder_in(directory, c"killed")) else {
        return false;
    };
    let moved = |suffix| {
        let (from, to) = (directory.as_raw_fd(), archive.as_raw_fd());
        with_name(name, suffix, |name| {
            calls::renameat(from, name.into(), to, name.into()) == 0
        })
    };
    let is_moved = moved(SUFFIX) == Some(true);
    if is_moved {
        moved(LINES_SUFFIX);
        with_name(name, ".lines.new", |name| file::unlink_in(directory, name));
    }
    is_moved
}

/// Removes the oldest files of a directory's archive, until the rest fits.
pub fn trim(directory: &Fd) {
    let Ok(archive) = Fd::folder_in(directory, c"killed") else {
        return;
    };
    let size = |name: &[u8], suffix| {
        let status = |name: &CStr| file::status_in(&archive, name, libc::AT_SYMLINK_NOFOLLOW);
        let found = with_name(name, suffix, status)?.ok();
        found.map(|found| {
            let time = (found.st_mtime, found.st_mtime_nsec);
            (found.st_blocks as u64 * 512, time)
        })
    };
    loop {
        let (mut count, mut bytes) = (0, 0);
        let mut oldest = None;
        file::rewind(&archive);
        each_name(&archive, |name| {
            let Some((of_file, time)) = size(name, SUFFIX) else {
                return;
            };
            count += 1;
            bytes += of_file + size(name, LINES_SUFFIX).map_or(0, |(bytes, _)| bytes);
            if oldest.is_none_or(|(oldest, _)| time < oldest) {
                let mut kept = [0; NAME];
                kept[..name.len()].copy_from_slice(name); // shorter, since it has a status by this name
                oldest = Some((time, kept));
            }
        });
        let Some((_, name)) = oldest.filter(|_| count > 1 && (count > KEPT || bytes > ROOM)) else {
            return;
        };
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let remove = |name: &CStr| file::unlink_in(&archive, name);
        with_name(name, LINES_SUFFIX, remove);
        if with_name(name, SUFFIX, remove) != Some(true) {
            return; // else for ever
        }
    }
}
