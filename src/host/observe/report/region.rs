//! The bounded heap in a report.

use super::Sink;
use crate::bytes::Bytes;
use crate::heap::bounded_heap::RegionFigures;
use std::fmt::{self, Write};

/// Says the section `region`.
pub fn describe(figures: &RegionFigures, sink: &mut impl Sink) {
    sink.int("size_bytes", figures.size as i64);
    sink.int("reserved_bytes", figures.reserved as i64);
    sink.int("committed_bytes", figures.committed as i64);
    sink.int("peak_committed_bytes", figures.peak as i64);
    sink.int("before_main_bytes", figures.before_main as i64);
    sink.int("refused_commits", figures.refused as i64);
    sink.flag("locked", figures.locked);
    sink.flag("huge_pages", figures.huge_pages);
}

pub fn line(figures: &RegionFigures, out: &mut impl Write) -> fmt::Result {
    let [size, committed, peak] = [figures.size, figures.committed, figures.peak].map(Bytes);
    write!(out, "region {size}: committed {committed}, peak {peak}; ")?;
    let said = |is_so, what| if is_so { what } else { "" };
    let locked = said(figures.locked, "; locked");
    let huge = said(figures.huge_pages, "; huge pages");
    writeln!(out, "{} commits refused{locked}{huge}", figures.refused)
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
        line(&figures, &mut text).unwrap();
        figures.locked = true;
        figures.huge_pages = true;
        line(&figures, &mut text).unwrap();
        let expected = "region 24.0 MiB: committed 10.0 MiB, peak 12.0 MiB; 3 commits refused\n\
         region 24.0 MiB: committed 10.0 MiB, peak 12.0 MiB; 3 commits refused; locked; huge \
         pages\n";
        assert_eq!(text, expected);
    }
}
