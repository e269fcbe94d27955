//! `pyhostctl top --once`: the hosts that run, a line each, with whole command lines.

use super::sample::SampledHost;
use super::tables::clock;
use crate::failure::{Failure, print};
use crate::find;
use pyhost_ledger::Scope;
use pyhost_os::bytes::Bytes;
use pyhost_os::clock;
use std::io::IsTerminal;
use std::path::Path;

pub fn run(directory: &Path) -> Result<(), Failure> {
    // As wide as the terminal; all for a program that reads it.
    let is_terminal = std::io::stdout().is_terminal();
    let columns = is_terminal.then(crossterm::terminal::size);
    let columns = columns
        .and_then(|size| size.ok())
        .map(|(columns, _)| usize::from(columns));
    let hosts = find::running(directory)?.hosts;
    let lengths = hosts.iter().map(|host| host.name.to_string().len());
    let wide = lengths.max().unwrap_or(0).max(8);
    let mut text = format!(
        "{:>wide$} {:>10} {:>11} {:>11} {:>11} {:>11} {:>17} {:>8}  COMMAND\n",
        "PID", "TIME", "LIVE", "PEAK", "RESIDENT", "RES PEAK", "CAP (AGE)", "REFUSED"
    );
    for host in hosts {
        let name = host.name.to_string();
        let host = SampledHost::at_once(host);
        let header = host.record.header();
        let figures = host.total();
        let shown = |bytes: Option<u64>| bytes.map_or("-".to_owned(), |it| Bytes(it).to_string());
        let mut cap = shown(host.cap(Scope::Total).map(|used| used.cap));
        // One that follows a limit is of the moment when the host looked last.
        let age = header.cap_age(clock::monotonic());
        if let Some(age @ 1..) = age.map(|seconds| seconds as u64) {
            cap += &format!(" ({age} s)");
        }
        let [live, peak] = [figures.live_bytes, figures.peak_bytes].map(Bytes);
        let (time, resident) = (clock(host.seconds), shown(host.resident));
        let (refused, command) = (figures.refused, header.whole_command());
        let mut row = format!("{name:>wide$} {time:>10} {live:>11} {peak:>11} {resident:>11} ");
        let most = shown(host.peak_resident);
        row += &format!("{most:>11} {cap:>17} {refused:>8}  {command}");
        match columns {
            Some(most) => text.extend(row.chars().take(most)),
            None => text += &row,
        }
        text.push('\n');
    }
    print(&text)
}
