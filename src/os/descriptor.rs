//! Output to an open descriptor without allocation: for reports, from inside signal handlers too,
//! and for what the host says on standard error, a line at a time.

use crate::errno::{Errno, KeptErrno};
use crate::file::{self, Fd};
use crate::{calls, process::limits::soft, signals::SignalSet, terminal_text::PlainWriter};
pub use crate::{errno::errno, path_template::format_into};
use std::ffi::{CStr, c_int};
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A descriptor that is written through a small buffer.
pub struct Descriptor {
    descriptor: c_int,
    buffer: [u8; 1024],
    length: usize,
    error: Option<Errno>,
    /// Bytes that were written so far.
    written: u64,
    /// Milliseconds that a reader may take to make room.
    patience: c_int,
}

/// How long a full pipe is waited for, in milliseconds, if its descriptor does not wait itself.
const PATIENCE: c_int = 5000;

impl Descriptor {
    /// Writes to an open descriptor, which stays open.
    pub fn new(descriptor: c_int) -> Self {
        Descriptor {
            descriptor,
            buffer: [0; 1024],
            length: 0,
            error: None,
            written: 0,
            patience: PATIENCE,
        }
    }

    /// Makes a pipe that stays full for so many milliseconds an error.
    pub fn with_patience(self, milliseconds: c_int) -> Self {
        Descriptor {
            patience: milliseconds,
            ..self
        }
    }

    /// Writes what is buffered; how many bytes were written in all, or the first error.
    pub fn finish(&mut self) -> Result<u64, Errno> {
        self.flush();
        self.error.map_or(Ok(self.written), Err)
    }

    /// Writes bytes, which may be no text.
    pub fn write_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.length == self.buffer.len() {
                self.flush();
            }
            let count = rest.len().min(self.buffer.len() - self.length);
            self.buffer[self.length..self.length + count].copy_from_slice(&rest[..count]);
            self.length += count;
            rest = &rest[count..];
        }
    }

    pub fn flush(&mut self) {
        let mut rest = &self.buffer[..self.length];
        while !rest.is_empty() && self.error.is_none() {
            match write_quietly(self.descriptor, rest) {
                Ok(written) => {
                    self.written += written as u64;
                    rest = &rest[written.min(rest.len())..];
                }
                Err(Errno(libc::EINTR)) => {}
                Err(Errno(libc::EAGAIN)) if has_room(self.descriptor, self.patience) => {}
                Err(error) => self.error = Some(error),
            }
        }
        self.length = 0;
    }
}

impl Write for Descriptor {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_bytes(text.as_bytes());
        Ok(())
    }
}

/// Waits until a descriptor takes more bytes; false if it does not in so many milliseconds.
fn has_room(descriptor: c_int, milliseconds: c_int) -> bool {
    let mut polls = [file::awaited(descriptor, libc::POLLOUT)];
    file::wait(&mut polls, milliseconds as u64 * 1_000_000) != Ok(0)
}

/// Calls `act`, which writes to a file, without the signals that a write sends: SIGPIPE if nobody
/// reads a pipe, SIGXFSZ if a file may not grow (`ulimit -f`). The default of both ends the
/// process, and a script's handler must not run for what the host writes.
pub fn quietly<T>(act: impl FnOnce() -> T) -> T {
    const OF_WRITES: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];
    let mut sent = SignalSet::of(&OF_WRITES);
    let before = sent.block();
    // One that is pending already is the script's.
    let pending = SignalSet::pending();
    let done = act();
    let _errno = KeptErrno::new();
    for signal in OF_WRITES
        .into_iter()
        .filter(|&signal| pending.contains(signal))
    {
        sent.remove(signal);
    }
    // The signals are sent to the thread that writes.
    sent.receive_pending();
    before.make_mask();
    done
}

/// Writes bytes without the signals of [`quietly`]; how many were written.
pub fn write_quietly(descriptor: c_int, bytes: &[u8]) -> Result<usize, Errno> {
    quietly(|| file::write(&descriptor, bytes))
}

/// Makes a file in memory that may grow to so many bytes; `EFBIG` if a file may not (`ulimit -f`).
pub fn in_memory_of(name: &CStr, bytes: u64) -> Result<Fd, Errno> {
    match soft(libc::RLIMIT_FSIZE) < bytes {
        true => Err(Errno(libc::EFBIG)),
        false => Fd::in_memory(name),
    }
}

/// Moves a descriptor to one of the highest numbers that the process may use, away from those of scripts.
pub fn out_of_the_way(file: Fd) -> Fd {
    let most = soft(libc::RLIMIT_NOFILE).min(1 << 16) as c_int;
    file.moved_up(most - 8)
}

/// Whether the process shares its standard error with other hosts: it is forked, or was started by one. A static, since a
/// notice comes from everywhere, with nothing but its text.
static IS_ONE_OF_SEVERAL: AtomicBool = AtomicBool::new(false);

/// Makes the lines of this process name it from now on.
pub fn name_process() {
    IS_ONE_OF_SEVERAL.store(true, Relaxed);
}

/// Begins a line of the host's: displays as `pyhost: `, with the process id if others may write to the same place.
pub struct Speaker;

impl fmt::Display for Speaker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match IS_ONE_OF_SEVERAL.load(Relaxed) {
            true => write!(out, "pyhost[{}]: ", calls::getpid()),
            false => out.write_str("pyhost: "),
        }
    }
}

/// Says one line of the host's on standard error, or nothing if that cannot be written. Whatever names are in it, it is
/// one line of letters.
pub fn notice(text: fmt::Arguments<'_>) {
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    let _ = write!(PlainWriter(&mut out), "{Speaker}{text}");
    out.write_bytes(b"\n");
    out.flush();
}
