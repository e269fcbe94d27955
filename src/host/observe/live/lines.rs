//! The samples of lines beside the ledger: in a file of their own, which other processes read, and begun or ended at
//! another process's request.
//!
//! The file appears when there are samples, and is replaced by a larger one as they grow. If the system refuses the larger one,
//! because its disk is full, the file goes: what it has would pass for all samples. The header says why, one line on standard error
//! does, and the file is tried again as samples come. The process goes on, and its report has all.
//!
//! [`renew`] and [`answer`] are called inside the allocator: they do not allocate. The line is written outside of it.

use super::mapping::{forget_lines, keep_lines};
use super::{STATE, own_path};
use crate::cpython::objects::{Gil, Returned};
use crate::cpython::{frames, functions::add_pending_call};
use crate::descriptor::{notice, quietly};
use crate::errno::{Errno, KeptErrno};
use crate::ledger::{HEADER, header::LinesAnswer};
use crate::{heap::sampling, observe::lines, path_template::PathBuffer, python::hooks::domains};
use pyhost_os::file::{self, Fd};
use pyhost_os::{mapping::Shared, signals::SignalSet};
use pyhost_record::directory::{DRAFT_SUFFIX, LINES_SUFFIX};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Keeps the samples in a file, and answers requests. Once Python's configuration is known.
pub fn start() {
    if STATE.has_file.load(Relaxed) {
        sampling::publish_by(renew);
        warn_if_due();
    }
}

/// Warnings can be written between two instructions of Python from now on. After initialisation.
pub fn python_started() {
    STATE.has_python.store(true, Relaxed);
    warn_if_due();
}

/// Removes the file. Returns false if there is none.
pub fn remove() -> bool {
    path().is_some_and(|path| file::unlink(path.as_c_str()).is_ok())
}

fn path() -> Option<PathBuffer> {
    let own = super::NAMES.hold()?;
    own_path(&own, LINES_SUFFIX)
}

/// Makes a larger file, fills it, and moves it in the place of the former. Returns None, and there is no file, if the system
/// refuses.
fn renew(words: usize, fill: &mut dyn FnMut(&[AtomicU64])) -> Option<Shared<AtomicU64>> {
    forget_lines();
    if !STATE.has_file.load(Relaxed) {
        return None;
    }
    let _errno = KeptErrno::new();
    // A signal would interrupt the call that reserves the room, and one that comes often would never let it finish.
    let mut others = SignalSet::all();
    others.remove(libc::SIGBUS); // what comes of the file itself
    let before = others.block();
    // The former is wrong from now on; the room that it takes may be what the larger one lacks.
    let made = make(words, fill).or_else(|error| match remove() {
        true => make(words, fill),
        false => Err(error),
    });
    before.make_mask();
    let error = made.as_ref().err().map_or(0, |Errno(error)| *error);
    HEADER.lines.file_error.store(error as u64, Relaxed);
    if error != 0 && !STATE.is_warned.swap(true, Relaxed) {
        STATE.is_warning_due.store(true, Relaxed);
        sampling::answer_soon();
    }
    made.ok()
}

fn make(words: usize, fill: &mut dyn FnMut(&[AtomicU64])) -> Result<Shared<AtomicU64>, Errno> {
    let path = path().ok_or(Errno(libc::EBUSY))?;
    let draft = path.with(DRAFT_SUFFIX.as_bytes());
    let draft = draft.ok_or(Errno(libc::ENAMETOOLONG))?;
    let made = || {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_NOFOLLOW;
        let file = Fd::open(draft.as_c_str(), flags)?;
        let mapped = Shared::of_file(&file, words)?;
        keep_lines(&mapped);
        fill(&mapped);
        file::rename(draft.as_c_str(), path.as_c_str())?;
        Ok(mapped)
    };
    quietly(made).inspect_err(|_| {
        forget_lines();
        let _ = file::unlink(draft.as_c_str());
    })
}

/// Says in a line that the samples could not be written, if that is due. Outside of the allocator; also in a signal handler.
pub fn warn_if_due() {
    if !STATE.is_warning_due.swap(false, Relaxed) {
        return;
    }
    let path = path();
    let path = path.as_ref().map_or(&b""[..], PathBuffer::as_bytes);
    notice(format_args!(
        "--lines: cannot write '{}': {}; pyhostctl finds no samples until there is room, so make room there, or name another \
         directory by --live=DIR. The report has them",
        str::from_utf8(path).unwrap_or("the file of the samples"),
        Errno(HEADER.lines.file_error.load(Relaxed) as i32)
    ));
}

/// Begins or ends the samples, if another process has asked for that, and asks for a warning that is due.
pub fn answer() {
    let cell = &HEADER.lines;
    let asked = cell.asked.load(Acquire);
    if asked != cell.answered.load(Relaxed) {
        let answer = answer_to(cell.interval.load(Relaxed));
        cell.answer.store(answer as u64, Relaxed);
        cell.answered.store(asked, Release);
    }
    fn warn(_: Gil<'_>) -> Returned<'_, ()> {
        warn_if_due();
        Ok(())
    }
    let is_due = STATE.is_warning_due.load(Relaxed) && STATE.has_python.load(Relaxed);
    if is_due && !frames::is_finalizing() && !add_pending_call(warn) {
        sampling::answer_soon(); // other calls wait
    }
}

/// Begins to sample with an interval, or ends with 0.
fn answer_to(interval: u64) -> LinesAnswer {
    match interval {
        0 => {
            sampling::end();
            domains::follow_samples();
            LinesAnswer::Done
        }
        interval if !lines::begin(interval) => LinesAnswer::Refused,
        _ if !domains::follow_samples() => LinesAnswer::BeneathHooks,
        _ => LinesAnswer::Done,
    }
}
