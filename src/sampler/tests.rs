use super::*;
use pyhost_testing::Random;
use std::collections::HashMap;

fn call<'a>(file: &'a str, function: &'a str, line: u32) -> Call<'a> {
    Call {
        file: file.as_bytes(),
        function: function.as_bytes(),
        line,
    }
}

/// Gives calls, which are innermost first, from the outermost on.
fn inward<'a>(calls: &'a [Call<'a>]) -> impl FnMut(&mut dyn FnMut(&Call<'_>)) + 'a {
    move |take| calls.iter().rev().for_each(take)
}

/// A process that allocates and frees at known sites: its own books are the oracle.
struct Process {
    samples: Samples,
    chance: Chance,
    left: i64,
    live: HashMap<usize, (usize, usize)>,
    bytes: [i64; SITES],
    total: i64,
    highest: i64,
    at_peak: [i64; SITES],
    allocated: [i64; SITES],
}

const SITES: usize = 20;

impl Process {
    fn new(interval: u64, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        Process {
            left: chance.distance(interval),
            samples: Samples::new(interval, 9),
            chance,
            live: HashMap::new(),
            bytes: [0; SITES],
            total: 0,
            highest: i64::MIN,
            at_peak: [0; SITES],
            allocated: [0; SITES],
        }
    }

    fn allocate(&mut self, address: usize, site: usize, size: usize) {
        self.live.insert(address, (site, size));
        self.bytes[site] += size as i64;
        self.allocated[site] += size as i64;
        self.total += size as i64;
        if self.total > self.highest {
            self.highest = self.total;
            self.at_peak = self.bytes;
        }
        self.left -= size as i64;
        if self.left < 0 {
            let interval = self.samples.interval();
            self.left = self.chance.distance(interval);
            let function = format!("f{site}");
            let calls = [call("lib.py", &function, 7), call("main.py", "<module>", 3)];
            let weight = Weight::new(size, size, interval);
            let account = (site % 3) as u8;
            self.samples.add(
                address,
                account,
                weight,
                &mut inward(&calls),
                Some(self.total),
            );
        }
    }

    fn free(&mut self, address: usize) {
        let Some((site, size)) = self.live.remove(&address) else {
            return;
        };
        self.bytes[site] -= size as i64;
        self.total -= size as i64;
        self.samples.remove(address);
    }

    /// 40,000 steps of a random life, in which sites differ by size and by age.
    fn live(&mut self, random: &mut Random) {
        for step in 0..40_000 {
            let site = random.below(SITES);
            let size = (site + 1) * (1 + random.below(200));
            self.allocate(step, site, size);
            if random.below(3) > 0 {
                self.free(step - random.below(step + 1).min(40 * (site + 1)));
            }
            if step % 10_000 == 9_999 {
                (0..step).filter(|_| true).for_each(|old| {
                    if old % 4 > 0 {
                        self.free(old)
                    }
                });
            }
        }
    }

    fn true_bytes(&self, view: View) -> &[i64; SITES] {
        match view {
            View::Live => &self.bytes,
            View::AtPeak => &self.at_peak,
            View::Allocated => &self.allocated,
        }
    }

    /// The sum of each site, found by its function.
    fn sampled(&self, view: View) -> [Sum; SITES] {
        let mut sums = [Sum::NONE; SITES];
        for site in self.samples.sites() {
            let innermost = self.samples.calls(site).next().unwrap();
            let number: usize = innermost.function[1..].parse().unwrap();
            assert_eq!(usize::from(site.account), number % 3);
            sums[number] += self.samples.sum(site, view);
        }
        sums
    }
}

const VIEWS: [View; 3] = [View::Live, View::AtPeak, View::Allocated];

#[test]
fn with_every_allocation_a_sample_all_views_are_exact() {
    let mut process = Process::new(1, 1);
    process.live(&mut Random(5));
    for view in VIEWS {
        let sums = process.sampled(view);
        assert_eq!(
            sums.map(|sum| sum.bytes()),
            *process.true_bytes(view),
            "{view:?}"
        );
        assert!(sums.iter().all(|sum| sum.error_bytes(1) == 0));
    }
}

#[test]
fn the_truth_lies_within_the_error_in_19_of_20_cases_and_in_the_middle() {
    for interval in [500, 20_000, 300_000] {
        let (mut cases, mut within) = (0, 0);
        let (mut sum, mut truth) = ([0; 3], [0; 3]);
        for seed in 1..=if cfg!(miri) { 1 } else { 60 } {
            let mut process = Process::new(interval, seed);
            process.live(&mut Random(seed));
            for (place, view) in VIEWS.into_iter().enumerate() {
                for (estimate, truth_of_site) in
                    process.sampled(view).iter().zip(process.true_bytes(view))
                {
                    let error = estimate.error_bytes(interval);
                    cases += 1;
                    within += i32::from((estimate.bytes() - truth_of_site).abs() <= error);
                    sum[place] += estimate.bytes();
                    truth[place] += truth_of_site;
                }
            }
        }
        assert!(
            within >= cases * 95 / 100,
            "{interval}: {within} of {cases}"
        );
        if !cfg!(miri) {
            for place in 0..3 {
                let ratio = sum[place] as f64 / truth[place] as f64;
                assert!(
                    (ratio - 1.0).abs() < 0.05,
                    "{interval} {:?}: {ratio}",
                    VIEWS[place]
                );
            }
        }
    }
}

#[test]
fn equal_stacks_are_one_site_and_stacks_are_given_innermost_first() {
    let mut samples = Samples::new(1, 9);
    let deep: Vec<Call<'_>> = (1..=500)
        .map(|line| call("deep.py", "again", line))
        .collect();
    let weight = Weight::new(10, 10, 1);
    for address in 0..100 {
        samples.add(address, 0, weight, &mut inward(&deep[address % 2..]), None);
        samples.add(1000 + address, 1, weight, &mut inward(&[]), None);
    }
    let sites: Vec<Site> = samples.sites().collect();
    assert_eq!(sites.len(), 3);
    let lines = |site| {
        samples
            .calls(site)
            .map(|call| call.line)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(sites[0]), (1..=500).collect::<Vec<_>>());
    assert_eq!(lines(sites[1]), []);
    assert_eq!(lines(sites[2]), (2..=500).collect::<Vec<_>>());
    assert_eq!(samples.sum(sites[1], View::Live).blocks(), 100);
    assert_eq!(samples.sum(sites[2], View::Live).bytes(), 500);
}

#[test]
fn the_peak_is_that_of_the_total_and_can_start_anew() {
    let mut samples = Samples::new(1, 9);
    let add = |samples: &mut Samples, address, bytes, total| {
        let at = [call("a.py", "f", address as u32)];
        samples.add(
            address,
            0,
            Weight::new(bytes, bytes, 1),
            &mut inward(&at),
            Some(total),
        );
    };
    add(&mut samples, 1, 100, 100);
    add(&mut samples, 2, 50, 150);
    samples.remove(1);
    add(&mut samples, 3, 70, 120);
    let at_peak = |samples: &Samples| {
        let sites: Vec<Site> = samples.sites().collect();
        sites
            .iter()
            .map(|&site| samples.sum(site, View::AtPeak).bytes())
            .collect::<Vec<_>>()
    };
    assert_eq!(at_peak(&samples), [100, 50, 0]);
    samples.restart_peak(Some(120));
    assert_eq!(at_peak(&samples), [0, 50, 70]);
    samples.remove(2);
    assert_eq!(at_peak(&samples), [0, 50, 70]);
    samples.end();
    samples.remove(3);
    assert_eq!(
        samples
            .sites()
            .map(|site| samples.sum(site, View::Live).bytes())
            .sum::<i64>(),
        70
    );
}

#[test]
fn an_address_that_comes_again_replaces_the_block_whose_end_was_not_seen() {
    let mut samples = Samples::new(1, 9);
    for line in 1..=2 {
        samples.add(
            64,
            0,
            Weight::new(8, 8, 1),
            &mut inward(&[call("a.py", "f", line)]),
            None,
        );
    }
    let live = samples
        .sites()
        .map(|site| samples.sum(site, View::Live).bytes());
    assert_eq!(live.collect::<Vec<_>>(), [0, 8]);
    assert!(samples.remove(64) && !samples.remove(64));
}

#[test]
fn distances_have_the_mean_that_is_asked_for() {
    let mut chance = Chance::new(3);
    for interval in [2, 1000, 1 << 20] {
        let sum: i64 = (0..20_000).map(|_| chance.distance(interval)).sum();
        // Each is cut to a whole number, half a byte less in the mean.
        let mean = sum as f64 / 20_000.0 + 0.5;
        assert!(
            (mean / interval as f64 - 1.0).abs() < 0.05,
            "{interval}: {mean}"
        );
    }
    assert_eq!(chance.distance(1), 0);
}
