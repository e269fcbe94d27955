//! The system's error numbers in words, without allocation: for messages from signal handlers too.

use crate::calls;
use std::fmt::{self, Display};

/// An error number of the system. Displays as the words of the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `strerror` may load a translation, and so may allocate and lock.
        let words = match self.0 {
            libc::EPERM => "Operation not permitted",
            libc::ENOENT => "No such file or directory",
            libc::EIO => "Input/output error",
            libc::ENXIO => "No such device or address",
            libc::EBADF => "Bad file descriptor",
            libc::EAGAIN => "Resource temporarily unavailable",
            libc::ENOMEM => "Cannot allocate memory",
            libc::EACCES => "Permission denied",
            libc::EBUSY => "Device or resource busy",
            libc::EEXIST => "File exists",
            libc::EXDEV => "Invalid cross-device link",
            libc::ENODEV => "No such device",
            libc::ENOTDIR => "Not a directory",
            libc::EISDIR => "Is a directory",
            libc::EINVAL => "Invalid argument",
            libc::ENFILE => "Too many open files in system",
            libc::EMFILE => "Too many open files",
            libc::ETXTBSY => "Text file busy",
            libc::EFBIG => "File too large",
            libc::ENOSPC => "No space left on device",
            libc::ESPIPE => "Illegal seek",
            libc::EROFS => "Read-only file system",
            libc::EPIPE => "Broken pipe",
            libc::ENAMETOOLONG => "File name too long",
            libc::ENOSYS => "Function not implemented",
            libc::ELOOP => "Too many levels of symbolic links",
            libc::EOVERFLOW => "Value too large for defined data type",
            libc::EOPNOTSUPP => "Operation not supported",
            libc::ESTALE => "Stale file handle",
            libc::EDQUOT => "Disk quota exceeded",
            number => return write!(out, "error {number}"),
        };
        out.write_str(words)
    }
}

impl std::error::Error for Errno {}

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    calls::__errno_location().get()
}

/// Puts the calling thread's `errno` back when it goes.
pub struct KeptErrno(i32);

impl KeptErrno {
    #[allow(clippy::new_without_default)] // a default would not say that it reads anything
    pub fn new() -> KeptErrno {
        KeptErrno(errno())
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        Errno(self.0).set();
    }
}

impl Errno {
    /// The calling thread's.
    pub fn last() -> Self {
        Errno(errno())
    }

    /// Makes it the calling thread's.
    pub fn set(self) {
        calls::__errno_location().set(self.0);
    }
}

/// The outcome of a call that returns 0, or else has set `errno`.
pub(crate) fn done(result: libc::c_int) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_systems() {
        for number in 1..134 {
            let ours = Errno(number).to_string();
            let theirs = std::io::Error::from_raw_os_error(number).to_string();
            let is_listed = ours != format!("error {number}");
            assert!(!is_listed || theirs == format!("{ours} (os error {number})"));
        }
    }
}
