//! The ledger's bookings, by threads at once.

use pyhost_loom::ledger::{LEDGER, open};
use pyhost_loom::loom::sync::Mutex;
use pyhost_loom::{
    Account, Gils, Reach, Scope, Slot, membarrier, model, model_to, register, spawn,
};
use std::cell::Cell;
use std::sync::Arc;

const NATIVE: usize = Account::Native as usize;
const OBJ: usize = Account::Obj as usize;
const RAW: usize = Account::Raw as usize;

static ONE_GIL: Gils = Gils {
    several: || false,
    barrier,
};
static TWO_GILS: Gils = Gils {
    several: || true,
    barrier,
};

fn barrier() {
    membarrier(0);
}

fn book<const A: usize>(slot: &Slot, bytes: usize, gils: &Gils) -> bool {
    let slow = || LEDGER.book_slow(slot, Account::ALL[A], bytes, gils, Reach::Cap);
    slot.book::<A>(bytes) || slow().is_ok()
}

fn release<const A: usize>(slot: &Slot, bytes: usize, gils: &Gils) {
    if !slot.release::<A>(bytes) {
        LEDGER.release_slow(slot, Account::ALL[A], bytes, gils);
    }
}

/// Live bytes by the threads' own count, and the highest. Loom runs a step at a time, so plain cells do.
#[derive(Default)]
struct Oracle {
    live: Cell<i64>,
    highest: Cell<i64>,
}

impl Oracle {
    /// After a booking, or before a release.
    fn add(&self, bytes: i64) {
        self.live.set(self.live.get() + bytes);
        self.highest.set(self.highest.get().max(self.live.get()));
    }
}

// SAFETY: the threads of a model are one to the machine.
unsafe impl Send for Oracle {}
// SAFETY: as above.
unsafe impl Sync for Oracle {}

/// Once all threads have ended and given their slots back, but for the owner of an exact account.
fn agrees(oracle: &Oracle, account: Account, blocks: u64) {
    let snapshot = LEDGER.snapshot();
    let figures = snapshot.account(account);
    assert_eq!(figures.live_bytes as i64, oracle.live.get());
    assert_eq!(snapshot.total_live_bytes as i64, oracle.live.get());
    assert_eq!(figures.total_blocks, blocks);
    assert!(figures.peak_bytes as i64 >= oracle.highest.get());
    assert!(snapshot.total_peak_bytes as i64 >= oracle.highest.get());
    assert_eq!(LEDGER.bound(Scope::Account(account)), oracle.live.get());
    assert_eq!(LEDGER.bound(Scope::Total), oracle.live.get());
}

#[test]
fn bookings_of_two_threads_add_up_below_a_cap() {
    const CAP: i64 = 25_000;
    for scope in [Scope::Total, Scope::Account(Account::Native)] {
        model(move || {
            open(2, &[Account::Native]);
            LEDGER.set_ceiling(scope, Some(CAP as u64), 0);
            let oracle = Arc::new(Oracle::default());
            // Returns how many were booked; the first one is released.
            let run = |oracle: &Oracle, sizes: &[usize]| {
                let slot = LEDGER.claim();
                let book = |&bytes: &usize| {
                    let is_booked = book::<NATIVE>(slot, bytes, &ONE_GIL);
                    oracle.add(if is_booked { bytes as i64 } else { 0 });
                    assert!(oracle.live.get() <= CAP);
                    is_booked
                };
                let booked: Vec<bool> = sizes.iter().map(book).collect();
                if booked[0] {
                    oracle.add(-(sizes[0] as i64));
                    release::<NATIVE>(slot, sizes[0], &ONE_GIL);
                }
                LEDGER.yield_slot(slot);
                booked.iter().filter(|&&it| it).count() as u64
            };
            let other = spawn({
                let oracle = oracle.clone();
                move || run(&oracle, &[14_000])
            });
            let booked = run(&oracle, &[12_000, 100]);
            let booked = booked + other.join();
            agrees(&oracle, Account::Native, booked);
            let snapshot = LEDGER.snapshot();
            let peak = match scope {
                Scope::Total => snapshot.total_peak_bytes,
                Scope::Account(account) => snapshot.account(account).peak_bytes,
            };
            assert!(peak as i64 <= CAP);
        });
    }
}

#[test]
fn threads_without_a_slot_of_their_own_lose_no_booking() {
    model(|| {
        open(0, &[Account::Raw]);
        let oracle = Arc::new(Oracle::default());
        let run = |oracle: &Oracle, bytes: usize| {
            assert!(book::<RAW>(LEDGER.overflow(), bytes, &ONE_GIL));
            oracle.add(bytes as i64 - 8);
            release::<RAW>(LEDGER.overflow(), 8, &ONE_GIL);
        };
        let other = spawn({
            let oracle = oracle.clone();
            move || run(&oracle, 1000)
        });
        run(&oracle, 200);
        other.join();
        agrees(&oracle, Account::Raw, 2);
    });
}

#[test]
fn a_slot_is_one_threads_and_the_next_goes_on_where_that_one_stopped() {
    model(|| {
        open(2, &[Account::Raw]);
        let oracle = Arc::new(Oracle::default());
        let run = |oracle: &Oracle| {
            let slot = LEDGER.claim();
            assert!(book::<RAW>(slot, 100, &ONE_GIL));
            oracle.add(100);
            LEDGER.yield_slot(slot);
        };
        let other = spawn({
            let oracle = oracle.clone();
            move || run(&oracle)
        });
        run(&oracle);
        other.join();
        agrees(&oracle, Account::Raw, 2);
    });
}

#[test]
fn a_segment_that_ends_loses_no_peak_of_another_thread() {
    model(|| {
        open(2, &Account::ALL);
        register();
        let own = LEDGER.claim();
        LEDGER.end_segment(own, &ONE_GIL);
        let slot = LEDGER.claim();
        let other = spawn(move || assert!(book::<RAW>(slot, 20_000, &ONE_GIL)));
        let ended = LEDGER.end_segment(own, &ONE_GIL).account(Account::Raw);
        other.join();
        // The peak of the running segment is never below what is live.
        let running = LEDGER.segment_peaks();
        assert!(running.account(Account::Raw) >= 20_000);
        assert!(running.total >= 20_000);
        assert!(ended == 0 || ended >= 20_000);
        LEDGER.yield_slot(slot);
        assert_eq!(LEDGER.bound(Scope::Total), 20_000);
    });
}

#[test]
fn an_account_of_the_gil_has_an_exact_peak_whoever_holds_it() {
    model(|| {
        open(2, &[Account::Obj]);
        let gil = Arc::new(Mutex::new(Oracle::default()));
        let run = |gil: &Mutex<Oracle>, bytes: usize| {
            let slot = LEDGER.claim();
            for is_last in [false, true] {
                let oracle = gil.lock().unwrap();
                assert!(book::<OBJ>(slot, bytes, &ONE_GIL));
                oracle.add(bytes as i64);
                if is_last {
                    oracle.add(-2 * bytes as i64);
                    (0..2).for_each(|_| release::<OBJ>(slot, bytes, &ONE_GIL));
                }
            }
            slot
        };
        let other = spawn({
            let gil = gil.clone();
            move || run(&gil, 300)
        });
        let own = run(&gil, 64);
        other.join();
        LEDGER.close_windows(own);
        let oracle = gil.lock().unwrap();
        agrees(&oracle, Account::Obj, 4);
        let peak = LEDGER.snapshot().account(Account::Obj).peak_bytes;
        assert_eq!(peak as i64, oracle.highest.get());
    });
}

/// The owner of an exact account books so many bytes while a thread of another GIL comes.
fn account_turns(bytes: usize) {
    model_to(5, move || {
        open(2, &[Account::Obj]);
        register();
        let oracle = Arc::new(Oracle::default());
        let own = LEDGER.claim();
        assert!(book::<OBJ>(own, 64, &ONE_GIL));
        oracle.add(64);
        let of_owner = spawn({
            let oracle = oracle.clone();
            move || {
                assert!(book::<OBJ>(own, bytes, &TWO_GILS));
                oracle.add(bytes as i64);
            }
        });
        let other = LEDGER.claim();
        assert!(book::<OBJ>(other, 100, &TWO_GILS));
        oracle.add(100);
        of_owner.join();
        LEDGER.yield_slot(own);
        LEDGER.yield_slot(other);
        agrees(&oracle, Account::Obj, 3);
    });
}

#[test]
fn an_account_of_the_gil_turns_while_its_owner_books_in_its_window() {
    account_turns(8);
}

#[test]
fn an_account_of_the_gil_turns_while_its_owner_books_beyond_its_window() {
    account_turns(10_000);
}

#[test]
fn maps_of_two_threads_add_up() {
    model(|| {
        open(0, &[Account::Mapped]);
        let run = || {
            LEDGER.adjust_mapped(4096, 1, 0);
            LEDGER.adjust_mapped(-4096, 0, 1);
            LEDGER.adjust_mapped(8192, 1, 0);
        };
        let other = spawn(run);
        run();
        other.join();
        let mapped = *LEDGER.snapshot().account(Account::Mapped);
        assert_eq!((mapped.live_bytes, mapped.live_blocks), (16_384, 2));
        assert!((16_384..=16_384 + 4096).contains(&mapped.peak_bytes));
        assert_eq!(LEDGER.bound(Scope::Total), 0);
    });
}
