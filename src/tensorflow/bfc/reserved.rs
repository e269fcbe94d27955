//! Address space from the kernel, and tables that lie in it.
//!
//! A reservation costs nothing until it is touched: the kernel gives a zeroed page at the first
//! write. So the allocator takes all that it may ever need at its start, the region and its own
//! tables alike, and never asks any heap for memory. Nothing here panics or is locked in memory.

use pyhost_os::mapping::{FromZeros, Mapped, Mapping, page_size};
use std::ptr::NonNull;

/// From this length on, memory is zeroed by giving its pages back. For less, the faults on the
/// new pages cost more than the stores. Less under Miri, which takes its time for each byte.
pub const LAZY_BYTES: usize = if cfg!(miri) { 16 << 10 } else { 1 << 20 };

/// Zeroed memory for more than is used, unmapped when dropped.
///
/// Readable and writable at once, rather than `PROT_NONE` and an mprotect(2) a growth: growth cannot fail half-way.
pub struct Reservation(pub Mapping);

impl Reservation {
    /// Reserves `bytes`, aligned to a page. None where the kernel refuses, as it does for 0.
    pub fn new(bytes: usize) -> Option<Reservation> {
        Mapping::reserve(bytes).map(Reservation)
    }

    pub fn address(&self) -> usize {
        self.0.start().addr().get()
    }

    /// The place `offset` bytes from the start, or None beyond the end.
    pub fn pointer(&self, offset: usize) -> Option<NonNull<u8>> {
        let place = self.0.start().as_ptr().wrapping_add(offset);
        NonNull::new(place).filter(|_| offset < self.0.bytes())
    }

    /// Zeroes the bytes `from..to` of the reservation. A long run gives its whole pages back to
    /// the kernel, so that it stays as cheap as if it had never been touched.
    pub fn clear(&mut self, from: usize, to: usize) {
        let is_long = to.saturating_sub(from) >= LAZY_BYTES;
        match is_long.then(|| self.give_back(from, to)).flatten() {
            Some((first, last)) => {
                self.0.clear(from..first);
                self.0.clear(last..to);
            }
            None => self.0.clear(from..to),
        }
    }

    /// Gives the whole pages of `from..to` back to the kernel: they read as zeros then. Their ends;
    /// None where there is no whole page, or the kernel refuses.
    pub fn give_back(&mut self, from: usize, to: usize) -> Option<(usize, usize)> {
        // The compiler cannot know that it is not 0, and would add a panic.
        let page = (page_size() as usize).max(1);
        let (first, last) = (from.checked_next_multiple_of(page)?, to - to % page);
        (first < last && self.0.give_back(first..last)).then_some((first, last))
    }
}

/// A table of a fixed length in a mapping of its own, zeroed at first.
pub struct Table<T>(pub Mapped<T>);

impl<T: FromZeros> Table<T> {
    /// Reserves a table of `length` entries, of at least one.
    pub fn reserve(length: usize) -> Option<Table<T>> {
        Mapped::reserve(length.max(1)).map(Table)
    }

    /// An entry; entry 0 in place of one that does not exist, since this must not panic.
    #[inline]
    pub fn at(&self, index: u32) -> &T {
        &self.0[self.place(index)]
    }

    /// An entry to change, as [`Table::at`].
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        let place = self.place(index);
        &mut self.0[place]
    }

    #[inline]
    fn place(&self, index: u32) -> usize {
        let index = index as usize;
        if index < self.0.len() { index } else { 0 }
    }
}
