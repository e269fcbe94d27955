//! The quarantine: freed blocks wait here, in the order in which they were freed, before their memory is given out again.
//!
//! A ring of addresses, kept as complements, since the leak check searches memory for pointers. Whoever takes an address
//! out of its place, by an exchange, gives the block back. Nothing is locked: a fork in between leaves at worst a block that
//! nobody uses.

use super::super::gate::{Closed, Inside};
use super::super::{bound, pages};
use super::give_back;
use pyhost_os::mapping::Mapped;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// Blocks that wait at most, and bytes of theirs.
const MOST_BLOCKS: usize = 1 << 16;
const MOST_BYTES: usize = 64 << 20;

/// The ring, in a mapping of its own: each place has the complement of an address, 0 for none, and the block's bytes.
static RING: OnceLock<&'static [AtomicU64]> = OnceLock::new();
/// Bytes that may wait: a part of the region.
static MOST: AtomicUsize = AtomicUsize::new(MOST_BYTES);

/// Blocks that were ever added, and that were ever taken out for want of room in bytes, or overtaken.
static ADDED: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Bytes that wait.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Makes the ring. Once; false if the system gives no memory.
pub fn start() -> bool {
    let Some(ring) = Mapped::private(2 * MOST_BLOCKS) else {
        return false;
    };
    if let Some(size) = bound::size() {
        MOST.store(MOST_BYTES.min(size as usize / 8), Relaxed);
    }
    RING.set(ring.leak()).is_ok()
}

/// A place of the ring: the complement of an address, and bytes.
fn place(number: usize) -> Option<(&'static AtomicU64, &'static AtomicU64)> {
    let at = 2 * (number % MOST_BLOCKS);
    let ring = RING.get()?;
    Some((&ring[at], &ring[at + 1]))
}

/// Adds a block that was just freed, of so many bytes, and gives back those that have waited the longest where there are too
/// many. Inside the gate.
pub fn add(block: *mut u8, bytes: usize, inside: &Inside<'_>) {
    let number = ADDED.fetch_add(1, Relaxed);
    let Some((address, size)) = place(number) else {
        return;
    };
    BYTES.fetch_add(bytes, Relaxed);
    if address.load(Relaxed) != 0 {
        take(number, inside);
    }
    size.store(bytes as u64, Relaxed);
    let overtaken = address.swap(!block.addr() as u64, AcqRel);
    if overtaken != 0 {
        give_back_at(overtaken, 0, inside);
    }
    shrink_to(MOST.load(Relaxed), inside);
}

/// Gives back those that have waited the longest until no more than so many bytes wait. Inside the gate.
pub fn shrink_to(most: usize, inside: &Inside<'_>) {
    while BYTES.load(Relaxed) > most {
        let taken = TAKEN.load(Relaxed);
        let added = ADDED.load(Relaxed);
        // What was overtaken is given back already.
        let oldest = taken.max(added.saturating_sub(MOST_BLOCKS));
        if oldest >= added {
            break;
        }
        if TAKEN
            .compare_exchange(taken, oldest + 1, AcqRel, Relaxed)
            .is_ok()
        {
            take(oldest, inside);
        }
    }
}

/// Calls `visit` with the page of each block that waits: the heap has it live and the ledger has not.
pub fn each(closed: &Closed, mut visit: impl FnMut(&pages::PageView)) {
    let ring = RING.get().copied().unwrap_or_default();
    let addresses = ring.iter().step_by(2).map(|address| address.load(Relaxed));
    for complement in addresses.filter(|&complement| complement != 0) {
        if let Some(page) = pages::holding(closed, !complement as usize) {
            visit(&page);
        }
    }
}

/// Gives the block of a place back, unless another thread does.
fn take(number: usize, inside: &Inside<'_>) {
    if let Some((address, size)) = place(number) {
        let bytes = size.load(Relaxed);
        let complement = address.swap(0, AcqRel);
        if complement != 0 {
            give_back_at(complement, bytes as usize, inside);
        }
    }
}

fn give_back_at(complement: u64, bytes: usize, inside: &Inside<'_>) {
    BYTES.fetch_sub(bytes.min(BYTES.load(Relaxed)), Relaxed);
    let block = !complement as usize as *mut u8;
    // SAFETY: a block that waited, and that the exchange gave to this thread alone.
    #[allow(unsafe_code)]
    unsafe {
        give_back(block, inside);
    }
}
