//! Open files: the calls that take a path or a descriptor, without allocation.
//!
//! Reading and writing take whatever has a number ([`AsRawFd`]), a bare number too: one that is not open is an error of
//! the system's. Only what closes a descriptor needs its owner, [`Fd`].

#![allow(unsafe_code)]

use crate::errno::{Errno, done};
use crate::{calls, mapping::FromZeros};
use crate::{signals::SignalSet, system_call::system_call};
use std::ffi::{CStr, c_int, c_void};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::{ops::Range, ptr::null};

/// An open descriptor, closed when dropped.
///
/// Not std's `OwnedFd`: with debug assertions that ends the process if the number is no longer open, and a
/// script may close every number that there is.
#[derive(Debug, PartialEq, Eq)]
pub struct Fd(RawFd);

/// Flags of each file that is opened.
const ALWAYS: c_int = libc::O_CLOEXEC | libc::O_LARGEFILE;
/// The mode of each file that is made: its user reads and writes it.
const USERS_ALONE: libc::c_uint = 0o600;

impl Fd {
    /// Opens a file, closed in programs that are executed. What `O_CREAT` makes is its user's alone: all files of a host
    /// have the words of its command line, which may be secrets.
    pub fn open(path: &CStr, flags: c_int) -> Result<Fd, Errno> {
        // SAFETY: a path that ends with a zero byte. Not `openat`, which Miri does not have.
        opened(unsafe { libc::open(path.as_ptr(), flags | ALWAYS, USERS_ALONE) })
    }

    /// As [`Fd::open`], the file of a name in an open folder.
    pub fn open_in(folder: &impl AsRawFd, name: &CStr, flags: c_int) -> Result<Fd, Errno> {
        let flags = flags | ALWAYS;
        // SAFETY: a name that ends with a zero byte.
        opened(unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, USERS_ALONE) })
    }

    /// Opens a folder by its name in an open one, not through a link.
    pub fn folder_in(folder: &impl AsRawFd, name: &CStr) -> Result<Fd, Errno> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        Fd::open_in(folder, name, flags)
    }

    /// Makes a file without a place, in memory.
    pub fn in_memory(name: &CStr) -> Result<Fd, Errno> {
        opened(calls::memfd_create(name.into(), libc::MFD_CLOEXEC))
    }

    /// Opens a descriptor that signals of a set, which are blocked, are read from.
    pub fn of_signals(set: &SignalSet) -> Result<Fd, Errno> {
        opened(calls::signalfd(-1, &set.0, libc::SFD_CLOEXEC))
    }

    /// Opens a descriptor that is readable once a process has ended (Linux 5.3).
    pub fn of_process(id: libc::pid_t) -> Result<Fd, Errno> {
        // SAFETY: the call touches no memory.
        opened(unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(id), 0) } as c_int)
    }

    /// Duplicates a descriptor to the lowest free number from `least` on, closed in programs that are executed.
    pub fn copy(file: &impl AsRawFd, least: c_int) -> Result<Fd, Errno> {
        // SAFETY: the call touches no memory and closes nothing.
        opened(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) })
    }

    /// Moves the descriptor to a number from `least` on; if there is none it stays.
    pub fn moved_up(self, least: c_int) -> Fd {
        Fd::copy(&self, least).unwrap_or(self)
    }

    /// The number, which stays open.
    pub fn leak(self) -> RawFd {
        let number = self.0;
        std::mem::forget(self);
        number
    }

    /// Takes a number that is open.
    ///
    /// # Safety
    /// Nobody else closes the number, nor has it by now been closed and opened by another.
    pub unsafe fn owned(number: RawFd) -> Fd {
        Fd(number)
    }
}

/// A place for a descriptor that is asked for its number by signal handlers and forked children.
pub struct FdPlace(AtomicI32);

impl FdPlace {
    #[allow(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        FdPlace(AtomicI32::new(-1))
    }

    /// Keeps a descriptor; one that is there already is closed.
    pub fn put(&self, file: Fd) {
        drop(self.take());
        self.0.store(file.leak(), Relaxed);
    }

    /// Takes the descriptor out.
    pub fn take(&self) -> Option<Fd> {
        let number = self.0.swap(-1, Relaxed);
        (number >= 0).then(|| Fd(number))
    }
}

impl AsRawFd for FdPlace {
    /// The number; -1 if there is none.
    fn as_raw_fd(&self) -> RawFd {
        self.0.load(Relaxed)
    }
}

/// The two ends of a new pipe, of which the first is for reading, or of a socket.
pub(crate) fn ends(make: impl FnOnce(&mut [c_int; 2]) -> c_int) -> Result<(Fd, Fd), Errno> {
    let mut ends = [-1; 2];
    done(make(&mut ends)).map(|()| (Fd(ends[0]), Fd(ends[1])))
}

/// Makes a pipe: the end for reading, and the one for writing.
pub fn pipe() -> Result<(Fd, Fd), Errno> {
    ends(|ends| calls::pipe2(ends, libc::O_CLOEXEC))
}

fn opened(number: c_int) -> Result<Fd, Errno> {
    match number {
        -1 => Err(Errno::last()),
        number => Ok(Fd(number)),
    }
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the number is this value's own.
        unsafe { libc::close(self.0) };
    }
}

fn count(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::last())
}

/// Calls `act` again if a signal has interrupted it.
pub(crate) fn again(mut act: impl FnMut() -> isize) -> Result<usize, Errno> {
    loop {
        match count(act()) {
            Err(Errno(libc::EINTR)) => {}
            result => return result,
        }
    }
}

/// Reads on from where the last read ended; 0 bytes at the end.
pub fn read(file: &impl AsRawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the buffer and its length.
    again(|| unsafe { libc::read(file.as_raw_fd(), start, length) })
}

/// Visits the names in an open folder, which is read from where it was left on; `.` and `..` are among them. Nothing is
/// allocated. A folder that cannot be read any further ends there.
pub fn each_name(folder: &impl AsRawFd, mut visit: impl FnMut(&[u8])) {
    // `struct linux_dirent64` of getdents(2): inode, offset, bytes of the entry, type, name.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    let mut buffer = [0u8; 4096];
    loop {
        let (start, room) = (buffer.as_mut_ptr(), buffer.len());
        // SAFETY: the buffer and its length.
        let read = again(|| unsafe {
            let arguments = [folder.as_raw_fd() as usize, start.expose_provenance(), room];
            system_call(libc::SYS_getdents64, arguments) as isize
        });
        let mut entries = match read {
            Ok(read @ 1..) => &buffer[..read],
            _ => return,
        };
        while let Some(&[low, high]) = entries.get(LENGTH..LENGTH + 2) {
            let (entry, rest) = entries.split_at(usize::from(u16::from_ne_bytes([low, high])));
            let name = entry.get(NAME..).unwrap_or_default();
            visit(name.split(|&byte| byte == 0).next().unwrap_or_default());
            entries = rest;
        }
    }
}

/// Reads from `offset` on; 0 bytes at the end.
pub fn read_at(file: &impl AsRawFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the buffer and its length.
    again(|| unsafe { libc::pread(file.as_raw_fd(), start, length, offset as libc::off_t) })
}

/// Gives each line of what `read` reads to `take`, without its end. `buffer` holds the longest and more. `None` if it
/// does not, or if one of the two says so.
pub fn each_line(
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8]) -> Option<usize>,
    mut take: impl FnMut(&[u8]) -> Option<()>,
) -> Option<()> {
    let mut held = 0;
    loop {
        let more = read(&mut buffer[held..])?;
        if more == 0 {
            return (held < buffer.len()).then_some(());
        }
        held += more;
        let mut begin = 0;
        while let Some(length) = buffer[begin..held].iter().position(|&byte| byte == b'\n') {
            take(&buffer[begin..begin + length])?;
            begin += length + 1;
        }
        buffer.copy_within(begin..held, 0);
        held -= begin;
    }
}

/// Writes on from where the last write ended; how many bytes were written. `EINTR` if a signal came first.
pub fn write(file: &impl AsRawFd, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the bytes and their number.
    count(unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) })
}

/// Writes from `offset` on; how many bytes were written.
pub fn write_at(file: &impl AsRawFd, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    let (start, length) = (bytes.as_ptr().cast(), bytes.len());
    // SAFETY: the bytes and their number.
    count(unsafe { libc::pwrite(file.as_raw_fd(), start, length, offset as libc::off_t) })
}

/// Writes memory of this process to the start of a file, all of it; `EFAULT` if it is not there. The system reads it, which may
/// change meanwhile.
pub fn write_memory(file: &impl AsRawFd, addresses: Range<usize>) -> Result<(), Errno> {
    let mut done = 0;
    while done < addresses.len() {
        let start = (addresses.start + done) as *const c_void;
        let length = addresses.len() - done;
        // SAFETY: the call reads memory alone, if it is there.
        match unsafe { libc::pwrite(file.as_raw_fd(), start, length, done as libc::off_t) } {
            // After a part, the rest has the system's reason.
            -1 => return Err(Errno::last()),
            0 => return Err(Errno(libc::ENOSPC)),
            written => done += written as usize,
        }
    }
    Ok(())
}

/// Sets the bits of a file's mode.
pub fn set_mode(file: &impl AsRawFd, mode: libc::mode_t) {
    calls::fchmod(file.as_raw_fd(), mode & 0o777);
}

/// Makes a folder for its user alone in an open one; one that is there stays.
pub fn make_folder_in(folder: &impl AsRawFd, name: &CStr) -> Result<(), Errno> {
    match done(calls::mkdirat(folder.as_raw_fd(), name.into(), 0o700)) {
        Err(Errno(libc::EEXIST)) => Ok(()),
        made => made,
    }
}

pub fn truncate(file: &impl AsRawFd, length: u64) -> Result<(), Errno> {
    done(calls::ftruncate(file.as_raw_fd(), length as libc::off_t))
}

/// Where the next write goes; `None` if the file has no places, as a pipe.
pub fn position(file: &impl AsRawFd) -> Option<u64> {
    u64::try_from(calls::lseek(file.as_raw_fd(), 0, libc::SEEK_CUR)).ok()
}

/// Makes the next read or write begin at the start.
pub fn rewind(file: &impl AsRawFd) {
    calls::lseek(file.as_raw_fd(), 0, libc::SEEK_SET);
}

/// A file with the events that [`wait`] is to wait for.
pub fn awaited(fd: c_int, events: libc::c_short) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

/// Waits until one of the files has an event that is asked for, at most so many nanoseconds; how many have one. Of a
/// number below 0 there are none. `EINTR` if a signal came first.
pub fn wait(files: &mut [libc::pollfd], nanoseconds: u64) -> Result<usize, Errno> {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as _,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    let (start, length) = (files.as_mut_ptr(), files.len() as libc::nfds_t);
    // SAFETY: the list and its length.
    count(unsafe { libc::ppoll(start, length, &time, null()) } as isize)
}

/// Makes standard input another open file.
pub fn become_input(file: &impl AsRawFd) {
    // SAFETY: the number is nobody's own, and keeps being open.
    unsafe { libc::dup2(file.as_raw_fd(), libc::STDIN_FILENO) };
}

pub fn is_open(number: RawFd) -> bool {
    // SAFETY: the call touches no memory of the process.
    unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
}

/// What the system knows of an open file.
pub fn status(file: &impl AsRawFd) -> Result<calls::Status, Errno> {
    let mut found = calls::Status::zeroed();
    done(calls::fstat(file.as_raw_fd(), &mut found)).map(|()| found)
}

/// What the system knows of the file at a path; `flags` of fstatat(2).
pub fn status_of(path: &CStr, flags: c_int) -> Result<calls::Status, Errno> {
    status_in(&libc::AT_FDCWD, path, flags)
}

/// What the system knows of the file of a name in an open folder; `flags` of fstatat(2).
pub fn status_in(folder: &impl AsRawFd, name: &CStr, flags: c_int) -> Result<calls::Status, Errno> {
    let mut found = calls::Status::zeroed();
    let (folder, name) = (folder.as_raw_fd(), name.into());
    done(calls::fstatat(folder, name, &mut found, flags)).map(|()| found)
}

/// Whether the effective user may do with a file what `mode` of faccessat(2) says.
pub fn access(path: &CStr, mode: c_int) -> Result<(), Errno> {
    let (folder, flags) = (libc::AT_FDCWD, libc::AT_EACCESS);
    done(calls::faccessat(folder, path.into(), mode, flags))
}

/// Reads the target of a symbolic link, cut if the buffer is full.
pub fn read_link<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], Errno> {
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: a path that ends with a zero byte, the buffer and its length.
    let length = count(unsafe { libc::readlink(path.as_ptr(), start, length) })?;
    Ok(&buffer[..length])
}

/// Which file a descriptor is open for: device and inode. `None` if it is not open.
pub fn identity(file: &impl AsRawFd) -> Option<(u64, u64)> {
    let found = status(file).ok()?;
    Some((found.st_dev, found.st_ino))
}

/// Whether a path names a regular file that this process may execute.
pub fn is_executable(path: &CStr) -> bool {
    let is_regular = |found: calls::Status| found.st_mode & libc::S_IFMT == libc::S_IFREG;
    status_of(path, 0).is_ok_and(is_regular) && access(path, libc::X_OK).is_ok()
}

pub fn unlink(path: &CStr) -> Result<(), Errno> {
    done(calls::unlink(path.into()))
}

/// Takes a name in an open folder away. Returns whether it was there.
pub fn unlink_in(folder: &impl AsRawFd, name: &CStr) -> bool {
    calls::unlinkat(folder.as_raw_fd(), name.into(), 0) == 0
}

/// Moves a file to another name, over one that is there.
pub fn rename(from: &CStr, to: &CStr) -> Result<(), Errno> {
    done(calls::rename(from.into(), to.into()))
}

/// Locks a file by flock(2), without waiting: `EWOULDBLOCK` if another open file has the lock.
pub fn lock(file: &impl AsRawFd, operation: c_int) -> Result<(), Errno> {
    done(calls::flock(file.as_raw_fd(), operation | libc::LOCK_NB))
}

/// Locks a file against others that call this (`F_OFD_SETLK`), without waiting, until it is closed. What flock(2) locks is
/// another matter. `EAGAIN` if another open file has the lock.
pub fn lock_region(file: &impl AsRawFd) -> Result<(), Errno> {
    let mut whole = libc::flock::zeroed();
    whole.l_type = libc::F_WRLCK as libc::c_short;
    whole.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the structure is the one that the command takes.
    done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &whole) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_of_what_is_read() {
        for (text, expected) in [
            ("ab\n\ncdefg\nh", Some(())),
            ("ab\n\ncdefg\nhijklmno\n", None),
        ] {
            let mut rest = text.as_bytes();
            let read = |room: &mut [u8]| {
                let (now, later) = rest.split_at(rest.len().min(room.len()).min(3));
                room[..now.len()].copy_from_slice(now);
                rest = later;
                Some(now.len())
            };
            let mut lines = Vec::new();
            let take = |line: &[u8]| {
                lines.push(line.to_vec());
                Some(())
            };
            assert_eq!(each_line(&mut [0; 8], read, take), expected);
            assert_eq!(lines, [&b"ab"[..], b"", b"cdefg"]);
        }
    }
}
