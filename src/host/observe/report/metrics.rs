//! The report as metrics. Does not allocate.

use super::{Ending, Report};
use crate::ledger::{HEADER, LEDGER, REPORTED, Scope, Snapshot};
use crate::resident::Source;
use pyhost_os::clock;
use pyhost_record::metrics::{self, Form, Pid, Process};
use std::fmt::{self, Write};

/// Writes the metrics, in the form that Prometheus's parsers and those of OpenMetrics read alike. The process id is a
/// label only if processes write a file `each`: else each run would make new series.
pub fn metrics(report: &Report<'_>, each: bool, out: &mut impl Write) -> fmt::Result {
    let facts = report.facts;
    // A forked child on its way into another program has allocated next to nothing itself: its parent's
    // figures, which stand in its report, would be counted twice in a sum over processes.
    let is_passing = report.inherited.is_some() && report.ending == Ending::Exec;
    let caps = match is_passing {
        true => [None; Scope::COUNT],
        false => LEDGER.caps(),
    };
    let nothing = Snapshot::default();
    let own = |snapshot| if is_passing { &nothing } else { snapshot };
    let own = Process {
        pid: each.then_some(Pid {
            namespace: None,
            id: report.pid,
        }),
        member: None,
        command: &facts.command,
        about: [
            env!("CARGO_PKG_VERSION"),
            &facts.python_version,
            &facts.mimalloc,
            facts.allocator,
            facts.native,
            facts.profile,
        ],
        now: own(&report.now),
        live: own(report.live()),
        active: std::array::from_fn(|index| !is_passing && facts.is_active(REPORTED[index])),
        caps,
        cap_age: HEADER.cap_age(clock::monotonic()).filter(|_| !is_passing),
        inherited: report.inherited.filter(|_| !is_passing),
        resident: report.resident.now.filter(|_| !is_passing),
        // A bound is no sample.
        peak_resident: (report.resident.source == Source::HighWaterMark && !is_passing)
            .then_some(report.resident.peak),
        started: report.started,
        cpu_seconds: Some(clock::nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID) as f64 / 1e9),
        wall_seconds: Some(report.wall_seconds),
        exit_status: match report.ending {
            Ending::Exit(status) | Ending::QuickExit(status) => Some(status & 0xff),
            Ending::Signal(signal) => Some(128 + signal),
            Ending::Running | Ending::Exec => None,
        },
    };
    metrics::write(Form::Either, &[own], None, out)
}
