//! Growing tables in memory of their own: the leak check must not allocate from the heaps that it
//! looks at, nor leave its notes where it looks for pointers.

use pyhost_os::{mapping::Mapped, mmap_vec::Array};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A table, which takes memory as entries come. It is mapped for as long as the process lives.
pub type Table<T> = Array<'static, T>;

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

/// An empty table of up to `capacity` entries; None if the system gives no address space.
pub fn new_table<T>(capacity: usize) -> Option<Table<T>> {
    let memory = Mapped::reserve(capacity.max(1))?;
    let (start, length) = PIECES.all.get(PIECES.count.fetch_add(1, Relaxed))?;
    start.store(memory.addresses().start, Relaxed);
    length.store(memory.addresses().len(), Relaxed);
    Some(Array::new(memory.leak()))
}
