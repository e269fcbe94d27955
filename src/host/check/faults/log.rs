//! The log of injected failures: one line each, written at once, so that it is there however the
//! process ends. Does not allocate or wait; any thread.

use crate::descriptor::{format_into, notice, write_quietly};
use crate::errno::{Errno, KeptErrno};
use crate::output::{self, Target};
use crate::{cpython::frames::CallsInALine, ledger::Account, path_template::PathBuffer, process};
use pyhost_os::file::{self, Fd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::{ffi::c_int, os::fd::AsRawFd, os::unix::ffi::OsStrExt, path::Path, sync::OnceLock};

/// Descriptors from here on: the script sees the numbers that it would see without the host.
const FIRST_DESCRIPTOR: c_int = 200;

struct Log {
    path: PathBuffer,
    /// A device or a FIFO, which may have no reader yet.
    is_stream: bool,
    /// There was no such file.
    is_created: bool,
}

pyhost_os::state! {
    /// Where the lines about failed requests go.
    static STATE: FaultLog {
        log: OnceLock<Log> = OnceLock::new(),
        /// The log's descriptor; -1 for a FIFO that nobody reads.
        descriptor: AtomicI32 = AtomicI32::new(-1),
        /// A line could not be written, and that was reported.
        is_reported: AtomicBool = AtomicBool::new(false),
    }
}

/// Opens the log. `fresh` empties it. If that fails the script runs without it, which a notice says.
pub fn start(path: &Path, fresh: bool) {
    let shown = path.as_os_str().as_bytes();
    let path = PathBuffer::of(shown);
    let opened = output::open_or_leave_out("--fail log", shown, path, |path, target| {
        open(path, target, fresh)
    });
    if let Some((log, file)) = opened {
        STATE.descriptor.store(file.map_or(-1, Fd::leak), Relaxed);
        let _ = STATE.log.set(log);
    }
}

fn open(path: PathBuffer, target: Target, fresh: bool) -> Result<(Log, Option<Fd>), Errno> {
    let is_stream = target == Target::Stream;
    let opened = match target {
        // A FIFO is opened once somebody reads it.
        Target::Stream => output::open_stream(path.as_c_str()),
        Target::Descriptor(own) => Fd::copy(&own, FIRST_DESCRIPTOR),
        Target::New | Target::Old => {
            let fresh = if fresh { libc::O_TRUNC } else { 0 };
            let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND;
            Fd::open(path.as_c_str(), flags | fresh)
        }
    };
    let file = match opened {
        Ok(file) => Some(file.moved_up(FIRST_DESCRIPTOR)),
        Err(Errno(libc::ENXIO)) if is_stream => None,
        Err(error) => return Err(error),
    };
    let log = Log {
        path,
        is_stream,
        is_created: target == Target::New,
    };
    Ok((log, file))
}

/// Writes a line, whole or not at all; the first one that cannot be written is reported on standard error.
fn write(log: &Log, line: &[u8]) {
    let mut descriptor = STATE.descriptor.load(Relaxed);
    if descriptor < 0 && log.is_stream {
        let Ok(opened) = output::open_stream(log.path.as_c_str()) else {
            return; // nobody reads it
        };
        let opened = opened.moved_up(FIRST_DESCRIPTOR);
        let put = (STATE.descriptor).compare_exchange(-1, opened.as_raw_fd(), Relaxed, Relaxed);
        descriptor = match put {
            Ok(_) => opened.leak(),
            Err(other) => other, // another thread was first
        };
    }
    let error = match write_quietly(descriptor, line) {
        Ok(written) if written == line.len() => return,
        Ok(written) => {
            take_back(descriptor, written);
            Errno(libc::ENOSPC)
        }
        Err(error) => error,
    };
    if log.is_stream && error == Errno(libc::EPIPE) {
        // The reader has gone; the next one gets the lines that follow. The number stays taken: another
        // thread may be writing.
        STATE.descriptor.store(-1, Relaxed);
        return;
    }
    if log.is_stream && error == Errno(libc::EAGAIN) {
        return; // the reader is slow, and the script does not wait for it
    }
    if !STATE.is_reported.swap(true, Relaxed) {
        if log.is_created && file::status(&descriptor).is_ok_and(|found| found.st_size == 0) {
            let _ = file::unlink(log.path.as_c_str());
        }
        let path = log.path.shown();
        notice(format_args!("--fail log: cannot write '{path}': {error}"));
    }
}

/// Takes back what a full disk took of a line.
fn take_back(descriptor: c_int, written: usize) {
    let end = file::position(&descriptor);
    if let Some(length) = end.and_then(|end| end.checked_sub(written as u64)) {
        let _ = file::truncate(&descriptor, length);
    }
}

/// Writes the line of an injected failure: process, number of the request, account, size, place.
#[inline(never)]
pub fn write_failure(number: u64, account: Account, size: usize) {
    let Some(log) = STATE.log.get() else { return };
    let _errno = KeptErrno::new();
    let (process, name) = (process::id(), account.name());
    let line = format_args!("{process} {number} {name} {size} {CallsInALine}");
    let mut room = [0; 2048];
    let length = format_into(&mut room[..2047], line).len();
    room[length] = b'\n';
    write(log, &room[..=length]);
}
