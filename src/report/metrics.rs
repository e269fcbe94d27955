//! The report as metrics. Does not allocate.

use super::{Ending, Report};
use crate::ledger::{LEDGER, REPORTED, Scope};
use crate::process::{self, resident::Source};
use pyhost_shared::metrics::{self, About, Form, Pid, Process};
use std::fmt::{self, Write};

/// Writes the metrics, in the form that Prometheus's parsers and those of OpenMetrics read alike. The
/// process id is a label only where processes write a file `each`: else each run would make new
/// series.
pub fn metrics(report: &Report<'_>, each: bool, out: &mut impl Write) -> fmt::Result {
    let facts = report.facts;
    let mut active = [false; REPORTED.len()];
    for &account in REPORTED {
        active[account as usize] = facts.is_active(account);
    }
    let mut caps = [None; Scope::COUNT];
    for scope in Scope::all() {
        caps[scope.index()] = LEDGER.cap(scope);
    }
    let own = Process {
        pid: each.then_some(Pid {
            namespace: None,
            id: report.pid,
        }),
        about: About {
            command: &facts.command,
            host: env!("CARGO_PKG_VERSION"),
            python: &facts.python_version,
            mimalloc: &facts.mimalloc,
            allocator: facts.allocator,
            native: facts.native,
            profile: facts.profile,
        },
        now: &report.now,
        live: report.live(),
        active,
        caps,
        resident: report.resident.now,
        // A bound is no sample.
        peak_resident: (report.resident.source == Source::HighWaterMark)
            .then_some(report.resident.peak),
        started: report.started,
        cpu_seconds: Some(process::cpu_seconds()),
        wall_seconds: Some(report.wall_seconds),
        exit_status: match report.ending {
            Ending::Exit(status) | Ending::QuickExit(status) => Some(status & 0xff),
            Ending::Signal(signal) => Some(128 + signal),
            Ending::Running | Ending::Exec => None,
        },
    };
    metrics::write(Form::Either, &[own], None, out)
}
