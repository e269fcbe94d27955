//! Growth past malloc under `--cap auto`: libraries that map memory themselves.
//!
//! Nobody can refuse a page that is touched, so the script is told early: where less than a *zone* is
//! left of the limit and libraries have mapped at least as much, the main thread gets a `MemoryError` at its
//! next safe point, which may be the end of the call that grew. It is told again only where the charges
//! have grown on by a good part of what was left. A map that is larger than what is left is refused.
//!
//! All process-wide, without a lock: two threads that decide at once tell twice at worst.

use super::watch;
use super::{Place, Python, Told, python, refusal};
use crate::ledger::{Account, LEDGER, Scope};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize};

/// The zone: a part of the limit, between these bounds.
const ZONE: i64 = 16;
const ZONE_BOUNDS: (i64, i64) = (4 << 20, 32 << 20);
/// Growth after which a script that was told is told again, at least.
const LEAST_PATIENCE: i64 = 1 << 20;
/// Safe points that are passed by because an error does not belong there.
const ATTEMPTS: u8 = 16;

/// The main thread is to be told.
static POSTED: AtomicBool = AtomicBool::new(false);
/// A safe point was no place for it: it is asked for another.
static MISSED: AtomicBool = AtomicBool::new(false);
static ATTEMPTED: AtomicU8 = AtomicU8::new(0);
/// What was charged beside the ledger when the script was told last (0 where it has not been told in
/// this episode), and by how much that may grow before it is told again.
static TOLD_AT: AtomicI64 = AtomicI64::new(0);
/// What was charged in all then: what the heaps give back and keep resident moves to the charges beside
/// the ledger, and is no growth.
static CHARGED_AT: AtomicI64 = AtomicI64::new(0);
static PATIENCE: AtomicI64 = AtomicI64::new(0);
/// The map that was asked for last.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// How much of `limit` is left when the script is told.
pub(super) fn zone(limit: u64) -> i64 {
    (i64::try_from(limit).unwrap_or(i64::MAX) / ZONE).clamp(ZONE_BOUNDS.0, ZONE_BOUNDS.1)
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
        ASKED.store(bytes as usize, Relaxed);
        if !fits || left - bytes < zone(limit) && is_at_work(limit) {
            tell(limit, left);
        }
    }
    fits
}

/// Looks at charges that were just read. Inside the allocator too.
pub(super) fn look(limit: u64, left: i64) {
    let zone = zone(limit);
    if left > zone + zone / 4 {
        TOLD_AT.store(0, Relaxed);
        POSTED.store(false, Relaxed);
    } else if left < zone && is_at_work(limit) {
        tell(limit, left);
    }
}

/// Has the main thread told, unless it has been and little has been charged since.
fn tell(limit: u64, left: i64) {
    let told_at = TOLD_AT.load(Relaxed);
    let external = watch::external().unwrap_or(0);
    // Where the heaps have it all, their own requests are refused, whatever is mapped and untouched.
    if external < zone(limit) {
        return;
    }
    let charged = watch::charged().map_or(0, |(_, charged)| charged);
    let grown = (external - told_at).min(charged - CHARGED_AT.load(Relaxed));
    if told_at != 0 && grown < PATIENCE.load(Relaxed) {
        return;
    }
    let Some(python) = python() else { return };
    if POSTED.swap(true, Relaxed) && !MISSED.swap(false, Relaxed) {
        return;
    }
    PATIENCE.store((left / 4).max(LEAST_PATIENCE), Relaxed);
    if !(python.post)() {
        POSTED.store(false, Relaxed);
    }
}

/// What becomes of the error that was posted for the main thread, at a safe point; None where none was.
/// The caller holds the GIL and raises it.
pub(super) fn told(python: &Python) -> Option<Told> {
    if !POSTED.load(Relaxed) || !(python.is_main)() {
        return None;
    }
    watch::read(true);
    if !POSTED.load(Relaxed) {
        return None; // given back meanwhile
    }
    let place = (python.place)();
    let is_place = !place.is_fragile() && place != Place::Jump;
    if !is_place && ATTEMPTED.fetch_add(1, Relaxed) < ATTEMPTS {
        MISSED.store(true, Relaxed);
        return Some(Told::Elsewhere);
    }
    ATTEMPTED.store(0, Relaxed);
    let (limit, charged) = watch::charged()?;
    TOLD_AT.store(watch::external()?.max(1), Relaxed);
    CHARGED_AT.store(charged, Relaxed);
    MISSED.store(false, Relaxed);
    POSTED.store(false, Relaxed);
    LEDGER.count_refusal(Account::Mapped);
    let asked = ASKED.load(Relaxed);
    let refusal = refusal::record_external(asked, limit, charged.max(0) as u64, python);
    refusal::leave_dossier(&refusal, python);
    Some(Told::Now)
}
