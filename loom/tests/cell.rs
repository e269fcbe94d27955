//! The cells of `pyhost_os`.

use pyhost_loom::cell::{Exclusive, Latest, Published};
use pyhost_loom::loom::cell::UnsafeCell;
use pyhost_loom::{model, spawn, yield_now};
use std::sync::Arc;

/// A counter without atomics: two threads that count at once, or one that does not see what the other wrote, fail the model.
#[derive(Default)]
struct Counter(UnsafeCell<u64>);

impl Counter {
    fn count(&self) {
        // SAFETY: loom fails the model if another thread has access.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }

    fn value(&self) -> u64 {
        // SAFETY: as above.
        self.0.with(|value| unsafe { *value })
    }
}

// SAFETY: loom's cell is for one thread at a time, which is what the model asks.
unsafe impl Sync for Counter {}

#[test]
fn holders_follow_each_other_and_no_count_is_lost() {
    model(|| {
        let cell = Arc::new(Exclusive::new(Counter::default()));
        let count = |cell: Arc<Exclusive<Counter>>| {
            let held = cell.try_hold();
            held.iter().for_each(|held| held.count());
            u64::from(held.is_some())
        };
        let others = [cell.clone(), cell.clone()].map(|cell| spawn(move || count(cell)));
        let own = count(cell.clone());
        let counted = others.map(|it| it.join()).iter().sum::<u64>() + own;
        assert!(counted > 0);
        assert_eq!(cell.try_hold().unwrap().value(), counted);
    });
}

#[test]
fn a_thread_that_waits_for_a_value_gets_it() {
    model(|| {
        let cell = Arc::new(Exclusive::new(Counter::default()));
        let other = spawn({
            let cell = cell.clone();
            move || cell.hold().unwrap().count()
        });
        cell.hold().unwrap().count();
        other.join();
        assert_eq!(cell.hold().unwrap().value(), 2);
    });
}

#[test]
fn the_thread_that_has_a_value_is_known_and_is_alone_with_it() {
    model(|| {
        let owned = Arc::new(Exclusive::new(Counter::default()));
        let count = |owned: &Exclusive<Counter>, own| loop {
            if let Some(held) = owned.try_hold_for(own) {
                assert!(owned.is_held_by(own));
                return held.count();
            }
            assert!(!owned.is_held_by(own));
            yield_now();
        };
        let other = spawn({
            let owned = owned.clone();
            move || count(&owned, 2)
        });
        count(&owned, 1);
        other.join();
        assert_eq!(owned.try_hold_for(1).unwrap().value(), 2);
    });
}

#[test]
fn a_published_value_is_one_threads_and_is_seen_whole() {
    model(|| {
        // The value itself is what its maker wrote before: a reader that sees it sees that.
        let published = Arc::new(Published::<usize>::new());
        let made = Arc::new([Counter::default(), Counter::default()]);
        let publish = |published: &Published<usize>, made: &[Counter; 2], own: usize| {
            published.set_once(|| {
                made[own].count();
                own
            });
            published.get().map(|&maker| {
                assert_eq!(made[maker].value(), 1);
                maker
            })
        };
        let others = [0, 1].map(|own| {
            let (published, made) = (published.clone(), made.clone());
            spawn(move || publish(&published, &made, own))
        });
        let seen = published.get().copied();
        seen.iter()
            .for_each(|&maker| assert_eq!(made[maker].value(), 1));
        let seen = others.map(|it| it.join()).into_iter().chain([seen]);
        let maker = *published.get().unwrap();
        assert!(seen.flatten().all(|it| it == maker));
        assert_eq!(made.iter().map(Counter::value).sum::<u64>(), 1);
    });
}

#[test]
fn the_latest_value_is_one_that_was_set() {
    model(|| {
        let latest = Arc::new(Latest::<(u32, u32)>::new());
        let others = [1, 2].map(|number| {
            let latest = latest.clone();
            spawn(move || latest.set(&(number, number)))
        });
        if let Some(held) = latest.hold() {
            assert!(held.0 == held.1 && held.0 > 0);
        }
        others.into_iter().for_each(|it| it.join());
        // A thread that found another at it left its own away.
        latest.set(&(3, 3));
        assert_eq!(latest.get(), Some((3, 3)));
    });
}
