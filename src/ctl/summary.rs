//! A report for people: the figures that `report --text` and `diff` print.

use crate::model::{Account, Caps, OfHeader, Report};
use pyhost_ledger::REPORTED;
use pyhost_ledger::header::{command_line, shortened};
use pyhost_os::{bytes::Bytes, terminal_text::plain};
use pyhost_record::table;
use std::fmt::Write;

impl Report {
    /// The accounts: those that this version knows first, in a report's order.
    pub fn sorted_accounts(&self) -> Vec<(&String, &Account)> {
        let known = |name: &str| REPORTED.iter().position(|account| account.name() == name);
        let mut rows: Vec<_> = self.accounts.iter().collect();
        rows.sort_by_key(|(name, _)| known(name).unwrap_or(REPORTED.len()));
        rows
    }

    /// What runs, since when, and how it is; `when` says which moment it is of.
    pub fn line(&self, when: &str) -> String {
        let text = |text: &Option<String>| text.as_deref().map(plain).unwrap_or_default();
        let (process, python) = (&self.process, text(&self.python.version));
        let (pid, since) = (process.pid.unwrap_or_default(), text(&process.started));
        let (command, status) = (command(self), plain(&status(self)));
        format!("process {pid} ({command}), Python {python}, since {since}{when}: {status}\n")
    }

    /// A process as a table for people.
    pub fn to_text(&self) -> String {
        let (total, process) = (&self.total, &self.process);
        let mut text = self.line("");
        let _ = table::titles(&mut text);
        let _ = writeln!(text, "{:>9}{:>8}", "refused", "failed");
        for (name, row) in self.sorted_accounts() {
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
        if let Some((highest, is_shown)) = self.highest_resident() {
            if is_shown {
                let _ = highest.parts(&mut text);
                let seen = self.at_resident_peak.as_ref();
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
        for (name, cap, _) in self.caps.heights() {
            let _ = writeln!(text, "cap of {} ({})", bytes(cap), plain(name));
        }
        if let Some((count, line)) = refusal(&self.caps) {
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
    if let Some(OfHeader { command, .. }) = &report.of_header {
        return command.clone();
    }
    let script = report.process.command.as_deref().unwrap_or_default();
    shortened(&command_line(report.process.argv.clone(), script))
}

fn status(report: &Report) -> String {
    if let Some(OfHeader { status, .. }) = &report.of_header {
        return status.clone();
    }
    let process = &report.process;
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
