//! The summary of a report: the figures that `report --text` and `diff` print. A record's summary is made from its
//! report.

use crate::model::{Account, Caps, Process, Report};
use pyhost_ledger::REPORTED;
use pyhost_ledger::header::{command_line, shortened};
use pyhost_os::{bytes::Bytes, terminal_text::plain};
use pyhost_record::{Record, table};
use std::fmt::Write;

/// A process at one moment, for people.
#[derive(Debug, Default)]
pub struct Summary {
    pub report: Box<Report>,
    /// The command line in one line, plain.
    pub command: String,
    /// Its state in words, such as `was killed`.
    status: String,
}

impl Summary {
    pub fn of_report(report: Box<Report>) -> Self {
        Summary {
            command: command(&report),
            status: status(&report.process),
            report,
        }
    }

    /// The summary of a record, of which `report` was made; `alive` if its process runs.
    pub fn of_record(record: &Record, alive: bool, report: Box<Report>) -> Self {
        Summary {
            // The header knows which of the words are the host's, and how the process ended.
            command: record.header().command(),
            status: match alive {
                true => "runs".to_owned(),
                false => record.header().ending(),
            },
            report,
        }
    }

    /// The accounts: those that this version knows first, in a report's order.
    pub fn accounts(&self) -> Vec<(&String, &Account)> {
        let known = |name: &str| REPORTED.iter().position(|account| account.name() == name);
        let mut rows: Vec<_> = self.report.accounts.iter().collect();
        rows.sort_by_key(|(name, _)| known(name).unwrap_or(REPORTED.len()));
        rows
    }

    /// What runs, since when, and how it is; `when` says which moment it is of.
    pub fn line(&self, when: &str) -> String {
        let text = |text: &Option<String>| text.as_deref().map(plain).unwrap_or_default();
        let (process, python) = (&self.report.process, text(&self.report.python.version));
        let (pid, since) = (process.pid.unwrap_or_default(), text(&process.started));
        let (command, status) = (&self.command, plain(&self.status));
        format!("process {pid} ({command}), Python {python}, since {since}{when}: {status}\n")
    }

    /// A process as a table for people.
    pub fn to_text(&self) -> String {
        let (total, process) = (&self.report.total, &self.report.process);
        let mut text = self.line("");
        let _ = table::titles(&mut text);
        let _ = writeln!(text, "{:>9}{:>8}", "refused", "failed");
        for (name, row) in self.accounts() {
            let sizes = [row.live_bytes, row.peak_bytes].map(count);
            let blocks = [row.live_blocks, row.total_blocks].map(count);
            let _ = table::row(&mut text, &plain(name), sizes, blocks);
            let _ = writeln!(text, "{:>9}{:>8}", row.refused, row.failed);
        }
        let _ = table::total(&mut text, count(total.live_bytes), count(total.peak_bytes));
        let _ = match (process.resident_bytes, process.peak_resident_bytes) {
            (Some(now), Some(peak)) => {
                writeln!(text, "resident {}, peak {}", bytes(now), bytes(peak))
            }
            (Some(now), None) => writeln!(text, "resident {}", bytes(now)),
            (None, Some(peak)) => writeln!(text, "resident peak {}", bytes(peak)),
            (None, None) => Ok(()),
        };
        if let Some((highest, is_shown)) = self.report.highest_resident() {
            if is_shown {
                let _ = highest.parts(&mut text);
                let seen = self.report.at_resident_peak.as_ref();
                let mapped = seen.and_then(|seen| seen.mapped.as_ref());
                let mapped = mapped.into_iter().flatten().map(|it| {
                    let bytes = [it.mapped_bytes, it.resident_bytes].map(count);
                    (it.library.as_str(), bytes)
                });
                let _ = table::mapped_by(mapped, &mut text);
            }
            let _ = highest.missed(&mut text);
        }
        if let Some(inherited) = process.inherited_live_bytes {
            let _ = writeln!(
                text,
                "a forked child: {} of the live bytes were there at the fork, and are its parent's too",
                bytes(inherited)
            );
        }
        for (name, cap, _) in self.report.caps.heights() {
            let _ = writeln!(text, "cap of {} ({})", bytes(cap), plain(name));
        }
        if let Some((count, line)) = refusal(&self.report.caps) {
            let _ = writeln!(text, "refusals: {count}; the last: {}", plain(&line));
        }
        text
    }
}

/// A number of a report that cannot be negative.
fn count(number: i64) -> u64 {
    number.max(0) as u64
}

pub fn bytes(number: i64) -> Bytes {
    Bytes(count(number))
}

/// A difference of bytes, with its sign.
pub fn signed(change: i64) -> String {
    let sign = match change {
        0 => return "0".to_owned(),
        1.. => '+',
        _ => '-',
    };
    format!("{sign}{}", Bytes(change.unsigned_abs()))
}

/// The command line as a part of a line, as a header has it.
pub fn command(report: &Report) -> String {
    let script = report.process.command.as_deref().unwrap_or_default();
    shortened(&command_line(report.process.argv.clone(), script))
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
    let [size, live, cap] = [dossier.size_bytes, dossier.live_bytes, dossier.cap_bytes].map(bytes);
    let (account, scope) = (&dossier.account, &dossier.scope);
    let text = format!("{account} asked for {size} with {live} live, cap of {cap} ({scope})");
    Some((count(dossier.number), text))
}
