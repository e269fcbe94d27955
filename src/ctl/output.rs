//! How a command fails, what it prints, the path of its `-o`, and whether a terminal may have colours.

use pyhost_os::{errno::Errno, path_template::PathBuffer};
use pyhost_record::output::{self, OutputError, Target};
use std::io::{self, ErrorKind, Write};
use std::{ffi::OsStr, fmt::Display, fs::File, os::unix::ffi::OsStrExt, path::Path};

/// Writes bytes to a path: a file, whole or not at all, or a device, a FIFO or an open descriptor,
/// which are written into.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let (place, target) = look(path)?;
    let written = match target {
        // Waits until somebody reads a FIFO.
        Target::Stream => File::options()
            .append(true)
            .open(OsStr::from_bytes(place.as_bytes()))
            .and_then(|mut file| file.write_all(bytes)),
        _ => output::write(&place, target, bytes)
            .map_err(|Errno(error)| io::Error::from_raw_os_error(error)),
    };
    written.map_err(|error| Failure::of(path, format!("cannot be written ({error})")))
}

/// Whether [`write()`] could write to a path, as far as that can be known without a change.
pub fn check(path: &Path) -> Result<(), Failure> {
    let (place, target) = look(path)?;
    output::check(&place, target).map_err(|refusal| Failure::of(path, refusal))
}

fn look(path: &Path) -> Result<(PathBuffer, Target), Failure> {
    let absolute = std::path::absolute(path).map_err(|error| Failure::of(path, error))?;
    let place = PathBuffer::of(absolute.as_os_str().as_bytes());
    let mut place = place.ok_or_else(|| Failure::of(path, OutputError::TooLong))?;
    let target = output::look_for_result(&mut place);
    Ok((place, target.map_err(|refusal| Failure::of(path, refusal))?))
}

/// Whether the user wants colours: `NO_COLOR` is unset or empty.
pub fn may_have_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

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
