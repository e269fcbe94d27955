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
use super::shared::Ledger;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// The accounts that a ceiling applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One account.
    Account(Account),
    /// All accounts together.
    Total,
}

impl Scope {
    /// How many scopes there are.
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
        match self {
            Scope::Account(account) => account as usize,
            Scope::Total => Scope::COUNT - 1,
        }
    }

    /// The name in options, messages and reports.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Account(account) => account.name(),
            Scope::Total => "total",
        }
    }

    /// The scope of that name.
    pub fn named(name: &str) -> Option<Scope> {
        Scope::all().find(|scope| scope.name() == name)
    }
}

/// How high a booking may take a ceiling's live bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Below the reserve.
    Hold,
    /// To the middle of the reserve.
    Middle,
    /// To three quarters of the reserve.
    High,
    /// To the cap.
    Cap,
}

/// The heights of one scope. Part of the stored layout.
#[repr(C)]
pub(super) struct Ceiling {
    cap: AtomicI64,
    hold: AtomicI64,
}

/// No ceiling.
const NONE: i64 = i64::MAX;

impl Ceiling {
    pub(super) const fn none() -> Self {
        Ceiling {
            cap: AtomicI64::new(NONE),
            hold: AtomicI64::new(NONE),
        }
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
/// `need`: how far it moved, and where it then was. None where even `need` would go up past it.
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

impl Ledger {
    fn ceiling(&self, scope: Scope) -> &Ceiling {
        match scope {
            Scope::Account(account) => &self.accounts[account as usize].ceiling,
            Scope::Total => &self.total_ceiling,
        }
    }

    /// Sets a scope's cap and the reserve beneath it, both in bytes, or takes them away. Threads
    /// keep the windows that they have; see [`Ledger::close_windows`].
    pub fn set_ceiling(&self, scope: Scope, cap: Option<u64>, reserve: u64) {
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(NONE);
        let ceiling = self.ceiling(scope);
        let cap = cap.map_or(NONE, bytes);
        let hold = match cap {
            NONE => NONE,
            cap => (cap - bytes(reserve)).max(0),
        };
        // The hold is never above the cap, in either order of change.
        if hold <= ceiling.hold.load(Relaxed) {
            ceiling.hold.store(hold, Relaxed);
            ceiling.cap.store(cap, Relaxed);
        } else {
            ceiling.cap.store(cap, Relaxed);
            ceiling.hold.store(hold, Relaxed);
        }
        let any = Scope::all().any(|scope| self.cap(scope).is_some());
        self.capped.store(u32::from(any), Relaxed);
    }

    /// A scope's cap in bytes.
    pub fn cap(&self, scope: Scope) -> Option<u64> {
        let cap = self.ceiling(scope).cap.load(Relaxed);
        (cap != NONE).then_some(cap as u64)
    }

    /// Where a scope's reserve begins, in bytes.
    pub fn hold(&self, scope: Scope) -> Option<u64> {
        let hold = self.ceiling(scope).hold.load(Relaxed);
        (hold != NONE).then_some(hold as u64)
    }

    /// Whether there is any ceiling.
    #[inline]
    pub fn is_capped(&self) -> bool {
        self.capped.load(Relaxed) != 0
    }

    /// The published bytes of a scope: at least its live bytes, and at most the threads' windows above
    /// them. One load.
    pub fn bound(&self, scope: Scope) -> i64 {
        match scope {
            Scope::Account(account) => self.accounts[account as usize].bound.load(Relaxed),
            Scope::Total => self.total_bound.load(Relaxed),
        }
    }

    /// The scope that has no room for `bytes` of `account` up to `reach`, if one has none.
    pub fn lacks_room(&self, account: Account, bytes: usize, reach: Reach) -> Option<Scope> {
        let bytes = i64::try_from(bytes).unwrap_or(NONE);
        [Scope::Account(account), Scope::Total]
            .into_iter()
            .filter(|&scope| scope != Scope::Total || account.is_in_total())
            .find(|&scope| {
                let height = self.ceiling(scope).height(reach);
                self.bound(scope).saturating_add(bytes) > height
            })
    }

    /// Counts a request that a cap refused.
    pub fn count_refusal(&self, account: Account) {
        self.accounts[account as usize]
            .refused
            .fetch_add(1, Relaxed);
    }
}
