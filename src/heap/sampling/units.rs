//! Units of work with a budget: their samples, and requests that would pass a budget.

use super::{
    Inside, Recorder, STATE, begin, counted, drawn, gate, hold, state, thread_id, with_recorder,
};
use crate::host::{UnitDecisions, host};
use crate::ledger::Account;
use pyhost_sampler::{UnitFigures, UnitNumber, Units};
use std::sync::atomic::Ordering::Relaxed;

/// Begins to sample for units, one of every `interval` bytes in the mean at least. After [`crate::start`]; not in a signal handler.
/// False once the script has ended.
pub fn begin_units(interval: u64) -> bool {
    if STATE.unit_interval.load(Relaxed) <= interval {
        return true;
    }
    let state = state();
    let inside = gate::enter(state.slot(), thread_id());
    let Some(mut holding) = hold(&inside).filter(|_| !STATE.is_over.load(Relaxed)) else {
        return false;
    };
    STATE.unit_interval.fetch_min(interval, Relaxed);
    if holding.0.is_none() {
        *holding.0 = Some(Recorder::new(None, None, None));
    }
    begin(state, holding, &inside);
    true
}

/// Calls `work` with the units, as [`super::with`].
pub fn with_units<T>(work: impl FnOnce(&mut Units) -> T) -> Option<T> {
    let inside = gate::enter(state().slot(), thread_id());
    with_recorder(&inside, |recorder| work(&mut recorder.units))
}

/// Gives up a unit, which is forgotten when its last block is.
pub fn release_unit(unit: UnitNumber) {
    with_units(|units| units.release(unit));
}

/// The unit or one around it whose budget has no room for `bytes` more.
pub fn exhausted(unit: UnitNumber, bytes: u64) -> Option<UnitFigures> {
    with_units(|units| units.exhausted(units.open_one(unit), bytes)).flatten()
}

pub fn note_error(unit: UnitNumber, is_raised: bool) {
    with_units(|units| units.note_error(unit, is_raised));
}

/// As [`Units::let_another_pay`]; no while the samples are in use.
pub fn let_another_pay(unit: UnitNumber, shortage: u64) -> bool {
    with_units(|units| units.let_another_pay(units.open_one(unit), shortage)) == Some(true)
}

fn decisions() -> Option<&'static UnitDecisions> {
    let is_on = STATE.unit_interval.load(Relaxed) != u64::MAX;
    host().filter(|_| is_on).map(|host| &host.units)
}

/// The unit that a block of the calling thread counts for; 0 for none: maps do not, nor arenas, which all share.
pub(super) fn current(account: Account) -> UnitNumber {
    let counts = !matches!(account, Account::Mapped | Account::Arena | Account::Pooled);
    let decisions = decisions().filter(|_| counts);
    decisions.map_or(0, |units| (units.current)())
}

/// The unit that a sampled request counts for; None if a budget refuses it, as it may if there is no block yet.
pub(super) fn admit(
    account: Account,
    size: usize,
    may_be_refused: bool,
    inside: &Inside<'_>,
) -> Option<UnitNumber> {
    let unit = current(account);
    let Some(decisions) = decisions().filter(|_| unit != 0) else {
        return Some(0);
    };
    let counted = counted(size) as usize;
    let bytes = drawn(counted, counted).bytes as u64;
    let unit_and_exhausted = with_recorder(inside, |Recorder { units, .. }| {
        let unit = units.open_one(unit);
        (unit, units.exhausted(unit, bytes))
    });
    match unit_and_exhausted.unwrap_or((0, None)) {
        (_, Some(figures)) if (decisions.refuses)(&figures, account, size, may_be_refused) => None,
        (unit, _) => Some(unit),
    }
}

/// Whether budgets have room for a block that grows by so many bytes where it lies. If not it must move, for which the request of a new block
/// is judged.
#[inline]
pub(crate) fn may_grow(account: Account, growth: usize) -> bool {
    match current(account) {
        0 => true,
        unit => exhausted(unit, growth as u64).is_none(),
    }
}
