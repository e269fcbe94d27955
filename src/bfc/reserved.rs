//! Address space from the kernel, and tables that lie in it.
//!
//! A reservation costs nothing until it is touched: the kernel gives a zeroed page at the first
//! write. So the allocator takes all that it may ever need at its start, the region and its own
//! tables alike, and never asks any heap for memory. Nothing here panics or is locked in memory.

#![allow(unsafe_code)]

use pyhost_os::process::page_size;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};

/// From this length on, memory is zeroed by giving its pages back. For less, the faults on the
/// new pages cost more than the stores.
pub const LAZY_BYTES: usize = 1 << 20;

/// The least page of any machine, and so the least alignment of a reservation.
const LEAST_PAGE: usize = 4096;

/// A private mapping of zeroed memory, which its owner unmaps when dropped.
pub struct Reservation {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; the value is its only owner.
unsafe impl Send for Reservation {}

impl Reservation {
    /// Reserves `bytes`, aligned to a page. None where the kernel refuses, as it does for 0.
    pub fn new(bytes: usize) -> Option<Reservation> {
        // Readable and writable at once, rather than `PROT_NONE` and an mprotect(2) a growth:
        // with `MAP_NORESERVE` untouched pages are not charged (except where
        // vm.overcommit_memory is 2), and growth cannot fail half-way.
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let base = NonNull::new(base.cast())?;
        Some(Reservation { base, bytes })
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.base.addr().get()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The place `offset` bytes from the start, or None beyond the end.
    pub fn pointer(&self, offset: usize) -> Option<NonNull<u8>> {
        // SAFETY: `offset` is below `bytes`, so the pointer stays inside the mapping.
        (offset < self.bytes).then(|| unsafe { self.base.add(offset) })
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
        // SAFETY: whole pages of the mapping, which nobody uses.
        let result = unsafe {
            let start = self.base.add(first).as_ptr().cast();
            libc::madvise(start, last - first, libc::MADV_DONTNEED)
        };
        // `EINVAL`: pages that someone locked (mlockall(2)) cannot be given back.
        (result == 0).then_some((first, last))
    }

    /// Zeroes by stores.
    ///
    /// # Safety
    /// As for [`Reservation::clear`].
    unsafe fn fill(&self, from: usize, to: usize) {
        // SAFETY: by the contract above the bytes are inside the reservation, and no one else uses them.
        unsafe { self.base.add(from).write_bytes(0, to - from) };
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; its owner is going.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A type for which zeroed memory is a valid value.
///
/// # Safety
/// It must be.
pub unsafe trait FromZeros: Copy {}

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
        unsafe { self.reservation.base.cast::<T>().add(index) }
    }
}
