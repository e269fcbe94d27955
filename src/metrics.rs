//! The metrics of hosts, as Prometheus and its like read them. One renderer for `--stats=openmetrics`,
//! where the host writes its own, and for `pyhostctl serve`, which writes those of all that run.
//!
//! The families are a table; [`write()`] walks it, and within a family the processes, since the samples
//! of a family must stand together. A family without a sample is left out. Nothing here allocates,
//! so that a signal handler can write it.
//!
//! The two formats disagree on how the type of a counter is declared: Prometheus's own names the
//! sample (`x_total`), OpenMetrics the family (`x`), and takes the other's form for an error. So there
//! is a third form, [`Form::Either`], which leaves the type of counters out and is valid in both.

#![deny(unsafe_code)]

use crate::ledger::{Account, REPORTED, Scope, Snapshot};
use std::fmt::{self, Display, Write};

/// Which format the text is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's text format, version 0.0.4.
    Prometheus,
    /// Valid in both: counters have no declared type.
    Either,
}

impl Form {
    /// The content type of a response in this form.
    pub const fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Prometheus | Form::Either => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The bytes of a command's name that are kept.
pub const COMMAND_BYTES: usize = 64;

/// A process id as a label's value: `17`, or `4026532198:17` of another pid namespace, whose ids may
/// be the same as here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pid {
    /// Inode of the namespace, where it is not the reader's.
    pub namespace: Option<u64>,
    /// The id there.
    pub id: i32,
}

impl Display for Pid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            Some(namespace) => write!(out, "{namespace}:{}", self.id),
            None => write!(out, "{}", self.id),
        }
    }
}

/// What does not change while a process runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The script's name.
    pub command: &'a str,
    /// The host's version.
    pub host: &'a str,
    /// Python's version.
    pub python: &'a str,
    /// mimalloc's version.
    pub mimalloc: &'a str,
    /// The allocator's name.
    pub allocator: &'a str,
    /// The native mode's name.
    pub native: &'a str,
    /// The profile's name.
    pub profile: &'a str,
}

/// A process, as far as it is known: what is None gives no sample.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// Its id, where that is to be a label.
    pub pid: Option<Pid>,
    /// What it is.
    pub about: About<'a>,
    /// Peaks and totals.
    pub now: &'a Snapshot,
    /// Live bytes and blocks.
    pub live: &'a Snapshot,
    /// Whether anything is booked to an account, by the account's index.
    pub active: [bool; REPORTED.len()],
    /// The caps in force, by the scope's index.
    pub caps: [Option<u64>; Scope::COUNT],
    /// Resident bytes.
    pub resident: Option<u64>,
    /// The most bytes that were resident.
    pub peak_resident: Option<u64>,
    /// When it started, in nanoseconds since the epoch.
    pub started: u64,
    /// Seconds of processor time, user and system.
    pub cpu_seconds: Option<f64>,
    /// Seconds from its start to its end.
    pub wall_seconds: Option<f64>,
    /// How it ended, as a shell tells it: 128 and the signal for what a signal ended.
    pub exit_status: Option<i32>,
}

/// What is told of a machine beside its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Hosts that run.
    pub hosts: u64,
    /// Files of the directory that are no ledger.
    pub unreadable_files: u64,
}

enum Value {
    Whole(u64),
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
}

/// Where a family's samples come from.
enum Source {
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

struct Family {
    /// The name of its samples.
    name: &'static str,
    kind: Kind,
    /// The unit, or nothing.
    unit: &'static str,
    /// One line that needs no escaping: the formats disagree on quotes.
    help: &'static str,
    source: Source,
}

/// The names that begin with `process_` are those of Prometheus's client libraries, and their texts
/// are those of its Go library, to the letter: node_exporter has the same families, and refuses a
/// file that describes them otherwise.
const FAMILIES: &[Family] = &[
    Family {
        name: "pyhost_memory_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "Live bytes by domain; the domain total is all of them, counted once.",
        source: Source::Scopes(|process, scope| match scope {
            Scope::Account(account) => Some(process.live.account(account).live_bytes),
            Scope::Total => Some(process.live.total_live_bytes),
        }),
    },
    Family {
        name: "pyhost_memory_peak_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "The most live bytes so far, by domain.",
        source: Source::Scopes(|process, scope| match scope {
            Scope::Account(account) => Some(process.now.account(account).peak_bytes),
            Scope::Total => Some(process.now.total_peak_bytes),
        }),
    },
    Family {
        name: "pyhost_memory_cap_bytes",
        kind: Kind::Gauge,
        unit: "bytes",
        help: "The cap on live bytes, for domains that have one.",
        source: Source::Scopes(|process, scope| process.caps[scope.index()]),
    },
    Family {
        name: "pyhost_memory_blocks",
        kind: Kind::Gauge,
        unit: "",
        help: "Live blocks by domain.",
        source: Source::Accounts(|process, account| process.live.account(account).live_blocks),
    },
    Family {
        name: "pyhost_allocations_total",
        kind: Kind::Counter,
        unit: "",
        help: "Blocks allocated so far, by domain.",
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
        help: "Time from the start of the host to its end.",
        source: Source::Process(|process| process.wall_seconds.map(Value::Seconds)),
    },
    Family {
        name: "pyhost_exit_status",
        kind: Kind::Gauge,
        unit: "",
        help: "How the process ended, as a shell tells it: 128 and the number of the signal that ended it.",
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

/// Writes the metrics of `processes`, of which no two may have the same id and command, and of the
/// machine where it is given. Does not allocate.
///
/// # Errors
/// Those of `out`.
pub fn write(
    form: Form,
    processes: &[Process<'_>],
    machine: Option<&Machine>,
    out: &mut impl Write,
) -> fmt::Result {
    for family in FAMILIES {
        let mut samples = Samples {
            form,
            family,
            out,
            is_begun: false,
        };
        if let (Source::Machine(read), Some(machine)) = (&family.source, machine) {
            samples.write(&[], None, &Value::Whole(read(machine)))?;
        }
        for process in processes {
            samples.of_process(process)?;
        }
    }
    match form {
        Form::Prometheus => Ok(()),
        Form::OpenMetrics | Form::Either => out.write_str("# EOF\n"),
    }
}

/// Writes one family.
struct Samples<'a, W: Write> {
    form: Form,
    family: &'static Family,
    out: &'a mut W,
    /// What describes the family is written.
    is_begun: bool,
}

impl<W: Write> Samples<'_, W> {
    fn of_process(&mut self, process: &Process<'_>) -> fmt::Result {
        let accounts = REPORTED
            .iter()
            .copied()
            .filter(|&account| is_shown(process, account));
        match &self.family.source {
            Source::Accounts(read) => {
                for account in accounts {
                    let value = Value::Whole(read(process, account));
                    self.write(&[("domain", account.name())], Some(process), &value)?;
                }
            }
            Source::Scopes(read) => {
                for scope in Scope::all() {
                    if let Scope::Account(account) = scope
                        && !is_shown(process, account)
                    {
                        continue;
                    }
                    if let Some(value) = read(process, scope) {
                        let labels = [("domain", scope.name())];
                        self.write(&labels, Some(process), &Value::Whole(value))?;
                    }
                }
            }
            Source::Failures => {
                for account in accounts {
                    let figures = process.now.account(account);
                    for (reason, count) in [
                        ("refused", figures.refused),
                        ("failed", figures.failed),
                        ("injected", figures.injected),
                    ] {
                        let labels = [("domain", account.name()), ("reason", reason)];
                        self.write(&labels, Some(process), &Value::Whole(count))?;
                    }
                }
            }
            Source::Process(read) => {
                if let Some(value) = read(process) {
                    self.write(&[], Some(process), &value)?;
                }
            }
            Source::Info => {
                let about = &process.about;
                let labels = [
                    ("version", about.host),
                    ("python", about.python),
                    ("mimalloc", about.mimalloc),
                    ("allocator", about.allocator),
                    ("native", about.native),
                    ("profile", about.profile),
                ];
                self.write(&labels, Some(process), &Value::Whole(1))?;
            }
            Source::Machine(_) => {}
        }
        Ok(())
    }

    /// Writes what describes the family.
    fn begin(&mut self) -> fmt::Result {
        let Family {
            name,
            kind,
            unit,
            help,
            ..
        } = self.family;
        // The family's name, and its type where the form can say it.
        let (name, kind) = match (kind, self.form) {
            (Kind::Gauge, _) => (*name, Some("gauge")),
            (Kind::Counter, Form::Prometheus) => (*name, Some("counter")),
            (Kind::Counter, Form::OpenMetrics) => {
                (name.strip_suffix("_total").unwrap_or(name), Some("counter"))
            }
            (Kind::Counter, Form::Either) => (*name, None),
        };
        writeln!(self.out, "# HELP {name} {help}")?;
        if let Some(kind) = kind {
            writeln!(self.out, "# TYPE {name} {kind}")?;
        }
        if !unit.is_empty() && self.form != Form::Prometheus && name.ends_with(unit) {
            writeln!(self.out, "# UNIT {name} {unit}")?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        labels: &[(&str, &str)],
        process: Option<&Process<'_>>,
        value: &Value,
    ) -> fmt::Result {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.begin()?;
        }
        self.out.write_str(self.family.name)?;
        let mut separator = '{';
        for (name, value) in labels {
            write!(self.out, "{separator}{name}=\"{}\"", Label(value))?;
            separator = ',';
        }
        if let Some(process) = process {
            if let Some(pid) = process.pid {
                write!(self.out, "{separator}pid=\"{pid}\"")?;
                separator = ',';
            }
            let command = Label(process.about.command);
            write!(self.out, "{separator}command=\"{command}\"")?;
            separator = ',';
        }
        if separator == ',' {
            self.out.write_char('}')?;
        }
        writeln!(self.out, " {value}")
    }
}

/// Whether an account has samples: not where nothing can be booked to it, and nothing was.
fn is_shown(process: &Process<'_>, account: Account) -> bool {
    process.active[account as usize] || process.now.account(account).total_blocks > 0
}

/// A label's value, escaped; control characters, which no name has, are replaced.
struct Label<'a>(&'a str);

impl Display for Label<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => out.write_str("\\\\")?,
                '"' => out.write_str("\\\"")?,
                '\n' => out.write_str("\\n")?,
                control if control.is_control() => out.write_char('\u{fffd}')?,
                other => out.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process<'a>(snapshot: &'a Snapshot, command: &'a str, pid: Option<i32>) -> Process<'a> {
        Process {
            pid: pid.map(|id| Pid {
                namespace: None,
                id,
            }),
            about: About {
                command,
                ..About::default()
            },
            now: snapshot,
            live: snapshot,
            active: [true; REPORTED.len()],
            caps: [None; Scope::COUNT],
            resident: Some(4096),
            peak_resident: None,
            started: 1_500_000_000,
            cpu_seconds: Some(0.25),
            wall_seconds: None,
            exit_status: None,
        }
    }

    fn text(form: Form, processes: &[Process<'_>], machine: Option<&Machine>) -> String {
        let mut text = String::new();
        write(form, processes, machine, &mut text).unwrap();
        text
    }

    #[test]
    fn each_form_declares_counters_its_own_way() {
        let snapshot = Snapshot::EMPTY;
        let processes = [process(&snapshot, "a.py", None)];
        for (form, declared, missing) in [
            (
                Form::OpenMetrics,
                "# TYPE pyhost_allocations counter",
                "# TYPE pyhost_allocations_total",
            ),
            (
                Form::Prometheus,
                "# TYPE pyhost_allocations_total counter",
                "# EOF",
            ),
            (
                Form::Either,
                "# HELP pyhost_allocations_total ",
                "# TYPE pyhost_allocations",
            ),
        ] {
            let text = text(form, &processes, None);
            assert!(text.contains(declared), "{text}");
            assert!(!text.contains(missing), "{text}");
            assert!(text.contains("pyhost_allocations_total{domain=\"obj\",command=\"a.py\"} 0"));
            assert_eq!(text.ends_with("\n# EOF\n"), form != Form::Prometheus);
        }
    }

    #[test]
    fn the_samples_of_a_family_stand_together_below_one_description() {
        let snapshot = Snapshot::EMPTY;
        let processes = [1, 2, 3].map(|pid| process(&snapshot, "a.py", Some(pid)));
        let machine = Machine {
            hosts: 3,
            unreadable_files: 1,
        };
        let text = text(Form::Prometheus, &processes, Some(&machine));
        let mut families = Vec::new();
        for line in text.lines() {
            let name = line.strip_prefix("# HELP ").unwrap_or(line);
            let name = name.trim_start_matches("# TYPE ");
            let name = name.split([' ', '{']).next().unwrap();
            if families.last() != Some(&name) {
                assert!(!families.contains(&name), "{name} comes again: {text}");
                families.push(name);
            }
        }
        assert_eq!(text.matches("\nprocess_resident_memory_bytes{").count(), 3);
        assert!(text.contains("\npyhost_hosts 3\n"), "{text}");
        assert!(
            !families.contains(&"pyhost_wall_seconds"),
            "no sample, no family"
        );
        assert!(!families.contains(&"pyhost_memory_cap_bytes"));
    }

    #[test]
    fn labels_are_escaped() {
        let snapshot = Snapshot::EMPTY;
        let mut odd = process(&snapshot, "a\"b\\c\nd\u{1}é", None);
        odd.pid = Some(Pid {
            namespace: Some(77),
            id: 1,
        });
        let text = text(Form::Either, &[odd], None);
        let labels = "{pid=\"77:1\",command=\"a\\\"b\\\\c\\nd\u{fffd}é\"}";
        assert!(
            text.contains(&format!("process_resident_memory_bytes{labels} 4096")),
            "{text}"
        );
    }

    #[test]
    fn families_are_named_for_both_formats() {
        for family in FAMILIES {
            let counts = family.kind == Kind::Counter;
            assert_eq!(family.name.ends_with("_total"), counts, "{}", family.name);
            let name = family.name.trim_end_matches("_total");
            assert!(name.ends_with(family.unit), "{name}");
            assert!(!family.help.contains(['"', '\\', '\n']), "{}", family.help);
        }
    }

    #[test]
    fn an_account_that_nothing_is_booked_to_has_no_samples() {
        let snapshot = Snapshot::EMPTY;
        let mut plain = process(&snapshot, "a.py", None);
        plain.active[Account::Numpy as usize] = false;
        plain.caps[Scope::Total.index()] = Some(7);
        let text = text(Form::Either, &[plain], None);
        assert!(!text.contains("numpy"), "{text}");
        assert!(text.contains("pyhost_memory_cap_bytes{domain=\"total\",command=\"a.py\"} 7\n"));
    }
}
