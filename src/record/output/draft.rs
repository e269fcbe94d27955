//! An output file that is being written: it has a temporary name in its directory until it is complete.
//!
//! If the directory allows no new file or no rename (a single file that is mounted into a container, a
//! directory of another user), the existing file is written in place.

#![allow(unsafe_code)]

use super::{Target, open};
use pyhost_os::errno::Errno;
use pyhost_os::template::{PathBuffer, format_into};
use std::ffi::c_int;

/// An output file that is being written.
pub struct Draft<'a> {
    /// The final path.
    place: &'a PathBuffer,
    /// The path of the temporary file; `None` if the file is written in place.
    part: Option<PathBuffer>,
    /// Whether there was nothing at its place.
    is_new: bool,
    descriptor: c_int,
}

/// How many names are tried for a part: another process may have left one of the same id.
const NAMES: u32 = 16;

impl<'a> Draft<'a> {
    /// Makes an empty file, to be read and written, for `place`, which is a path that
    /// [`look`](super::look) found to be `target`: new or old. `flags` are further flags of open(2).
    ///
    /// # Errors
    /// The system's reason.
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
        let descriptor = open(place.as_c_str(), flags | in_place).map_err(|_| error)?;
        Ok(Draft {
            place,
            part: None,
            is_new,
            descriptor,
        })
    }

    /// Makes an empty file beside `place`, never in place.
    ///
    /// # Errors
    /// The system's reason.
    pub fn apart(place: &'a PathBuffer, target: Target, flags: c_int) -> Result<Self, Errno> {
        let flags = flags | libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let (part, descriptor) = Draft::beside(place, flags)?;
        Ok(Draft {
            place,
            part: Some(part),
            is_new: target == Target::New,
            descriptor,
        })
    }

    /// Creates a file of a name that nothing has.
    #[inline(never)] // for the caller's stack
    fn beside(place: &PathBuffer, flags: c_int) -> Result<(PathBuffer, c_int), Errno> {
        let flags = flags | libc::O_CREAT | libc::O_EXCL;
        // SAFETY: `getpid` takes no arguments and cannot fail.
        let pid = unsafe { libc::getpid() };
        let mut error = Errno(libc::EEXIST);
        for number in 0..NAMES {
            let mut room = [0; 48];
            let suffix = match number {
                0 => format_into(&mut room, format_args!(".{pid}.part")),
                _ => format_into(&mut room, format_args!(".{pid}-{number}.part")),
            };
            let part = place.with(suffix).ok_or(Errno(libc::ENAMETOOLONG))?;
            match open(part.as_c_str(), flags) {
                Ok(descriptor) => return Ok((part, descriptor)),
                Err(found) => error = found,
            }
            if error != Errno(libc::EEXIST) {
                break;
            }
        }
        Err(error)
    }

    /// The file's descriptor, which the caller closes after [`Draft::finish`] or [`Draft::discard`].
    pub fn descriptor(&self) -> c_int {
        self.descriptor
    }

    /// Moves the whole file to its place. Returns whether the descriptor is that of the file at its
    /// place: not where the file could only be copied.
    ///
    /// # Errors
    /// The system's reason; then nothing is left of it.
    pub fn finish(self) -> Result<bool, Errno> {
        let Some(part) = &self.part else {
            return Ok(true);
        };
        // SAFETY: paths that end with a zero byte.
        if unsafe { libc::rename(part.as_ptr(), self.place.as_ptr()) } == 0 {
            return Ok(true);
        }
        let error = Errno::last();
        // A file that is a mount point, or another user's in a sticky directory, stays where it is.
        let copied = match self.is_new {
            true => Err(error),
            false => self.copy().map_err(|_| error),
        };
        // SAFETY: a path that ends with a zero byte, of a file of this structure's own.
        unsafe { libc::unlink(part.as_ptr()) };
        copied.map(|()| false)
    }

    /// Copies the part over the file that is at its place.
    #[inline(never)] // for the caller's stack
    fn copy(&self) -> Result<(), Errno> {
        let flags = libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let place = open(self.place.as_c_str(), flags)?;
        let mut room = [0u8; 4096];
        let mut length: libc::off_t = 0;
        // SAFETY: descriptors of this function's own and a buffer of its own.
        unsafe {
            let copied = loop {
                let read = libc::pread(
                    self.descriptor,
                    room.as_mut_ptr().cast(),
                    room.len(),
                    length,
                );
                if read <= 0 {
                    break read == 0;
                }
                if libc::pwrite(place, room.as_ptr().cast(), read as usize, length) != read {
                    break false;
                }
                length += read as libc::off_t;
            };
            let error = Errno::last();
            libc::ftruncate(place, if copied { length } else { 0 });
            libc::close(place);
            match copied {
                true => Ok(()),
                false => Err(error),
            }
        }
    }

    /// Leaves nothing of what was begun.
    pub fn discard(self) {
        let begun = match &self.part {
            Some(part) => Some(part),
            None => Some(self.place).filter(|_| self.is_new),
        };
        // SAFETY: a path that ends with a zero byte, and a descriptor of this structure's own.
        unsafe {
            match begun {
                Some(path) => libc::unlink(path.as_ptr()),
                None => libc::ftruncate(self.descriptor, 0),
            };
        }
    }
}
