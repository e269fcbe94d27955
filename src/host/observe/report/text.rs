//! A report as people read it: a table, or one closing line. Does not allocate.

use super::{Ending, Report};
use crate::ledger::{Account, AccountFigures};
use crate::{bytes::Bytes, libc_exports::native, python::numpy, resident::Source};
use pyhost_record::table;
use std::fmt::{self, Write};

pub fn table(report: &Report<'_>, out: &mut impl Write) -> fmt::Result {
    let (version, seconds) = (&report.facts.python_version, report.wall_seconds);
    write!(out, "pyhost: Python {version}, {seconds:.2} s, ")?;
    write!(out, "{}", report.ending)?;
    if report.partial {
        out.write_str(" (partial: taken in a signal handler)")?;
    }
    writeln!(out)?;
    table::titles(out)?;
    writeln!(out)?;
    for (account, figures) in report.now.accounts() {
        if report.facts.is_active(account) && account.is_in_total() {
            row(report, account, figures, out)?;
        }
    }
    let total = report.live().total_live_bytes;
    table::total(out, total, report.now.total_peak_bytes)?;
    let mapped = report.now.account(Account::Mapped);
    if mapped.total_blocks + mapped.refused > 0 && report.facts.is_active(Account::Mapped) {
        row(report, Account::Mapped, mapped, out)?;
    }
    resident_line(report, out)?;
    if let Some(balance) = report.balance {
        let when = match report.ending {
            Ending::Running => "now",
            _ => "when the script ended",
        };
        super::balance::lines(balance, when, out)?;
    }
    super::peak::lines(report, out)?;
    let shows_resident = super::peak::resident_lines(report, out)?;
    super::lines::lines(out, report.partial, shows_resident)?;
    if let Some(figures) = &report.numpy {
        numpy_line(figures, out)?;
    }
    if let Some(figures) = &report.region {
        super::heaps::bounded_line(figures, out)?;
    }
    if let Some(figures) = &report.guards {
        super::heaps::guards_line(figures, out)?;
    }
    if report.forks > 0 {
        let (forks, child) = (report.forks, &report.largest_child);
        let (bound, peak) = (child.peak.map_or("at most ", |_| ""), Bytes(child.at_most));
        let what = "the largest child's resident peak";
        writeln!(
            out,
            "not in these figures: {forks} forks; {what} {bound}{peak}"
        )?;
    }
    Ok(())
}

fn resident_line(report: &Report<'_>, out: &mut impl Write) -> fmt::Result {
    let peak = Bytes(report.resident.peak);
    match report.resident.now {
        Some(bytes) => write!(out, "resident {}, peak ", Bytes(bytes))?,
        None => out.write_str("resident unknown, peak ")?,
    }
    match report.resident.source {
        Source::HighWaterMark => write!(out, "{peak}")?,
        Source::Usage => write!(
            out,
            "at most {peak} (ru_maxrss: /proc/self/status is not readable)"
        )?,
    }
    write!(out, "; allocator {}", report.facts.allocator)?;
    if report.facts.debug_hooks {
        out.write_str(", debug hooks")?;
    }
    match native::left_to() {
        Some(tool) => writeln!(out, ", left to {tool}"),
        None => writeln!(out),
    }
}

/// Writes an account's line, and those of its requests that were not met.
fn row(
    report: &Report<'_>,
    account: Account,
    figures: &AccountFigures,
    out: &mut impl Write,
) -> fmt::Result {
    let live = report.live().account(account);
    let bytes = [live.live_bytes, figures.peak_bytes];
    let blocks = [live.live_blocks, figures.total_blocks];
    table::row(out, account.name(), bytes, blocks)?;
    writeln!(out)?;
    for (count, what) in [
        (figures.refused, "refused"),
        (figures.failed, "failed"),
        (figures.injected, "made to fail (--fail)"),
    ] {
        if count > 0 {
            writeln!(out, "        {count} requests {what}")?;
        }
    }
    Ok(())
}

fn numpy_line(figures: &numpy::ArrayFigures, out: &mut impl Write) -> fmt::Result {
    if let Some(version) = figures.version {
        write!(out, "NumPy {version}: ")?;
    }
    let (from, alignment) = (figures.allocator, figures.alignment);
    write!(out, "array data from {from}, aligned to {alignment}")?;
    if let Some(pool) = &figures.pool {
        let [hits, misses, evictions] = [pool.hits, pool.misses, pool.evictions];
        let (bytes, blocks) = (Bytes(pool.kept_bytes), pool.kept_blocks);
        write!(
            out,
            "; {hits} hits, {misses} misses, {evictions} evictions, "
        )?;
        write!(out, "{bytes} kept in {blocks} blocks")?;
    }
    if let Some(region) = &figures.region {
        let [size, reserved] = [region.region_bytes, region.reserved_bytes].map(Bytes);
        let (free, fragmentation) = (Bytes(region.largest_free_bytes), region.fragmentation());
        write!(out, "; region {size} of {reserved}, largest free {free}, ")?;
        write!(out, "fragmentation {fragmentation:.2}")?;
    }
    writeln!(out)
}

/// Writes the one line that ends an interactive run.
pub fn closing_line(report: &Report<'_>, out: &mut impl Write) -> fmt::Result {
    write!(out, "pyhost: peak {}", Bytes(report.now.total_peak_bytes))?;
    let mut separator = " (";
    for (account, figures) in report.now.accounts() {
        if report.facts.is_active(account) && account.is_in_total() {
            let (name, peak) = (account.name(), Bytes(figures.peak_bytes));
            write!(out, "{separator}{name} {peak}")?;
            separator = ", ";
        }
    }
    out.write_str(")\n")
}
