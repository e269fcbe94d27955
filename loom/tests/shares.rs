//! The shares that processes have of a tree's cap, by claims at once. A process of the tree is a thread here.

use pyhost_loom::AtomicU64;
use pyhost_loom::shares::{Shares, UNIT};
use pyhost_loom::{model, spawn};
use std::cell::Cell;
use std::sync::Arc;

/// The page of a tree whose cap is three units, with an entry for each of three processes.
fn page() -> Arc<Page> {
    let page = Page {
        words: (0..10).map(|_| AtomicU64::new(0)).collect(),
        granted: Cell::new(0),
    };
    page.shares().set_cap(3 * UNIT, None);
    for id in 1..=3 {
        assert_eq!(page.shares().enter(id, 1), Some(id as usize + 1));
    }
    Arc::new(page)
}

struct Page {
    words: Vec<AtomicU64>,
    /// What was granted and not given back. Loom runs a step at a time, so a plain cell does.
    granted: Cell<u64>,
}

// SAFETY: the threads of a model are one to the machine.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn shares(&self) -> Shares<'_> {
        Shares(&self.words)
    }

    /// Claims so many units for a process; how many it got. Its entry is the next number.
    fn claim(&self, id: usize, least: u64, want: u64) -> u64 {
        let got = self
            .shares()
            .claim(id + 1, least * UNIT, want * UNIT, 3 * UNIT)
            / UNIT;
        self.granted.set(self.granted.get() + got);
        assert!(self.granted.get() <= 3, "above the cap");
        got
    }

    fn give_back(&self, id: usize, units: u64) {
        self.granted.set(self.granted.get() - units);
        self.shares().give_back(id + 1, units * UNIT);
    }
}

#[test]
fn claims_at_once_are_never_granted_more_than_the_cap() {
    model(|| {
        let page = page();
        let other = spawn({
            let page = page.clone();
            move || page.claim(2, 2, 2)
        });
        let own = page.claim(1, 2, 2);
        let others = other.join();
        assert!(own + others <= 2 && page.shares().sum() == (own + others) * UNIT);
    });
}

#[test]
fn what_one_gives_back_another_gets_and_no_more() {
    model(|| {
        let page = page();
        assert_eq!(page.claim(3, 2, 2), 2);
        let other = spawn({
            let page = page.clone();
            move || page.claim(2, 1, 2)
        });
        page.give_back(3, 1);
        let own = page.claim(1, 1, 2);
        let others = other.join();
        assert!(own + others >= 1, "one of them finds room");
        assert_eq!(page.shares().sum(), (1 + own + others) * UNIT);
    });
}

#[test]
fn the_share_of_one_that_has_ended_is_freed_once() {
    model(|| {
        let page = page();
        assert_eq!(page.claim(3, 3, 3), 3);
        page.granted.set(0); // it ends
        let frees = |page: &Page| page.shares().free_ended(0, |id, _| id != 3);
        let other = spawn({
            let page = page.clone();
            move || {
                frees(&page);
                // A process that comes new.
                page.shares()
                    .enter(4, 1)
                    .map(|entry| page.claim(entry - 1, 1, 1))
            }
        });
        frees(&page);
        let own = page.claim(1, 2, 2);
        let others = other.join();
        assert_eq!(others, Some(1));
        assert_eq!(page.shares().sum(), (own + 1) * UNIT);
    });
}

#[test]
fn a_child_takes_nothing_of_a_process_that_has_its_parents_entry() {
    model(|| {
        let page = page();
        assert_eq!(page.claim(3, 1, 1), 1);
        let parent = page.shares().owner(4);
        let other = spawn({
            let page = page.clone();
            move || {
                // Once more if the entry changed meanwhile.
                let frees = || page.shares().free_ended(0, |id, _| id != 3);
                let _ = frees() || frees();
                let entry = page.shares().enter(4, 1);
                entry.map(|entry| page.claim(entry - 1, 1, 1))
            }
        });
        let passed = page.shares().pass(4, parent, 2, UNIT);
        assert_eq!(other.join(), Some(1));
        assert_eq!(page.shares().sum(), UNIT + passed);
    });
}
