//! `pyhostctl lines --start` and `--stop`: begins or ends the samples of a process that runs.

use crate::find::Directories;
use crate::output::{Failure, print};
use crate::{document::Document, find};
use pyhost_os::bytes::{self, Bytes, Expected};
use pyhost_record::Record;
use pyhost_record::lines::{Answer, ask, unwritten_samples};
use std::time::Duration;

/// How long the host may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest interval, as of `pyhost --lines`.
const MOST: u64 = 1 << 40;

/// The mean distance of two samples, in bytes.
pub fn interval(text: &str) -> Result<u64, Expected> {
    let interval = bytes::parse(text).filter(|bytes| (1..=MOST).contains(bytes));
    interval.ok_or(Expected("expected a size from 1 to 1T such as 64K"))
}

/// Begins the samples of `what` with an interval, or ends them.
pub fn run(what: &str, start: Option<u64>, directories: &Directories) -> Result<(), Failure> {
    let name = find::process(what)?;
    let path = find::of_process(&name, directories)?;
    if !Document::read(&path)?.is_running() {
        return Err(find::runs_no_more(name));
    }
    let answer = ask(&path, start.unwrap_or(0), PATIENCE);
    // Its file goes when it ends, perhaps in the middle.
    let answer = answer.map_err(|error| match Document::read(&path) {
        Ok(document) if document.is_running() => {
            Failure::of(&path, format!("cannot be written ({error})"))
        }
        _ => find::runs_no_more(name),
    })?;
    let done = match start {
        Some(1) => "samples every allocation".to_owned(),
        Some(interval) => format!("takes one sample in {}", Bytes(interval)),
        None => "takes no more samples; those until now can be read".to_owned(),
    };
    let header = Record::read(&path);
    let unwritten = header.ok();
    let unwritten = unwritten.and_then(|header| unwritten_samples(header.header()));
    let done = match unwritten.filter(|_| start.is_some()) {
        Some(why) => format!("{done}, which cannot be read: {why}"),
        None => done,
    };
    match answer {
        Answer::Done => print(&format!("process {name} {done}\n")),
        Answer::BeneathHooks => print(&format!(
            "process {name} {done}; another hook lies over the host's in Python's domains, such as those of --fail: what it \
             passes on is sampled, more slowly\n"
        )),
        Answer::Silent => print(&format!(
            "process {name} has not answered: it allocates nothing at the moment, and does so with its next allocation \
             in Python code\n"
        )),
        Answer::Busy => Err(Failure(format!(
            "other controllers are asking process {name}; ask again"
        ))),
        Answer::Refused => Err(Failure(format!(
            "process {name} cannot sample: its malloc is left to another allocator, or there is no memory"
        ))),
    }
}
