//! `pyhostctl leaks`: the lines whose live bytes rise and rise, in a process that runs.
//!
//! The process's samples are read at regular moments ([`mod@watch`]); what the readings say of a line is [`verdict`]'s.

mod text;
mod verdict;
mod watch;

use crate::document::Document;
use crate::find::{self, Directories};
use crate::lines::no_samples;
use crate::output::{Failure, print};
use crate::tree::hosts_of;
use clap::Args;
use pyhost_os::duration;
use pyhost_record::{lines::samples_of, metrics::Pid};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::{thread, time::Duration};

const LEAST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(7 * 24 * 3600);

fn span(text: &str) -> Result<Duration, &'static str> {
    let expected = "expected a time between 2s and 168h, such as 90s, 10m or 8h";
    duration::parse(text, Some("s"), LEAST..=MOST).ok_or(expected)
}

/// Exit status: 0 if no line rises; 1 if a process cannot be watched; 2 for a bad command line; 24 if a line rises; 25 if
/// it was watched for too short a time to tell.
#[derive(Debug, Args)]
pub struct LeaksOptions {
    /// How long the process is watched
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = span)]
    pub span: Duration,

    /// As JSON, schema pyhost-leaks/1
    #[arg(long)]
    pub json: bool,

    /// Of all hosts of the tree that begins with the process and that take samples now
    #[arg(long)]
    pub tree: bool,

    /// A process id of a host with --live that takes samples; NAMESPACE:PID if processes of several pid namespaces
    /// have it
    #[arg(value_name = "PID")]
    pub pid: Pid,
}

/// Exit status if a line rises, and if the process was watched for too short a time to tell: as of `sweep`.
const FOUND: u8 = 24;
const NOTHING_TESTED: u8 = 25;

/// Watches the processes and says which lines rise; the exit status.
pub fn run(options: &LeaksOptions, directories: &Directories) -> Result<u8, Failure> {
    let watched = match options.tree {
        true => sampled_of(options.pid, directories)?,
        false => vec![(options.pid, find::of_process(&options.pid, directories)?)],
    };
    let results = thread::scope(|scope| {
        let start = |(pid, file)| scope.spawn(move || watch(options, pid, file));
        let started = watched.iter().map(|(pid, file)| start((pid, file)));
        let threads: Vec<_> = started.collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        let results = ends.map(|end| end.unwrap_or_else(|panic| resume_unwind(panic)));
        results.collect::<Vec<_>>()
    });
    let (mut statuses, mut failure) = (Vec::new(), None);
    for result in results {
        match result {
            Ok((text, status)) => {
                print(&text)?;
                statuses.push(status);
            }
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        _ if statuses.contains(&FOUND) => Ok(FOUND),
        Some(error) => Err(error),
        None if statuses.contains(&0) => Ok(0),
        None => Ok(NOTHING_TESTED),
    }
}

/// The hosts of a tree that take samples, with their files.
fn sampled_of(first: Pid, directories: &Directories) -> Result<Vec<(Pid, PathBuf)>, Failure> {
    let hosts = hosts_of(first, directories)?.into_iter();
    let takes_samples = |file: &Path| samples_of(file).is_some_and(|it| !it.is_over);
    let sampled = hosts.filter(|(_, _, file)| takes_samples(file));
    let sampled: Vec<_> = sampled.map(|(name, _, file)| (name, file)).collect();
    match sampled.is_empty() {
        true => Err(no_samples(&first)),
        false => Ok(sampled),
    }
}

/// Watches a process; the text, and the exit status that it is for.
fn watch(options: &LeaksOptions, pid: &Pid, file: &Path) -> Result<(String, u8), Failure> {
    let runs = || Document::read(file).is_ok_and(|document| document.is_running());
    let watched = match watch::watch(file, pid, options.span) {
        Err(_) if options.tree && !runs() => {
            let text = format!("process {pid} ended before it was looked at\n");
            let text = if options.json { String::new() } else { text };
            return Ok((text, NOTHING_TESTED));
        }
        watched => watched?,
    };
    let verdict = verdict::judge(&watched);
    let text = match options.json {
        true => text::json(&watched, &verdict),
        false => text::text(&watched, &verdict),
    };
    let status = match verdict.rising.is_empty() {
        _ if !text::is_enough(&watched) => NOTHING_TESTED,
        true => 0,
        false => FOUND,
    };
    Ok((text, status))
}
