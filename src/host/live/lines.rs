//! The samples of lines beside the ledger: in a file of their own, which other processes read, and begun or ended at
//! another process's request.
//!
//! The file appears when there are samples, and is replaced by a larger one as they grow. Both functions are called inside
//! the allocator: nothing here allocates.

use super::{HAS_FILE, NAMES, own_path};
use crate::descriptor::{notice, quietly};
use crate::errno::{Errno, KeptErrno};
use crate::heap::sampling;
use crate::ledger::CARD;
use crate::ledger::card::LinesAnswer;
use crate::lines;
use crate::python::domains;
use crate::template::PathBuffer;
use pyhost_os::file::{self, Fd};
use pyhost_os::mapping::Mapped;
use pyhost_record::directory::LINES_SUFFIX;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU64};

/// Why the last file could not be made.
static ERROR: AtomicI32 = AtomicI32::new(0);

/// Keeps the samples in a file, and answers requests. Once Python's configuration is known.
pub fn start() {
    if HAS_FILE.load(Relaxed) {
        sampling::set_answer(answer);
        if !sampling::publish_by(renew) {
            notice(format_args!(
                "--lines: no file for the samples ({}); nobody can read them while the script runs",
                Errno(ERROR.load(Relaxed))
            ));
        }
    }
}

/// Removes the file.
pub fn remove() {
    if let Some(path) = path() {
        let _ = file::unlink(path.as_c_str());
    }
}

fn path() -> Option<PathBuffer> {
    let own = NAMES.hold()?;
    own_path(&own, LINES_SUFFIX)
}

/// Makes a larger file, has it filled, and moves it in the place of the former.
fn renew(words: usize, fill: &mut dyn FnMut(&[AtomicU64])) -> Option<Mapped<AtomicU64>> {
    let _errno = KeptErrno::new();
    let made = HAS_FILE.load(Relaxed).then(|| make(words, fill))?;
    if made.is_none() {
        remove(); // it would be wrong from now on
    }
    made
}

fn make(words: usize, fill: &mut dyn FnMut(&[AtomicU64])) -> Option<Mapped<AtomicU64>> {
    let path = path()?;
    let draft = path.with(b".new")?;
    let made = || -> Result<Mapped<AtomicU64>, Errno> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_NOFOLLOW;
        let file = Fd::create(draft.as_c_str(), flags, 0o600)?;
        let mapped = Mapped::of_file(&file, words)?;
        fill(&mapped);
        file::rename(draft.as_c_str(), path.as_c_str())?;
        Ok(mapped)
    };
    let made = quietly(made).inspect_err(|Errno(error)| {
        ERROR.store(*error, Relaxed);
        let _ = file::unlink(draft.as_c_str());
    });
    made.ok()
}

/// Begins or ends the samples as another process has asked.
fn answer() {
    let cell = &CARD.lines;
    let asked = cell.asked.load(Acquire);
    let answer = match cell.interval.load(Relaxed) {
        0 => {
            sampling::end();
            domains::follow_samples();
            LinesAnswer::Done
        }
        interval if !lines::begin(interval) => LinesAnswer::Refused,
        _ if !domains::follow_samples() => LinesAnswer::WithoutPython,
        _ => LinesAnswer::Done,
    };
    cell.answer.store(answer as u64, Relaxed);
    cell.answered.store(asked, Release);
}
