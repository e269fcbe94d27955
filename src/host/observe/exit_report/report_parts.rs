//! The parts of a report beside its figures: the balance sheet and the size classes, each taken at one
//! moment and kept in static memory, so that nothing is allocated when they are rendered.
//!
//! Taken with the GIL, outside signal handlers: a look waits for the threads that are in the
//! allocator.

use crate::heap::histogram::Histogram;
use crate::observe::balance::{self, Balance};
use pyhost_os::cell::{Exclusive, Held};
use pyhost_os::forks::Child;

pub struct ReportParts {
    /// `None` if the kernel does not provide it.
    pub balance: Option<Balance>,
    pub classes: Histogram,
}

/// Room for the parts of one moment, one user at a time.
pub struct Room(Exclusive<ReportParts>);

impl Room {
    pub const fn new() -> Self {
        Room(Exclusive::new(ReportParts {
            balance: None,
            classes: Histogram::EMPTY,
        }))
    }

    /// Takes the parts of this moment. Returns `None` while somebody else has the room.
    pub fn take(&self) -> Option<Held<'_, ReportParts>> {
        let mut parts = self.0.try_hold()?;
        // First what must match the ledger that was read right before.
        parts.classes.take();
        parts.balance = balance::take();
        Some(parts)
    }

    /// Lets the room be taken again.
    pub fn begin_child(&self, child: &Child) {
        drop(self.0.take_in_child(child));
    }
}
