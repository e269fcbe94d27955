//! The quarantine: freed blocks wait here, in the order in which they were freed, before their memory is given out again.
//!
//! A ring of addresses, kept as complements, since the leak check searches static memory for pointers. Whoever takes an address
//! out of its place, by an exchange, gives the block back. Nothing is locked: a fork in between leaves at worst a block that
//! nobody uses.

use super::super::gate::Inside;
use super::give_back;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Blocks that wait at most, and bytes of theirs.
pub const MOST_BLOCKS: usize = 1 << 16;
pub const MOST_BYTES: usize = 64 << 20;

struct Place {
    /// The complement of an address; 0 of none.
    block: AtomicUsize,
    bytes: AtomicUsize,
}

static RING: [Place; MOST_BLOCKS] = [const {
    Place {
        block: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
    }
}; MOST_BLOCKS];

/// Blocks that were ever added, and that were ever taken out for want of room in bytes, or overtaken.
static ADDED: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
/// Bytes that wait.
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Adds a block that was just freed, of so many bytes, and gives back those that have waited the longest where there are too
/// many. Inside the gate.
pub fn add(block: *mut u8, bytes: usize, inside: &Inside<'_>) {
    BYTES.fetch_add(bytes, Relaxed);
    let place = &RING[ADDED.fetch_add(1, Relaxed) % MOST_BLOCKS];
    let before = place.block.load(Relaxed);
    if before != 0 {
        take(place, inside);
    }
    place.bytes.store(bytes, Relaxed);
    let overtaken = place.block.swap(!block.addr(), AcqRel);
    if overtaken != 0 {
        give_back_at(overtaken, 0, inside);
    }
    while BYTES.load(Relaxed) > MOST_BYTES {
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
            take(&RING[oldest % MOST_BLOCKS], inside);
        }
    }
}

/// Gives the block of a place back, unless another thread does.
fn take(place: &Place, inside: &Inside<'_>) {
    let bytes = place.bytes.load(Relaxed);
    let block = place.block.swap(0, AcqRel);
    if block != 0 {
        give_back_at(block, bytes, inside);
    }
}

fn give_back_at(complement: usize, bytes: usize, inside: &Inside<'_>) {
    BYTES.fetch_sub(bytes.min(BYTES.load(Relaxed)), Relaxed);
    let block = !complement as *mut u8;
    // SAFETY: a block that waited, and that the exchange gave to this thread alone.
    #[allow(unsafe_code)]
    unsafe {
        give_back(block, inside);
    }
}
