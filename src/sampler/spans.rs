//! Spans: the lines of a block of code, whose begin, highest moment and end are its own.
//!
//! A span notes a site when it first changes in the span, with its sums at the begin; a site that does not change has
//! not grown. Spans nest and overlap in any way: none of them changes another, or a mark.

use crate::index::{Index, Numbered};
use crate::sum::{AtMoment, Heights, Highest, Site, Sum};
use pyhost_os::mmap_vec::MmapVec;

/// Which bytes of a span's sites are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanView {
    /// Live at the span's highest moment, less what was live at its begin.
    AtPeak,
    /// Live at its end, or now, less what was live at its begin.
    Grown,
    /// Allocated in it, freed or not.
    Allocated,
}

// In the order in which they are reported.
pyhost_os::named!(all SpanView: "at_peak" AtPeak, "grown" Grown, "allocated" Allocated);

#[derive(Clone, Copy)]
struct Changed {
    site: Site,
    begin: AtMoment,
    /// At the highest moment of this number. If a later one has come, the site has not changed since.
    noted: AtMoment,
    number: u32,
    /// At the end of a span that has ended.
    end: AtMoment,
}

/// A block of code.
#[derive(Default)]
pub struct Span {
    number: u64,
    /// The account whose highest moment is looked for; that of all in the total without one.
    account: Option<u8>,
    peak: Highest,
    changed: MmapVec<Changed>,
    /// The places of the sites, by their number and one.
    index: Index<Numbered>,
    has_ended: bool,
    /// A site could not be noted, for want of memory.
    is_broken: bool,
}

impl Span {
    fn changing(&mut self, site: Site, now: AtMoment) {
        let key = u64::from(site.number) + 1;
        let number = self.peak.times;
        if let Some(place) = self.index.number(key, |_| true) {
            let changed = &mut self.changed[place as usize];
            if changed.number != number {
                (changed.noted, changed.number) = (now, number);
            }
            return;
        }
        let place = self.changed.len();
        let changed = Changed {
            site,
            begin: now,
            noted: now,
            number,
            end: now,
        };
        let is_noted = self.changed.push(changed) && self.index.enter(key, place).is_some();
        self.is_broken |= !is_noted;
    }
}

/// All spans that run, and those whose figures are still wanted.
#[derive(Default)]
pub struct Spans {
    open: Vec<Span>,
    /// Apart: they cost nothing when a site changes.
    ended: Vec<Span>,
}

impl Spans {
    /// Begins a span. Without memory there is none of this number.
    pub fn begin(&mut self, number: u64, account: Option<u8>, height: i64) {
        let mut peak = Highest::default();
        peak.look(height);
        // Room in both, so that it can end.
        let ended = self.open.len() + 1;
        if self.open.try_reserve(1).is_ok() && self.ended.try_reserve(ended).is_ok() {
            self.open.push(Span {
                number,
                account,
                peak,
                ..Span::default()
            });
        }
    }

    /// Ends a span; `now` gives the sums of a site.
    pub fn end(&mut self, number: u64, now: impl Fn(u32) -> AtMoment) {
        let place = self.open.iter().position(|span| span.number == number);
        if let Some(place) = place {
            let mut span = self.open.swap_remove(place);
            span.has_ended = true;
            for changed in span.changed.iter_mut() {
                changed.end = now(changed.site.number);
                if changed.number != span.peak.times {
                    (changed.noted, changed.number) = (changed.end, span.peak.times);
                }
            }
            self.ended.push(span);
        }
    }

    pub fn forget(&mut self, number: u64) {
        for spans in [&mut self.open, &mut self.ended] {
            let place = spans.iter().position(|span| span.number == number);
            place.map(|place| spans.swap_remove(place));
        }
    }

    /// Notes that a site is about to change from `now`.
    #[inline]
    pub fn changing(&mut self, site: Site, now: AtMoment) {
        for span in &mut self.open {
            span.changing(site, now);
        }
    }

    /// Notes how high the total and an account are.
    #[inline]
    pub fn look_at_height(&mut self, account: u8, heights: Heights) {
        for span in &mut self.open {
            match span.account {
                None => span.peak.look(heights.total),
                Some(wanted) if wanted == account => span.peak.look(heights.account),
                Some(_) => {}
            }
        }
    }

    /// The sites of a span whose sum of a view is above 0, with it. `now` gives the sums of a site. None for a span
    /// that did not begin, or that has not all its sites.
    pub fn sums(
        &self,
        number: u64,
        view: SpanView,
        now: impl Fn(u32) -> AtMoment,
    ) -> Option<impl Iterator<Item = (Site, Sum)>> {
        let mut all = self.all();
        let span = all.find(|span| span.number == number && !span.is_broken)?;
        Some(span.changed.iter().filter_map(move |changed| {
            let end = match span.has_ended {
                true => changed.end,
                false => now(changed.site.number),
            };
            let at_peak = match changed.number == span.peak.times {
                true => changed.noted,
                false => end,
            };
            let sum = match view {
                SpanView::AtPeak => at_peak.grown_since(changed.begin),
                SpanView::Grown => end.grown_since(changed.begin),
                SpanView::Allocated => end.allocated - changed.begin.allocated,
            };
            let is_of_scope = span
                .account
                .is_none_or(|account| account == changed.site.account);
            (is_of_scope && sum.bytes() > 0).then_some((changed.site, sum))
        }))
    }

    fn all(&self) -> impl Iterator<Item = &Span> {
        self.open.iter().chain(&self.ended)
    }

    pub fn addresses(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.all()
            .flat_map(|span| [span.changed.addresses(), span.index.addresses()])
    }
}
