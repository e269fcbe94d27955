//! An output file that is being written: it has a temporary name in its directory until it is complete.
//!
//! If the directory allows no new file or no rename (a single file that is mounted into a container, a
//! directory of another user), the existing file is written in place.

use super::Target;
use pyhost_os::file::{self, Fd};
use pyhost_os::path_template::{PathBuffer, format_into};
use pyhost_os::{errno::Errno, process};
use std::{ffi::c_int, os::fd::AsRawFd};

/// An output file that is being written. Nothing is left of one that is dropped.
pub struct Draft<'a> {
    place: &'a PathBuffer,
    /// The path of the temporary file; `None` if the file is written in place.
    part: Option<PathBuffer>,
    /// Whether there was nothing at its place.
    is_new: bool,
    /// `None` once it is finished.
    file: Option<Fd>,
}

/// How many names are tried for a part: another process may have left one of the same id.
const NAMES: u32 = 16;

impl<'a> Draft<'a> {
    /// Makes an empty file, to be read and written, for `place`, which is a path that
    /// [`look`](super::look) found to be `target`: new or old. `flags` are further flags of open(2).
    pub fn begin(place: &'a PathBuffer, target: Target, flags: c_int) -> Result<Self, Errno> {
        let flags = flags | libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let is_new = target == Target::New;
        let error = match Draft::apart(place, target, flags) {
            Ok(draft) => return Ok(draft),
            Err(error) => error,
        };
        let in_place = match is_new {
            true => libc::O_CREAT | libc::O_EXCL,
            false => libc::O_TRUNC,
        };
        // The first error says what is wrong with the directory.
        let file = Fd::open(place.as_c_str(), flags | in_place).map_err(|_| error)?;
        Ok(Draft {
            place,
            part: None,
            is_new,
            file: Some(file),
        })
    }

    /// Makes an empty file beside `place`, never in place.
    pub fn apart(place: &'a PathBuffer, target: Target, flags: c_int) -> Result<Self, Errno> {
        let flags = flags | libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let (part, file) = Draft::beside(place, flags)?;
        if target == Target::Old
            && let Ok(found) = file::status_of(place.as_c_str(), libc::AT_SYMLINK_NOFOLLOW)
        {
            file::set_mode(&file, found.st_mode); // who may read the old one may read this
        }
        Ok(Draft {
            place,
            part: Some(part),
            is_new: target == Target::New,
            file: Some(file),
        })
    }

    /// Creates a file of a name that nothing has.
    #[inline(never)] // for the caller's stack
    fn beside(place: &PathBuffer, flags: c_int) -> Result<(PathBuffer, Fd), Errno> {
        let flags = flags | libc::O_CREAT | libc::O_EXCL;
        let pid = process::id();
        let mut error = Errno(libc::EEXIST);
        for number in 0..NAMES {
            let mut room = [0; 48];
            let suffix = match number {
                0 => format_into(&mut room, format_args!(".{pid}.part")),
                _ => format_into(&mut room, format_args!(".{pid}-{number}.part")),
            };
            let part = place.with(suffix).ok_or(Errno(libc::ENAMETOOLONG))?;
            match Fd::open(part.as_c_str(), flags) {
                Ok(file) => return Ok((part, file)),
                Err(found) => error = found,
            }
            if error != Errno(libc::EEXIST) {
                break;
            }
        }
        Err(error)
    }

    /// The file's descriptor, open as long as the draft is.
    pub fn descriptor(&self) -> c_int {
        self.file.as_ref().map_or(-1, Fd::as_raw_fd)
    }

    /// Moves the whole file to its place. Returns the open file if it is the one at its place: `None` where it
    /// could only be copied.
    pub fn finish(mut self) -> Result<Option<Fd>, Errno> {
        if let Some(part) = &self.part
            && let Err(error) = file::rename(part.as_c_str(), self.place.as_c_str())
        {
            // A file that is a mount point, or another user's in a sticky directory, stays where it is.
            return match self.is_new {
                true => Err(error),
                false => self.copy().map(|()| None).map_err(|_| error),
            };
        }
        Ok(self.file.take())
    }

    /// Copies the part over the file that is at its place.
    #[inline(never)] // for the caller's stack
    fn copy(&self) -> Result<(), Errno> {
        let flags = libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let place = Fd::open(self.place.as_c_str(), flags)?;
        let mut room = [0u8; 4096];
        let mut length = 0;
        let copied = loop {
            match file::read_at(&self.descriptor(), &mut room, length) {
                Ok(0) => break Ok(()),
                Ok(read) if file::write_at(&place, &room[..read], length) == Ok(read) => {
                    length += read as u64;
                }
                Ok(_) => break Err(Errno::last()),
                Err(error) => break Err(error),
            }
        };
        let _ = file::truncate(&place, if copied.is_ok() { length } else { 0 });
        copied
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        let _ = match (&self.file, &self.part) {
            (None, _) => Ok(()),
            (_, Some(part)) => file::unlink(part.as_c_str()),
            (_, None) if self.is_new => file::unlink(self.place.as_c_str()),
            (Some(file), None) => file::truncate(file, 0),
        };
    }
}
