//! Output to an open descriptor without allocation: for reports, from inside signal handlers too,
//! and for what the host says on standard error, a line at a time.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::fmt::{self, Write};

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: errno is the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// A descriptor that is written through a small buffer.
pub struct Descriptor {
    descriptor: c_int,
    buffer: [u8; 1024],
    length: usize,
    error: Option<i32>,
}

impl Descriptor {
    /// Writes to an open descriptor, which stays open.
    pub fn new(descriptor: c_int) -> Self {
        Descriptor {
            descriptor,
            buffer: [0; 1024],
            length: 0,
            error: None,
        }
    }

    /// The first error, as `errno`.
    pub fn error(&self) -> Option<i32> {
        self.error
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) {
        let mut rest = &self.buffer[..self.length];
        while !rest.is_empty() && self.error.is_none() {
            // SAFETY: a buffer of ours and its length.
            let written = unsafe { libc::write(self.descriptor, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) => rest = &rest[written.min(rest.len())..],
                Err(_) if errno() == libc::EINTR => {}
                Err(_) => self.error = Some(errno()),
            }
        }
        self.length = 0;
    }
}

impl Write for Descriptor {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            if self.length == self.buffer.len() {
                self.flush();
            }
            let count = rest.len().min(self.buffer.len() - self.length);
            self.buffer[self.length..self.length + count].copy_from_slice(&rest[..count]);
            self.length += count;
            rest = &rest[count..];
        }
        Ok(())
    }
}

/// Moves a descriptor to the upper end of those that the process may have.
pub fn out_of_the_way(file: c_int) -> c_int {
    // SAFETY: the call fills the structure; a descriptor of the caller's.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let most = limit.rlim_cur.min(1 << 16) as c_int;
        let moved = libc::fcntl(file, libc::F_DUPFD_CLOEXEC, most - 8);
        if moved < 0 {
            return file;
        }
        libc::close(file);
        moved
    }
}

/// Closes descriptors from `first` to `last`.
///
/// # Safety
/// They are this process's alone.
pub unsafe fn close_range(first: c_int, last: c_int) {
    if first > last {
        return;
    }
    // SAFETY: the caller's duty.
    unsafe {
        let (from, to) = (first as libc::c_long, last as libc::c_long);
        if libc::syscall(libc::SYS_close_range, from, to, 0 as libc::c_long) != 0 {
            // Before Linux 5.9.
            for descriptor in first..=last.min(1 << 16) {
                libc::close(descriptor);
            }
        }
    }
}

/// Formats into a buffer of the caller's, cut where it is full.
pub fn format_into<'a>(buffer: &'a mut [u8], text: fmt::Arguments<'_>) -> &'a [u8] {
    struct Cursor<'a>(&'a mut [u8], usize);
    impl Write for Cursor<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let count = text.len().min(self.0.len() - self.1);
            self.0[self.1..self.1 + count].copy_from_slice(&text.as_bytes()[..count]);
            self.1 += count;
            Ok(())
        }
    }
    let mut cursor = Cursor(buffer, 0);
    let _ = cursor.write_fmt(text);
    let length = cursor.1;
    &buffer[..length]
}

/// Says one line of the host's on standard error, or nothing where that cannot be written.
pub fn notice(text: fmt::Arguments<'_>) {
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    let _ = writeln!(out, "pyhost: {text}");
    out.flush();
}
