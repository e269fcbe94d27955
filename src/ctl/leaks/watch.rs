//! Reads a process's samples at regular moments.

use crate::lines::{no_samples as no_samples_of, unwritten};
use crate::{document::Document, find::runs_no_more, output::Failure};
use pyhost_os::clock;
use pyhost_record::lines::{samples_of, unwritten_samples};
use pyhost_record::{Record, metrics::Pid};
use pyhost_sampler::{AtMoment, Samples};
use std::time::{Duration, Instant};
use std::{path::Path, thread::sleep};

/// How often the samples are read.
pub const LOOKS: u32 = 64;

#[derive(Default)]
pub struct Watched {
    pub process: String,
    /// The samples at the last moment: their sites are in the order of `looks`.
    pub last: Samples,
    /// For each moment, the sums of the sites that there were.
    pub looks: Vec<Vec<AtMoment>>,
    pub span: Duration,
    /// Whether the process ended before the time was over.
    pub has_ended: bool,
    /// Whether its samples ended before that, at somebody's request or with its script.
    pub are_over: bool,
    /// How often its samples were begun anew meanwhile. The looks are those since the last time.
    pub restarts: u32,
}

impl Watched {
    /// Adds the samples of a later look, `since` the first of these. Samples that were begun anew are compared with none of
    /// before: they lack what was allocated before, and their sites are others. Returns whether they were.
    fn add(&mut self, samples: Samples, since: Duration) -> bool {
        let is_anew = !self.last.is_continued_by(&samples);
        self.span = since;
        if is_anew {
            self.restarts += 1;
            self.looks.clear();
            self.span = Duration::ZERO;
        }
        self.looks.push(look(&samples));
        self.last = samples;
        is_anew
    }
}

/// How often missing samples of a process that runs are looked for again.
const PATIENCE: u32 = 20;

/// The record of a process, if it runs.
fn alive(path: &Path) -> Option<Box<Record>> {
    match Document::read(path) {
        Ok(Document::Record(record, true, _)) => Some(record),
        _ => None,
    }
}

pub fn watch(path: &Path, name: &Pid, span: Duration) -> Result<Watched, Failure> {
    let Document::Record(record, true, _) = Document::read(path)? else {
        return Err(runs_no_more(name));
    };
    let no_samples = || {
        let unwritten = unwritten(name, record.header()).map(Failure);
        unwritten.unwrap_or_else(|| no_samples_of(name))
    };
    let start = Instant::now();
    let samples_now = || {
        let mut samples = samples_of(path)?;
        samples.look_at_clock(clock::monotonic());
        Some(samples)
    };
    let last = samples_now().filter(|samples| !samples.is_over);
    let last = last.ok_or_else(no_samples)?;
    let mut watched = Watched {
        process: format!("{name} ({})", record.header().command()),
        looks: vec![look(&last)],
        last,
        ..Watched::default()
    };
    let mut first = start;
    for number in 1..LOOKS {
        let next = span * number / (LOOKS - 1);
        sleep(next.saturating_sub(start.elapsed()));
        // If room is scarce the file is away while a larger one is made.
        let mut samples = samples_now();
        for _ in 0..PATIENCE {
            if samples.is_some() || alive(path).is_none() {
                break;
            }
            sleep(Duration::from_millis(10));
            samples = samples_now();
        }
        let samples = match (samples, alive(path)) {
            (Some(samples), Some(_)) if samples.is_over => {
                watched.are_over = true;
                break;
            }
            (Some(samples), Some(_)) => samples,
            (None, Some(record)) => {
                let why = unwritten_samples(record.header());
                let why = why.unwrap_or_else(|| "their file is gone".to_owned());
                return Err(Failure(format!(
                    "the samples of process {name} can be read no more: {why}"
                )));
            }
            (_, None) => {
                watched.has_ended = true;
                break;
            }
        };
        let now = Instant::now();
        if watched.add(samples, now - first) {
            first = now;
        }
    }
    Ok(watched)
}

pub fn look(samples: &Samples) -> Vec<AtMoment> {
    samples.sites().map(|site| samples.now(site)).collect()
}
