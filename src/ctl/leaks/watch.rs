//! Reads a process's samples at regular moments.

use crate::document::Document;
use crate::failure::Failure;
use crate::find::Name;
use pyhost_os::moment;
use pyhost_record::lines::samples_of;
use pyhost_sampler::{Samples, Sum, View};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often the samples are read.
pub const LOOKS: u32 = 64;

/// The sums of a site at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub live: Sum,
    pub allocated: Sum,
}

/// A process as it was watched.
pub struct Watched {
    /// The process's id and command.
    pub process: String,
    /// The samples at the last moment: their sites are in the order of `looks`.
    pub last: Samples,
    /// For each moment, the sums of the sites that there were.
    pub looks: Vec<Vec<Look>>,
    /// From the first look to the last.
    pub span: Duration,
    /// Whether the process ended before the time was over.
    pub has_ended: bool,
}

/// Watches the process of the file `path`.
///
/// # Errors
/// It does not run, or it takes no samples.
pub fn watch(path: &Path, name: &Name, span: Duration) -> Result<Watched, Failure> {
    let Document::Record(record, true, _) = Document::read(path)? else {
        return Err(Failure(format!(
            "process {name} runs no more; expected a host that runs"
        )));
    };
    let no_samples = || {
        Failure(format!(
            "process {name} takes no samples; expected one of `pyhost --lines`, or after `pyhostctl lines --start {name}`"
        ))
    };
    let start = Instant::now();
    let samples_now = || {
        let mut samples = samples_of(path)?;
        samples.look_at_clock(moment::monotonic());
        Some(samples)
    };
    let mut last = samples_now().ok_or_else(no_samples)?;
    let mut looks = vec![look(&last)];
    let mut seen = Duration::ZERO;
    let mut has_ended = false;
    for number in 1..LOOKS {
        let next = span * number / (LOOKS - 1);
        sleep(next.saturating_sub(start.elapsed()));
        let is_alive = matches!(Document::read(path), Ok(Document::Record(_, true, _)));
        let Some(samples) = samples_now().filter(|_| is_alive) else {
            has_ended = true;
            break;
        };
        if samples.counts().0 < last.counts().0 || samples.interval() != last.interval() {
            return Err(Failure(format!(
                "process {name} began its samples anew meanwhile; expected them to go on"
            )));
        }
        looks.push(look(&samples));
        seen = start.elapsed();
        last = samples;
    }
    Ok(Watched {
        process: format!("{name} ({})", record.card().command()),
        last,
        looks,
        span: seen,
        has_ended,
    })
}

/// The sums of all sites.
pub fn look(samples: &Samples) -> Vec<Look> {
    let of_site = |site| Look {
        live: samples.sum(site, View::Live),
        allocated: samples.sum(site, View::Allocated),
    };
    samples.sites().map(of_site).collect()
}
