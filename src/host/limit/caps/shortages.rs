//! The shortage of each scope that lasts now, see [`super::admission`].

use crate::ledger::Scope;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

pub(super) struct Shortage {
    /// 0 if none runs.
    number: AtomicU64,
    /// The scope's bytes at the highest error of the shortage, and what was left below the cap then.
    last_error: AtomicI64,
    left: AtomicI64,
    /// The process's errors when the shortage began; [`RAISED`] if the host has raised one in it.
    errors_at_start: AtomicU64,
    pub has_dossier: AtomicBool,
    /// Whether a thread has given back much after an error.
    pub gives_back: AtomicBool,
}

/// More errors than there ever are.
const RAISED: u64 = u64::MAX;

pyhost_os::state! {
    static STATE: Shortages {
        shortages: [Shortage; Scope::COUNT] = [const {
            Shortage {
                number: AtomicU64::new(0),
                last_error: AtomicI64::new(0),
                left: AtomicI64::new(0),
                errors_at_start: AtomicU64::new(0),
                has_dossier: AtomicBool::new(false),
                gives_back: AtomicBool::new(false),
            }
        }; Scope::COUNT],
        latest: AtomicU64 = AtomicU64::new(0),
        /// `MemoryError`s of all threads that passed Python code and are gone. Threads end, so each cannot count its own.
        errors: AtomicU64 = AtomicU64::new(0),
    }
}

/// Counts an error that passed Python code and is gone.
pub(super) fn count_error() {
    STATE.errors.fetch_add(1, Relaxed);
}

pub(super) fn of(scope: Scope) -> &'static Shortage {
    &STATE.shortages[scope.index()]
}

pub(super) fn scope_of(number: u64) -> Option<Scope> {
    Scope::all().find(|&scope| number != 0 && of(scope).number() == number)
}

impl Shortage {
    /// Its number; 0 if none runs.
    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Begins a shortage if none runs, above `hold`. Returns its number, and whether this call began it.
    pub fn begin(&self, hold: i64, reserve: i64) -> (u64, bool) {
        let now = self.number();
        if now != 0 {
            return (now, false);
        }
        let number = STATE.latest.fetch_add(1, Relaxed) + 1;
        match self.number.compare_exchange(0, number, AcqRel, Relaxed) {
            Ok(_) => {
                self.has_dossier.store(false, Relaxed);
                self.gives_back.store(false, Relaxed);
                // The first thread that grows is notified at once.
                self.last_error.store(hold - reserve / 16, Relaxed);
                self.left.store(reserve, Relaxed);
                self.errors_at_start
                    .store(STATE.errors.load(Relaxed), Relaxed);
                (number, true)
            }
            Err(other) => (other, false),
        }
    }

    /// Ends it: the scope's ceiling was changed, or live bytes have fallen.
    pub fn end(&self) {
        self.number.store(0, Relaxed);
    }
    /// The scope's bytes at the highest error so far, and what was left then.
    pub fn last_error(&self) -> (i64, i64) {
        (self.last_error.load(Relaxed), self.left.load(Relaxed))
    }

    pub fn note_error(&self, bytes: i64, left: i64) {
        if self.last_error.fetch_max(bytes, Relaxed) < bytes {
            self.left.store(left, Relaxed);
        }
    }

    /// Notes that the script has an error for certain.
    pub fn note_raised(&self) {
        self.errors_at_start.store(RAISED, Relaxed);
    }

    /// Whether a thread of the process had an error in this shortage that it could catch.
    pub fn had_error(&self) -> bool {
        STATE.errors.load(Relaxed) != self.errors_at_start.load(Relaxed)
    }
}
