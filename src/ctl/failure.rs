//! How a command fails, and what it prints.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// An error message: one line without a full stop.
pub struct Failure(pub String);

impl Failure {
    /// What is wrong with a file or a folder.
    pub fn of(path: &Path, what: impl Display) -> Self {
        Failure(format!("'{}' {what}", path.display()))
    }

    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        Failure::of(path, format!("cannot be read ({error})"))
    }
}

/// Writes to standard output. A reader that has gone, such as `head`, is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// The same of bytes, which may be no text.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure(format!(
            "standard output cannot be written ({error})"
        ))),
        _ => Ok(()),
    }
}
