//! The options of looking on from outside, as clap reads them.

use crate::timeline::Interval;
use clap::Args;
use std::ffi::OsString;

/// The shared ledger, the timeline, the brief.
#[derive(Debug, Default, Args)]
pub struct ObservationOptions {
    /// Let others read the ledger
    #[arg(
        long,
        value_name = "DIR|on|off",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "on",
        help = "\
Keep the ledger in a file of this directory, which pyhostctl reads while
the process runs and after a kill; child processes do so too
  on   in $XDG_RUNTIME_DIR/pyhost, else in /dev/shm/pyhost-UID [default]
  off  not at all, whatever PYHOST_LIVE says"
    )]
    pub live: Option<OsString>,

    /// Keep the ledger in a file
    #[arg(
        long,
        value_name = "PATH",
        help = "\
Keep the ledger in this file, which outlives a kill; %p is the process
id. Forked children keep theirs to themselves"
    )]
    pub ledger_file: Option<OsString>,

    /// Sample the accounts over time
    #[arg(
        long,
        value_name = "FILE",
        num_args = 1,
        require_equals = true,
        help = "\
Write every account and the resident size over time to this file, as
lines of JSON; --timeline-interval says how often. %p is the process id"
    )]
    pub timeline: Option<OsString>,

    /// The time between two samples
    #[arg(
        long,
        value_name = "INTERVAL",
        help = "\
The time between two samples, such as 10ms or 0.5s; it doubles each time
the file is full, at 8192 samples [default: 10ms]"
    )]
    pub timeline_interval: Option<Interval>,

    /// Keep a short account for an orchestrator
    #[arg(
        long,
        value_name = "PATH",
        help = "\
Rewrite this file, of at most 4 KiB, at each new peak worth telling, at
each refusal and at the end: for a container's termination log. %p is
the process id"
    )]
    pub stats_brief: Option<OsString>,
}
