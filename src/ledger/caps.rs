//! The caps of a ledger: its ceilings, set and asked for.

use super::account::Account;
use super::ceiling::{Ceiling, NONE, Reach, Scope};
use super::shared::Ledger;
use std::sync::atomic::Ordering::Relaxed;

impl Ledger {
    fn ceiling(&self, scope: Scope) -> &Ceiling {
        match scope {
            Scope::Account(account) => &self.shared(account).ceiling,
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
        crate::resident::keep();
    }

    pub fn cap(&self, scope: Scope) -> Option<u64> {
        let cap = self.ceiling(scope).cap.load(Relaxed);
        (cap != NONE).then_some(cap as u64)
    }

    /// The cap of each scope, by its index.
    pub fn caps(&self) -> [Option<u64>; Scope::COUNT] {
        let mut caps = [None; Scope::COUNT];
        for scope in Scope::all() {
            caps[scope.index()] = self.cap(scope);
        }
        caps
    }

    /// Where a scope's reserve begins, in bytes.
    pub fn hold(&self, scope: Scope) -> Option<u64> {
        let hold = self.ceiling(scope).hold.load(Relaxed);
        (hold != NONE).then_some(hold as u64)
    }

    #[inline]
    pub fn is_capped(&self) -> bool {
        self.capped.load(Relaxed) != 0
    }

    /// The published bytes of a scope: at least its live bytes, and at most the threads' windows above
    /// them. One load.
    pub fn bound(&self, scope: Scope) -> i64 {
        match scope {
            Scope::Account(account) => self.shared(account).bound.load(Relaxed),
            Scope::Total => self.total_bound.load(Relaxed),
        }
    }

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

    pub fn count_refusal(&self, account: Account) {
        self.shared(account).refused.fetch_add(1, Relaxed);
    }
}
