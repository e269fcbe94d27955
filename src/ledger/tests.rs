//! The ledger against naive oracles: random bookings, from one thread, and from many in turn as under a GIL. Threads
//! that book at once are those of loom's models, in loom/tests/ledger.rs.

use super::ceiling::{Reach, Scope};
use super::segment::{Others, Peaks};
use super::shared::{Ledger, SLOTS};
use super::{
    account::Account,
    booking::{Gils, WIDEST},
    layout::Zeros,
    slot::Slot,
};
use Account::{Arena, Mem, Native, Obj, Raw};
use proptest::{collection, prelude::*};
use pyhost_testing::Random;
use std::sync::atomic::{Ordering::SeqCst, fence};

static ONE_GIL: Gils = Gils {
    several: || false,
    barrier: || fence(SeqCst),
};
static TWO_GILS: Gils = Gils {
    several: || true,
    ..ONE_GIL
};

/// The most that a peak may be too high, a thread.
const SLACK: i64 = 64 * 1024;

/// How often a test repeats a step: `wanted` times, and 2000 times less under Miri, which is slower by about as much.
const fn rounds(wanted: u64) -> u64 {
    match cfg!(miri) {
        true => wanted.div_ceil(2000),
        false => wanted,
    }
}

/// Mostly small sizes, at times large ones, as programs ask.
fn size(random: &mut Random) -> usize {
    match random.below(100) {
        0 => 1 << (10 + random.below(14)),
        _ => 8 * (1 + random.below(64)),
    }
}

fn ledger() -> &'static Ledger {
    let ledger = Box::leak(Box::new(Ledger::ZEROS));
    ledger.open();
    ledger
}

/// Books if a ceiling allows it.
fn try_book(ledger: &Ledger, slot: &Slot, account: Account, bytes: usize, reach: Reach) -> bool {
    let slow = || ledger.book_slow(slot, account, bytes, &ONE_GIL, reach);
    slot.book_to(account, bytes) || slow().is_ok()
}

fn book(ledger: &Ledger, slot: &Slot, account: Account, bytes: usize, gils: &Gils) {
    if !slot.book_to(account, bytes) {
        let booked = ledger.book_slow(slot, account, bytes, gils, Reach::Cap);
        booked.expect("no ceiling");
    }
}

fn release(ledger: &Ledger, slot: &Slot, account: Account, bytes: usize, gils: &Gils) {
    if !slot.release_from(account, bytes) {
        ledger.release_slow(slot, account, bytes, gils);
    }
}

/// What a thread does, of three that take turns.
#[derive(Clone, Debug)]
enum Step {
    /// To one of [`BOOKED`], so many bytes.
    Book(usize, usize),
    /// A block by its number, whoever has booked it.
    Release(usize),
    /// The same, without the GIL of its account.
    ReleaseForeign(usize),
    /// Ends; another takes its place, and its slot.
    End,
    EndSegment,
    /// Starts every peak anew, also that of the process's life.
    ResetPeaks,
}

/// The accounts that are booked to.
const BOOKED: [Account; 5] = [Raw, Mem, Obj, Arena, Native];
/// The place of their sum.
const ALL: usize = BOOKED.len();

/// Plain counters of [`BOOKED`], and of their sum.
#[derive(Clone, Default)]
struct Plain {
    live: [i64; ALL + 1],
    /// The highest of the process's life, and of the segment.
    peak: [i64; ALL + 1],
    of_segment: [i64; ALL + 1],
}

impl Plain {
    fn change(&mut self, to: usize, bytes: i64) {
        for place in [to, ALL] {
            self.live[place] += bytes;
            self.peak[place] = self.peak[place].max(self.live[place]);
            self.of_segment[place] = self.of_segment[place].max(self.live[place]);
        }
    }

    /// By how much the peaks of the segment that has ended are too high. The next one begins.
    fn end_segment(&mut self, found: &Peaks) -> [i64; ALL + 1] {
        let of_segment = std::mem::replace(&mut self.of_segment, self.live);
        std::array::from_fn(|place| {
            let account = BOOKED.get(place).map(|&account| found.account(account));
            account.unwrap_or(found.total) as i64 - of_segment[place]
        })
    }
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let size = prop_oneof![
        20 => (1..64_usize).prop_map(|words| 8 * words),
        1 => (10..24_u32).prop_map(|power| 1 << power),
    ];
    let step = prop_oneof![
        60 => (0..ALL, size).prop_map(|(to, bytes)| Step::Book(to, bytes)),
        50 => any::<usize>().prop_map(Step::Release),
        2 => any::<usize>().prop_map(Step::ReleaseForeign),
        1 => Just(Step::End),
        2 => Just(Step::EndSegment),
        1 => Just(Step::ResetPeaks),
    ];
    collection::vec((0..3_usize, step), 1..1500)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore)]
    fn threads_in_turn_have_the_figures_of_plain_counters(
        steps in steps(), second_gil in 0..3000_usize, is_narrow in any::<bool>(),
    ) {
        let ledger = ledger();
        if is_narrow {
            ledger.earlier_total_peak.store(1, SeqCst); // as when a segment has ended
        }
        let mut slots = [ledger.claim(), ledger.claim(), ledger.claim()];
        let mut blocks: Vec<(usize, usize)> = Vec::new();
        let mut plain = Plain::default();
        // What foreign threads have released stays in the bounds.
        let mut foreign = [0; ALL + 1];
        let mut total = [0_u64; ALL];
        // Of each thread that has a slot, live bytes, and blocks since the last segment.
        let (mut live_of, mut blocks_of) = ([0; 3], [0; 3]);
        let mut marks = ledger.marks();
        for (number, (thread, step)) in steps.into_iter().enumerate() {
            let gils = if number < second_gil { &ONE_GIL } else { &TWO_GILS };
            let is_precise = |place: usize, too_high: i64| {
                let slack = match BOOKED.get(place) {
                    Some(Mem | Obj) if number < second_gil => 0,
                    Some(account) if is_narrow || *account == Arena => 3 * account.window(),
                    Some(_) => 3 * WIDEST,
                    None if is_narrow => 3 * SLACK,
                    None => 3 * 4 * WIDEST,
                };
                prop_assert!((0..=slack).contains(&too_high), "{}: {}", place, too_high);
                Ok(())
            };
            let (to, change) = match step {
                Step::Book(to, bytes) => {
                    book(ledger, slots[thread], BOOKED[to], bytes, gils);
                    blocks.push((to, bytes));
                    total[to] += 1;
                    blocks_of[thread] += 1;
                    (to, bytes as i64)
                }
                Step::Release(number) if !blocks.is_empty() => {
                    let (to, bytes) = blocks.swap_remove(number % blocks.len());
                    release(ledger, slots[thread], BOOKED[to], bytes, gils);
                    (to, -(bytes as i64))
                }
                Step::ReleaseForeign(number) if !blocks.is_empty() => {
                    let (to, bytes) = blocks.swap_remove(number % blocks.len());
                    ledger.release_foreign(BOOKED[to], bytes);
                    foreign[to] += bytes as i64;
                    foreign[ALL] += bytes as i64;
                    (to, 0)
                }
                Step::Release(_) | Step::ReleaseForeign(_) => continue,
                Step::End => {
                    ledger.yield_slot(slots[thread]);
                    slots[thread] = ledger.claim();
                    live_of[thread] = 0;
                    continue;
                }
                Step::EndSegment | Step::ResetPeaks => {
                    let resets = matches!(step, Step::ResetPeaks) && !is_narrow;
                    let end = if resets { Ledger::reset_peaks } else { Ledger::end_segment };
                    let too_high = plain.end_segment(&end(ledger, slots[thread], gils));
                    for (place, too_high) in too_high.into_iter().enumerate() {
                        is_precise(place, too_high)?;
                    }
                    plain.peak = if resets { plain.live } else { plain.peak };
                    marks = ledger.marks();
                    blocks_of = [0; 3];
                    continue;
                }
            };
            plain.change(to, change);
            live_of[thread] += change;
            let snapshot = ledger.snapshot();
            let figures = snapshot.account(BOOKED[to]);
            prop_assert_eq!(figures.live_bytes as i64, plain.live[to] - foreign[to]);
            prop_assert_eq!(figures.live_blocks, blocks.iter().filter(|block| block.0 == to).count() as u64);
            prop_assert_eq!(figures.total_blocks, total[to]);
            prop_assert_eq!(snapshot.total_live_bytes as i64, plain.live[ALL] - foreign[ALL]);
            is_precise(to, figures.peak_bytes as i64 - plain.peak[to])?;
            is_precise(ALL, snapshot.total_peak_bytes as i64 - plain.peak[ALL])?;
            is_precise(ALL, ledger.bound(Scope::Total) - plain.live[ALL])?;
            prop_assert_eq!(slots[thread].live_of_owner(), live_of[thread]);
            let others = (0..3).filter(|&it| it != thread).map(|it| blocks_of[it]);
            let threads = others.clone().filter(|&blocks| blocks > 0).count() as u32;
            let others = Others { threads, blocks: others.sum() };
            prop_assert_eq!(ledger.others_since(&marks, slots[thread]), others);
        }
    }
}

#[test]
fn the_total_counts_a_pooled_block_once() {
    let ledger = ledger();
    let slot = ledger.claim();
    book(ledger, slot, Arena, 1 << 20, &ONE_GIL);
    for _ in 0..rounds(1000) {
        book(ledger, slot, Obj, 512, &ONE_GIL);
        book(ledger, slot, Account::Pooled, 512, &ONE_GIL);
    }
    let snapshot = ledger.snapshot();
    let booked = 512 * rounds(1000);
    assert_eq!(snapshot.account(Obj).live_bytes, booked);
    assert_eq!(snapshot.total_live_bytes, 1 << 20);
    let too_high = snapshot.total_peak_bytes as i64 - (1 << 20);
    assert!((0..=SLACK).contains(&too_high), "{too_high}");
}

#[test]
fn threads_beyond_the_slots_share_one() {
    let ledger = ledger();
    let taken: Vec<&Slot> = (0..SLOTS).map(|_| ledger.claim()).collect();
    assert!(taken.iter().all(|slot| !ledger.is_overflow(slot)));
    assert!(ledger.is_overflow(ledger.claim()));
    ledger.yield_slot(taken[5]);
    assert!(!ledger.is_overflow(ledger.claim()));
}

#[test]
fn one_thread_fills_a_ceiling_to_the_byte_and_never_passes_it() {
    for (account, scope, reach, height) in [
        (Obj, Scope::Total, Reach::Hold, 900_000),
        (Obj, Scope::Total, Reach::Middle, 950_000),
        (Obj, Scope::Total, Reach::Cap, 1_000_000),
        (Obj, Scope::Account(Obj), Reach::Hold, 900_000),
        (Obj, Scope::Account(Obj), Reach::Cap, 1_000_000),
        (Native, Scope::Total, Reach::Hold, 900_000),
        (Native, Scope::Account(Native), Reach::Cap, 1_000_000),
    ] {
        let ledger = ledger();
        let slot = ledger.claim();
        ledger.set_ceiling(scope, Some(1_000_000), 100_000);
        let mut random = Random(7);
        let mut blocks = Vec::new();
        let mut live = 0;
        for _ in 0..rounds(20_000) {
            let bytes = 8 * (1 + random.below(200));
            let booked = try_book(ledger, slot, account, bytes, reach);
            assert_eq!(booked, live + bytes <= height, "{live} + {bytes}");
            if booked {
                live += bytes;
                blocks.push(bytes);
            } else if random.below(8) == 0 {
                for bytes in blocks.drain(..blocks.len() / 2) {
                    release(ledger, slot, account, bytes, &ONE_GIL);
                    live -= bytes;
                }
            }
        }
        let snapshot = ledger.snapshot();
        assert!(snapshot.account(account).peak_bytes <= height as u64);
        assert!(snapshot.total_peak_bytes <= height as u64);
        // Nothing of what was refused stays in the bounds.
        ledger.close_windows(slot);
        let bounds = [Scope::Total, Scope::Account(account)].map(|scope| ledger.bound(scope));
        assert_eq!(bounds, [live as i64; 2]);
    }
}

#[test]
fn a_ceiling_below_what_is_live_stops_growth_at_once_where_windows_are_closed() {
    let ledger = ledger();
    let slot = ledger.claim();
    book(ledger, slot, Obj, 1_000_000, &ONE_GIL);
    book(ledger, slot, Raw, 1_000, &ONE_GIL);
    ledger.set_ceiling(Scope::Total, Some(500_000), 0);
    ledger.close_windows(slot);
    assert_eq!(ledger.bound(Scope::Total), 1_001_000);
    assert!(!try_book(ledger, slot, Obj, 8, Reach::Cap));
    assert!(!try_book(ledger, slot, Raw, 8, Reach::Cap));
    release(ledger, slot, Obj, 600_000, &ONE_GIL);
    assert!(try_book(ledger, slot, Raw, 8, Reach::Cap));
    ledger.set_ceiling(Scope::Total, None, 0);
    assert!(try_book(ledger, slot, Obj, 1 << 30, Reach::Cap));
}

/// Fills the ceiling of the total to the byte in one slot, then frees in another one whose first
/// booking that is, and in the first one after its windows were closed.
#[test]
fn a_release_at_the_ceiling_raises_no_peak_above_it() {
    const CAP: u64 = 1 << 20;
    let sizes = [4096, 128, 16].into_iter();
    let sizes = sizes.take(if cfg!(miri) { 1 } else { 3 });
    for (bytes, account) in sizes.flat_map(|bytes| [Raw, Obj, Native].map(|it| (bytes, it))) {
        let ledger = ledger();
        ledger.set_ceiling(Scope::Total, Some(CAP), 0);
        let (own, other) = (ledger.claim(), ledger.claim());
        let fill = || while try_book(ledger, own, account, bytes, Reach::Cap) {};
        fill();
        release(ledger, other, account, bytes, &ONE_GIL);
        ledger.close_windows(own);
        fill();
        ledger.close_windows(own);
        release(ledger, own, account, bytes, &ONE_GIL);
        fill();
        ledger.yield_slot(own);
        release(ledger, ledger.claim(), account, bytes, &ONE_GIL);
        let name = account.name();
        let peak = ledger.snapshot().total_peak_bytes;
        assert!(peak <= CAP, "{name}: a peak of {peak} under a cap of {CAP}");
        assert!(ledger.bound(Scope::Total) <= CAP as i64, "{name}");
    }
}

/// Random bookings to all accounts; the peak of each precise span, and those of the total, against plain counters.
#[test]
fn the_peak_of_a_precise_span_is_too_high_by_a_part_of_its_growth() {
    for seed in 1..=4 {
        let ledger = ledger();
        let slot = ledger.claim();
        let mut random = Random(seed);
        let (mut blocks, mut plain) = (Vec::new(), Plain::default());
        for span in 0..rounds(400) {
            // Every second one is not precise: windows are open when the next begins.
            let is_precise = span % 2 == 0;
            if is_precise {
                ledger.begin_precise();
            }
            plain.end_segment(&ledger.end_segment(slot, &ONE_GIL));
            let starts = plain.live;
            for step in 0..50 {
                // A span within the span: it makes no window of the outer one wider.
                match step {
                    20 if is_precise => ledger.begin_precise(),
                    30 if is_precise => ledger.end_precise(),
                    _ => {}
                }
                if random.below(100) < 55 || blocks.is_empty() {
                    let (to, bytes) = (random.below(ALL), size(&mut random));
                    book(ledger, slot, BOOKED[to], bytes, &ONE_GIL);
                    plain.change(to, bytes as i64);
                    blocks.push((to, bytes));
                } else {
                    let (to, bytes) = blocks.swap_remove(random.below(blocks.len()));
                    release(ledger, slot, BOOKED[to], bytes, &ONE_GIL);
                    plain.change(to, -(bytes as i64));
                }
            }
            let highest = plain.of_segment;
            let too_high = plain.end_segment(&ledger.end_segment(slot, &ONE_GIL));
            if is_precise {
                ledger.end_precise();
            }
            // Of each account, what it has grown; of all, the sum of these.
            let mut slacks = [SLACK; ALL + 1];
            if is_precise {
                let accounts = 0..ALL;
                accounts.for_each(|at| slacks[at] = (highest[at] - starts[at]) / 30);
                slacks[ALL] = slacks[..ALL].iter().sum::<i64>().min(SLACK);
            }
            for (slack, too_high) in slacks.into_iter().zip(too_high) {
                assert!(
                    (0..=slack).contains(&too_high),
                    "seed {seed} span {span}: {too_high}, {slacks:?}"
                );
            }
        }
    }
}
