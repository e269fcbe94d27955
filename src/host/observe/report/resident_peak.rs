//! The highest resident size in a report. Does not allocate.

use super::{Report, Sink, balance, peak};
use crate::observe::balance::Library;
use crate::observe::resident_peak::{NamedMaps, ResidentSample};
use pyhost_os::cell::HeldLatest;
use pyhost_record::table::HighestResident;
use std::fmt::{self, Write};

/// The libraries that have mapped anything.
fn libraries<'a>(
    named: &'a Option<HeldLatest<'static, NamedMaps>>,
) -> impl Iterator<Item = &'a Library> + Clone {
    let all = named.as_ref().map(|named| named.libraries.iter());
    all.into_iter().flatten().filter(|it| it.mapped > 0)
}

/// Says the section `at_resident_peak`, or null.
pub fn describe(report: &Report<'_>, sink: &mut impl Sink) {
    let sample = report.at_resident_peak.as_deref();
    sink.object("at_resident_peak", sample, |seen, sink| {
        sink.fraction("seconds", seen.time as f64 / 1e9);
        sink.int("resident_bytes", seen.resident as i64);
        let missed = seen.missed(report.resident.peak);
        sink.known("missed_bytes", missed);
        sink.int("live_bytes", seen.ledger.total_live_bytes as i64);
        peak::describe_accounts(&seen.ledger, sink);
        sink.int("shared_bytes", seen.shared as i64);
        sink.int("heap_resident_bytes", seen.quick.heaps as i64);
        sink.int("stack_resident_bytes", seen.quick.stacks as i64);
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
pub fn lines(report: &Report<'_>, out: &mut impl Write) -> Result<bool, fmt::Error> {
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
            seen.others(),
        ],
        missed: seen.missed(report.resident.peak),
    };
    let now = report.resident.now.unwrap_or(0);
    let is_shown = highest.says_more_than(now.max(peak::shown_resident(report)));
    if is_shown {
        highest.parts(out)?;
        balance::libraries(libraries(&seen.named()), out)?;
    }
    highest.missed(out)?;
    Ok(is_shown)
}
