//! How a command fails, and what it prints.

use std::io::Write;

/// An error message: one line without a full stop.
pub struct Failure(pub String);

/// Writes to standard output.
///
/// # Errors
/// Standard output cannot be written. A reader that has gone, such as `head`, is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure(format!(
            "standard output cannot be written ({error})"
        ))),
        _ => Ok(()),
    }
}
