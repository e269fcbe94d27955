//! A growing table in memory of its own: the leak check must not allocate from the heaps that it
//! looks at, nor leave its notes where it looks for pointers.

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A table of up to `capacity` entries, which take memory as they come. Not dropped: it lives as
/// long as the process.
pub struct Table<T: Copy> {
    entries: *mut T,
    length: usize,
    capacity: usize,
}

// SAFETY: an owned piece of memory.
unsafe impl<T: Copy + Send> Send for Table<T> {}
// SAFETY: shared references only read.
unsafe impl<T: Copy + Sync> Sync for Table<T> {}

/// The pieces of memory of all tables: addresses alone, for [`is_in_table`].
static PIECES: [(AtomicUsize, AtomicUsize); 16] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 16];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether an address is inside the memory of a table.
pub fn is_in_table(address: usize) -> bool {
    PIECES
        .iter()
        .any(|(start, length)| address.wrapping_sub(start.load(Relaxed)) < length.load(Relaxed))
}

impl<T: Copy> Table<T> {
    /// An empty table; None where the system gives no address space.
    pub fn new(capacity: usize) -> Option<Self> {
        let bytes = capacity.checked_mul(size_of::<T>())?.max(1);
        // SAFETY: a new mapping at an address of the system's choice.
        let memory = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if memory != libc::MAP_FAILED {
            let (start, length) = PIECES.get(COUNT.fetch_add(1, Relaxed))?;
            start.store(memory.addr(), Relaxed);
            length.store(bytes, Relaxed);
        }
        (memory != libc::MAP_FAILED).then_some(Table {
            entries: memory.cast(),
            length: 0,
            capacity,
        })
    }

    /// Adds an entry; false where the table is full.
    pub fn push(&mut self, entry: T) -> bool {
        if self.length == self.capacity {
            return false;
        }
        // SAFETY: within the mapping, which is aligned to a page.
        unsafe { self.entries.add(self.length).write(entry) };
        self.length += 1;
        true
    }

    /// Takes the last entry.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.last().copied()?;
        self.length -= 1;
        Some(last)
    }
}

impl<T: Copy> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many entries were written.
        unsafe { std::slice::from_raw_parts(self.entries, self.length) }
    }
}

impl<T: Copy> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the table is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.entries, self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn a_table_keeps_what_fits() {
        let mut table = Table::new(2).unwrap();
        assert!(table.push(1) && table.push(2) && !table.push(3));
        assert_eq!(*table, [1, 2]);
        assert_eq!(
            (table.pop(), table.pop(), table.pop()),
            (Some(2), Some(1), None)
        );
    }
}
