//! The summary of a report: the figures that `report --text` and `diff` print. A record's summary is made from its
//! report.

use crate::model::{Account, Caps, Process, Report};
use pyhost_ledger::REPORTED;
use pyhost_os::bytes::Bytes;
use pyhost_os::plain::plain;
use pyhost_record::{Record, table};
use std::fmt::Write;

/// One account's figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountSummary {
    /// The account's name.
    pub name: String,
    /// Bytes allocated and not freed.
    pub live_bytes: u64,
    /// The highest live bytes.
    pub peak_bytes: u64,
    /// Blocks allocated and not freed.
    pub live_blocks: u64,
    /// Blocks allocated so far.
    pub total_blocks: u64,
    /// Requests that a cap refused.
    pub refused: u64,
    /// Requests that the heap could not meet.
    pub failed: u64,
}

/// A process at one moment, for people. Numbers that cannot be negative are unsigned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Its process id.
    pub pid: i64,
    /// Its command line.
    pub argv: Vec<String>,
    /// The command line in one line, plain.
    pub command: String,
    /// Python's version.
    pub python: String,
    /// When it started, in the form of RFC 3339.
    pub started: String,
    /// Seconds from the start to that moment, if known.
    pub seconds: Option<f64>,
    /// Its state in words, such as `was killed`.
    pub status: String,
    /// Its accounts, in the order of a report.
    pub accounts: Vec<AccountSummary>,
    /// Live and peak bytes of all accounts together.
    pub total: (u64, u64),
    /// Resident bytes at that moment and at the peak, if known.
    pub resident: (Option<u64>, Option<u64>),
    /// Live bytes of a forked child at its start, which its parent counts too.
    pub inherited: Option<u64>,
    /// Ceilings in bytes, by name.
    pub caps: Vec<(String, u64)>,
    /// How many refusals were reported, and the last in a line.
    pub refusal: Option<(u64, String)>,
}

impl Summary {
    /// The summary of a report.
    pub fn of_report(report: &Report) -> Self {
        let process = &report.process;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let caps = report.caps.scopes.iter();
        Summary {
            pid: process.pid.unwrap_or_default(),
            command: command(&process.argv, &text(&process.command)),
            argv: process.argv.clone(),
            python: text(&report.python.version),
            started: text(&process.started),
            seconds: process.wall_seconds,
            status: status(process),
            accounts: accounts(report),
            total: (
                count(report.total.live_bytes),
                count(report.total.peak_bytes),
            ),
            resident: (
                process.resident_bytes.map(count),
                process.peak_resident_bytes.map(count),
            ),
            inherited: process.inherited_live_bytes.map(count),
            caps: caps
                .map(|(name, cap)| (name.clone(), count(cap.cap_bytes)))
                .collect(),
            refusal: refusal(&report.caps),
        }
    }

    /// The summary of a record; `alive` if its process runs.
    pub fn of_record(record: &Record, alive: bool) -> Self {
        Summary {
            // The card knows which of the words are the host's, and how the process ended.
            command: record.card().command(),
            status: match alive {
                true => "runs".to_owned(),
                false => record.card().ending(),
            },
            ..Summary::of_report(&Report::of_record(record, alive))
        }
    }

    /// A process as a table for people.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "process {} ({}), Python {}, since {}: {}\n",
            self.pid,
            self.command,
            plain(&self.python),
            plain(&self.started),
            plain(&self.status)
        );
        let _ = table::titles(&mut text);
        let _ = writeln!(text, "{:>9}{:>8}", "refused", "failed");
        let shown = |bytes| Bytes(bytes).to_string();
        for row in &self.accounts {
            let _ = table::row(
                &mut text,
                &plain(&row.name),
                [row.live_bytes, row.peak_bytes],
                [row.live_blocks, row.total_blocks],
            );
            let _ = writeln!(text, "{:>9}{:>8}", row.refused, row.failed);
        }
        let (live, peak) = self.total;
        let _ = table::total(&mut text, live, peak);
        let _ = match self.resident {
            (Some(now), Some(peak)) => {
                writeln!(text, "resident {}, peak {}", shown(now), shown(peak))
            }
            (Some(now), None) => writeln!(text, "resident {}", shown(now)),
            (None, Some(peak)) => writeln!(text, "resident peak {}", shown(peak)),
            (None, None) => Ok(()),
        };
        if let Some(bytes) = self.inherited {
            let _ = writeln!(
                text,
                "a forked child: {} of the live bytes were there at the fork, and are its parent's too",
                shown(bytes)
            );
        }
        for (name, bytes) in &self.caps {
            let _ = writeln!(text, "cap of {} ({})", shown(*bytes), plain(name));
        }
        if let Some((count, line)) = &self.refusal {
            let _ = writeln!(text, "refusals: {count}; the last: {}", plain(line));
        }
        text
    }
}

/// A number of a report that cannot be negative.
fn count(number: i64) -> u64 {
    number.max(0) as u64
}

/// A command line as a part of a line: the program without its folder, not too long, plain.
/// A process of `multiprocessing` is called by its `name`.
fn command(argv: &[String], name: &str) -> String {
    const LONGEST: usize = 80;
    let mut argv = argv.to_vec();
    if let Some(program) = argv.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if name.starts_with("multiprocessing: ") {
        argv.truncate(1);
        argv.push(name.to_owned());
    }
    let words = plain(&argv.join(" "));
    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &words[..end]),
        None => words,
    }
}

/// The accounts: those that this version knows first, in a report's order.
fn accounts(report: &Report) -> Vec<AccountSummary> {
    let known = |name: &str| REPORTED.iter().position(|account| account.name() == name);
    let mut rows: Vec<AccountSummary> = report.accounts.0.iter().map(row).collect();
    rows.sort_by_key(|row| known(&row.name).unwrap_or(REPORTED.len()));
    rows
}

fn row((name, account): &(String, Account)) -> AccountSummary {
    AccountSummary {
        name: name.clone(),
        live_bytes: count(account.live_bytes),
        peak_bytes: count(account.peak_bytes),
        live_blocks: count(account.live_blocks),
        total_blocks: count(account.total_blocks),
        refused: count(account.refused),
        failed: count(account.failed),
    }
}

fn status(process: &Process) -> String {
    match (process.ended_by.as_deref(), process.exit_status) {
        (None, _) => "ran".to_owned(),
        (Some("kill"), _) => "was killed".to_owned(),
        (Some("exec"), _) => "became another program".to_owned(),
        (Some("exit" | "_exit"), Some(status)) => format!("ended with status {status}"),
        (Some(other), _) => format!("ended by {other}"),
    }
}

/// The last refusal: in a line, as `pyhostctl` writes it, or from the host's dossier.
fn refusal(caps: &Caps) -> Option<(u64, String)> {
    if let Some(line) = &caps.last_refusal {
        return Some((count(caps.told_refusals?), line.clone()));
    }
    let dossier = caps.dossier.as_ref()?;
    let bytes = |number| Bytes(count(number));
    Some((
        count(dossier.number),
        format!(
            "{} asked for {} with {} live, cap of {} ({})",
            dossier.account,
            bytes(dossier.size_bytes),
            bytes(dossier.live_bytes),
            bytes(dossier.cap_bytes),
            dossier.scope,
        ),
    ))
}
