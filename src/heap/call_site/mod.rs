//! Where a block was allocated or freed: the line of Python, and the native calls between the allocator and the
//! interpreter. As numbers, so that a record needs few bytes for it.
//!
//! Nothing here allocates, locks or waits: hooks and signal handlers may call it, in any thread.

mod file_names;
pub mod native_stacks;
pub mod source_line;

pub use file_names::FileNumber;
pub use native_stacks::CallsNumber;

use source_line::SourceLine;
use std::fmt;

/// An allocation or a free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSite {
    /// The file of the line; 0 if that is not known.
    pub file: FileNumber,
    /// The line of Python.
    pub line: i32,
    /// The native calls; 0 if there are none, or they are not known.
    pub calls: CallsNumber,
}

impl CallSite {
    /// Of what the calling thread does.
    pub fn of_caller() -> Self {
        let (file, line) = place();
        let calls = native_stacks::of_caller();
        CallSite { file, line, calls }
    }

    /// The line of Python; [`SourceLine::NONE`] if it is not known.
    pub fn source(&self) -> SourceLine {
        file_names::source(self.file, self.line)
    }

    /// `words` and the line in parentheses; nothing if the line is not known.
    pub fn after<'a>(&self, words: &'a str) -> After<'a> {
        After(words, self.source())
    }
}

/// See [`CallSite::after`].
pub struct After<'a>(&'a str, SourceLine);

impl fmt::Display for After<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1.file_bytes() {
            [] => Ok(()),
            _ => write!(out, " ({} {})", self.0, self.1),
        }
    }
}

/// The line of Python that the calling thread runs.
fn place() -> (FileNumber, i32) {
    let spot = source_line::spot();
    if spot == 0 {
        return (0, 0);
    }
    if let Some(known) = file_names::known(spot) {
        return known;
    }
    let (source, is_innermost) = SourceLine::of_innermost();
    let place = (file_names::number(source.file_bytes()), source.line);
    if is_innermost {
        file_names::keep(spot, place);
    }
    place
}
