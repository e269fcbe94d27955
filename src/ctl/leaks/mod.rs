//! `pyhostctl leaks`: the lines whose live bytes rise and rise, in a process that runs.
//!
//! The process's samples are read at regular moments ([`watch`]); what the readings say of a line is [`verdict`]'s.

mod text;
mod verdict;
mod watch;

use crate::find;
use crate::output::{Failure, print};
use clap::Args;
use pyhost_os::duration;
use pyhost_record::metrics::Pid;
use std::{path::Path, time::Duration};

const LEAST: Duration = Duration::from_secs(2);
const MOST: Duration = Duration::from_secs(7 * 24 * 3600);

fn span(text: &str) -> Result<Duration, &'static str> {
    let expected = "expected a time between 2s and 168h, such as 90s, 10m or 8h";
    duration::parse(text, Some("s"), LEAST..=MOST).ok_or(expected)
}

/// Exit status: 0 if no line rises; 1 if the process cannot be watched; 2 for a bad command line; 24 if a line rises; 25 if
/// it was watched for too short a time to tell.
#[derive(Debug, Args)]
pub struct LeaksOptions {
    /// How long the process is watched
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = span)]
    pub span: Duration,

    /// As JSON, schema pyhost-leaks/1
    #[arg(long)]
    pub json: bool,

    /// A process id of a host with --live that takes samples; NAMESPACE:PID if processes of several pid namespaces
    /// have it
    #[arg(value_name = "PID")]
    pub pid: Pid,
}

/// Exit status if a line rises, and if the process was watched for too short a time to tell: as of `sweep`.
const FOUND: u8 = 24;
const NOTHING_TESTED: u8 = 25;

/// Watches the process and says which lines rise; the exit status.
pub fn run(options: &LeaksOptions, directory: &Path) -> Result<u8, Failure> {
    let path = find::of_process(&options.pid, directory)?;
    let watched = watch::watch(&path, &options.pid, options.span)?;
    let verdict = verdict::judge(&watched);
    print(&match options.json {
        true => text::json(&watched, &verdict),
        false => text::text(&watched, &verdict),
    })?;
    Ok(match verdict.rising.is_empty() {
        _ if !text::is_enough(&watched) => NOTHING_TESTED,
        true => 0,
        false => FOUND,
    })
}
