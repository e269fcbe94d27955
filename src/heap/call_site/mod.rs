//! Where a block was allocated or freed: the line of Python, and the native calls between the allocator and the
//! interpreter. As numbers, so that a record needs few bytes for it.
//!
//! Nothing here allocates, locks or waits: hooks and signal handlers may call it, in any thread.

mod file_names;
pub mod native_stacks;
pub mod source_line;

pub use file_names::FileNumber;
pub use native_stacks::CallsNumber;

use pyhost_os::zeros_are_valid;
use source_line::SourceLine;
use std::fmt;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering::Relaxed};

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

/// A call site that one thread may write while another reads it: its parts need not belong together then.
pub struct CallSiteCell {
    line: AtomicU32,
    calls: AtomicU32,
    file: AtomicU16,
    /// Two bytes more for the record that the cell is a part of.
    pub rest: AtomicU16,
}

impl CallSiteCell {
    /// Sets the call site.
    pub fn set(&self, call_site: CallSite) {
        self.line.store(call_site.line as u32, Relaxed);
        self.calls.store(call_site.calls, Relaxed);
        self.file.store(call_site.file, Relaxed);
    }

    /// The call site.
    pub fn get(&self) -> CallSite {
        CallSite {
            file: self.file.load(Relaxed),
            line: self.line.load(Relaxed) as i32,
            calls: self.calls.load(Relaxed),
        }
    }
}

zeros_are_valid!(CallSiteCell: line, calls, file, rest);

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
