//! The log of injected failures: one line each, written at once, so that it is there however the
//! process ends. Does not allocate or wait; any thread.

#![allow(unsafe_code)]

use crate::error::Error;
use crate::ledger::Account;
use crate::process;
use std::ffi::CString;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// Descriptors from here on: the script sees the numbers that it would see without the host.
const FIRST_DESCRIPTOR: libc::c_int = 200;

struct Log {
    descriptor: libc::c_int,
    place: fn(&mut Line),
}

static LOG: OnceLock<Log> = OnceLock::new();

/// A line that is being made; what does not fit is left out.
pub struct Line {
    bytes: [u8; 2048],
    length: usize,
}

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Line {
            bytes: [0; 2048],
            length: 0,
        }
    }

    /// What was added so far.
    #[cfg(test)]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Adds bytes, with `?` for what would end the line.
    pub fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // One place stays for the end of the line.
            if self.length + 1 < self.bytes.len() {
                self.bytes[self.length] = if byte == b'\n' { b'?' } else { byte };
                self.length += 1;
            }
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// Moves a descriptor out of the script's way, and keeps it from programs that are executed.
fn out_of_the_way(descriptor: libc::c_int) -> libc::c_int {
    // SAFETY: a descriptor of ours.
    unsafe {
        let moved = libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
        if moved < 0 {
            return descriptor; // no number that high is allowed
        }
        libc::close(descriptor);
        moved
    }
}

/// Opens the log. `fresh` empties it.
///
/// # Errors
/// It cannot be opened.
pub fn start(path: &Path, fresh: bool, place: fn(&mut Line)) -> Result<(), Error> {
    let refuse = || {
        Error::option(format!(
            "--fail-log: '{}' cannot be written; expected a file that can",
            path.display()
        ))
    };
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| refuse())?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    let fresh = if fresh { libc::O_TRUNC } else { 0 };
    // SAFETY: a path that ends in a zero byte.
    let descriptor = unsafe { libc::open(name.as_ptr(), flags | fresh, 0o666) };
    if descriptor < 0 {
        return Err(refuse());
    }
    let _ = LOG.set(Log {
        descriptor: out_of_the_way(descriptor),
        place,
    });
    Ok(())
}

/// Tells of one injected failure: process, number of the request, account, size, place.
#[inline(never)]
pub fn tell(number: u64, account: Account, size: usize) {
    let Some(log) = LOG.get() else {
        return;
    };
    let errno = crate::descriptor::errno();
    let mut line = Line::new();
    let _ = write!(
        line,
        "{} {number} {} {size} ",
        process::id(),
        account.name()
    );
    (log.place)(&mut line);
    line.bytes[line.length] = b'\n';
    // SAFETY: a buffer of ours and its length, which `Line::add` keeps below the buffer's; errno
    // is the calling thread's own.
    unsafe {
        libc::write(log.descriptor, line.bytes.as_ptr().cast(), line.length + 1);
        *libc::__errno_location() = errno;
    }
}
