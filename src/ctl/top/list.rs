//! `pyhostctl top --once`: the hosts that run, a line each, with whole command lines.

use super::tables::clock;
use crate::failure::{Failure, print};
use crate::find::{self, Name};
use pyhost_ledger::Scope;
use pyhost_os::bytes::Bytes;
use pyhost_os::clock;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

pub fn run(directory: &Path) -> Result<(), Failure> {
    // As wide as the terminal; all for a program that reads it.
    let is_terminal = std::io::stdout().is_terminal();
    let columns = is_terminal.then(crossterm::terminal::size);
    let columns = columns
        .and_then(|size| size.ok())
        .map(|(columns, _)| usize::from(columns));
    let hosts = find::running(directory)?.hosts;
    let names = find::names(&hosts);
    let names: Vec<String> = names.iter().map(Name::to_string).collect();
    let wide = names.iter().map(String::len).max().unwrap_or(0).max(8);
    let mut text = format!(
        "{:>wide$} {:>10} {:>11} {:>11} {:>11} {:>17} {:>8}  COMMAND\n",
        "PID", "TIME", "LIVE", "PEAK", "RESIDENT", "CAP (AGE)", "REFUSED"
    );
    for (host, name) in hosts.iter().zip(names) {
        let record = &host.record;
        let seconds =
            clock::now().saturating_sub(record.header().started.load(Relaxed)) / 1_000_000_000;
        let cap = record.caps.iter().find(|cap| cap.scope == Scope::Total);
        let shown =
            |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| Bytes(bytes).to_string());
        // One that follows a limit is of the moment when the host looked last.
        let age = record.header().cap_age(clock::monotonic());
        let age = age.map_or(0, |seconds| seconds as u64);
        let cap = shown(cap.map(|cap| cap.bytes));
        let cap = match age {
            0 => cap,
            age => format!("{cap} ({age} s)"),
        };
        let refused = record.snapshot.refused();
        let row = format!(
            "{name:>wide$} {:>10} {:>11} {:>11} {:>11} {:>17} {:>8}  {}",
            clock(seconds),
            shown(Some(record.snapshot.total_live_bytes)),
            shown(Some(record.snapshot.total_peak_bytes)),
            shown(host.usage.resident),
            cap,
            refused,
            record.header().whole_command()
        );
        match columns {
            Some(most) => text.extend(row.chars().take(most)),
            None => text += &row,
        }
        text.push('\n');
    }
    print(&text)
}
