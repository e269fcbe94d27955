//! The highest resident size in a report. Does not allocate.

use super::{Report, Sink, balance, peak};
use crate::bytes::Bytes;
use crate::observe::balance::Library;
use crate::observe::resident_peak::{NamedMaps, ResidentSample};
use pyhost_os::cell::HeldLatest;
use std::fmt::{self, Write};

/// A moment that was not seen is named if so much more was resident, as one part in so many.
const NOTABLE: u64 = 32;

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
        sink.list("mapped", libraries(&named), balance::describe_library);
    });
}

/// Whether the table has it: libraries' maps are a part of it, or an eighth more was resident than the report shows anyway.
fn is_shown(report: &Report<'_>, seen: &ResidentSample) -> bool {
    let shown = report.resident.now.unwrap_or(0);
    let shown = shown.max(peak::shown_resident(report));
    seen.resident > shown + shown / 8 || seen.mapped() > seen.resident / 8
}

/// Writes the lines of the table, if it has them; whether it has the moment's parts.
pub fn lines(report: &Report<'_>, out: &mut impl Write) -> Result<bool, fmt::Error> {
    let Some(seen): Option<&ResidentSample> = report.at_resident_peak.as_deref() else {
        return Ok(false);
    };
    let is_shown = is_shown(report, seen);
    if is_shown {
        writeln!(
            out,
            "at the highest resident size, after {:.2} s: resident {}, with {} live, of which\n  libraries' maps {}, heaps {}, files {}, \
             stacks {}, others {}",
            seen.time as f64 / 1e9,
            Bytes(seen.resident),
            Bytes(seen.ledger.total_live_bytes),
            Bytes(seen.mapped()),
            Bytes(seen.quick.heaps),
            Bytes(seen.shared),
            Bytes(seen.quick.stacks),
            Bytes(seen.others()),
        )?;
        balance::libraries(libraries(&seen.named()), out)?;
    }
    if let Some(missed) = seen.missed(report.resident.peak)
        && missed > report.resident.peak / NOTABLE
    {
        writeln!(
            out,
            "the peak was {} higher than the highest moment that was seen",
            Bytes(missed)
        )?;
    }
    Ok(is_shown)
}
