//! Writes a command's result to the path of its `-o`, and knows whether a terminal may have colours.

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
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let (place, target) = look(path)?;
    let written = match target {
        Target::New | Target::Old => write_file(&place, target, bytes),
        Target::Stream => File::options()
            .append(true)
            .open(OsStr::from_bytes(place.as_bytes()))
            .and_then(|mut file| file.write_all(bytes)),
        Target::Descriptor(own) => write_descriptor(own, bytes),
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

/// Writes a file beside its place, then moves it there.
fn write_file(place: &PathBuffer, target: Target, bytes: &[u8]) -> io::Result<()> {
    let system = |Errno(error)| io::Error::from_raw_os_error(error);
    let draft = Draft::begin(place, target, 0).map_err(system)?;
    write_descriptor(draft.descriptor(), bytes)?;
    draft.finish().map(drop).map_err(system)
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

/// Whether the user wants colours: `NO_COLOR` is unset or empty.
pub fn may_have_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
