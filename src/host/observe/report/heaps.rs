//! The heaps in a report: size classes, guard pages, the bounded heap. Does not allocate.

use super::Sink;
use crate::heap::histogram::{Classes, Histogram};
use crate::heap::{bounded_heap::RegionFigures, guards::GuardFigures};
use crate::{bytes::Bytes, ledger::Account};
use pyhost_record::figures;
use std::fmt::{self, Write};

pub fn describe_bounded(figures: &RegionFigures, sink: &mut impl Sink) {
    sink.int("size_bytes", figures.size as i64);
    sink.int("reserved_bytes", figures.reserved as i64);
    sink.int("committed_bytes", figures.committed as i64);
    sink.int("peak_committed_bytes", figures.peak as i64);
    sink.int("before_main_bytes", figures.before_main as i64);
    sink.int("refused_commits", figures.refused as i64);
    sink.flag("locked", figures.locked);
    sink.flag("huge_pages", figures.huge_pages);
}

pub fn bounded_line(figures: &RegionFigures, out: &mut impl Write) -> fmt::Result {
    let [size, committed, peak] = [figures.size, figures.committed, figures.peak].map(Bytes);
    write!(out, "region {size}: committed {committed}, peak {peak}; ")?;
    let said = |is_so, what| if is_so { what } else { "" };
    let locked = said(figures.locked, "; locked");
    let huge = said(figures.huge_pages, "; huge pages");
    writeln!(out, "{} commits refused{locked}{huge}", figures.refused)
}

/// Says each account's list, without the braces around them.
pub fn describe_histogram(histogram: &Histogram, sink: &mut impl Sink) {
    for account in Account::WITH_BLOCKS {
        sink.begin_list(account.name());
        describe_classes(histogram.of(account), sink);
        sink.end();
    }
}

/// Says the classes of one account, without the brackets around them.
pub fn describe_classes(classes: &Classes, sink: &mut impl Sink) {
    for class in classes.entries() {
        sink.begin("");
        figures!(sink, class: block_bytes live_blocks live_bytes capacity_bytes);
        sink.end();
    }
}

pub fn guards_line(figures: &GuardFigures, out: &mut impl Write) -> fmt::Result {
    write!(out, "{} blocks guarded", figures.guarded_blocks)?;
    if figures.missed_blocks > 0 {
        write!(out, "; {} found no room", figures.missed_blocks)?;
    }
    writeln!(out)
}

/// Writes a line if more than one of a hundred blocks found too many live, or the library asked for none. Whether most did.
pub fn write_crowded_out(figures: &GuardFigures, out: &mut impl Write) -> Result<bool, fmt::Error> {
    let missed = figures.crowded_out_blocks;
    let all = figures.guarded_blocks + figures.missed_blocks;
    if figures.is_of_library && all == 0 {
        writeln!(
            out,
            "pyhost: --guard: nothing was guarded: no block was asked for by code of a library whose path has the text of library="
        )?;
    }
    if missed > all / 100 {
        writeln!(
            out,
            "pyhost: --guard: {missed} of {all} blocks were not guarded: too many were live at a time (they may take a quarter of \
             the memory and, before Linux 6.13, two fifths of vm.max_map_count's mappings); library=TEXT, every=N or a larger \
             min=SIZE leaves room for more of the others"
        )?;
    }
    Ok(missed > all / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_in_force() {
        let mut figures = RegionFigures {
            size: 24 << 20,
            reserved: 128 << 20,
            committed: 10 << 20,
            peak: 12 << 20,
            refused: 3,
            before_main: 0,
            locked: false,
            huge_pages: false,
        };
        let mut text = String::new();
        bounded_line(&figures, &mut text).unwrap();
        figures.locked = true;
        figures.huge_pages = true;
        bounded_line(&figures, &mut text).unwrap();
        let expected = "region 24.0 MiB: committed 10.0 MiB, peak 12.0 MiB; 3 commits refused\n\
         region 24.0 MiB: committed 10.0 MiB, peak 12.0 MiB; 3 commits refused; locked; huge \
         pages\n";
        assert_eq!(text, expected);
    }
}
