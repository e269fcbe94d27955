//! Guard pages in a report.

use super::Sink;
use crate::heap::guards::GuardFigures;
use pyhost_record::figures;
use std::fmt::{self, Write};

pub fn describe(figures: &GuardFigures, sink: &mut impl Sink) {
    figures!(sink, figures: min_bytes every guarded_blocks live_blocks missed_blocks);
}

pub fn line(figures: &GuardFigures, out: &mut impl Write) -> fmt::Result {
    write!(out, "{} blocks guarded", figures.guarded_blocks)?;
    if figures.missed_blocks > 0 {
        write!(out, "; {} found no room", figures.missed_blocks)?;
    }
    writeln!(out)
}

/// Writes a line if more than one of a hundred blocks found too many live.
pub fn write_crowded_out(figures: &GuardFigures, out: &mut impl Write) -> fmt::Result {
    let missed = figures.crowded_out_blocks;
    let all = figures.guarded_blocks + figures.missed_blocks;
    if missed <= all / 100 {
        return Ok(());
    }
    writeln!(
        out,
        "pyhost: --guard: {missed} of {all} blocks were not guarded: too many were live at a time (vm.max_map_count limits the \
         mappings of a process); every=N or a larger min=SIZE leaves room for more of the others"
    )
}
