//! Growing tables in memory of their own: the leak check must not allocate from the heaps that it
//! looks at, nor leave its notes where it looks for pointers.

use super::WORD;
use crate::ledger::LEDGER;
use pyhost_os::{mapping::Mapped, mmap_vec::Array};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A table, which takes memory as entries come. It is mapped for as long as the process lives.
pub type Table<T> = Array<'static, T>;

/// Entries of the tables of blocks, which take addresses alone: as many as a machine has blocks, or, with addresses of 32
/// bits, as there is room for.
const MOST_BLOCKS: usize = if WORD == 8 { 1 << 28 } else { 1 << 22 };
/// Entries for blocks that no account counts, where there is no room for so many.
const SPARE: usize = 1 << 16;

pyhost_os::state! {
    /// The pieces of memory of all tables: addresses alone, for [`is_in_table`].
    static PIECES: Pieces {
        all: [(AtomicUsize, AtomicUsize); 16] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 16],
        count: AtomicUsize = AtomicUsize::new(0),
    }
}

/// Whether an address is inside the memory of a table.
pub fn is_in_table(address: usize) -> bool {
    PIECES
        .all
        .iter()
        .any(|(start, length)| address.wrapping_sub(start.load(Relaxed)) < length.load(Relaxed))
}

/// An empty table with room for an entry a live block; None as for [`new_table`]. A limit on addresses may leave room for those alone that
/// there are.
pub fn table_of_blocks<T>() -> Option<Table<T>> {
    let live = || {
        LEDGER
            .snapshot()
            .accounts()
            .map(|(_, it)| it.live_blocks)
            .sum::<u64>()
    };
    new_table(MOST_BLOCKS).or_else(|| new_table(live() as usize + SPARE))
}

/// An empty table of up to `capacity` entries; None if the system gives no address space.
pub fn new_table<T>(capacity: usize) -> Option<Table<T>> {
    let memory = Mapped::reserve(capacity.max(1))?;
    let (start, length) = PIECES.all.get(PIECES.count.fetch_add(1, Relaxed))?;
    start.store(memory.addresses().start, Relaxed);
    length.store(memory.addresses().len(), Relaxed);
    Some(Array::new(memory.leak()))
}
