//! The episode of each scope that runs now, see [`super::episode`].

use crate::ledger::Scope;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

/// A scope's episode.
pub(super) struct RunningEpisode {
    /// 0 if none runs.
    number: AtomicU64,
    /// Threads that have asked.
    pub joined: AtomicI64,
    /// Threads that were notified.
    pub notified: AtomicI64,
    /// Whether the episode has left its dossier.
    pub has_dossier: AtomicBool,
}

static EPISODES: [RunningEpisode; Scope::COUNT] = [const {
    RunningEpisode {
        number: AtomicU64::new(0),
        joined: AtomicI64::new(0),
        notified: AtomicI64::new(0),
        has_dossier: AtomicBool::new(false),
    }
}; Scope::COUNT];
static LATEST: AtomicU64 = AtomicU64::new(0);

/// A scope's episode.
pub(super) fn of(scope: Scope) -> &'static RunningEpisode {
    &EPISODES[scope.index()]
}

/// The scope whose episode has that number.
pub(super) fn scope_of(number: u64) -> Option<Scope> {
    Scope::all().find(|&scope| number != 0 && of(scope).number() == number)
}

impl RunningEpisode {
    /// Its number; 0 if none runs.
    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Begins an episode if none runs. Returns its number, and whether this call began it.
    pub fn begin(&self) -> (u64, bool) {
        let now = self.number();
        if now != 0 {
            return (now, false);
        }
        let number = LATEST.fetch_add(1, Relaxed) + 1;
        match self.number.compare_exchange(0, number, AcqRel, Relaxed) {
            Ok(_) => {
                self.has_dossier.store(false, Relaxed);
                self.joined.store(0, Relaxed);
                self.notified.store(0, Relaxed);
                (number, true)
            }
            Err(other) => (other, false),
        }
    }

    /// Ends it: the scope's ceiling was changed, or live bytes have fallen.
    pub fn end(&self) {
        self.number.store(0, Relaxed);
    }
}
