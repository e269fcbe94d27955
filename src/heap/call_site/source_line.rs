//! A line of Python, kept as plain data: nothing is allocated, and there is no pointer that the leak check
//! could take for a use.

use crate::host::host;
use derive_more::Display;
use pyhost_os::terminal_text::Plain;

/// Bytes kept of a file's name, from its end.
pub const FILE: usize = 80;

/// A number of the calling thread's innermost call and its instruction; 0 outside of Python code.
pub fn spot() -> u64 {
    host().map_or(0, |host| (host.lines.spot)())
}

/// A line of Python.
#[derive(Clone, Copy, Debug, Display)]
#[display("{}:{line}", Plain(self.file()))]
pub struct SourceLine {
    /// The number of the line; 0 if it is not known.
    pub line: i32,
    length: usize,
    file: [u8; FILE],
}

impl SourceLine {
    /// No line.
    pub const NONE: SourceLine = SourceLine {
        line: 0,
        length: 0,
        file: [0; FILE],
    };

    /// The line that the calling thread runs; [`SourceLine::NONE`] outside of Python code.
    pub fn of_caller() -> Self {
        Self::of_innermost().0
    }

    /// [`SourceLine::of_caller`], and whether it is that of the innermost call, which [`spot`] is of.
    pub fn of_innermost() -> (Self, bool) {
        let mut found = SourceLine::NONE;
        let Some(host) = host() else {
            return (found, false);
        };
        let (length, line, frames) = (host.lines.find)(&mut found.file);
        (found.length, found.line) = (length.min(FILE), line);
        (found, frames == 1)
    }

    /// A line of the file whose name ends with `length` bytes of `file`.
    pub fn of_parts(file: [u8; FILE], length: usize, line: i32) -> Self {
        let length = length.min(FILE);
        SourceLine { line, length, file }
    }

    /// The end of the file's name, in bytes.
    pub fn file_bytes(&self) -> &[u8] {
        &self.file[..self.length]
    }

    /// The end of the file's name; empty if it is not known.
    pub fn file(&self) -> &str {
        let file = self.file_bytes();
        // The name may be cut within a letter.
        let start = file.iter().position(|byte| byte & 0xc0 != 0x80);
        std::str::from_utf8(&file[start.unwrap_or(0)..]).unwrap_or("?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_cut_within_a_letter_begins_with_the_next_one() {
        let mut file = [0; FILE];
        let name = [b"\xa9".as_slice(), b"caf\xc3\xa9.py"].concat();
        file[..name.len()].copy_from_slice(&name);
        let line = SourceLine::of_parts(file, name.len(), 7);
        assert_eq!(line.to_string(), "caf\u{e9}.py:7");
        assert_eq!(SourceLine::NONE.file(), "");
        assert_eq!(SourceLine::of_parts([0xff; FILE], 1000, 1).file(), "?");
    }
}
