//! The quarantine: freed blocks wait here, in the order in which they were freed, before their memory is given out again.
//!
//! A ring of addresses, kept as complements, since the leak check searches memory for pointers. Whoever takes an address
//! out of its place, by an exchange, gives the block back. Nothing is locked: a fork in between leaves at worst a block that
//! nobody uses.

use super::{Waiting, give_back};
use crate::mimalloc::gate::{Closed, Inside};
use crate::{bounded_heap, mimalloc::pages};
use pyhost_os::mapping::Mapped;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Blocks that wait at most, and bytes of theirs.
const MOST_BLOCKS: usize = 1 << 16;
const MOST_BYTES: usize = 64 << 20;

pyhost_os::state! {
    /// Freed blocks that wait before they are used again.
    static STATE: Quarantine {
        /// The ring, in a mapping of its own: each place has the complement of an address, 0 for none.
        ring: OnceLock<&'static [AtomicU64]> = OnceLock::new(),
        /// Bytes that may wait: a part of the region.
        most: AtomicUsize = AtomicUsize::new(MOST_BYTES),
        /// Blocks that were ever added, and that were ever taken out for want of room in bytes, or overtaken.
        added: AtomicUsize = AtomicUsize::new(0),
        taken: AtomicUsize = AtomicUsize::new(0),
        bytes: AtomicUsize = AtomicUsize::new(0),
    }
}

/// Makes the ring. Once; false if the system gives no memory.
pub fn start() -> bool {
    let Some(ring) = Mapped::private(MOST_BLOCKS) else {
        return false;
    };
    if let Some(size) = bounded_heap::size() {
        STATE.most.store(MOST_BYTES.min(size as usize / 8), Relaxed);
    }
    STATE.ring.set(ring.leak()).is_ok()
}

fn place(number: usize) -> Option<&'static AtomicU64> {
    STATE.ring.get()?.get(number % MOST_BLOCKS)
}

/// Adds a block that was just freed, of so many bytes, and gives back those that have waited the longest if there are too
/// many. Inside the gate.
pub(super) fn add(Waiting(block): Waiting, bytes: usize, inside: &Inside<'_>) {
    if let Some(place) = place(STATE.added.fetch_add(1, Relaxed)) {
        STATE.bytes.fetch_add(bytes, Relaxed);
        end_wait(place.swap(!block.addr() as u64, AcqRel), inside);
        shrink_to(STATE.most.load(Relaxed), inside);
    }
}

/// Gives back those that have waited the longest until no more than so many bytes wait. Inside the gate.
pub fn shrink_to(most: usize, inside: &Inside<'_>) {
    while STATE.bytes.load(Relaxed) > most {
        let taken = STATE.taken.load(Relaxed);
        let added = STATE.added.load(Relaxed);
        // What was overtaken is given back already.
        let oldest = taken.max(added.saturating_sub(MOST_BLOCKS));
        if oldest >= added {
            break;
        }
        let taken = (STATE.taken).compare_exchange(taken, oldest + 1, AcqRel, Relaxed);
        if let (Ok(_), Some(place)) = (taken, place(oldest)) {
            end_wait(place.swap(0, AcqRel), inside);
        }
    }
}

/// Calls `visit` with the page of each block that waits: the heap has it live and the ledger has not.
pub fn each(closed: &Closed, mut visit: impl FnMut(&pages::PageView)) {
    let ring = STATE.ring.get().copied().unwrap_or_default();
    let addresses = ring.iter().map(|address| address.load(Relaxed));
    for complement in addresses.filter(|&complement| complement != 0) {
        if let Some(page) = pages::holding(closed, !complement as usize) {
            visit(&page);
        }
    }
}

/// Gives back the block that was taken out of a place, if there was one.
fn end_wait(complement: u64, inside: &Inside<'_>) {
    if complement != 0 {
        // The exchange gave it to this thread alone.
        let bytes = give_back(Waiting(!complement as usize as *mut u8), inside);
        STATE.bytes.fetch_sub(bytes, Relaxed);
    }
}
