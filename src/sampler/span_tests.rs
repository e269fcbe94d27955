//! Spans that overlap at random, beside a naive oracle.

use super::*;
use pyhost_testing::Random;
use std::collections::HashMap;

const SITES: usize = 12;

/// Live and allocated bytes of each site.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Books {
    live: [i64; SITES],
    allocated: [i64; SITES],
}

impl Books {
    /// The bytes that a span of an account, or of all but the last one, has the peak of.
    fn height(&self, account: Option<u8>) -> i64 {
        let live = self.live.iter().zip(0..);
        let counted = live.filter(|&(_, site)| match account {
            Some(account) => account_of(site) == account,
            None => account_of(site) != BESIDE,
        });
        counted.map(|(bytes, _)| bytes).sum()
    }
}

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

struct Process {
    samples: Samples,
    books: Books,
    live: HashMap<usize, (usize, i64)>,
    spans: HashMap<u64, Oracle>,
}

impl Process {
    fn new() -> Self {
        Process {
            samples: Samples::new(1, BESIDE),
            books: Books::default(),
            live: HashMap::new(),
            spans: HashMap::new(),
        }
    }

    fn allocate(&mut self, address: usize, site: usize, size: usize) {
        self.free(address);
        self.live.insert(address, (site, size as i64));
        self.books.live[site] += size as i64;
        self.books.allocated[site] += size as i64;
        let function = format!("f{site}");
        let call = Call::of("main.py", &function, 1);
        let account = account_of(site);
        let block = Allocation::of(address, account, Weight::new(size, size, 1));
        assert_ne!(self.samples.add_at(block, &[call]), Added::Not);
        let is_of = |wanted: Option<u8>| match wanted {
            Some(wanted) => wanted == account,
            None => true,
        };
        for span in self.spans.values_mut() {
            let height = self.books.height(span.account);
            if span.end.is_none() && is_of(span.account) && height > span.highest {
                (span.highest, span.at_highest) = (height, self.books);
            }
        }
    }

    fn free(&mut self, address: usize) {
        if let Some((site, size)) = self.live.remove(&address) {
            self.books.live[site] -= size;
            self.samples.remove(address);
        }
    }

    fn begin(&mut self, number: u64, account: Option<u8>) {
        self.samples.begin_span(number, account, None);
        let oracle = Oracle {
            account,
            begin: self.books,
            highest: self.books.height(account),
            at_highest: self.books,
            end: None,
        };
        self.spans.insert(number, oracle);
    }

    fn end(&mut self, number: u64) {
        self.samples.end_span(number);
        self.spans.get_mut(&number).unwrap().end = Some(self.books);
    }

    fn sums(&self, number: u64, view: SpanView) -> [i64; SITES] {
        let mut found = [0; SITES];
        for (site, sum) in self.samples.span_sums(number, view).expect("a span") {
            let function = self.samples.calls(site).next().unwrap().function.to_owned();
            found[function[1..].parse::<usize>().unwrap()] += sum.bytes();
        }
        found
    }

    fn check(&self, number: u64) {
        let span = &self.spans[&number];
        let end = span.end.unwrap_or(self.books);
        for view in SpanView::ALL {
            let (of, begin) = match view {
                SpanView::AtPeak => (span.at_highest.live, span.begin.live),
                SpanView::Grown => (end.live, span.begin.live),
                SpanView::Allocated => (end.allocated, span.begin.allocated),
            };
            let truth: [i64; SITES] = std::array::from_fn(|site| {
                let is_of = span
                    .account
                    .is_none_or(|account| account == account_of(site));
                if is_of {
                    (of[site] - begin[site]).max(0)
                } else {
                    0
                }
            });
            assert_eq!(self.sums(number, view), truth, "{number} {view:?}");
        }
    }
}

#[test]
fn spans_overlap_and_each_has_a_begin_a_peak_and_an_end_of_its_own() {
    let mut random = Random(11);
    let mut process = Process::new();
    let (mut next, mut checked) = (0, 0);
    for step in 0..if cfg!(miri) { 100 } else { 20_000 } {
        let address = 16 * (1 + random.below(300));
        process.allocate(address, random.below(SITES), 16 + random.below(5000));
        if random.below(3) > 0 {
            process.free(16 * (1 + random.below(300)));
        }
        if step % 500 == 0 {
            (1..200).for_each(|place| process.free(16 * place));
        }
        match random.below(60) {
            0 => {
                next += 1;
                process.begin(next, random.of(&[None, None, Some(1), Some(BESIDE)]));
            }
            1 => {
                let mut open: Vec<u64> = process.spans.keys().copied().collect();
                open.retain(|number| process.spans[number].end.is_none());
                open.sort_unstable();
                if let Some(number) = open.get(random.below(open.len().max(1))) {
                    process.check(*number);
                    process.end(*number);
                }
            }
            2 => process.samples.mark(),
            3 => process.samples.restart_peaks(|_| None),
            4 => {
                // One that has ended long ago, or is open.
                let number = 1 + random.below(next as usize + 1) as u64;
                if process.spans.contains_key(&number) {
                    process.check(number);
                    checked += 1;
                }
            }
            _ => {}
        }
    }
    assert!(cfg!(miri) || next > 100 && checked > 100);
    for number in 1..=next {
        process.check(number);
        process.samples.forget_span(number);
        assert!(process.samples.span_sums(number, SpanView::Grown).is_none());
    }
}

#[test]
fn a_span_that_the_samples_end_in_has_no_lines() {
    let mut process = Process::new();
    process.begin(1, None);
    process.allocate(16, 0, 100);
    process.end(1);
    process.begin(2, None);
    process.samples.end(0);
    process.samples.end_span(2);
    process.samples.begin_span(3, None, None);
    assert_eq!(process.sums(1, SpanView::Grown)[0], 100);
    for number in [2, 3] {
        assert!(process.samples.span_sums(number, SpanView::Grown).is_none());
    }
}
