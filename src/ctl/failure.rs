//! How a command fails, and what it prints.

use std::io::Write;

/// An error message: one line without a full stop.
pub struct Failure(pub String);

/// Writes to standard output.
///
/// # Errors
/// Standard output cannot be written. A reader that has gone, such as `head`, is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// The same of bytes, which may be no text.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure(format!(
            "standard output cannot be written ({error})"
        ))),
        _ => Ok(()),
    }
}
