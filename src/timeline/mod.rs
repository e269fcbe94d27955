//! `--timeline`, `--stats-brief`: a small process that samples the accounts and the resident size.
//!
//! A process and not a thread: `os.fork()` warns of threads from CPython 3.12 on, and a kill of the
//! host leaves it time for a last word. It is made by `clone` before Python initialises, while the
//! host has one thread, and shares nothing with it but the pages of card and ledger. It has no
//! signal at its end, so that `os.wait()` never sees it, and it never takes the GIL. It allocates
//! nothing: what it allocated would be booked to the host's accounts.
//!
//! [`start`] is called once, after the ledger lies in shared memory. The sampler ends with the host.

#![allow(unsafe_code)]

pub mod brief;
mod file;
mod sampler;
mod settings;

pub use settings::{Interval, Settings};

use crate::card::CARD;
use crate::error::Error;
use crate::process;
use crate::template::PathBuffer;
use file::TimelineFile;
use std::ffi::c_long;

/// Starts the sampler, where there is anything to be written.
///
/// # Errors
/// A file cannot be written, or the system gives no process.
pub fn start(settings: &Settings) -> Result<(), Error> {
    if !settings.is_on() {
        return Ok(());
    }
    let timeline = match &settings.timeline {
        Some(template) => Some(open_timeline(template, settings)?),
        None => None,
    };
    if let Some(path) = &settings.brief {
        brief::start(path).map_err(|error| {
            Error::option(format!(
                "--stats-brief: '{}' cannot be written ({error})",
                path.display()
            ))
        })?;
    }
    let host = process::id();
    // SAFETY: no flags: a copy of this process, whose only thread returns here twice. The copy runs
    // `sampler::run` alone, which does not return.
    unsafe {
        match libc::syscall(libc::SYS_clone, 0 as c_long, 0 as c_long, 0, 0, 0) {
            -1 => Err(Error::start("the system gives no process for the sampler")),
            0 => sampler::run(timeline, settings.interval.0, host),
            _ => {
                if let Some(timeline) = timeline {
                    libc::close(timeline.descriptor());
                }
                Ok(())
            }
        }
    }
}

fn open_timeline(template: &[u8], settings: &Settings) -> Result<TimelineFile, Error> {
    let refuse = |error: &dyn std::fmt::Display| {
        let shown = String::from_utf8_lossy(template);
        Error::option(format!("--timeline: '{shown}' cannot be written ({error})"))
    };
    let Some(path) = PathBuffer::expand(template, process::id(), b"") else {
        return Err(refuse(&"it is too long"));
    };
    let path = path.as_c_str().to_owned();
    TimelineFile::create(path, CARD.command(), settings.interval.0).map_err(|error| refuse(&error))
}
