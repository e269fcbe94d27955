//! Growth past malloc under `--cap auto`: libraries that map memory themselves.
//!
//! A page that is touched cannot be refused, so the script is notified early: if less than a *zone* is
//! left of the limit and libraries have mapped at least as much, the main thread gets a `MemoryError` at
//! its next suitable safe point, which may be the end of the call that mapped. If half of the rest is used
//! before that, it gets the error at any safe point but a loop's jump. It gets another error only if the
//! charges have grown by a large part of the rest. A map that is larger than the rest is refused.
//!
//! The state is of the process and has no lock: two threads that decide at once post at most twice.

use super::watch;
use super::{CodePlace, Python, Told, python, refusal};
use crate::ledger::{Account, LEDGER, Scope};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicUsize};

/// The zone: a part of the limit, between these bounds.
const ZONE: i64 = 16;
const ZONE_BOUNDS: (i64, i64) = (4 << 20, 32 << 20);
/// Growth after which a script that had its error gets another, at least.
const LEAST_PATIENCE: i64 = 1 << 20;

/// No error is under way.
const QUIET: u8 = 0;
/// The main thread has a pending call, which raises the error.
const POSTED: u8 = 1;
/// The call came where the error does not belong: the next allocation posts another.
const MISSED: u8 = 2;

/// The error on its way to the main thread, and the last that it had.
struct Error {
    state: AtomicU8,
    /// Bytes left of the limit when the error was first posted.
    left: AtomicI64,
    /// The map that was asked for last.
    asked: AtomicUsize,
    last: Last,
}

/// The last error that was raised since much of the limit was left; `external` is 0 where none was.
struct Last {
    /// Bytes charged beside the ledger then.
    external: AtomicI64,
    /// All bytes charged then. Freed memory that the heaps keep resident moves to the charges beside the
    /// ledger, and is no growth.
    charged: AtomicI64,
    /// By how much both may grow before there is another.
    patience: AtomicI64,
}

static ERROR: Error = Error {
    state: AtomicU8::new(QUIET),
    left: AtomicI64::new(0),
    asked: AtomicUsize::new(0),
    last: Last {
        external: AtomicI64::new(0),
        charged: AtomicI64::new(0),
        patience: AtomicI64::new(0),
    },
};

impl Error {
    fn is(&self, state: u8) -> bool {
        self.state.load(Relaxed) == state
    }

    /// Has the main thread call for the error, where `state` is what it is in.
    fn post(&self, state: u8, python: &Python) {
        let posted = self.state.compare_exchange(state, POSTED, Relaxed, Relaxed);
        if posted.is_ok() && !(python.post)() {
            self.state.store(MISSED, Relaxed);
        }
    }

    /// Notes that the main thread has it now; the limit and what is charged of it.
    fn had(&self) -> Option<(u64, i64)> {
        let (limit, charged) = watch::charged()?;
        self.last.set(watch::external()?, charged, watch::left());
        self.state.store(QUIET, Relaxed);
        Some((limit, charged))
    }
}

impl Last {
    fn forget(&self) {
        self.external.store(0, Relaxed);
    }

    fn set(&self, external: i64, charged: i64, left: i64) {
        self.external.store(external.max(1), Relaxed);
        self.charged.store(charged, Relaxed);
        let patience = (left / 4).max(LEAST_PATIENCE);
        self.patience.store(patience, Relaxed);
    }

    /// Whether there was none, or the charges have grown on since.
    fn allows(&self, external: i64, charged: i64) -> bool {
        let before = self.external.load(Relaxed);
        let grown = (external - before).min(charged - self.charged.load(Relaxed));
        before == 0 || grown >= self.patience.load(Relaxed)
    }
}

/// How much of `limit` is left when the script gets its error.
pub(super) fn zone(limit: u64) -> i64 {
    (i64::try_from(limit).unwrap_or(i64::MAX) / ZONE).clamp(ZONE_BOUNDS.0, ZONE_BOUNDS.1)
}

/// Whether so much is left of `limit` that an error before is forgotten: more than the zone, so that it is not
/// raised again at its edge.
fn has_room(limit: u64, left: i64) -> bool {
    left > zone(limit) + zone(limit) / 4
}

/// Whether libraries have mapped so much that they may be what grows.
pub(super) fn is_at_work(limit: u64) -> bool {
    LEDGER.bound(Scope::Account(Account::Mapped)) >= zone(limit)
}

/// How much is left of `limit` when every growth is looked at: what a script may make in the steps
/// between which it allocates next to nothing itself.
pub(super) fn near(limit: u64) -> i64 {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    (limit / 4).max((limit / 2).min(96 << 20))
}

/// Bytes that libraries have mapped and not touched so far, where this process is charged `own` and the
/// ledger has `live`.
pub(super) fn untouched(own: u64, live: i64) -> i64 {
    let touched = (own as i64 - live).max(0);
    (LEDGER.bound(Scope::Account(Account::Mapped)) - touched).max(0)
}

/// Whether a library may map `bytes` more. Any thread at any moment.
pub(super) fn admits(bytes: usize) -> bool {
    let Some((limit, left)) = watch::left_for_map(bytes) else {
        return true;
    };
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    let fits = bytes <= left;
    // One that is far too large is an allocator's reserve, which makes do with less.
    if bytes <= zone(limit) {
        ERROR.asked.store(bytes as usize, Relaxed);
        if !fits || left - bytes < zone(limit) && is_at_work(limit) {
            call_for(limit, left);
        }
    }
    fits
}

/// Looks at charges that were just read. Inside the allocator too.
pub(super) fn look(limit: u64, left: i64) {
    if has_room(limit, left) {
        ERROR.state.store(QUIET, Relaxed);
        ERROR.last.forget();
    } else if left < zone(limit) && is_at_work(limit) {
        call_for(limit, left);
    }
}

/// Posts an error that was missed once more. Inside the allocator, at any booking.
pub(super) fn try_again() {
    if ERROR.is(MISSED)
        && let Some(python) = python()
    {
        ERROR.post(MISSED, python);
    }
}

/// Has the main thread get its error, unless it had one and little was charged since.
fn call_for(limit: u64, left: i64) {
    let external = watch::external().unwrap_or(0);
    let charged = watch::charged().map_or(0, |(_, charged)| charged);
    // Where the heaps have it all, their own requests are refused, whatever is mapped and untouched.
    if external < zone(limit) || !ERROR.last.allows(external, charged) {
        return;
    }
    if ERROR.is(QUIET)
        && let Some(python) = python()
    {
        ERROR.left.store(left, Relaxed);
        ERROR.post(QUIET, python);
    }
}

/// The calling thread gets an error since the heaps were refused a large request. The main thread gets no
/// other for the same charges: it would be raised in the handler of this one, where nothing catches it.
pub(super) fn has_error(python: &Python) {
    let Some((limit, _)) = watch::charged() else {
        return;
    };
    if !has_room(limit, watch::left()) && is_at_work(limit) && (python.is_main)() {
        ERROR.had();
    }
}

/// Takes the error that was posted for the main thread, at a safe point. Returns `None` if none was
/// posted. The caller holds the GIL and raises it.
pub(super) fn told(python: &Python) -> Option<Told> {
    if !ERROR.is(POSTED) || !(python.is_main)() {
        return None;
    }
    let place = (python.place)();
    let is_place = !place.is_fragile() && place != CodePlace::Jump;
    // At a jump nothing of the script's loop would catch it.
    let least = match place {
        CodePlace::Jump => 0,
        _ => ERROR.left.load(Relaxed) / 2,
    };
    let can_wait = watch::left() > least;
    if !is_place && can_wait {
        ERROR.state.store(MISSED, Relaxed);
        return Some(Told::Elsewhere);
    }
    watch::read(true);
    if !ERROR.is(POSTED) {
        return None; // given back meanwhile
    }
    let (limit, charged) = ERROR.had()?;
    LEDGER.count_refusal(Account::Mapped);
    let asked = ERROR.asked.load(Relaxed);
    let refusal = refusal::record_external(asked, limit, charged.max(0) as u64, python);
    (python.first_refusal)(&refusal);
    Some(Told::Now)
}
