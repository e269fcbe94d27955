//! What a report shows beside its figures: the balance sheet and the size classes, each taken at one
//! moment and kept in static memory, so that nothing is allocated when they are rendered.
//!
//! Taken with the GIL, outside signal handlers: a look waits for the threads that are in the
//! allocator.

#![allow(unsafe_code)]

use crate::balance::{self, Balance};
use crate::heap::histogram::Histogram;
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};

/// The exhibits of one moment.
pub struct Exhibits {
    /// `None` if the kernel does not provide it.
    pub balance: Option<Balance>,
    /// The size classes.
    pub classes: Histogram,
}

/// Room for the exhibits of one moment, one user at a time.
pub struct Room {
    taken: AtomicBool,
    exhibits: UnsafeCell<Exhibits>,
}

// SAFETY: the cell is reached by the thread that has set `taken`, and by others once that is done.
unsafe impl Sync for Room {}

impl Room {
    /// An empty one.
    pub const fn new() -> Self {
        Room {
            taken: AtomicBool::new(false),
            exhibits: UnsafeCell::new(Exhibits {
                balance: None,
                classes: Histogram::EMPTY,
            }),
        }
    }

    /// Takes the exhibits of this moment; None while somebody else has the room. The room stays
    /// taken until [`Room::give_back`].
    pub fn take(&self) -> Option<&Exhibits> {
        if self.taken.swap(true, AcqRel) {
            return None;
        }
        // SAFETY: the flag makes this the only user until it is given back.
        unsafe {
            let exhibits = self.exhibits.get();
            // First what must match the ledger that was read right before.
            (*exhibits).classes.take();
            (*exhibits).balance = balance::take();
            Some(&*exhibits)
        }
    }

    /// What was taken last.
    ///
    /// # Safety
    /// [`Room::take`] has returned it, and the room was not given back.
    pub unsafe fn exhibits(&self) -> &Exhibits {
        // SAFETY: the caller's duty: nobody writes.
        unsafe { &*self.exhibits.get() }
    }

    /// Lets the room be taken again. Nobody looks at what was taken any more.
    pub fn give_back(&self) {
        self.taken.store(false, Release);
    }
}
