//! Spans that overlap at random, beside a naive oracle.

use super::tests::{Process, SITES};
use super::*;
use pyhost_testing::Random;
use std::collections::HashMap;

/// Live and allocated bytes of each site.
type Books = [[i64; SITES]; 2];

struct Oracle {
    account: Option<u8>,
    begin: Books,
    highest: i64,
    at_highest: Books,
    end: Option<Books>,
}

const BESIDE: u8 = 2;

fn account_of(site: usize) -> u8 {
    site as u8 % 3
}

/// The bytes that a span of an account, or of all but the last one, has the peak of.
fn height([live, _]: &Books, account: Option<u8>) -> i64 {
    let counts = |site| match account {
        Some(account) => account_of(site) == account,
        None => account_of(site) != BESIDE,
    };
    let counted = live.iter().zip(0..).filter(|&(_, site)| counts(site));
    counted.map(|(bytes, _)| bytes).sum()
}

/// A process whose samples know their own heights.
struct Spans {
    process: Process,
    spans: HashMap<u64, Oracle>,
}

impl Spans {
    fn new() -> Self {
        let mut process = Process::new(1, 1);
        process.samples = Samples::new(1, BESIDE);
        process.has_heights = false;
        Spans {
            process,
            spans: HashMap::new(),
        }
    }

    fn books(&self) -> Books {
        [View::Live, View::Allocated].map(|view| self.process.bytes[view as usize])
    }

    fn allocate(&mut self, address: usize, site: usize, size: usize) {
        self.process.free(address);
        self.process.allocate(address, site, size);
        let books = self.books();
        for span in self.spans.values_mut() {
            let height = height(&books, span.account);
            let is_of_scope = span.account.is_none_or(|it| it == account_of(site));
            if span.end.is_none() && is_of_scope && height > span.highest {
                (span.highest, span.at_highest) = (height, books);
            }
        }
    }

    fn begin(&mut self, number: u64, account: Option<u8>) {
        self.process.samples.begin_span(number, account, None);
        let begin = self.books();
        let oracle = Oracle {
            account,
            begin,
            highest: height(&begin, account),
            at_highest: begin,
            end: None,
        };
        self.spans.insert(number, oracle);
    }

    fn end(&mut self, number: u64) {
        self.process.samples.end_span(number);
        self.spans.get_mut(&number).unwrap().end = Some(self.books());
    }

    fn sums(&self, number: u64, view: SpanView) -> [i64; SITES] {
        let sums = self.process.samples.span_sums(number, view);
        let mut found = [0; SITES];
        for (site, sum) in sums.expect("a span") {
            found[self.process.number_of(site)] += sum.bytes();
        }
        found
    }

    fn has_none(&self, number: u64) -> bool {
        let sums = self.process.samples.span_sums(number, SpanView::Grown);
        sums.is_none()
    }

    fn check(&self, number: u64) {
        let span = &self.spans[&number];
        let end = span.end.unwrap_or(self.books());
        for view in SpanView::ALL {
            let (of, begin) = match view {
                SpanView::AtPeak => (span.at_highest[0], span.begin[0]),
                SpanView::Grown => (end[0], span.begin[0]),
                SpanView::Allocated => (end[1], span.begin[1]),
            };
            let truth: [i64; SITES] = std::array::from_fn(|site| {
                let is_of_scope = span.account.is_none_or(|it| it == account_of(site));
                i64::from(is_of_scope) * (of[site] - begin[site]).max(0)
            });
            assert_eq!(self.sums(number, view), truth, "{number} {view:?}");
        }
    }
}

#[test]
fn spans_overlap_and_each_has_a_begin_a_peak_and_an_end_of_its_own() {
    let mut random = Random(11);
    let mut spans = Spans::new();
    let (mut next, mut checked) = (0, 0);
    for step in 0..if cfg!(miri) { 100 } else { 20_000 } {
        let address = 16 * (1 + random.below(300));
        spans.allocate(address, random.below(SITES), 16 + random.below(5000));
        if random.below(3) > 0 {
            spans.process.free(16 * (1 + random.below(300)));
        }
        if step % 500 == 0 {
            (1..200).for_each(|place| spans.process.free(16 * place));
        }
        match random.below(60) {
            0 => {
                next += 1;
                spans.begin(next, random.of(&[None, None, Some(1), Some(BESIDE)]));
            }
            1 => {
                let mut open: Vec<u64> = spans.spans.keys().copied().collect();
                open.retain(|number| spans.spans[number].end.is_none());
                open.sort_unstable();
                if let Some(number) = open.get(random.below(open.len().max(1))) {
                    spans.check(*number);
                    spans.end(*number);
                }
            }
            2 => spans.process.samples.mark(),
            3 => spans.process.samples.restart_peaks(|_| None),
            4 => {
                // One that has ended long ago, or is open.
                let number = 1 + random.below(next as usize + 1) as u64;
                if spans.spans.contains_key(&number) {
                    spans.check(number);
                    checked += 1;
                }
            }
            _ => {}
        }
    }
    assert!(cfg!(miri) || next > 100 && checked > 100);
    for number in 1..=next {
        spans.check(number);
        spans.process.samples.forget_span(number);
        assert!(spans.has_none(number));
    }
}

#[test]
fn a_span_that_the_samples_end_in_has_no_lines() {
    let mut spans = Spans::new();
    spans.begin(1, None);
    spans.allocate(16, 0, 100);
    spans.end(1);
    spans.begin(2, None);
    spans.process.samples.end(0);
    spans.process.samples.end_span(2);
    spans.process.samples.begin_span(3, None, None);
    assert_eq!(spans.sums(1, SpanView::Grown)[0], 100);
    for number in [2, 3] {
        assert!(spans.has_none(number));
    }
}
