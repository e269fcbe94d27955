//! Room of the region for threads that start: kept from the moment that a thread is made until it has
//! committed its first pages.
//!
//! A thread of Python needs a page for each size of the blocks of its first steps. If whole slices count, that is half a mebibyte.
//! If it gets none, CPython cannot report it: `threading.Thread.start()` waits forever for a thread that has
//! ended. So a thread is not created without the room (`EAGAIN`, for which CPython raises RuntimeError), and
//! other threads do not get the room that was kept for it.
//!
//! The rest of a thread's room is given back when the thread has taken as much as first steps need, when it
//! ends, or when its creator makes the next thread and this one has taken most of it. All functions are
//! called with the lock of the commits held.

use super::commits::SLICE;
use std::cell::Cell;

/// Slices' worth kept for a thread. A thread that does nothing took 9 slices of 64 KiB, on 3.9 to 3.13. Only a part of them counts if
/// what is unused does not: see [`super::keep_room`].
pub const NEED: u64 = 16 * SLICE as u64;

/// Bytes that first steps need, and bytes after which most of them are done.
const STEPS: u64 = 9 * SLICE as u64;
const MOST_STEPS: u64 = 6 * SLICE as u64;

/// How many promises are open at a time. Further threads are made if there is plenty of room.
const COUNT: usize = 256;

/// A promise by its place and its number, which no later one at that place has.
type Name = super::Promise;

pyhost_os::state! {
    /// The promises that a thread knows of.
    thread static THREAD: ThreadPromises {
        /// The room that was kept for the calling thread.
        own: Cell<Option<Name>> = Cell::new(None),
        /// The room that the calling thread reserved for the last thread that it made.
        given: Cell<Option<Name>> = Cell::new(None),
    }
}

pub struct Promises {
    /// Number of the promise at each place, and the bytes that are left of it.
    all: [(u64, u64); COUNT],
    /// Bytes of all of them.
    sum: u64,
    latest: u64,
}

impl Promises {
    pub const fn none() -> Self {
        Promises {
            all: [(0, 0); COUNT],
            sum: 0,
            latest: 0,
        }
    }

    /// Bytes that are kept for others than the calling thread.
    pub fn of_others(&self) -> u64 {
        self.sum - self.left(own())
    }

    fn left(&self, name: Option<Name>) -> u64 {
        match name {
            Some((place, number)) if self.all[place].0 == number => self.all[place].1,
            _ => 0,
        }
    }

    fn set(&mut self, name: Option<Name>, left: u64) {
        if let Some((place, number)) = name
            && self.all[place].0 == number
        {
            self.sum = self.sum - self.all[place].1 + left;
            self.all[place].1 = left;
        }
    }

    /// Takes what the calling thread has committed off its promise.
    pub fn use_up(&mut self, bytes: u64) {
        let own = own();
        let left = self.left(own).saturating_sub(bytes);
        let is_through = left + STEPS <= NEED;
        self.set(own, if is_through { 0 } else { left });
    }

    /// Takes back what was kept for the calling thread, which ends.
    pub fn end(&mut self) {
        let own = THREAD.with(|it| it.own.take());
        self.set(own, 0);
    }

    /// Takes back what was kept for the last thread that the calling one made.
    /// That one may not have begun yet, then it stays.
    pub fn settle(&mut self) {
        let given = THREAD.with(|it| it.given.take());
        if self.left(given) + MOST_STEPS <= NEED {
            self.set(given, 0);
        }
    }

    /// Takes back what was kept for a thread that could not be made.
    pub fn withdraw(&mut self) {
        let given = THREAD.with(|it| it.given.take());
        self.set(given, 0);
    }

    /// Keeps room for a thread that the calling one makes; a name of nothing if too many are made at once.
    pub fn keep(&mut self) -> Name {
        self.latest += 1;
        let name = match self.all.iter().position(|(_, left)| *left == 0) {
            Some(place) => {
                self.all[place] = (self.latest, NEED);
                self.sum += NEED;
                (place, self.latest)
            }
            None => (0, self.latest),
        };
        THREAD.with(|it| it.given.set(Some(name)));
        name
    }

    /// Nobody waits for any of them: in a forked child, which has no other threads.
    pub fn forget(&mut self) {
        self.all = [(0, 0); COUNT];
        self.sum = 0;
    }
}

/// The calling thread is the one that room was kept for.
pub fn take(name: Name) {
    THREAD.with(|it| it.own.set(Some(name)));
}

fn own() -> Option<Name> {
    THREAD.with(|it| it.own.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_did_not_need_comes_back_when_the_next_is_made() {
        let mut promises = Promises::none();
        let name = promises.keep();
        assert_eq!(promises.of_others(), NEED);
        take(name);
        assert_eq!(promises.of_others(), 0);
        promises.use_up(SLICE as u64);
        THREAD.with(|it| it.own.set(None));
        promises.settle();
        assert_eq!(promises.of_others(), NEED - SLICE as u64);
        THREAD.with(|it| it.given.set(Some(name)));
        take(name);
        promises.use_up(MOST_STEPS);
        THREAD.with(|it| it.own.set(None));
        promises.settle();
        assert_eq!(promises.of_others(), 0);
        // A name of before does not reach what is at its place now.
        let next = promises.keep();
        take(name);
        promises.use_up(NEED);
        assert_eq!(promises.of_others(), NEED);
        take(next);
        promises.use_up(STEPS);
        THREAD.with(|it| it.own.set(None));
        assert_eq!(promises.of_others(), 0);
        promises.keep();
        promises.withdraw();
        assert_eq!(promises.of_others(), 0);
        let last = promises.keep();
        take(last);
        promises.end();
        assert_eq!(promises.of_others(), 0);
        promises.forget();
        assert_eq!(promises.of_others(), 0);
        THREAD.with(|it| it.own.set(None));
    }
}
