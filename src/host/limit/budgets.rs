//! Budgets of units of work: which unit the calling thread runs, and what becomes of a request that a budget has no room for.
//!
//! The unit is the value of a context variable, so a task, a callback and a greenlet have their own. A large request is refused where it is
//! made. For a small one the thread has its error at its next safe point, if the unit still runs there: never in a task that comes
//! next. A thread that has no safe point, and an event loop in another thread than the main one, get null; but not where CPython would lose the
//! error, and not while the collector runs finalizers, which may be anybody's, as long as the unit is not far beyond its budget. Until then
//! requests are met.
//!
//! The functions that the heap calls run inside the allocator: they do not allocate, lock or panic.

use crate::cpython::contexts::{ContextVariable, is_collecting, post_error, take_error_back};
use crate::cpython::frames::{self, CodePlace};
use crate::cpython::functions::add_pending_call;
use crate::cpython::objects::{Gil, Kept, Kind, Raised};
use crate::cpython::threads;
use crate::heap::UnitDecisions;
use crate::heap::sampling::{self, UnitFigures, UnitNumber};
use crate::ledger::{Account, Asker, LEDGER};
use crate::limit::caps::cap_errors::role;
use crate::limit::caps::{self, Full, How, Role};
use pyhost_os::format::c_text_into;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// What the heap asks of budgets.
pub const DECISIONS: UnitDecisions = UnitDecisions {
    current: || BUDGETS.variable.look(|unit| unit.number.get()).unwrap_or(0),
    refuses,
};

/// The value of a `pyhost.budget`.
pub struct Budget {
    pub bytes: u64,
    pub name: Option<Box<str>>,
    /// The heap's number of the unit; 0 before its first block.
    pub number: Cell<UnitNumber>,
    /// What the variable had before the block that runs.
    pub before: Cell<Option<Kept>>,
    pub is_open: Cell<bool>,
}

impl Drop for Budget {
    fn drop(&mut self) {
        sampling::release_unit(self.number.get());
    }
}

pyhost_os::state! {
    /// Units, and their errors in the main thread.
    pub static BUDGETS: Budgets {
        /// The unit of the calling thread's context.
        pub variable: ContextVariable<Budget> = ContextVariable::new(),
        /// Threads and pools carry the unit in which they begin.
        pub is_carried: AtomicBool = AtomicBool::new(false),
        /// Python was asked for a safe point, and has not had one since.
        is_posted: AtomicBool = AtomicBool::new(false),
    }
}

/// From this size on a request is refused where it is made. CPython 3.13.0 raises SystemError if `compile` is refused 17 KiB.
const LARGE: usize = 64 << 10;
/// Safe points that the main thread may miss before a request is refused.
const ATTEMPTS: u8 = 3;

fn refuses(unit: &UnitFigures, account: Account, size: usize, may_be_refused: bool) -> bool {
    // Another thread may be the one that collects, and wait in a finalizer.
    let beyond = (size as u64).max(unit.live.saturating_sub(unit.ceiling()));
    let is_spared = is_collecting() && beyond <= unit.room();
    if frames::is_finalizing() || is_spared || !is_due(unit) {
        return false;
    }
    let place = frames::place(false);
    // Libraries end the process for null.
    let surfaces = account.asker() != Asker::Libraries;
    if surfaces && !may_be_refused {
        waits(unit, account, size, place);
        return false;
    }
    let is_large = size >= LARGE && (size as u64 > unit.room() || !place.is_fragile());
    let is_refused = surfaces
        && (is_large || !(waits(unit, account, size, place)) && role(size, true) == Role::Plain);
    if is_refused {
        take_error_back(); // else there would be two
        raised(unit, account, size, How::Null);
    }
    is_refused
}

/// Whether the unit has its error: not for a shortage of the process that is over.
fn is_due(unit: &UnitFigures) -> bool {
    let is_due = unit.pays == 0 || caps::is_short(unit.pays);
    if !is_due {
        sampling::with_units(|units| units.forgive(unit.number));
    }
    is_due
}

/// Whether the unit's error for a small request comes without a refusal of this one.
fn waits(unit: &UnitFigures, account: Account, size: usize, place: CodePlace) -> bool {
    if place.is_fragile() || matches!(place, CodePlace::Nowhere) {
        return true; // the code that is called next has it
    }
    if unit.live > unit.ceiling() + unit.room() / 2 {
        return false; // a loop in C
    }
    if threads::is_main() {
        post();
        return unit.missed < ATTEMPTS;
    }
    let is_posted = post_error(false);
    if is_posted {
        raised(unit, account, size, How::Raised);
    }
    is_posted
}

fn post() {
    if !BUDGETS.is_posted.swap(true, Relaxed) && !add_pending_call(surface) {
        BUDGETS.is_posted.store(false, Relaxed);
    }
}

fn raised(unit: &UnitFigures, account: Account, size: usize, how: How) -> caps::Refusal {
    sampling::note_error(unit.number, true);
    LEDGER.count_refusal(account);
    caps::record_payer(unit, account, size, how)
        .unwrap_or_else(|| caps::record(Full::Budget(unit), account, size, how, frames::trace))
}

/// Whether the error of a shortage goes to another unit than the calling thread's, which has most. Any thread, also inside the allocator.
pub fn another_pays(shortage: u64) -> bool {
    let unit = BUDGETS.variable.look(|unit| unit.number.get()).unwrap_or(0);
    unit != 0 && sampling::let_another_pay(unit, shortage)
}

/// Raises the error of the unit that runs, if this is the place for it.
fn surface(gil: Gil<'_>) -> Result<(), Raised<'_>> {
    BUDGETS.is_posted.store(false, Relaxed);
    let number = BUDGETS.variable.look(|unit| unit.number.get());
    let exhausted = number.and_then(|number| sampling::exhausted(number, 0));
    let Some(unit) = exhausted.filter(is_due) else {
        return Ok(());
    };
    let place = frames::place(false);
    let is_no_place = place.is_fragile() || matches!(place, CodePlace::Nowhere | CodePlace::Jump);
    if is_no_place || is_collecting() {
        sampling::note_error(unit.number, false);
        return Ok(());
    }
    let refusal = raised(&unit, Account::Obj, 0, How::Raised);
    let mut text = [0; 256];
    Err(gil.raise_text(
        Kind::Memory,
        c_text_into(&mut text, format_args!("{refusal}")),
    ))
}
