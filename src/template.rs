//! Templates of paths, in which `%p` stands for the process id and `%%` for `%`, and the paths that
//! they make: on the stack, without allocation, for signal handlers too.

#![allow(unsafe_code)]

use crate::descriptor::format_into;
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
    /// Replaces `%p` by `pid` and `%%` by `%`, and appends `suffix`; None where it is too long.
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

    /// The path for people; what is not UTF-8 at its end is left out.
    pub fn shown(&self) -> &str {
        let end = self.bytes.iter().position(|&byte| byte == 0);
        let bytes = &self.bytes[..end.unwrap_or(0)];
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
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
