//! The families of metrics: their names, types and texts, and where their samples come from.

#![deny(unsafe_code)]

use super::{Machine, Process};
use derive_more::Display;
use pyhost_ledger::Scope;

#[derive(Display)]
pub enum Value {
    /// Bytes, blocks, or a count.
    Whole(u64),
    /// A time.
    #[display("{_0:.6}")]
    Seconds(f64),
}

/// Where a family's samples come from.
pub enum Source {
    /// A sample for each account that is in use, and for all together if the function has one.
    Scopes(fn(&Process<'_>, Scope) -> Option<u64>),
    /// A sample for each such account and reason.
    Failures,
    /// One sample.
    Process(fn(&Process<'_>) -> Option<Value>),
    /// One sample of 1, which says what the process is by its labels.
    Info,
    Machine(fn(&Machine) -> u64),
}

pub struct Family {
    /// The name of its samples.
    pub name: &'static str,
    /// One line that needs no escaping: the formats disagree on quotes.
    pub help: &'static str,
    pub source: Source,
}

impl Family {
    /// The unit, with which its name ends, or nothing.
    pub fn unit(&self) -> &'static str {
        let name = self.name.trim_end_matches("_total");
        let mut units = ["bytes", "seconds"].into_iter();
        units.find(|unit| name.ends_with(unit)).unwrap_or_default()
    }
}

/// A row a metric: the name, the help, and where its samples come from.
macro_rules! families {
    ($($name:literal, $help:literal, $kind:ident $(($function:expr))?;)*) => {
        &[$(Family { name: $name, help: $help, source: Source::$kind$(($function))? }),*]
    };
}

/// The names that begin with `process_` are those of Prometheus's client libraries, and their texts are those of its Go
/// library, to the letter: node_exporter has the same families, and refuses a file that describes them otherwise.
pub const FAMILIES: &[Family] = families! {
    "pyhost_memory_bytes", "Live bytes by account; the account total is all of them, counted once.",
        Scopes(|process, scope| match scope {
            Scope::Account(account) => Some(process.live.account(account).live_bytes),
            Scope::Total => Some(process.live.total_live_bytes),
        });
    "pyhost_memory_peak_bytes", "The most live bytes so far, by account.",
        Scopes(|process, scope| match scope {
            Scope::Account(account) => Some(process.now.account(account).peak_bytes),
            Scope::Total => Some(process.now.total_peak_bytes),
        });
    "pyhost_memory_inherited_bytes",
        "Live bytes that a forked child began with: those of its parent, which counts them too.",
        Process(|process| process.inherited.map(Value::Whole));
    "pyhost_memory_cap_bytes", "The cap on live bytes, for accounts that have one.",
        Scopes(|process, scope| process.caps[scope.index()]);
    "pyhost_memory_cap_age_seconds", "Seconds since the cap of all accounts was computed from what a limit leaves.",
        Process(|process| process.cap_age.map(Value::Seconds));
    "pyhost_memory_blocks", "Live blocks by account.",
        Scopes(|process, scope| Some(process.live.account(scope.account()?).live_blocks));
    "pyhost_allocations_total", "Blocks allocated so far, by account.",
        Scopes(|process, scope| Some(process.now.account(scope.account()?).total_blocks));
    "pyhost_allocation_failures_total",
        "Requests for memory that were not met: refused by a cap, failed in the heap, or injected.",
        Failures;
    "process_resident_memory_bytes", "Resident memory size in bytes.",
        Process(|process| process.resident.map(Value::Whole));
    "pyhost_resident_memory_peak_bytes", "The most bytes that were resident so far.",
        Process(|process| process.peak_resident.map(Value::Whole));
    "process_start_time_seconds", "Start time of the process since unix epoch in seconds.",
        Process(|process| Some(Value::Seconds(process.started as f64 / 1e9)));
    "pyhost_cpu_seconds_total", "Processor time, user and system.",
        Process(|process| process.cpu_seconds.map(Value::Seconds));
    "pyhost_wall_seconds", "Time from the start of the host to this report.",
        Process(|process| process.wall_seconds.map(Value::Seconds));
    "pyhost_exit_status",
        "How the process ended, as a shell shows it: its status, or 128 plus the number of the signal that ended it.",
        Process(|process| {
            let status = process.exit_status?;
            Some(Value::Whole(u64::try_from(status).ok()?))
        });
    "pyhost_info", "What the process runs on; always 1.", Info;
    "pyhost_hosts", "Hosts that run.", Machine(|machine| machine.hosts);
    "pyhost_unreadable_files", "Files of the directory that are no ledger: torn, of another version, or another's.",
        Machine(|machine| machine.unreadable_files);
};

#[test]
fn the_help_of_families_needs_no_escaping() {
    for family in FAMILIES {
        assert!(!family.help.contains(['"', '\\', '\n']), "{}", family.help);
    }
}
