//! Where a report goes, and in which form: decided by the options, carried out at the end.

use super::Format;
use std::ffi::CString;

/// Where a report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard error.
    Stderr,
    /// An open descriptor.
    Descriptor(i32),
    /// A file: an absolute path, in which `%p` stands for the process id and `%%` for `%`.
    File(Vec<u8>),
}

/// The report that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Its format, not [`Format::Off`].
    pub format: Format,
    /// Where it goes.
    pub to: Destination,
    /// Who makes the page of [`Format::Html`].
    pub page: Option<Page>,
}

/// How the page is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The path of `pyhostctl`.
    pub program: CString,
    /// The timeline of this process; None where its path is too long.
    pub timeline: Option<CString>,
    /// Whether the timeline is for the page alone, and goes once that is made.
    pub is_timeline_its_own: bool,
    /// Whether to say where the page is, since nobody has named the file.
    pub is_told: bool,
}
