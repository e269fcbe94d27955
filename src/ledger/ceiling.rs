//! Ceilings: how high the live bytes of an account, or of all together, may go.
//!
//! A ceiling has two heights, the cap and below it the hold; between them is the reserve. A
//! booking names the height that it may reach. What is compared is the published bound, which is
//! never below what is live: a booking that would take it past the height gets a smaller window
//! first, down to none, and is refused only then. Concurrent threads move the bound by compare
//! and exchange, so that no refused booking is ever visible in it.
//!
//! Safe Rust, any thread; a ceiling changes at once for the next booking.

use super::account::Account;
use super::layout::stored;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// The accounts that a ceiling applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Account(Account),
    /// All accounts together.
    Total,
}

impl Scope {
    pub const COUNT: usize = super::ACCOUNTS;

    /// Every scope: the reported accounts, then the total.
    pub fn all() -> impl Iterator<Item = Scope> {
        let accounts = super::REPORTED
            .iter()
            .map(|&account| Scope::Account(account));
        accounts.chain(std::iter::once(Scope::Total))
    }

    /// The scope's place in a table of [`Scope::COUNT`].
    pub fn index(self) -> usize {
        self.account()
            .map_or(Scope::COUNT - 1, |account| account as usize)
    }

    pub fn account(self) -> Option<Account> {
        match self {
            Scope::Account(account) => Some(account),
            Scope::Total => None,
        }
    }

    /// The name in options, messages and reports.
    pub fn name(self) -> &'static str {
        self.account().map_or("total", Account::name)
    }

    pub fn named(name: &str) -> Option<Scope> {
        Scope::all().find(|scope| scope.name() == name)
    }
}

/// How high a booking may take a ceiling's live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Below the reserve.
    Hold,
    Middle,
    /// To three quarters of the reserve.
    High,
    Cap,
}

stored! {
    /// The heights of one scope. Part of the stored layout.
    #[repr(C)]
    pub(super) struct Ceiling {
        pub(super) cap: AtomicI64,
        pub(super) hold: AtomicI64,
    }
}

pub(super) const NONE: i64 = i64::MAX;

impl Ceiling {
    /// Takes the heights away.
    pub(super) fn open(&self) {
        self.cap.store(NONE, Relaxed);
        self.hold.store(NONE, Relaxed);
    }

    pub(super) fn height(&self, reach: Reach) -> i64 {
        let hold = self.hold.load(Relaxed);
        match reach {
            Reach::Hold => hold,
            Reach::Middle => hold + (self.cap.load(Relaxed) - hold).max(0) / 2,
            Reach::High => hold + (self.cap.load(Relaxed) - hold).max(0) / 4 * 3,
            Reach::Cap => self.cap.load(Relaxed),
        }
    }
}

/// Moves a bound by `want`, or by as much of it as there is room below `height`, at least by
/// `need`: how far it moved, and where it then was. None if even `need` would go up past it.
#[inline(always)]
pub(super) fn grant(bound: &AtomicI64, height: i64, need: i64, want: i64) -> Option<(i64, i64)> {
    if height == NONE {
        return Some((want, bound.fetch_add(want, AcqRel) + want));
    }
    let mut now = bound.load(Relaxed);
    loop {
        let room = height.saturating_sub(now);
        if need > 0 && need > room {
            return None;
        }
        let moved = want.min(room.max(need));
        match bound.compare_exchange_weak(now, now + moved, AcqRel, Relaxed) {
            Ok(_) => return Some((moved, now + moved)),
            Err(other) => now = other,
        }
    }
}
