//! Where a report goes, and in which form: decided by the options, carried out at the end.

use super::Format;
use crate::observe::timeline::pages::Renderer;

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
    /// How the page of [`Format::Html`] is made.
    pub page: Option<Renderer>,
}
