//! Soft caps: past one, memory is relieved at the next safe point, and nothing fails.
//!
//! A scope is under pressure from the moment at which its published bytes pass its soft cap until they
//! have fallen a twentieth below it. The slow path of the heap looks; Python relieves, once each time.

use super::python::python;
use crate::heap::attend_to_caps;
use crate::ledger::{LEDGER, Scope};
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64};

const NONE: i64 = i64::MAX;

pyhost_os::state! {
    static STATE: SoftCaps {
        soft: [AtomicI64; Scope::COUNT] = [const { AtomicI64::new(NONE) }; Scope::COUNT],
        /// Scopes that are past their soft cap.
        past: [AtomicBool; Scope::COUNT] = [const { AtomicBool::new(false) }; Scope::COUNT],
        /// Scopes of which Python was not notified yet.
        unreported: [AtomicBool; Scope::COUNT] = [const { AtomicBool::new(false) }; Scope::COUNT],
    }
}

/// Sets the soft cap of a scope in bytes, or takes it away.
pub fn set_soft(scope: Scope, cap: Option<u64>) {
    let bytes = cap.map_or(NONE, |cap| i64::try_from(cap).unwrap_or(NONE));
    STATE.soft[scope.index()].store(bytes, Relaxed);
    STATE.past[scope.index()].store(false, Relaxed);
    if cap.is_some() {
        attend_to_caps(true);
    }
}

pub fn soft(scope: Scope) -> Option<u64> {
    let bytes = STATE.soft[scope.index()].load(Relaxed);
    (bytes != NONE).then_some(bytes as u64)
}

/// Looks at a scope; whether it has a soft cap. Inside the allocator.
pub(super) fn look(scope: Scope) -> bool {
    let soft = STATE.soft[scope.index()].load(Relaxed);
    if soft == NONE {
        return false;
    }
    let live = LEDGER.bound(scope);
    let past = &STATE.past[scope.index()];
    if live <= soft {
        if live < soft - soft / 20 {
            past.store(false, Relaxed);
        }
    } else if let Some(python) = python()
        && !past.swap(true, AcqRel)
    {
        STATE.unreported[scope.index()].store(true, Relaxed);
        if !(python.post_pressure)() {
            past.store(false, Relaxed);
        }
    }
    true
}

/// The next scope that is past its soft cap and of which Python was not notified.
pub fn pressed() -> Option<Scope> {
    Scope::all().find(|scope| STATE.unreported[scope.index()].swap(false, AcqRel))
}
