//! Templates of paths, in which `%p` stands for the process id and `%%` for `%`, and the paths that
//! they make: on the stack, without allocation, for signal handlers too.

pub use crate::format::format_into;
use crate::{errno::Errno, file, terminal_text::leading_text};
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
#[derive(Clone)]
pub struct PathBuffer {
    bytes: [u8; libc::PATH_MAX as usize],
    /// From there on all bytes are zero.
    length: usize,
}

impl PathBuffer {
    pub const EMPTY: PathBuffer = PathBuffer {
        bytes: [0; libc::PATH_MAX as usize],
        length: 0,
    };

    /// Appends a piece; `None` if there is no room for it.
    fn push(&mut self, piece: &[u8]) -> Option<()> {
        let end = self.length + piece.len();
        // The last byte stays zero.
        let room = &mut self.bytes[..libc::PATH_MAX as usize - 1];
        room.get_mut(self.length..end)?.copy_from_slice(piece);
        self.length = end;
        Some(())
    }

    /// Leaves so many bytes at the start.
    fn cut(&mut self, length: usize) {
        self.bytes[length..].fill(0);
        self.length = length;
    }

    /// Replaces `%p` by `pid` and `%%` by `%`, and appends `suffix`; None if it is too long.
    pub fn expand(template: &[u8], pid: i32, suffix: &[u8]) -> Option<Self> {
        let mut digits = [0u8; 12];
        let digits = format_into(&mut digits, format_args!("{pid}"));
        let mut path = PathBuffer::EMPTY;
        let mut rest = template;
        while !rest.is_empty() {
            let (piece, length) = match rest {
                [b'%', b'p', ..] => (digits, 2),
                [b'%', b'%', ..] => (&b"%"[..], 2),
                _ => (&rest[..1], 1),
            };
            path.push(piece)?;
            rest = &rest[length..];
        }
        path.push(suffix)?;
        Some(path)
    }

    /// A path as it stands; `None` if it is too long or holds a zero byte.
    pub fn of(path: &[u8]) -> Option<Self> {
        let mut buffer = PathBuffer::EMPTY;
        buffer.push(path)?;
        (!path.contains(&0)).then_some(buffer)
    }

    /// This path with something behind it; `None` if it is too long.
    pub fn with(&self, suffix: &[u8]) -> Option<Self> {
        let mut path = self.clone();
        path.push(suffix)?;
        Some(path)
    }

    /// The directory of an absolute path.
    pub fn folder(&self) -> Self {
        let slash = self.as_bytes().iter().rposition(|&byte| byte == b'/');
        let mut folder = self.clone();
        folder.cut(slash.unwrap_or(0).max(1));
        folder
    }

    /// Puts the target of the symbolic link at this path in its place; `ENAMETOOLONG` if it is too long for this buffer.
    #[inline(never)] // for the caller's stack
    pub fn follow(&mut self) -> Result<(), Errno> {
        let mut link = [0u8; libc::PATH_MAX as usize];
        let link = file::read_link(self.as_c_str(), &mut link)?;
        let slash = self.as_bytes().iter().rposition(|&byte| byte == b'/');
        let base = match link.starts_with(b"/") {
            true => 0,
            false => slash.map_or(0, |slash| slash + 1),
        };
        if base + link.len() >= self.bytes.len() {
            return Err(Errno(libc::ENAMETOOLONG));
        }
        self.cut(base);
        self.push(link).ok_or(Errno(libc::ENAMETOOLONG))
    }

    /// The path for people; what is not UTF-8 at its end is left out.
    pub fn shown(&self) -> &str {
        leading_text(self.as_bytes())
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.as_c_str().to_bytes()
    }

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
