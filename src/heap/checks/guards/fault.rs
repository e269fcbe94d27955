//! Describes an access to a closed page, for the line that a signal handler writes. Allocates nothing and
//! takes no lock.

use super::slots::{FREED, RANGE};
use crate::checks::out_of_bounds::OutOfBounds;
use crate::{call_site::CallSite, ledger::Account};
use std::{fmt, sync::atomic::Ordering::Acquire};

/// An access to a closed page, as one line.
pub struct Fault {
    /// Whether it was a write; None if the processor does not tell.
    pub is_write: Option<bool>,
    address: usize,
    start: usize,
    size: usize,
    account: Account,
    /// The block's allocation.
    pub made: CallSite,
    /// Its free, if it does not live.
    pub freed: Option<CallSite>,
}

/// The fault at an address; None if it is not in the range, or no block is near.
pub fn fault_at(address: usize, is_write: Option<bool>) -> Option<Fault> {
    let range = RANGE.get().filter(|range| range.holds(address))?;
    let record = range.nearest(address)?;
    let account = record.account();
    let (front, _) = record.hooks();
    Some(Fault {
        is_write,
        address,
        start: record.start().addr() + front,
        size: record.asked(),
        account,
        made: record.made.get(),
        freed: (record.state.load(Acquire) == FREED).then(|| record.freed.get()),
    })
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.is_write {
            Some(true) => "write",
            Some(false) => "read",
            None => "access",
        })?;
        let end = self.start + self.size;
        if self.address >= end {
            write!(out, " {}", OutOfBounds::Past(self.address - end + 1))?;
        } else if self.address < self.start {
            write!(out, " {}", OutOfBounds::Before(self.start - self.address))?;
        } else {
            write!(out, " at byte {} of", self.address - self.start)?;
        }
        let (kind, size) = (self.freed.map_or("", |_| "freed "), self.size);
        write!(out, " a {kind}block of {size} bytes of the account ")?;
        out.write_str(self.account.name())?;
        write!(out, "{}", self.made.after("allocated at"))?;
        let freed = self.freed.map(|freed| freed.after("freed at"));
        freed.map_or(Ok(()), |freed| write!(out, "{freed}"))
    }
}
