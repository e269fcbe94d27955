//! The families of metrics: their names, types and texts, and where their samples come from.

#![deny(unsafe_code)]

use super::{Machine, Process};
use pyhost_ledger::{Account, Scope};
use std::fmt::{self, Display};

/// A sample's value.
pub enum Value {
    /// Bytes, blocks, or a count.
    Whole(u64),
    /// A time.
    Seconds(f64),
}

impl Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Whole(value) => write!(out, "{value}"),
            Value::Seconds(value) => write!(out, "{value:.6}"),
        }
    }
}

/// Whether a family's values may fall.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// They may.
    Gauge,
    /// They only grow while the process runs.
    Counter,
}

/// Where a family's samples come from.
pub enum Source {
    /// A sample for each account that is in use.
    Accounts(fn(&Process<'_>, Account) -> u64),
    /// A sample for each such account and for all together.
    Scopes(fn(&Process<'_>, Scope) -> Option<u64>),
    /// A sample for each such account and reason.
    Failures,
    /// One sample.
    Process(fn(&Process<'_>) -> Option<Value>),
    /// One sample of 1, which says what the process is by its labels.
    Info,
    /// One sample for the machine.
    Machine(fn(&Machine) -> u64),
}

/// A metric.
pub struct Family {
    /// The name of its samples.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// The unit, or nothing.
    pub unit: &'static str,
    /// One line that needs no escaping: the formats disagree on quotes.
    pub help: &'static str,
    /// Where its samples come from.
    pub source: Source,
}

/// The names that begin with `process_` are those of Prometheus's client libraries, and their texts
/// are those of its Go library, to the letter: node_exporter has the same families, and refuses a
/// file that describes them otherwise.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "pyhost_memory_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "Live bytes by account; the account total is all of them, counted once.",
        source: Source::Scopes(|process, scope| match scope {
            Scope::Account(account) => Some(process.live.account(account).live_bytes),
            Scope::Total => Some(process.live.total_live_bytes),
        }),
    },
    Family {
        name: "pyhost_memory_peak_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "The most live bytes so far, by account.",
        source: Source::Scopes(|process, scope| match scope {
            Scope::Account(account) => Some(process.now.account(account).peak_bytes),
            Scope::Total => Some(process.now.total_peak_bytes),
        }),
    },
    Family {
        name: "pyhost_memory_inherited_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "Live bytes that a forked child began with: those of its parent, which counts them too.",
        source: Source::Process(|process| process.inherited.map(Value::Whole)),
    },
    Family {
        name: "pyhost_memory_cap_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "The cap on live bytes, for accounts that have one.",
        source: Source::Scopes(|process, scope| process.caps[scope.index()]),
    },
    Family {
        name: "pyhost_memory_cap_age_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        help: "Seconds since the cap of all accounts was computed from what a limit leaves.",
        source: Source::Process(|process| process.cap_age.map(Value::Seconds)),
    },
    Family {
        name: "pyhost_memory_blocks",
        kind: Kind::Gauge,
        unit: "",
        help: "Live blocks by account.",
        source: Source::Accounts(|process, account| process.live.account(account).live_blocks),
    },
    Family {
        name: "pyhost_allocations_total",
        kind: Kind::Counter,
        unit: "",
        help: "Blocks allocated so far, by account.",
        source: Source::Accounts(|process, account| process.now.account(account).total_blocks),
    },
    Family {
        name: "pyhost_allocation_failures_total",
        kind: Kind::Counter,
        unit: "",
        help: "Requests for memory that were not met: refused by a cap, failed in the heap, or injected.",
        source: Source::Failures,
    },
    Family {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "Resident memory size in bytes.",
        source: Source::Process(|process| process.resident.map(Value::Whole)),
    },
    Family {
        name: "pyhost_resident_memory_peak_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "The most bytes that were resident so far.",
        source: Source::Process(|process| process.peak_resident.map(Value::Whole)),
    },
    Family {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        help: "Start time of the process since unix epoch in seconds.",
        source: Source::Process(|process| Some(Value::Seconds(process.started as f64 / 1e9))),
    },
    Family {
        name: "pyhost_cpu_seconds_total",
        kind: Kind::Counter,
        unit: "seconds",
        help: "Processor time, user and system.",
        source: Source::Process(|process| process.cpu_seconds.map(Value::Seconds)),
    },
    Family {
        name: "pyhost_wall_seconds",
        kind: Kind::Gauge,
        unit: "seconds",
        help: "Time from the start of the host to this report.",
        source: Source::Process(|process| process.wall_seconds.map(Value::Seconds)),
    },
    Family {
        name: "pyhost_exit_status",
        kind: Kind::Gauge,
        unit: "",
        help: "How the process ended, as a shell shows it: its status, or 128 plus the number of the signal that ended it.",
        source: Source::Process(|process| {
            let status = process.exit_status?;
            Some(Value::Whole(u64::try_from(status).ok()?))
        }),
    },
    Family {
        name: "pyhost_info",
        kind: Kind::Gauge,
        unit: "",
        help: "What the process runs on; always 1.",
        source: Source::Info,
    },
    Family {
        name: "pyhost_hosts",
        kind: Kind::Gauge,
        unit: "",
        help: "Hosts that run.",
        source: Source::Machine(|machine| machine.hosts),
    },
    Family {
        name: "pyhost_unreadable_files",
        kind: Kind::Gauge,
        unit: "",
        help: "Files of the directory that are no ledger: torn, of another version, or another's.",
        source: Source::Machine(|machine| machine.unreadable_files),
    },
];
