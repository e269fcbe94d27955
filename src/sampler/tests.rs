use super::*;
use pyhost_os::mapping::Shared;
use pyhost_testing::Random;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::{collections::HashMap, sync::atomic::Ordering::Relaxed};

fn call<'a>(file: &'a str, function: &'a str, line: u32) -> Call<'a> {
    Call::of(file, function, line)
}

fn block(address: usize, account: u8, weight: Weight) -> Allocation {
    Allocation::of(address, account, weight)
}

/// A block of as many bytes, each of them sampled, that came at a moment.
fn came(moment: u64, address: usize, bytes: usize) -> Allocation {
    Allocation {
        moment,
        ..block(address, 0, whole(bytes))
    }
}

const SECOND: u64 = 1_000_000_000;

impl Samples {
    fn bytes(&self, view: View) -> Vec<i64> {
        self.sites()
            .map(|site| self.sum(site, view).bytes())
            .collect()
    }
}

/// A weight of as many bytes, each of them sampled.
pub fn whole(bytes: usize) -> Weight {
    Weight::new(bytes, bytes, 1)
}

/// A process that allocates and frees at known sites: its own books are the oracle.
pub struct Process {
    pub samples: Samples,
    /// Whether it says how high the live bytes are.
    pub has_heights: bool,
    chance: Chance,
    left: i64,
    live: HashMap<usize, (usize, usize)>,
    /// The bytes of each site, by the number of the view.
    pub bytes: [[i64; SITES]; View::ALL.len()],
    /// The highest live bytes so far of each account, and of the total.
    highest: [i64; 4],
}

pub const SITES: usize = 20;
const LIVE: usize = View::Live as usize;

impl Process {
    pub fn new(interval: u64, seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        Process {
            left: chance.distance(interval),
            samples: Samples::new(interval, 9),
            has_heights: true,
            chance,
            live: HashMap::new(),
            bytes: [[0; SITES]; View::ALL.len()],
            highest: [i64::MIN; 4],
        }
    }

    /// The live bytes of an account: every third site is of the same one.
    fn of_account(&self, account: usize) -> i64 {
        self.bytes[LIVE].iter().skip(account).step_by(3).sum()
    }

    fn count(&mut self, site: usize, bytes: i64) {
        self.bytes[LIVE][site] += bytes;
        self.bytes[View::Grown as usize][site] += bytes;
    }

    pub fn allocate(&mut self, address: usize, site: usize, size: usize) {
        self.live.insert(address, (site, size));
        self.count(site, size as i64);
        self.bytes[View::Allocated as usize][site] += size as i64;
        let account = site % 3;
        let heights = Heights {
            total: self.bytes[LIVE].iter().sum(),
            account: self.of_account(account),
        };
        if heights.total > self.highest[3] {
            self.highest[3] = heights.total;
            self.bytes[View::AtPeak as usize] = self.bytes[LIVE];
        }
        if heights.account > self.highest[account] {
            self.highest[account] = heights.account;
            for site in (account..SITES).step_by(3) {
                self.bytes[View::AtAccountPeak as usize][site] = self.bytes[LIVE][site];
            }
        }
        self.left -= size as i64;
        if self.left < 0 {
            let interval = self.samples.interval;
            self.left = self.chance.distance(interval);
            let function = format!("f{site}");
            let calls = [call("lib.py", &function, 7), call("main.py", "<module>", 3)];
            let block = block(address, account as u8, Weight::new(size, size, interval));
            let heights = self.has_heights.then_some(heights);
            let added = self.samples.add(block, &mut inward(&calls), heights);
            assert_ne!(added, Added::Not);
        }
    }

    pub fn free(&mut self, address: usize) {
        if let Some((site, size)) = self.live.remove(&address) {
            self.count(site, -(size as i64));
            self.samples.remove(address);
        }
    }

    /// 40,000 steps of a random life, in which sites differ by size and by age. The peaks begin anew before its last quarter.
    fn live(&mut self, random: &mut Random) {
        for step in 0..40_000 {
            if step == 25_000 {
                self.samples.mark();
                self.bytes[View::Grown as usize] = [0; SITES];
            }
            if step == 15_000 || step == 30_000 {
                self.samples.begin_resident_peak();
                self.bytes[View::AtResidentPeak as usize] = self.bytes[LIVE];
            }
            let site = random.below(SITES);
            // Less in the last quarter, so that its peaks are lower.
            let most = if step < 30_000 { 200 } else { 120 };
            let size = (site + 1) * (1 + random.below(most));
            self.allocate(step, site, size);
            if random.below(3) > 0 {
                self.free(step - random.below(step + 1).min(40 * (site + 1)));
            }
            if step % 10_000 == 9_999 {
                let old = (0..step).filter(|old| old % 4 > 0);
                old.for_each(|old| self.free(old));
            }
            if step == 29_999 {
                self.restart_peaks();
            }
        }
    }

    fn restart_peaks(&mut self) {
        let accounts = [0, 1, 2].map(|account| self.of_account(account));
        let total = accounts.iter().sum();
        self.highest = [accounts[0], accounts[1], accounts[2], total];
        self.samples.restart_peaks(|account| {
            let account = *accounts.get(usize::from(account)).unwrap_or(&0);
            Some(Heights { total, account })
        });
        self.bytes[View::AtPeak as usize] = self.bytes[LIVE];
        self.bytes[View::AtAccountPeak as usize] = self.bytes[LIVE];
    }

    /// The sum of each site.
    fn sampled(&self, view: View) -> [Sum; SITES] {
        let mut sums = [Sum::default(); SITES];
        for site in self.samples.sites() {
            sums[self.number_of(site)] += self.samples.sum(site, view);
        }
        sums
    }

    /// The number of a site, by its function.
    pub fn number_of(&self, site: Site) -> usize {
        let innermost = self.samples.calls(site).next().unwrap();
        let number = innermost.function[1..].parse().unwrap();
        assert_eq!(usize::from(site.account), number % 3);
        number
    }
}

#[test]
fn with_every_allocation_a_sample_all_views_are_exact() {
    let mut process = Process::new(1, 1);
    process.live(&mut Random(5));
    for view in View::ALL {
        let sums = process.sampled(view);
        let bytes = sums.map(|sum| sum.bytes());
        assert_eq!(bytes, process.bytes[view as usize], "{view:?}");
        assert!(sums.iter().all(|sum| sum.error_bytes(1) == 0));
    }
}

#[test]
fn the_truth_lies_within_the_error_in_19_of_20_cases_and_in_the_middle() {
    for interval in [500, 20_000, 300_000] {
        let (mut cases, mut within) = (0, 0);
        let (mut sum, mut truth) = ([0; View::ALL.len()], [0; View::ALL.len()]);
        for seed in 1..=if cfg!(miri) { 1 } else { 60 } {
            let mut process = Process::new(interval, seed);
            process.live(&mut Random(seed));
            for view in View::ALL {
                let truths = process.bytes[view as usize].into_iter();
                for (estimate, true_bytes) in process.sampled(view).iter().zip(truths) {
                    let error = estimate.error_bytes(interval);
                    cases += 1;
                    within += i32::from((estimate.bytes() - true_bytes).abs() <= error);
                    sum[view as usize] += estimate.bytes();
                    truth[view as usize] += true_bytes;
                }
            }
        }
        let enough = cases * 95 / 100;
        assert!(within >= enough, "{interval}: {within} of {cases}");
        for view in View::ALL.into_iter().filter(|_| !cfg!(miri)) {
            // Growth may be about 0: then what is live is the measure. A moment that is the highest of all samples'
            // has half an interval too much in the mean, of each account.
            let least = truth[view as usize].max(truth[LIVE]);
            let most = least / 20 + 60 * 3 * interval as i64;
            let off = sum[view as usize] - truth[view as usize];
            assert!(off.abs() < most, "{interval} {view:?}: {off}");
        }
    }
}

/// Memory that nobody else reads.
fn anonymous(words: usize, fill: &mut dyn FnMut(&[AtomicU64])) -> Option<Shared<AtomicU64>> {
    let mapped = Shared::new(words)?;
    fill(&mapped);
    Some(mapped)
}

fn published_words(samples: &Samples) -> Vec<u64> {
    let words = samples.published.as_ref().unwrap().words.iter();
    words.map(|word| word.load(Relaxed)).collect()
}

/// That a copy has every site of the samples, with its calls and sums.
fn assert_copy(own: &Samples, copy: &Samples) {
    assert_eq!(own.counts(), copy.counts());
    assert_eq!(own.sites().count(), copy.sites().count());
    for (site, other) in own.sites().zip(copy.sites()) {
        assert_eq!(site.account, other.account);
        assert!(own.calls(site).eq(copy.calls(other)));
        assert_eq!(own.thread_of(site), copy.thread_of(other));
        assert_eq!(own.age_seconds(site), copy.age_seconds(other));
        for view in View::ALL {
            assert_eq!(own.sum(site, view), copy.sum(other, view));
        }
        assert_eq!(own.own(site), copy.own(other));
    }
}

#[test]
fn a_reader_of_the_copy_finds_every_view_and_stack_of_the_writer() {
    let mut process = Process::new(300, 1);
    process.samples.publish_by(anonymous);
    process.live(&mut Random(5));
    process.samples.thread(Thread::Named("worker"));
    // More of everything than there is room for at the start.
    for line in 0..5000 {
        let function = format!("function_{line}");
        let calls = [call("deep.py", &function, line), call("a.py", "main", 1)];
        let allocation = Allocation {
            thread: [u8::MAX, 0][line as usize % 2],
            moment: u64::from(line) * SECOND,
            ..block(1_000_000 + line as usize, 1, Weight::new(8, 8, 300))
        };
        process.samples.add_at(allocation, &calls);
    }
    let words = published_words(&process.samples);
    assert!(published::is_whole(&words, &words));
    let read = published::read(&words).unwrap();
    assert_copy(&process.samples, &read);
    // A forked child's copy is a new one; what it has beyond its parent's is its own.
    process.samples.forked();
    let sum = |samples: &Samples| -> i64 {
        let own = samples.sites().map(|site| samples.own(site).bytes());
        own.sum()
    };
    assert_eq!(sum(&process.samples), 0);
    process.samples.add_at(
        block(2_000_000, 1, Weight::new(8, 8, 300)),
        &[call("a.py", "main", 1)],
    );
    let child = published::read(&published_words(&process.samples)).unwrap();
    assert_eq!((sum(&process.samples), sum(&child)), (304, 304));
    assert_eq!(
        [process.samples.own_counts(), child.own_counts()],
        [(1, 0); 2]
    );
    process.samples.count_dropped();
    assert_eq!(published_words(&process.samples)[5], 1);
}

#[test]
fn a_site_has_one_thread_and_further_names_than_the_table_has_are_one() {
    let mut samples = Samples::new(1, 9);
    let calls = [call("a.py", "f", 1)];
    let mut add = |thread: Thread<'_>| {
        let thread = samples.thread(thread);
        for address in 0..2 {
            let address = 1000 * (1 + usize::from(thread)) + address;
            let allocation = Allocation {
                thread,
                ..block(address, 0, whole(10))
            };
            samples.add_at(allocation, &calls);
        }
    };
    for number in 0..1000 {
        add(Thread::Named(&format!("worker {number}")));
        add(Thread::Named("worker 0"));
    }
    [Thread::Main, Thread::Unnamed].into_iter().for_each(add);
    let threads: Vec<_> = samples.sites().map(|it| samples.thread_of(it)).collect();
    assert_eq!(threads.len(), THREAD_NAMES + 3);
    for (number, thread) in threads.iter().take(THREAD_NAMES).enumerate() {
        assert_eq!(*thread, Thread::Named(&format!("worker {number}")));
    }
    let last = &threads[THREAD_NAMES..];
    assert_eq!(last, [Thread::Others, Thread::Main, Thread::Unnamed]);
    // The names are all that is kept of a thread.
    assert_eq!(samples.stacks.texts.len(), 2 + THREAD_NAMES);
    assert_eq!(samples.frames(), 1);
}

#[test]
fn the_age_is_the_mean_of_the_live_bytes() {
    let mut samples = Samples::new(1, 9);
    samples.begin_at(5 * SECOND);
    samples.add_at(came(5 * SECOND, 1, 300), &[]);
    samples.add_at(came(9 * SECOND, 2, 100), &[]);
    samples.add_at(came(6 * SECOND, 3, 1_000_000), &[]);
    samples.remove(3);
    let site = samples.sites().next().unwrap();
    let age = |samples: &Samples| samples.age_seconds(site);
    assert_eq!(age(&samples), Some(3.0));
    samples.look_at_clock(15 * SECOND);
    samples.look_at_clock(12 * SECOND);
    assert_eq!(age(&samples), Some(9.0));
    samples.remove(1);
    samples.end(16 * SECOND);
    samples.look_at_clock(99 * SECOND);
    assert_eq!(age(&samples), Some(7.0));
}

#[test]
fn what_comes_and_goes_for_ever_leaves_no_trace_in_the_age() {
    const HOUR: u64 = 3600 * SECOND;
    let mut samples = Samples::new(1000, 9);
    let mut random = Random(3);
    let mut add = |samples: &mut Samples, address, moment| {
        let size = 1 + random.below(1 << 30);
        let allocation = Allocation {
            moment,
            ..block(address, 0, Weight::new(size, size.min(5000), 1000))
        };
        samples.add_at(allocation, &[]);
    };
    // Births end after 497 days, which is no moment that wraps.
    add(&mut samples, 1, 1000 * HOUR);
    for hour in 1000..if cfg!(miri) { 1100 } else { 20_000 } {
        add(&mut samples, 2 + hour as usize % 50, hour * HOUR);
    }
    (2..60).for_each(|address| _ = samples.remove(address));
    let site = samples.sites().next().unwrap();
    let age = samples.age_seconds(site).unwrap();
    let now = (samples.time.now as f64 / 1e9).min(f64::from(u32::MAX) / 100.0);
    let expected = now - 1000.0 * 3600.0;
    assert!((age - expected).abs() < 0.02, "{age} {expected}");
    samples.remove(1);
    assert_eq!(samples.age_seconds(site), None);
}

#[test]
fn a_native_call_is_known_by_its_library_and_offset_and_named_once() {
    let names = std::cell::Cell::new(0);
    let name = || {
        names.set(names.get() + 1);
        b"grow".as_slice()
    };
    let in_library = |file: &'static [u8], offset| Call {
        file,
        function: b"",
        line: 0,
        native: Some(NativeCall {
            offset,
            name: &name,
        }),
    };
    let mut samples = Samples::new(1, 9);
    samples.publish_by(anonymous);
    for (address, file, offset) in [
        (1, b"/a.so\x000aff".as_slice(), 64),
        (2, b"/a.so\x000aff", 64),
        (3, b"/a.so\x000aff", 68),
        (4, b"/a.so\x000bff", 64),
        (5, b"/b.so\0", (1 << 40) + 3),
    ] {
        let calls = [in_library(file, offset), call("a.py", "f", 64)];
        samples.add_at(block(address, 0, whole(8)), &calls);
    }
    assert_eq!(names.get(), 4, "once for each place");
    let read = published::read(&published_words(&samples)).unwrap();
    for samples in [&samples, &read] {
        let innermost = samples.sites().map(|site| {
            let calls: Vec<_> = samples.calls(site).collect();
            assert_eq!((calls[1].file, calls[1].line), ("a.py", 64));
            assert_eq!((calls[0].function, calls[0].line), ("grow", 0));
            let native = calls[0].native.unwrap();
            (calls[0].file, native.build_id, native.offset)
        });
        let expected = [
            ("/a.so", "0aff", 64),
            ("/a.so", "0aff", 68),
            ("/a.so", "0bff", 64),
            ("/b.so", "", (1 << 40) + 3),
        ];
        assert_eq!(innermost.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn after_the_end_nothing_changes_and_a_block_in_anothers_place_is_known() {
    let mut samples = Samples::new(1, 9);
    let add = |samples: &mut Samples, address, size, line| {
        samples.add_at(block(address, 0, whole(size)), &[call("a.py", "f", line)])
    };
    assert_eq!(add(&mut samples, 16, 100, 1), Added::New);
    assert_eq!(add(&mut samples, 16, 40, 2), Added::Replaced);
    assert_eq!(samples.bytes(View::Live), [0, 40]);
    assert!(samples.remove(16) && !samples.remove(16));
    assert_eq!(add(&mut samples, 16, 30, 2), Added::New);
    samples.end(0);
    samples.restart_peaks(|_| None);
    samples.mark();
    samples.count_dropped();
    assert!(!samples.remove(16));
    assert_eq!(add(&mut samples, 32, 10, 1), Added::Not);
    assert_eq!(samples.bytes(View::AtPeak), [100, 0]);
    assert_eq!(samples.bytes(View::Live), [0, 30]);
    assert!(samples.views().all(|view| view != View::Grown));
    assert_eq!(samples.counts(), (3, 0));
}

#[test]
fn draws_that_were_stirred_differ_and_repeat_themselves() {
    let draws = |numbers: &[u64]| {
        let mut chance = Chance::new(3);
        numbers.iter().for_each(|&number| chance.stir(number));
        [chance.distance(1 << 20), chance.distance(1 << 20)]
    };
    assert_eq!(draws(&[1]), draws(&[1]));
    assert!(draws(&[1]) != draws(&[2]) && draws(&[0]) != draws(&[]));
}

#[test]
fn a_sample_that_was_taken_out_is_put_back_with_its_growth() {
    let mut samples = Samples::new(1, 9);
    samples.add_at(block(16, 0, whole(100)), &[call("a.py", "f", 1)]);
    let site = samples.sites().next().unwrap();
    let sums = |samples: &Samples| {
        [View::Live, View::Allocated].map(|view| {
            let sum = samples.sum(site, view);
            (sum.bytes(), sum.blocks())
        })
    };
    let grown = whole(30).without_block();
    for (from, to, share, growth, expected) in [
        (16, 16, 1.0, Weight::default(), [(100, 1), (100, 1)]),
        (16, 64, 1.0, grown, [(130, 1), (130, 1)]),
        (64, 64, 0.5, Weight::default(), [(65, 1), (130, 1)]),
    ] {
        let taken = samples.take_out(from).unwrap();
        assert_eq!(sums(&samples)[0], (0, 0));
        let added = samples.put_back(to, taken, share, growth);
        assert_eq!((added, sums(&samples)), (Added::New, expected));
    }
    assert!(samples.take_out(16).is_none() && samples.remove(64));
    assert_eq!(sums(&samples), [(0, 0), (130, 1)]);
}

/// Types of made-up blocks: those of odd addresses are objects, of three types, of which two have one name.
struct Odd;

impl Kinds for Odd {
    fn kind_of(&mut self, address: usize, bytes: usize) -> Option<usize> {
        assert_eq!(bytes, 10 * (1 + address % 7));
        (address % 2 == 1).then_some(address % 3)
    }

    fn name(&mut self, kind: usize, take: &mut dyn FnMut(&[u8])) {
        take([b"list", b"dict", b"dict"][kind]);
    }
}

#[test]
fn the_types_of_a_site_sum_its_live_objects_by_name() {
    let mut samples = Samples::new(1, 9);
    let mut expected: HashMap<(u8, &str), i64> = HashMap::new();
    for address in 1..500 {
        let (account, size) = ((address % 4) as u8, 10 * (1 + address % 7));
        samples.add_at(block(address, account, whole(size)), &[]);
        if address % 5 == 0 {
            samples.remove(address);
        } else if account == 1 {
            let name = if address % 3 == 0 { "list" } else { "dict" };
            *expected.entry((account, name)).or_default() += size as i64;
        }
    }
    samples.look_at_types(1, &mut Odd);
    let mut found: HashMap<(u8, &str), i64> = HashMap::new();
    for site in samples.sites() {
        let types: Vec<(&str, Sum)> = samples.types(site).collect();
        assert!(types.is_sorted_by_key(|(_, sum)| -sum.bytes()));
        for (name, sum) in types {
            *found.entry((site.account, name)).or_default() += sum.bytes();
        }
    }
    assert_eq!(found, expected);
    samples.forget_types();
    let with_types = |samples: &Samples| {
        let sites = samples.sites();
        sites
            .filter(|it| samples.types(*it).next().is_some())
            .count()
    };
    assert_eq!(with_types(&samples), 0);
    // Those of the end stay, and are never looked at after it.
    samples.look_at_types(1, &mut Odd);
    samples.end(0);
    samples.forget_types();
    samples.look_at_types(2, &mut Odd);
    assert_eq!(with_types(&samples), 1);
}

#[test]
fn beyond_the_bounds_a_stack_is_its_innermost_call_and_a_site_is_its_accounts() {
    let mut samples = Samples::new(1, 9);
    let (mut random, mut address) = (Random(5), 0);
    let mut add = |samples: &mut Samples, calls: &[Call<'_>], account| {
        address += 16;
        let added = samples.add_at(block(address, account, whole(100)), calls);
        assert_eq!(added, Added::New);
    };
    // Deep recursion with branches: a stack of its own for every sample.
    for _ in 0..2500 {
        let calls: Vec<_> = (0..900)
            .map(|_| call("a.py", "f", random.below(1000) as u32))
            .collect();
        add(&mut samples, &calls, 0);
    }
    // Generated code: lines and texts without end.
    for number in 0..300_000 {
        let name = format!("function {number} of generated code");
        add(&mut samples, &[call("b.py", &name, number)], 1);
    }
    let is_others = |call: &FrameView<'_>| call.function == "other stacks";
    let mut sums = [0; 3];
    for site in samples.sites() {
        let bytes = samples.sum(site, View::Live).bytes();
        let calls: Vec<_> = samples.calls(site).collect();
        sums[usize::from(site.account)] += bytes;
        if site.account == 0 && calls.len() < 900 {
            assert!(calls.len() == 2 && calls[0].file == "a.py" && is_others(&calls[1]));
            sums[2] += bytes;
        }
    }
    assert_eq!((sums[0], sums[1]), (250_000, 30_000_000));
    assert!(sums[2] > 0);
    assert_eq!(samples.counts(), (302_500, 0));
    let has_others =
        |site: &Site| site.account == 1 && samples.calls(*site).all(|call| is_others(&call));
    assert_eq!(samples.sites().filter(has_others).count(), 1);
    let tables: usize = samples.addresses().map(|table| table.len()).sum();
    let others = tables - samples.live.addresses().len();
    assert!(others < 300 << 20, "{others}");
    assert!(samples.publish_by(anonymous));
    let words = published_words(&samples);
    assert!(words.len() * 8 < 160 << 20, "{}", words.len());
    assert_copy(&samples, &published::read(&words).unwrap());
    assert_copy(&samples, &samples.copied().unwrap());
}

/// Whether the system has memory for [`scarce`].
static HAS_ROOM: AtomicBool = AtomicBool::new(true);

fn scarce(words: usize, fill: &mut dyn FnMut(&[AtomicU64])) -> Option<Shared<AtomicU64>> {
    let has_room = HAS_ROOM.load(Relaxed);
    has_room.then(|| anonymous(words, fill))?
}

#[test]
fn a_copy_that_could_not_grow_comes_back_whole_once_there_is_room() {
    let mut samples = Samples::new(1, 9);
    assert!(samples.publish_by(scarce));
    let add = |samples: &mut Samples, moment: u64| {
        let line = samples.counts().0 as usize + 1;
        let calls = [call("a.py", "f", line as u32)];
        samples.add_at(came(moment, line, 10), &calls);
    };
    let fill = |samples: &mut Samples, moment: u64| {
        HAS_ROOM.store(false, Relaxed);
        while samples.published.is_some() {
            add(samples, moment);
        }
    };
    fill(&mut samples, SECOND);
    let at_refusal = samples.counts().0;
    HAS_ROOM.store(true, Relaxed);
    // The system is not asked with each sample.
    add(&mut samples, SECOND + SECOND / 2);
    assert!(samples.published.is_none());
    add(&mut samples, 3 * SECOND);
    let read = published::read(&published_words(&samples)).unwrap();
    assert_eq!(read.counts(), (at_refusal + 2, 0));
    assert!(read.bytes(View::Live).iter().all(|&bytes| bytes == 10));
    // Refused for long, it is asked for about once a minute, and at the end at once.
    fill(&mut samples, 3 * SECOND);
    for second in 4..1000 {
        add(&mut samples, second * SECOND);
    }
    HAS_ROOM.store(true, Relaxed);
    let before = samples.counts().0;
    for second in 1000..1064 {
        if samples.published.is_none() {
            add(&mut samples, second * SECOND);
        }
    }
    assert!(samples.published.is_some() && samples.counts().0 > before);
    fill(&mut samples, 1064 * SECOND);
    HAS_ROOM.store(true, Relaxed);
    samples.end(1064 * SECOND);
    assert!(samples.published.is_some());
}

#[test]
fn samples_that_were_begun_anew_are_no_continuation_though_they_are_more() {
    let begun = |generation, moment, count: usize| {
        let mut samples = Samples::new(100, 9);
        samples.generation = generation;
        samples.begin_at(moment);
        samples.publish_by(anonymous);
        for address in 0..count {
            samples.add_at(block(address, 1, Weight::new(10, 10, 100)), &[]);
        }
        published::read(&published_words(&samples)).unwrap()
    };
    let first = begun(1, 50, 10);
    assert!(first.is_continued_by(&first) && first.is_continued_by(&begun(1, 50, 20)));
    assert!(!first.is_continued_by(&begun(2, 50, 20)), "a start");
    assert!(!first.is_continued_by(&begun(1, 60, 20)), "another program");
    assert!(!first.is_continued_by(&begun(1, 50, 9)));
}

#[test]
fn what_is_resident_of_a_map_counts_at_the_resident_peak_and_no_other_bytes_of_its_site() {
    let mut samples = Samples::new(1000, 9);
    let calls = [call("main.py", "map", 1)];
    for address in [1, 2, 3] {
        let weight = Weight::new(100_000, 100_000, 1000);
        samples.add_at(block(address, 9, weight), &calls);
    }
    let resident = |samples: &Samples| samples.bytes(View::AtResidentPeak);
    assert!(samples.views().all(|view| view != View::AtResidentPeak));
    samples.begin_resident_peak();
    assert_eq!(resident(&samples), [300_000]);
    samples.add_resident(9, 1, 4000);
    samples.add_resident(9, 2, 0);
    samples.add_resident(9, 2, 6000);
    samples.add_resident(9, 7, 5000); // no sample
    samples.add_resident(8, 3, 5000); // another account
    samples.remove(1);
    assert_eq!(resident(&samples), [10_000]);
    assert!(samples.views().any(|view| view == View::AtResidentPeak));
    samples.begin_resident_peak();
    assert_eq!(resident(&samples), [200_000]);
}
