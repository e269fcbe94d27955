//! Writes a command's result to the path of its `-o`.

use crate::failure::Failure;
use pyhost_os::errno::Errno;
use pyhost_os::file;
use pyhost_os::path_template::PathBuffer;
use pyhost_record::output::{self, Draft, OutputError, Target};
use std::ffi::{OsStr, c_int};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Writes bytes to a path: a file, whole or not at all, or a device, a FIFO or an open descriptor,
/// which are written into.
///
/// # Errors
/// The path cannot be written: a line that names it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let shown = path.display();
    let refuse = |why: &dyn std::fmt::Display| Failure(format!("'{shown}' {why}"));
    let (place, target) = look(path, &refuse)?;
    let written = match target {
        Target::New | Target::Old => write_file(&place, target, bytes),
        Target::Stream => File::options()
            .append(true)
            .open(OsStr::from_bytes(place.as_bytes()))
            .and_then(|mut file| file.write_all(bytes)),
        Target::Descriptor(own) => write_descriptor(own, bytes),
    };
    written.map_err(|error| refuse(&format_args!("cannot be written ({error})")))
}

/// Whether [`write()`] could write to a path, as far as that can be known without a change.
///
/// # Errors
/// A line that names the path.
pub fn check(path: &Path) -> Result<(), Failure> {
    let refuse = |why: &dyn std::fmt::Display| Failure(format!("'{}' {why}", path.display()));
    let (place, target) = look(path, &refuse)?;
    output::check(&place, target).map_err(|refusal| refuse(&refusal))
}

fn look(
    path: &Path,
    refuse: &impl Fn(&dyn std::fmt::Display) -> Failure,
) -> Result<(PathBuffer, Target), Failure> {
    let absolute = std::path::absolute(path).map_err(|error| refuse(&error))?;
    let place = PathBuffer::of(absolute.as_os_str().as_bytes());
    let mut place = place.ok_or_else(|| refuse(&OutputError::TooLong))?;
    let target = output::look_for_result(&mut place).map_err(|refusal| refuse(&refusal))?;
    Ok((place, target))
}

/// Writes a file beside its place, then moves it there.
fn write_file(place: &PathBuffer, target: Target, bytes: &[u8]) -> io::Result<()> {
    let system = |Errno(error)| io::Error::from_raw_os_error(error);
    let draft = Draft::begin(place, target, 0).map_err(system)?;
    match write_descriptor(draft.descriptor(), bytes) {
        Ok(()) => draft.finish().map(drop).map_err(system),
        Err(error) => {
            draft.discard();
            Err(error)
        }
    }
}

/// Writes into a descriptor, which stays open to the end of this process.
fn write_descriptor(descriptor: c_int, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file::write(&descriptor, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno(libc::EINTR)) => {}
            Err(Errno(error)) => return Err(io::Error::from_raw_os_error(error)),
        }
    }
    Ok(())
}
