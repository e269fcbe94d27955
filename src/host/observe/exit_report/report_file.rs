//! Puts a report where it was asked for: a file, whole or not at all; a device, a FIFO, or an open
//! descriptor, which are written into.
//!
//! The path is looked at again at the end: the script may have put a file there. Allocates nothing and takes no lock.

use super::render;
use crate::descriptor::{Descriptor, notice};
use crate::observe::report::{Destination, Ending, Format, Report, Stats};
use crate::observe::timeline::pages::{self, NoPage, Renderer};
use crate::output::{self, Draft, Target};
use crate::{errno::Errno, path_template::PathBuffer, process};
use pyhost_os::file::{Fd, rewind};
use std::fmt::{self, Display};
use std::{ffi::c_int, os::fd::AsRawFd};

/// Remembers which file the descriptor of a report is open for: the script may close it, and another
/// file may get its number.
pub fn remember(stats: &Stats) {
    let descriptor = match &stats.to {
        Destination::Stderr => None,
        Destination::Descriptor(descriptor) => Some(*descriptor),
        Destination::File(template) => {
            let path = PathBuffer::expand(template, process::id(), b"");
            match path.map(|mut path| output::look(&mut path)) {
                Some(Ok(Target::Descriptor(descriptor))) => Some(descriptor),
                _ => None,
            }
        }
    };
    if let Some(descriptor) = descriptor
        && let Some(identity) = output::identity(&descriptor)
    {
        let _ = super::STATE.descriptor.set((descriptor, identity));
    }
}

/// Why a report is not where it was asked for.
enum Failure {
    /// The place cannot be written.
    System(Errno),
    /// The descriptor is open for another file than at the start.
    OtherFile,
    Page(NoPage),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Failure::System(error)
    }
}

pub fn write_descriptor(report: &Report<'_>, format: Format, descriptor: c_int) {
    let written = write_into(report, format, descriptor);
    if let Err(why) = written {
        complain(format_args!("descriptor {descriptor}"), &why);
    }
}

/// Writes a report to a file. `template` may hold `%p`.
///
/// Not inlined, nor is what it calls: its paths would lie on the stack of every ending, and a
/// script's own `faulthandler` leaves 16 KiB for that.
#[inline(never)]
pub fn write_file(report: &Report<'_>, format: Format, template: &[u8]) {
    let Some(mut path) = PathBuffer::expand(template, report.pid, b"") else {
        return notice(format_args!(
            "cannot write the report: the path is too long"
        ));
    };
    let target = match output::look(&mut path) {
        Ok(target) => target,
        Err(refusal) => {
            let path = path.shown();
            return notice(format_args!("cannot write the report: '{path}' {refusal}"));
        }
    };
    let written = match target {
        Target::New | Target::Old => write_draft(report, format, &path, target),
        Target::Stream => output::open_stream(path.as_c_str())
            .map_err(Failure::from)
            .and_then(|stream| fill(report, format, stream.as_raw_fd())),
        Target::Descriptor(descriptor) => write_into(report, format, descriptor),
    };
    match written {
        Ok(()) if prints_path() => notice(format_args!("the page is {}", path.shown())),
        Ok(()) => {}
        Err(Failure::Page(NoPage::NoSampler)) => write_beside(report, template, &path),
        Err(why) => complain(format_args!("'{}'", path.shown()), &why),
    }
}

/// Writes the report of a page that cannot be made as JSON beside the page's place.
#[inline(never)]
fn write_beside(report: &Report<'_>, template: &[u8], page: &PathBuffer) {
    let Some(mut path) = PathBuffer::expand(template, report.pid, b".json") else {
        return;
    };
    let target = output::look(&mut path);
    let written = matches!(target, Ok(target @ (Target::New | Target::Old))
        if write_draft(report, Format::Json, &path, target).is_ok());
    let page = page.shown();
    match written {
        true => notice(format_args!(
            "cannot make the page '{page}': the process that makes it cannot be reached; the report is written to \
             '{}', of which `pyhostctl html` makes the page",
            path.shown()
        )),
        false => complain(format_args!("'{page}'"), &Failure::Page(NoPage::NoSampler)),
    }
}

/// Writes the whole report beside its place, then moves it there.
#[inline(never)]
fn write_draft(
    report: &Report<'_>,
    format: Format,
    path: &PathBuffer,
    target: Target,
) -> Result<(), Failure> {
    let draft = Draft::begin(path, target, 0)?;
    fill(report, format, draft.descriptor())?;
    draft.finish().map(drop).map_err(Failure::from)
}

/// Writes into a descriptor of the caller's, if it is still the one of the start.
fn write_into(report: &Report<'_>, format: Format, descriptor: c_int) -> Result<(), Failure> {
    let known = super::STATE.descriptor.get();
    let known = known.filter(|known| known.0 == descriptor);
    if known.is_some_and(|known| output::identity(&descriptor) != Some(known.1)) {
        return Err(Failure::OtherFile);
    }
    fill(report, format, descriptor)
}

fn fill(report: &Report<'_>, format: Format, descriptor: c_int) -> Result<(), Failure> {
    if format == Format::Html {
        return write_page(report, descriptor).map_err(Failure::Page);
    }
    let mut out = Descriptor::new(descriptor);
    render(report, format, &mut out);
    out.finish().map(drop).map_err(Failure::from)
}

impl Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::System(Errno(libc::ENXIO)) => out.write_str("it has no reader"),
            Failure::System(error) => write!(out, "{error}"),
            Failure::OtherFile => out.write_str("the script has closed it"),
            Failure::Page(NoPage::NoSampler) => {
                out.write_str("the process that makes it cannot be reached")
            }
            Failure::Page(NoPage::Failed(what, None)) => out.write_str(what),
            Failure::Page(NoPage::Failed(what, Some(error))) => write!(out, "{what} ({error})"),
            Failure::Page(NoPage::Reported) => Ok(()),
        }
    }
}

fn complain(place: fmt::Arguments<'_>, why: &Failure) {
    match why {
        Failure::Page(NoPage::Reported) => {}
        Failure::Page(_) => notice(format_args!("cannot make the page {place}: {why}")),
        _ => notice(format_args!("cannot write the report to {place}: {why}")),
    }
}

/// How the page is made, if one is planned, and the process that the host started as.
fn planned() -> Option<(&'static Renderer, libc::pid_t)> {
    let plan = super::STATE.plan.get()?;
    Some((plan.stats.as_ref()?.page.as_ref()?, plan.pid))
}

/// Whether to say where the page is.
fn prints_path() -> bool {
    planned().is_some_and(|(page, _)| page.prints_path)
}

fn write_page(report: &Report<'_>, file: c_int) -> Result<(), NoPage> {
    let (page, pid) = planned().ok_or(NoPage::NoSampler)?;
    let no_room = |error| NoPage::Failed("no room for the report", Some(error));
    let memory = Fd::in_memory(c"pyhost-report").map_err(no_room)?;
    let mut out = Descriptor::new(memory.as_raw_fd());
    render(report, Format::Json, &mut out);
    rewind(&memory);
    let written = out.finish().map_err(no_room);
    let made = written.and_then(|_| pages::make(memory.as_raw_fd(), file, report.pid == pid));
    if report.pid == pid && report.ending != Ending::Running {
        page.remove_timeline();
    }
    made
}
