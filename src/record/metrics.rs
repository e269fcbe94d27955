//! The metrics of hosts in the format of Prometheus (OpenMetrics). The same renderer serves `--stats=openmetrics`, by
//! which a host writes its own, and `pyhostctl serve`, which writes those of all running hosts.
//!
//! The families are a table; [`write()`] walks it, and within a family the processes, since the samples
//! of a family must stand together. A family without a sample is left out. Nothing here allocates,
//! so that a signal handler can write it.
//!
//! The two formats disagree on how the type of a counter is declared: Prometheus's own names the
//! sample (`x_total`), OpenMetrics the family (`x`), and takes the other's form for an error. So there
//! is a third form, [`Form::Either`], which leaves the type of counters out and is valid in both.

#![deny(unsafe_code)]

mod families;

use crate::directory::Identity;
use families::{FAMILIES, Family, Source, Value};
use pyhost_ledger::{Account, REPORTED, Scope, Snapshot};
use std::fmt::{self, Display, Write};
use std::str::FromStr;

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
    pub const fn content_type(self) -> &'static str {
        match self {
            Form::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Form::Prometheus | Form::Either => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The bytes of a command's name that are kept.
pub const COMMAND_BYTES: usize = 64;

/// How a process is named, by a label's value and a word of `pyhostctl`'s: `17`, or `4026532198:17` for one of several pid
/// namespaces, whose ids may be the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pid {
    /// Inode of the namespace, if it is not the reader's.
    pub namespace: Option<u64>,
    /// The id there.
    pub id: i32,
}

impl Pid {
    /// That process alone.
    pub fn of(identity: &Identity) -> Self {
        Pid {
            namespace: Some(identity.pid_namespace),
            id: identity.pid,
        }
    }

    /// Whether it may mean that process.
    pub fn fits(&self, identity: &Identity) -> bool {
        let is_there = |namespace| namespace == identity.pid_namespace;
        identity.pid == self.id && self.namespace.is_none_or(is_there)
    }
}

impl FromStr for Pid {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = |_| "expected a process id, or NAMESPACE:PID";
        let (namespace, id) = match text.split_once(':') {
            Some((namespace, id)) => (Some(namespace.parse().map_err(expected)?), id),
            None => (None, text),
        };
        let id = id.parse().map_err(expected)?;
        Ok(Pid { namespace, id })
    }
}

impl Display for Pid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace {
            Some(namespace) => write!(out, "{namespace}:{}", self.id),
            None => write!(out, "{}", self.id),
        }
    }
}

/// What a process runs on, by the names of labels: the host, Python, mimalloc, the allocator, the native mode, the profile.
pub const ABOUT: [&str; 6] = [
    "version",
    "python",
    "mimalloc",
    "allocator",
    "native",
    "profile",
];

#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub service: &'a str,
    /// `host`, or `fork` of a forked child.
    pub role: &'a str,
    /// Which of those with the same role. Who takes the place of one that has ended has its number.
    pub worker: usize,
}

/// The known facts of a process. A `None` gives no sample.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// Its id, where that is to be a label.
    pub pid: Option<Pid>,
    /// What takes the id's place as labels.
    pub member: Option<Member<'a>>,
    /// The script's name.
    pub command: &'a str,
    /// The values of [`ABOUT`].
    pub about: [&'a str; ABOUT.len()],
    /// Peaks and totals.
    pub now: &'a Snapshot,
    /// Live bytes and blocks.
    pub live: &'a Snapshot,
    /// Whether anything is booked to an account, by the account's index.
    pub active: [bool; REPORTED.len()],
    /// The caps in force, by the scope's index.
    pub caps: [Option<u64>; Scope::COUNT],
    /// Seconds since the total's cap was computed, if it follows a limit.
    pub cap_age: Option<f64>,
    /// Live bytes that a forked child began with.
    pub inherited: Option<u64>,
    pub resident: Option<u64>,
    /// The most bytes that were resident.
    pub peak_resident: Option<u64>,
    /// When it started, in nanoseconds since the epoch.
    pub started: u64,
    /// Seconds of processor time, user and system.
    pub cpu_seconds: Option<f64>,
    /// Seconds from its start to its report.
    pub wall_seconds: Option<f64>,
    /// How it ended, as a shell shows it: 128 plus the signal if a signal ended it.
    pub exit_status: Option<i32>,
}

/// Figures of a machine beside those of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub hosts: u64,
    /// Files of the directory that are no ledger.
    pub unreadable_files: u64,
}

/// Writes the metrics of `processes`, of which no two may have the same id and command, and of the
/// machine where it is given. Does not allocate.
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

struct Samples<'a, W: Write> {
    form: Form,
    family: &'static Family,
    out: &'a mut W,
    /// Whether the description of the family is written.
    is_begun: bool,
}

impl<W: Write> Samples<'_, W> {
    fn of_process(&mut self, process: &Process<'_>) -> fmt::Result {
        let accounts = REPORTED.iter().copied();
        let accounts = accounts.filter(|&account| is_shown(process, account));
        match &self.family.source {
            Source::Scopes(read) => {
                for scope in accounts.map(Scope::Account).chain([Scope::Total]) {
                    if let Some(value) = read(process, scope) {
                        let labels = [("account", scope.name())];
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
                        let labels = [("account", account.name()), ("reason", reason)];
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
                let labels: [_; ABOUT.len()] =
                    std::array::from_fn(|index| (ABOUT[index], process.about[index]));
                self.write(&labels, Some(process), &Value::Whole(1))?;
            }
            Source::Machine(_) => {}
        }
        Ok(())
    }

    /// Writes what describes the family.
    fn begin(&mut self) -> fmt::Result {
        let Family { name, help, .. } = self.family;
        let unit = self.family.unit();
        // The family's name, and its type where the form can say it.
        let (name, kind) = match self.form {
            _ if !name.ends_with("_total") => (*name, Some("gauge")),
            Form::Prometheus => (*name, Some("counter")),
            Form::OpenMetrics => (name.trim_end_matches("_total"), Some("counter")),
            Form::Either => (*name, None),
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
        let mut label = |name: &str, value: &dyn Display| {
            let begin = std::mem::replace(&mut separator, ',');
            write!(self.out, "{begin}{name}=\"{value}\"")
        };
        for (name, value) in labels {
            label(name, &Label(value))?;
        }
        if let Some(process) = process {
            if let Some(member) = process.member {
                label("service", &Label(member.service))?;
                label("role", &member.role)?;
                label("worker", &member.worker)?;
            } else if let Some(pid) = process.pid {
                label("pid", &pid)?;
            }
            label("command", &Label(process.command))?;
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
        self.0.chars().try_for_each(|letter| match letter {
            '\\' => out.write_str("\\\\"),
            '"' => out.write_str("\\\""),
            '\n' => out.write_str("\\n"),
            control if control.is_control() => out.write_char('\u{fffd}'),
            other => out.write_char(other),
        })
    }
}
