//! How close to the limit that `--cap auto` follows, or to a cap that counts maps, something has to be done about it, in bytes.

use crate::ledger::{Account, LEDGER, Scope};

/// The zone: a part of the limit, between these bounds.
const ZONE: i64 = 16;
pub(super) const ZONE_BOUNDS: (i64, i64) = (4 << 20, 32 << 20);

/// How much of `limit` is left when the script gets its error.
pub(super) fn zone(limit: u64) -> i64 {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let zone = (limit / ZONE).clamp(ZONE_BOUNDS.0, ZONE_BOUNDS.1);
    // Of a small limit for a block of code.
    zone.min(limit / 4)
}

/// The most that an early error keeps free for the next map, or for what libraries touch next.
pub(super) fn another(limit: u64) -> i64 {
    (limit as i64 / 8).max(96 << 20)
}

/// Whether so much is left of `limit` that an error before is forgotten: more than the zone, so that it is not
/// raised again at its edge.
pub(super) fn has_room(limit: u64, left: i64) -> bool {
    left > zone(limit) + zone(limit) / 4
}

/// Bytes that libraries have mapped.
pub(super) fn mapped() -> i64 {
    LEDGER.bound(Scope::Account(Account::Mapped))
}

/// Whether libraries have mapped so much that they may be what grows.
pub(super) fn is_at_work(limit: u64) -> bool {
    mapped() >= zone(limit)
}

/// How much is left of `limit` when every growth is looked at: what a script may make in the steps
/// between which it allocates next to nothing itself.
pub(super) fn near(limit: u64) -> i64 {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    (limit / 4).max((limit / 2).min(96 << 20))
}

/// Bytes that libraries have mapped and not touched so far, if this process is charged `own` and the
/// ledger has `live`.
pub(super) fn untouched(own: u64, live: i64) -> i64 {
    let touched = (own as i64 - live).max(0);
    (mapped() - touched).max(0)
}
