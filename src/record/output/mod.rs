//! Where output may go: nothing that exists is destroyed.
//!
//! Output creates a file, or takes the place of a regular file that pyhost wrote itself
//! ([`mod@format`]) or that is empty. It is written *into* a character device, a FIFO or an open
//! descriptor (`/dev/fd/N`, `/dev/stdout`, `/proc/PID/fd/N`), and a symbolic link is followed: the
//! same holds for its target. Anything else is refused ([`OutputError`]).
//!
//! [`look`] decides; it changes nothing. [`Draft`] makes a file beside its place and moves it there
//! when it is whole. Nothing here allocates or locks, so that a signal handler may write a report.

mod draft;
pub mod format;

pub use draft::Draft;
pub use pyhost_os::file::identity;

use derive_more::Display;
use pyhost_os::file::{self, Fd, access, is_open, status_of as stat};
use pyhost_os::{descriptor::notice, errno::Errno, path_template::PathBuffer, process};
use std::ffi::{CStr, c_int};
use std::os::fd::AsRawFd;

/// The kind of file at the path of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing: a file is created.
    New,
    /// A regular file that may be replaced.
    Old,
    /// A device, a FIFO, or what another process has open: it is opened and written into.
    Stream,
    Descriptor(c_int),
}

/// Why output cannot go to a path. Displays as the rest of a line that begins with the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum OutputError {
    /// A regular file that pyhost did not write.
    #[display(
        "exists, and pyhost did not write it; expected a new file, an empty one, or one that pyhost wrote"
    )]
    Foreign,
    /// What a run wrote, where only results of `pyhostctl` may be replaced.
    #[display(
        "has what a run wrote, which is not replaced; expected a new file, or an earlier result of pyhostctl"
    )]
    OfRun,
    /// A regular file whose content cannot be read.
    #[display(
        "exists and cannot be read ({_0}), so it may be another program's; expected a new file"
    )]
    Unreadable(Errno),
    #[display("is a directory; expected a file")]
    Directory,
    /// A block device, or a socket.
    #[display("is a block device or a socket; expected a file, a FIFO or a terminal")]
    Other,
    #[display("is no open descriptor; expected one that the caller opened")]
    Closed,
    /// Not a regular file, where the output is to be mapped into memory.
    #[display("cannot be mapped into memory; expected a regular file")]
    NotMapped,
    /// The directory of the path, or of a link's target, does not exist.
    #[display("is in no directory; expected a file in one that exists")]
    NoDirectory,
    /// The path, or a link's target, is too long.
    #[display("is too long; expected a shorter path")]
    TooLong,
    /// The system does not let the path be looked at or written to.
    #[display("cannot be written ({_0})")]
    System(Errno),
}

/// Opens the output of an option, or prints why the script runs without it. `shown` is the path as the user has given it;
/// the other may be too long.
pub fn open_or_leave_out<T>(
    option: &str,
    shown: &[u8],
    path: Option<PathBuffer>,
    open: impl FnOnce(PathBuffer, Target) -> Result<T, Errno>,
) -> Option<T> {
    let opened = path.ok_or(OutputError::TooLong).and_then(|mut path| {
        let target = look(&mut path)?;
        open(path, target).map_err(OutputError::System)
    });
    let complain = |why| {
        let shown = String::from_utf8_lossy(shown);
        notice(format_args!(
            "{option}: '{shown}' {why}; the script runs without it"
        ));
    };
    opened.map_err(complain).ok()
}

/// How many links are followed, as the system does.
const LINKS: usize = 40;

/// Finds the kind of file at an absolute path. Follows links: `path` becomes the path of the last target.
pub fn look(path: &mut PathBuffer) -> Result<Target, OutputError> {
    look_for(path, format::is_ours)
}

/// The same for a result of `pyhostctl`, which takes the place of an earlier one, and never of what a run wrote.
pub fn look_for_result(path: &mut PathBuffer) -> Result<Target, OutputError> {
    look_for(path, format::is_result)
}

/// `may_go`: whether a file that begins with these bytes may be replaced.
#[inline(never)] // for the caller's stack
fn look_for(path: &mut PathBuffer, may_go: fn(&[u8]) -> bool) -> Result<Target, OutputError> {
    for _ in 0..LINKS {
        match descriptor_of(path.as_bytes()) {
            Some(Opened::Own(descriptor)) if is_open(descriptor) => {
                return Ok(Target::Descriptor(descriptor));
            }
            Some(Opened::Own(_)) => return Err(OutputError::Closed),
            Some(Opened::Others) => return look_through(path.as_c_str()),
            None => {}
        }
        let found = match stat(path.as_c_str(), libc::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno(libc::ENOENT)) => {
                let folder = path.folder();
                return match stat(folder.as_c_str(), 0) {
                    Err(Errno(libc::ENOENT | libc::ENOTDIR)) => Err(OutputError::NoDirectory),
                    Err(error) => Err(OutputError::System(error)),
                    Ok(_) => Ok(Target::New),
                };
            }
            Err(Errno(libc::ENOTDIR)) => return Err(OutputError::NoDirectory),
            Err(Errno(libc::ENAMETOOLONG)) => return Err(OutputError::TooLong),
            Err(error) => return Err(OutputError::System(error)),
        };
        match found.st_mode & libc::S_IFMT {
            libc::S_IFLNK => path.follow().map_err(|error| match error {
                Errno(libc::ENAMETOOLONG) => OutputError::TooLong,
                error => OutputError::System(error),
            })?,
            libc::S_IFREG => return look_into(path.as_c_str(), may_go),
            libc::S_IFCHR | libc::S_IFIFO => return Ok(Target::Stream),
            libc::S_IFDIR => return Err(OutputError::Directory),
            _ => return Err(OutputError::Other),
        }
    }
    Err(OutputError::System(Errno(libc::ELOOP)))
}

/// Whether the target could be written to now, as far as that can be known without a change: a
/// directory that is read-only is found, a full disk is not.
pub fn check(path: &PathBuffer, target: Target) -> Result<(), OutputError> {
    let own = || access(path.as_c_str(), libc::W_OK);
    let folder = || access(path.folder().as_c_str(), libc::W_OK | libc::X_OK);
    match target {
        Target::New => folder(),
        // Where the folder lets nothing be moved, the file is written in place.
        Target::Old => folder().or_else(|_| own()),
        Target::Stream => own(),
        Target::Descriptor(_) => Ok(()),
    }
    .map_err(OutputError::System)
}

/// Writes bytes to what [`look`] found: a file is whole or not there.
pub fn write(path: &PathBuffer, target: Target, bytes: &[u8]) -> Result<(), Errno> {
    match target {
        Target::New | Target::Old => {
            let draft = Draft::begin(path, target, 0)?;
            write_all(&draft.descriptor(), bytes)?;
            draft.finish().map(drop)
        }
        Target::Stream => write_all(&open_stream(path.as_c_str())?, bytes),
        Target::Descriptor(descriptor) => write_all(&descriptor, bytes),
    }
}

fn write_all(file: &impl AsRawFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match file::write(file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Opens a device or a FIFO to write into it, without waiting; `ENXIO` if nobody reads the FIFO.
pub fn open_stream(path: &CStr) -> Result<Fd, Errno> {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOCTTY;
    Fd::open(path, flags)
}

/// Whose descriptor a path names.
enum Opened {
    Own(c_int),
    Others,
}

/// The descriptor that a path names. Such a path must not be opened: for a regular file that would
/// write over its beginning, and for a socket it fails.
fn descriptor_of(path: &[u8]) -> Option<Opened> {
    match path {
        b"/dev/stdin" => return Some(Opened::Own(0)),
        b"/dev/stdout" => return Some(Opened::Own(1)),
        b"/dev/stderr" => return Some(Opened::Own(2)),
        _ => {}
    }
    if let Some(number) = path.strip_prefix(b"/dev/fd/") {
        return number_of(number).map(Opened::Own);
    }
    let rest = path.strip_prefix(b"/proc/")?;
    let mut parts = rest.splitn(3, |&byte| byte == b'/');
    let (process, folder, number) = (parts.next()?, parts.next()?, number_of(parts.next()?)?);
    let own = process::id();
    match (process, folder) {
        (b"self" | b"thread-self", b"fd") => Some(Opened::Own(number)),
        (process, b"fd") if number_of(process)? == own => Some(Opened::Own(number)),
        (_, b"fd") => Some(Opened::Others),
        _ => None,
    }
}

fn number_of(text: &[u8]) -> Option<c_int> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Finds the kind of a file that another process has open, by its link in `/proc`.
fn look_through(link: &CStr) -> Result<Target, OutputError> {
    let found = stat(link, 0).map_err(OutputError::System)?;
    match found.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFCHR | libc::S_IFIFO => Ok(Target::Stream),
        libc::S_IFDIR => Err(OutputError::Directory),
        _ => Err(OutputError::Other),
    }
}

/// Whether a regular file may be replaced. Its content is read, since the size of one in `/proc` is 0.
#[inline(never)] // for the caller's stack
fn look_into(path: &CStr, may_go: fn(&[u8]) -> bool) -> Result<Target, OutputError> {
    let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let file = Fd::open(path, flags).map_err(OutputError::Unreadable)?;
    let mut bytes = [0u8; format::ENOUGH];
    let read = file::read_at(&file, &mut bytes, 0).map_err(OutputError::Unreadable)?;
    match &bytes[..read] {
        [] => Ok(Target::Old),
        beginning if may_go(beginning) => Ok(Target::Old),
        beginning if format::is_ours(beginning) => Err(OutputError::OfRun),
        _ => Err(OutputError::Foreign),
    }
}

#[cfg(test)]
mod tests;
