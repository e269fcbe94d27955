//! What the script left: the figures of the moment after its `atexit` functions and before Python is
//! finalised. Every report of a finalised process shows them, since finalisation gives back what the
//! script still had.
//!
//! Taken once a process, with the GIL; read by the writer of a report, also in a signal handler.

#![allow(unsafe_code)]

use super::exhibits::{Exhibits, Room};
use crate::heap::register::{self, BigBlocks};
use crate::heap::{bound, guards};
use crate::ledger::{LEDGER, Snapshot};
use crate::numpy;
use crate::peak;
use crate::resident::resident;
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8};

/// The figures of that moment.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// Nanoseconds since the host started, where somebody looks for the peak.
    pub time: u64,
    /// The ledger.
    pub ledger: Snapshot,
    /// What array data is made from.
    pub numpy: Option<numpy::Figures>,
    /// The bounded heap.
    pub region: Option<bound::Figures>,
    /// What was guarded.
    pub guards: Option<guards::Figures>,
    /// Resident bytes.
    pub resident: Option<u64>,
    /// The big blocks.
    pub big_blocks: BigBlocks,
}

struct LeftCell(UnsafeCell<Left>);
// SAFETY: written by the thread that moves `STATE` from 0 to 1, read once it is 2.
unsafe impl Sync for LeftCell {}
static PLACE: LeftCell = LeftCell(UnsafeCell::new(Left {
    time: 0,
    ledger: Snapshot::EMPTY,
    numpy: None,
    region: None,
    guards: None,
    resident: None,
    big_blocks: BigBlocks::NONE,
}));

/// 0: not taken. 1: being taken. 2: taken.
static STATE: AtomicU8 = AtomicU8::new(0);
/// What is shown of that moment.
static EXHIBITS: Room = Room::new();
/// Whether [`EXHIBITS`] are there; set before the state is 2.
static HAS_EXHIBITS: AtomicBool = AtomicBool::new(false);

/// Takes the figures of this moment, and with them the balance and the size classes where a report
/// `shows` them. Once; later calls do nothing.
///
/// A function of its own: its frame lies where the leak check has cleared what the script left there.
#[inline(never)]
pub fn take(shows: bool) {
    if STATE.compare_exchange(0, 1, AcqRel, Relaxed).is_err() {
        return;
    }
    let mut left = Left {
        time: peak::time(),
        ledger: LEDGER.snapshot(),
        numpy: numpy::figures(),
        region: bound::figures(),
        guards: guards::figures(),
        resident: resident().now,
        big_blocks: register::big_blocks(),
    };
    if shows && let Some(exhibits) = EXHIBITS.take() {
        HAS_EXHIBITS.store(true, Relaxed);
        // The sheet and the headline are of one moment, and show one size: the kernel's files differ
        // by some pages.
        let balance = exhibits.balance.as_ref();
        left.resident = balance.map(|balance| balance.resident).or(left.resident);
    }
    // SAFETY: only the thread that won the exchange writes, and nobody reads before 2.
    unsafe { *PLACE.0.get() = left };
    STATE.store(2, Release);
}

/// The figures; None before they are taken.
pub fn figures() -> Option<&'static Left> {
    // SAFETY: the state says that they are complete; they are not written again in this process.
    (STATE.load(Acquire) == 2).then(|| unsafe { &*PLACE.0.get() })
}

/// The balance and the size classes; None where they were not taken.
pub fn exhibits() -> Option<&'static Exhibits> {
    let are_there = STATE.load(Acquire) == 2 && HAS_EXHIBITS.load(Relaxed);
    // SAFETY: the room was taken before the state said so, and is not given back in this process.
    are_there.then(|| unsafe { EXHIBITS.exhibits() })
}

/// In a forked child: its script has not ended.
pub fn begin_child() {
    STATE.store(0, Relaxed);
    HAS_EXHIBITS.store(false, Relaxed);
    EXHIBITS.give_back();
}
