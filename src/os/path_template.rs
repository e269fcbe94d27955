//! Templates of paths, in which `%p` stands for the process id and `%%` for `%`, and the paths that
//! they make: on the stack, without allocation, for signal handlers too.

use crate::errno::Errno;
use crate::file;
pub use crate::format::format_into;
use std::ffi::{CStr, c_char};

/// Whether a path template holds `%p`.
pub fn names_process(template: &[u8]) -> bool {
    let mut bytes = template.iter();
    while let Some(&byte) = bytes.next() {
        if byte == b'%' && bytes.next() == Some(&b'p') {
            return true;
        }
    }
    false
}

/// A path of at most `PATH_MAX` bytes, with its zero byte.
pub struct PathBuffer {
    bytes: [u8; libc::PATH_MAX as usize],
}

impl PathBuffer {
    /// Replaces `%p` by `pid` and `%%` by `%`, and appends `suffix`; None if it is too long.
    pub fn expand(template: &[u8], pid: i32, suffix: &[u8]) -> Option<Self> {
        let mut digits = [0u8; 12];
        let digits = format_into(&mut digits, format_args!("{pid}"));
        let mut path = PathBuffer {
            bytes: [0; libc::PATH_MAX as usize],
        };
        let mut length = 0;
        let mut push = |piece: &[u8]| {
            let end = length + piece.len();
            // The last byte stays zero.
            if end >= path.bytes.len() {
                return None;
            }
            path.bytes[length..end].copy_from_slice(piece);
            length = end;
            Some(())
        };
        let mut rest = template;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match (byte, after.first()) {
                (b'%', Some(b'p')) => {
                    push(digits)?;
                    rest = &after[1..];
                }
                (b'%', Some(b'%')) => {
                    push(b"%")?;
                    rest = &after[1..];
                }
                _ => push(&[byte])?,
            }
        }
        push(suffix)?;
        Some(path)
    }

    /// A path as it stands; `None` if it is too long or holds a zero byte.
    pub fn of(path: &[u8]) -> Option<Self> {
        let mut buffer = PathBuffer {
            bytes: [0; libc::PATH_MAX as usize],
        };
        let place = buffer.bytes[..libc::PATH_MAX as usize - 1].get_mut(..path.len())?;
        place.copy_from_slice(path);
        (!path.contains(&0)).then_some(buffer)
    }

    /// This path with something behind it; `None` if it is too long.
    pub fn with(&self, suffix: &[u8]) -> Option<Self> {
        let length = self.as_bytes().len();
        let mut path = PathBuffer { bytes: self.bytes };
        // The last byte stays zero.
        let room = &mut path.bytes[length..libc::PATH_MAX as usize - 1];
        room.get_mut(..suffix.len())?.copy_from_slice(suffix);
        Some(path)
    }

    /// The directory of an absolute path.
    pub fn folder(&self) -> Self {
        let path = self.as_bytes();
        let end = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let mut folder = PathBuffer { bytes: self.bytes };
        folder.bytes[end.max(1)..].fill(0);
        folder
    }

    /// Puts the target of the symbolic link at this path in its place; `ENAMETOOLONG` if it is too long for this buffer.
    #[inline(never)] // for the caller's stack
    pub fn follow(&mut self) -> Result<(), Errno> {
        let mut link = [0u8; libc::PATH_MAX as usize];
        let link = file::read_link(self.as_c_str(), &mut link)?;
        let base = match link.starts_with(b"/") {
            true => 0,
            false => {
                let path = self.as_bytes();
                let slash = path.iter().rposition(|&byte| byte == b'/');
                slash.map_or(0, |slash| slash + 1)
            }
        };
        if base + link.len() >= self.bytes.len() {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        self.bytes[base..].fill(0);
        self.bytes[base..base + link.len()].copy_from_slice(link);
        Ok(())
    }

    /// The path for people; what is not UTF-8 at its end is left out.
    pub fn shown(&self) -> &str {
        let bytes = self.as_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.as_c_str().to_bytes()
    }

    /// The path.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// The path for a system call.
    pub fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_percent_p_names_the_process() {
        assert!(names_process(b"/r/%p.json"));
        assert!(names_process(b"/r/%%%p"));
        assert!(!names_process(b"/r/%%p"));
        assert!(!names_process(b"/r/p%"));
    }

    #[test]
    fn a_path_names_its_process() {
        let path = PathBuffer::expand(b"/r/%p-%%p.%", 42, b".part").unwrap();
        assert_eq!(path.as_c_str(), c"/r/42-%p.%.part");
        assert!(PathBuffer::expand(&[b'x'; 4095], 1, b"").is_some());
        assert!(PathBuffer::expand(&[b'x'; 4096], 1, b"").is_none());
    }
}
