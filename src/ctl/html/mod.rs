//! `pyhostctl html`: a report, and its timeline, as one page that asks nothing of any network.
//!
//! [`input`] reads the report, [`timeline`] the timeline; a module a section makes
//! markup of it, [`bands`] and [`chart`] the picture; [`page`] puts all together. The page is made whole before a
//! byte of it is written, and a file of it is whole or not there.

mod accounts;
mod balance;
mod bands;
mod chart;
mod checks;
mod classes;
mod figures;
mod heaps;
mod input;
mod over_time;
mod page;
mod peak;
mod refusal;
mod summary;
mod text;
mod timeline;

#[cfg(test)]
mod contrast;

use crate::document::text_of_file;
use crate::failure::{Failure, print};
use clap::Args;
use pyhost_os::errno::Errno;
use pyhost_os::template::PathBuffer;
use pyhost_record::output::{self, Draft, OutputError, Target};
use std::ffi::{OsStr, c_int};
use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use timeline::Timeline;

/// The options of `html`.
#[derive(Debug, Args)]
pub struct HtmlOptions {
    /// The timeline of the same run, as --timeline wrote it
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,

    /// Where the page goes, `-` for stdout [default: beside a report in a file, with .html; else
    /// stdout]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,

    /// A report in JSON, `-` for stdin, a process id, or a file of --live
    #[arg(value_name = "REPORT")]
    pub report: String,
}

/// A report that has every section.
#[cfg(test)]
const SAMPLE: &str = include_str!("sample.json");

/// Makes the page that was asked for.
///
/// # Errors
/// The report or the timeline cannot be read or is not valid, or the page cannot be written.
pub fn run(options: &HtmlOptions, directory: &Path) -> Result<(), Failure> {
    let input = input::read(&options.report, directory)?;
    let timeline = match &options.timeline {
        Some(path) => Some(timeline_of(path)?),
        None => None,
    };
    let page = page::page(&input.report, &input.text, timeline.as_ref()).map_err(Failure)?;
    let beside = input.file.map(|path| path.with_extension("html"));
    match (&options.output, beside) {
        (Some(path), _) if path.as_os_str() == "-" => print(&page),
        (Some(path), _) => write(path, &page),
        (None, Some(path)) => {
            write(&path, &page)?;
            print(&format!("{}\n", path.display()))
        }
        (None, None) => print(&page),
    }
}

fn timeline_of(path: &Path) -> Result<Timeline, Failure> {
    let refuse = |what: String| Failure(format!("'{}' {what}", path.display()));
    let text = text_of_file(path).map_err(refuse)?;
    Timeline::of_text(&text).map_err(|error| refuse(error.to_string()))
}

/// Writes the page to a path: a file, whole or not at all, or a device, a FIFO or an open descriptor,
/// which are written into.
fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let shown = path.display();
    let refuse = |why: &dyn std::fmt::Display| Failure(format!("'{shown}' {why}"));
    let absolute = std::path::absolute(path).map_err(|error| refuse(&error))?;
    let place = PathBuffer::of(absolute.as_os_str().as_bytes());
    let mut place = place.ok_or_else(|| refuse(&OutputError::TooLong))?;
    let target = output::look(&mut place).map_err(|refusal| refuse(&refusal))?;
    let written = match target {
        Target::New | Target::Old => write_file(&place, target, page),
        Target::Stream => File::options()
            .append(true)
            .open(OsStr::from_bytes(place.as_bytes()))
            .and_then(|mut file| file.write_all(page.as_bytes())),
        Target::Descriptor(own) => write_descriptor(own, page),
    };
    written.map_err(|error| refuse(&format_args!("cannot be written ({error})")))
}

/// Writes a file beside its place, then moves it there.
fn write_file(place: &PathBuffer, target: Target, page: &str) -> io::Result<()> {
    let system = |Errno(error)| io::Error::from_raw_os_error(error);
    let draft = Draft::begin(place, target, 0).map_err(system)?;
    match write_descriptor(draft.descriptor(), page) {
        Ok(()) => draft.finish().map(drop).map_err(system),
        Err(error) => {
            draft.discard();
            Err(error)
        }
    }
}

/// Writes into a descriptor, which stays open to the end of this process.
#[allow(unsafe_code)]
fn write_descriptor(descriptor: c_int, page: &str) -> io::Result<()> {
    // SAFETY: an open descriptor, which is not closed here.
    let mut file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    file.write_all(page.as_bytes())
}
