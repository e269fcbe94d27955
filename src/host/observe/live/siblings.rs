//! In a forked child: the files of its parent's other children that were killed.
//!
//! A server lives for months and replaces workers that are killed. No program starts meanwhile that would clear their
//! files, which are in memory; so the worker that is forked next does. Nothing here allocates.

use super::{MOST_NAMED, Names};
use crate::path_template::PathBuffer;
use crate::{descriptor::notice, errno::Errno, header::ProcessState, ledger::HEADER};
use pyhost_os::file::{Fd, each_name};
use pyhost_os::{bytes::Bytes, calls, signals::STOPS};
use pyhost_record::{Killed, archive, was_killed};
use std::sync::atomic::Ordering::Relaxed;

/// Puts the files into the archive, with a line for the first few. The process's own file has its name, and need not be there.
pub fn archive(names: &Names) {
    let own = names.own.as_bytes();
    let at = own.iter().rposition(|&byte| byte == b'/').unwrap_or(0) + 1;
    // A file's name as far as all processes of a boot and pid namespace share it.
    let end = (at..own.len()).filter(|&at| own[at] == b'-').nth(1);
    let (Some(folder), Some(prefix)) = (open_folder(own), end.map(|end| &own[at..=end])) else {
        return;
    };
    let (mut is_any, mut reported) = (false, 0);
    each_name(&folder, |name| {
        let is_killed = name.strip_prefix(prefix).and_then(pid).is_some_and(is_gone);
        if is_killed && archive_one(&folder, name, &mut reported) {
            is_any = true;
        }
    });
    if is_any {
        archive::trim(&folder);
    }
    if reported > MOST_NAMED {
        let more = reported - MOST_NAMED;
        notice(format_args!("{more} more siblings were killed"));
    }
}

// A function of its own: its paths are not on the stack with the rest.
#[inline(never)]
fn open_folder(file: &[u8]) -> Option<Fd> {
    let folder = PathBuffer::of(file)?.folder();
    Fd::open(folder.as_c_str(), libc::O_RDONLY | libc::O_DIRECTORY).ok()
}

fn pid(rest: &[u8]) -> Option<i32> {
    let digits = rest.split(|&byte| byte == b'-').next()?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Whether no process has that id. If another has it by now, a later child finds the file.
fn is_gone(pid: i32) -> bool {
    calls::kill(pid, 0) == -1 && Errno::last() == Errno(libc::ESRCH)
}

#[inline(never)]
fn archive_one(folder: &Fd, name: &[u8], reported: &mut usize) -> bool {
    let Some(header) = archive::header_of(folder, name) else {
        return false;
    };
    let is_sibling = header.parent.load(Relaxed) == HEADER.parent.load(Relaxed);
    if !is_sibling || !was_killed(&header) || !archive::put(folder, name) {
        return false;
    }
    // That of a pool or a server that stops its workers is no news.
    let (state, signal) = header.state();
    let is_asked = state == ProcessState::Signalled && STOPS.contains(&signal);
    *reported += usize::from(!is_asked);
    if is_asked || *reported > MOST_NAMED {
        return true;
    }
    let pid = header.pid.load(Relaxed);
    let peak = header.last_resident().1.unwrap_or(0);
    notice(format_args!(
        "process {pid}, a sibling, {} with a resident peak of {}; `pyhostctl report --text {pid}` has its last counters",
        Killed(&header),
        Bytes(peak)
    ));
    true
}
