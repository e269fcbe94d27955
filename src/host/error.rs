//! The host's own errors, one line each, and its exit statuses.

use derive_more::Display;
use std::borrow::Cow;

/// Exit status of a bad host option; nothing was run.
pub const BAD_OPTION: i32 = 2;
/// Exit status if a script has used up the reserve of a cap (as Fil's for out of memory).
pub const CAP_EXHAUSTED: i32 = 53;
/// The exit status if most of the blocks that `--guard` asked for were not guarded, and it would be 0.
pub const UNGUARDED: i32 = 24;
/// Exit status if the host itself cannot start, as Python's own failed start.
pub const CANNOT_START: i32 = 1;

/// A failure of the host. Displays as one line without a full stop.
#[derive(Debug, Display)]
pub enum Error {
    Option(String),
    #[display("cannot start: {_0}")]
    Start(Cow<'static, str>),
}

impl Error {
    /// A host option or variable is not what it should be; the text says which and what.
    pub fn option(text: impl Into<String>) -> Self {
        Error::Option(text.into())
    }

    /// The host cannot start; the text says what failed.
    pub fn start(text: impl Into<Cow<'static, str>>) -> Self {
        Error::Start(text.into())
    }

    pub fn exit_status(&self) -> i32 {
        match self {
            Error::Option(_) => BAD_OPTION,
            Error::Start(_) => CANNOT_START,
        }
    }
}

impl std::error::Error for Error {}

pub type Result<T, E = Error> = std::result::Result<T, E>;
