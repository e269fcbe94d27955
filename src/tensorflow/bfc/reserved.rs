//! Address space from the kernel, and tables that lie in it.
//!
//! A reservation costs nothing until it is touched: the kernel gives a zeroed page at the first
//! write. So the allocator takes all that it may ever need at its start, the region and its own
//! tables alike, and never asks any heap for memory. Nothing here panics or is locked in memory.

#![allow(unsafe_code)]

use pyhost_os::mapping::page_size;
use pyhost_os::mapping::{FromZeros, Mapping};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// From this length on, memory is zeroed by giving its pages back. For less, the faults on the
/// new pages cost more than the stores. Less under Miri, which takes its time for each byte.
pub const LAZY_BYTES: usize = if cfg!(miri) { 16 << 10 } else { 1 << 20 };

/// The least page of any machine, and so the least alignment of a reservation.
const LEAST_PAGE: usize = 4096;

/// Zeroed memory for more than is used, unmapped when dropped.
///
/// Readable and writable at once, rather than `PROT_NONE` and an mprotect(2) a growth: growth cannot
/// fail half-way.
pub struct Reservation(Mapping);

impl Reservation {
    /// Reserves `bytes`, aligned to a page. None where the kernel refuses, as it does for 0.
    pub fn new(bytes: usize) -> Option<Reservation> {
        Mapping::reserve(bytes).map(Reservation)
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.0.start().addr().get()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The place `offset` bytes from the start, or None beyond the end.
    pub fn pointer(&self, offset: usize) -> Option<NonNull<u8>> {
        // SAFETY: within the mapping, by the comparison.
        (offset < self.bytes()).then(|| unsafe { self.0.start().add(offset) })
    }

    /// Zeroes the bytes `from..to` of the reservation. A long run gives its whole pages back to
    /// the kernel, so that it stays as cheap as if it had never been touched.
    ///
    /// # Safety
    /// `from <= to <= self.bytes()`, and no one else reads or writes these bytes meanwhile.
    pub unsafe fn clear(&self, from: usize, to: usize) {
        // SAFETY: by the contract above; `first` and `last` are inside `from..to`.
        unsafe {
            if to - from >= LAZY_BYTES
                && let Some((first, last)) = self.give_back(from, to)
            {
                self.fill(from, first);
                self.fill(last, to);
            } else {
                self.fill(from, to);
            }
        }
    }

    /// Gives the whole pages of `from..to` back to the kernel: they read as zeros then. Their ends;
    /// None where there is no whole page, or the kernel refuses.
    ///
    /// # Safety
    /// As for [`Reservation::clear`].
    pub unsafe fn give_back(&self, from: usize, to: usize) -> Option<(usize, usize)> {
        // The compiler cannot know that it is not 0, and would add a panic.
        let page = (page_size() as usize).max(1);
        let (first, last) = (from.checked_next_multiple_of(page)?, to - to % page);
        if first >= last {
            return None;
        }
        // SAFETY: whole pages of the mapping, which nobody uses, by the caller's promise.
        unsafe { self.0.give_back(first..last) }.then_some((first, last))
    }

    /// Zeroes by stores.
    ///
    /// # Safety
    /// As for [`Reservation::clear`].
    unsafe fn fill(&self, from: usize, to: usize) {
        // SAFETY: bytes of the mapping, which nobody else uses, by the caller's promise.
        unsafe { self.0.start().add(from).write_bytes(0, to - from) };
    }
}

/// A table of a fixed length in a reservation of its own, zeroed at first.
pub struct Table<T> {
    reservation: Reservation,
    length: usize,
    entries: PhantomData<T>,
}

impl<T: FromZeros> Table<T> {
    /// Reserves a table of `length` entries, of at least one.
    pub fn reserve(length: usize) -> Option<Table<T>> {
        const { assert!(align_of::<T>() <= LEAST_PAGE && size_of::<T>() > 0) };
        let length = length.max(1);
        let reservation = Reservation::new(length.checked_mul(size_of::<T>())?)?;
        Some(Table {
            reservation,
            length,
            entries: PhantomData,
        })
    }

    /// The addresses that it lies in.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.reservation.address();
        start..start + self.reservation.bytes()
    }

    /// The number of entries.
    pub fn length(&self) -> usize {
        self.length
    }

    /// An entry; entry 0 in place of one that does not exist, since this must not panic.
    #[inline]
    pub fn at(&self, index: u32) -> &T {
        // SAFETY: `place` gives an entry of the mapping, readable while `self` lives; zeroed
        // memory and what `at_mut` stored are valid values, and nobody has it mutably.
        unsafe { self.place(index).as_ref() }
    }

    /// An entry to change, as [`Table::at`].
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> &mut T {
        // SAFETY: as in `at`, and `self` is borrowed mutably.
        unsafe { self.place(index).as_mut() }
    }

    #[inline]
    fn place(&self, index: u32) -> NonNull<T> {
        let index = index as usize;
        let index = if index < self.length { index } else { 0 };
        // SAFETY: the reservation holds `length` entries, of which there is at least one, from
        // an address that is aligned to a page.
        unsafe { self.reservation.0.start().cast::<T>().add(index) }
    }
}
