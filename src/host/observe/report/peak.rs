//! The peak in a report. Does not allocate.
//!
//! The data of the peak is not copied: a report may be written on the stack of a signal handler.

use super::{Report, Sink, balance, dossier};
use crate::observe::balance::{Balance, Library};
use crate::observe::peak::{self, BalanceSheet, QuickSample};
use crate::observe::resident_peak::{NamedMaps, ResidentSample};
use crate::{bytes::Bytes, heap::big_blocks::BigBlocks, ledger::Snapshot};
use pyhost_os::cell::HeldLatest;
use pyhost_record::table::HighestResident;
use std::fmt::{self, Write};

/// Where the highest moment is found.
pub struct AtPeak {
    /// The highest moment that was seen; None if the moment that the report shows is as high.
    sample: Option<HeldLatest<'static, QuickSample>>,
    sheet: HighestSheet,
    /// Seconds from the start to the moment that the report shows.
    shown_at: f64,
}

enum HighestSheet {
    Seen(HeldLatest<'static, BalanceSheet>),
    /// The one that the report shows.
    Shown,
    None,
}

impl AtPeak {
    /// Compares what was seen with the moment that a report shows: its live bytes, when it was, and whether
    /// it has a balance sheet. A sheet of less than half the peak says nothing of it.
    pub fn find(live: u64, seconds: f64, has_sheet: bool) -> Self {
        let sample = peak::highest().filter(|seen| seen.ledger.total_live_bytes > live);
        let of_sample = |seen: &QuickSample| seen.ledger.total_live_bytes;
        let highest = sample.as_deref().map_or(live, of_sample);
        let is_high = |live: u64| live >= highest / 2;
        let seen = peak::highest_sheet().filter(|seen| is_high(seen.live));
        let sheet = match seen {
            Some(seen) if !has_sheet || seen.live > live => HighestSheet::Seen(seen),
            _ if has_sheet && is_high(live) => HighestSheet::Shown,
            _ => HighestSheet::None,
        };
        AtPeak {
            sample,
            sheet,
            shown_at: seconds,
        }
    }
}

struct Moment<'a> {
    seconds: f64,
    ledger: &'a Snapshot,
    resident: Option<u64>,
    big_blocks: &'a BigBlocks,
    /// Seconds, live bytes and the sheet.
    sheet: Option<(f64, u64, &'a Balance)>,
}

impl<'a> Moment<'a> {
    fn of(report: &'a Report<'_>) -> Option<Self> {
        let at_peak = report.at_peak.as_ref()?;
        let shown = report.live();
        let sheet = match &at_peak.sheet {
            HighestSheet::Seen(seen) => Some((seen.time as f64 / 1e9, seen.live, &seen.balance)),
            HighestSheet::Shown => report
                .balance
                .map(|sheet| (at_peak.shown_at, shown.total_live_bytes, sheet)),
            HighestSheet::None => None,
        };
        let seen = at_peak.sample.as_deref();
        Some(Moment {
            seconds: seen.map_or(at_peak.shown_at, |seen| seen.time as f64 / 1e9),
            ledger: seen.map_or(shown, |seen| &seen.ledger),
            resident: seen.map_or(report.resident.now, |seen| seen.resident),
            big_blocks: seen.map_or(&report.big_blocks, |seen| &seen.big_blocks),
            sheet,
        })
    }

    /// Whether the table has it: it is an eighth above what the report shows anyway.
    fn is_shown(&self, report: &Report<'_>) -> bool {
        let shown = report.live().total_live_bytes;
        self.ledger.total_live_bytes > shown + shown / 8
    }
}

/// Says the section `at_peak`, or null.
pub fn describe(report: &Report<'_>, sink: &mut impl Sink) {
    sink.object("at_peak", Moment::of(report), |peak, sink| {
        sink.fraction("seconds", peak.seconds);
        sink.int("live_bytes", peak.ledger.total_live_bytes as i64);
        describe_accounts(peak.ledger, sink);
        sink.known("resident_bytes", peak.resident);
        dossier::describe_big_blocks(peak.big_blocks, sink);
        sink.object("balance", peak.sheet, |(seconds, live, sheet), sink| {
            sink.fraction("seconds", seconds);
            sink.int("live_bytes", live as i64);
            balance::describe(sheet, sink);
        });
    });
}

/// Says the live bytes of each account at one moment.
pub fn describe_accounts(ledger: &Snapshot, sink: &mut impl Sink) {
    sink.begin("accounts");
    for (account, figures) in ledger.accounts() {
        sink.int(account.name(), figures.live_bytes as i64);
    }
    sink.end();
}

/// Writes the lines of the table, if the peak is an eighth above what the report shows anyway.
pub fn lines(report: &Report<'_>, out: &mut impl Write) -> fmt::Result {
    let Some(peak) = Moment::of(report).filter(|peak| peak.is_shown(report)) else {
        return Ok(());
    };
    let (seconds, live) = (peak.seconds, Bytes(peak.ledger.total_live_bytes));
    write!(out, "at the peak, after {seconds:.2} s: live {live}")?;
    if let Some(resident) = peak.resident {
        write!(out, ", resident {}", Bytes(resident))?;
    }
    let big = peak.big_blocks;
    match big.blocks {
        0 => writeln!(out)?,
        1 => writeln!(out, "; 1 big block, {}", Bytes(big.bytes))?,
        blocks => writeln!(out, "; {blocks} big blocks, {}", Bytes(big.bytes))?,
    }
    for block in big.largest.iter().flatten().take(3) {
        dossier::block_line(block, (big.at - block.made).max(0.0), out)?;
    }
    let Some((seconds, live, sheet)) = peak.sheet else {
        return Ok(());
    };
    let when = format_args!("after {seconds:.2} s, with {} live", Bytes(live));
    balance::lines(sheet, when, out)
}

fn libraries<'a>(
    named: &'a Option<HeldLatest<'static, NamedMaps>>,
) -> impl Iterator<Item = &'a Library> + Clone {
    let all = named.as_ref().map(|named| named.libraries.iter());
    all.into_iter().flatten().filter(|it| it.mapped > 0)
}

/// Says the section `at_resident_peak`, or null.
pub fn describe_resident(report: &Report<'_>, sink: &mut impl Sink) {
    let sample = report.at_resident_peak.as_deref();
    sink.object("at_resident_peak", sample, |seen, sink| {
        sink.fraction("seconds", seen.time as f64 / 1e9);
        sink.int("resident_bytes", seen.resident as i64);
        let missed = seen.missed(report.resident.peak);
        sink.known("missed_bytes", missed);
        sink.int("live_bytes", seen.ledger.total_live_bytes as i64);
        describe_accounts(&seen.ledger, sink);
        sink.int("shared_bytes", seen.shared as i64);
        sink.int("heap_resident_bytes", seen.quick.heaps as i64);
        sink.int("stack_resident_bytes", seen.quick.stacks as i64);
        sink.int("library_data_resident_bytes", seen.quick.zeroed as i64);
        sink.int("other_bytes", seen.others() as i64);
        sink.int("mapped_resident_bytes", seen.mapped() as i64);
        let named = seen.named();
        match named.is_none() && seen.mapped() > 0 {
            true => sink.null("mapped"),
            false => sink.list("mapped", libraries(&named), balance::describe_library),
        }
    });
}

/// Writes the lines of the table, if it has them; whether it has the moment's parts.
pub fn resident_lines(report: &Report<'_>, out: &mut impl Write) -> Result<bool, fmt::Error> {
    let Some(seen): Option<&ResidentSample> = report.at_resident_peak.as_deref() else {
        return Ok(false);
    };
    let quick = &seen.quick;
    let highest = HighestResident {
        seconds: seen.time as f64 / 1e9,
        resident: seen.resident,
        live: seen.ledger.total_live_bytes,
        parts: [
            seen.mapped(),
            quick.heaps,
            seen.shared,
            quick.stacks,
            quick.zeroed,
            seen.others(),
        ],
        missed: seen.missed(report.resident.peak),
    };
    let peak = Moment::of(report).filter(|peak| peak.is_shown(report));
    let shown = peak.and_then(|peak| peak.resident);
    let is_shown = highest.says_more_than(shown.max(report.resident.now).unwrap_or(0));
    if is_shown {
        highest.parts(out)?;
        balance::libraries(libraries(&seen.named()), out)?;
    }
    highest.missed(out)?;
    Ok(is_shown)
}
