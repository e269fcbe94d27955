//! Room for one look at the balance: a mapping of its own, so that no heap moves while it is looked
//! at. The kernel backs what is touched of it alone.

#![allow(unsafe_code)]

use super::claims::Unclaimed;
use super::rows::Row;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::null_mut;

/// Addresses whose owner is known before the heaps are asked.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Extent {
    /// First address.
    pub start: usize,
    /// Behind the last.
    pub end: usize,
    /// The row that it counts for.
    pub row: Owner,
}

/// Whose an extent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A row's.
    Row(Row),
    /// Live array data.
    Arrays,
    /// Maps of a library, by its number.
    Library(usize),
}

const EXTENTS: usize = 16384;
const THREADS: usize = 8192;
const UNCLAIMED: usize = 1024;
const DATA: usize = 4096;
const TEXT: usize = 64 * 1024;
const ENTRIES: usize = 8192;

const THREADS_AT: usize = EXTENTS * size_of::<Extent>();
const UNCLAIMED_AT: usize = THREADS_AT + THREADS * size_of::<usize>();
const DATA_AT: usize = UNCLAIMED_AT + UNCLAIMED * size_of::<Unclaimed>();
const TEXT_AT: usize = DATA_AT + DATA * size_of::<Range<usize>>();
const ENTRIES_AT: usize = TEXT_AT + TEXT;
const SIZE: usize = ENTRIES_AT + ENTRIES * size_of::<u64>();

const _: () = assert!(ENTRIES_AT.is_multiple_of(8) && DATA_AT.is_multiple_of(8));

/// The mapping, unmapped when dropped.
pub struct Scratch {
    start: *mut u8,
}

/// The parts of the mapping.
pub struct Parts<'a> {
    /// Known addresses.
    pub extents: Array<'a, Extent>,
    /// Thread pointers.
    pub threads: Array<'a, usize>,
    /// Memory without a known owner.
    pub unclaimed: Array<'a, Unclaimed>,
    /// Libraries' writable data.
    pub data: Array<'a, Range<usize>>,
    /// For the text of the mappings.
    pub text: &'a mut [u8],
    /// For the entries of the page map.
    pub entries: &'a mut [u64],
}

/// A list of a fixed capacity; what it has no room for is dropped.
pub struct Array<'a, T> {
    memory: &'a mut [MaybeUninit<T>],
    /// Items at the start that were written.
    length: usize,
}

impl<T> Array<'_, T> {
    /// Appends; false where there is no room.
    pub fn push(&mut self, item: T) -> bool {
        match self.memory.get_mut(self.length) {
            Some(place) => {
                place.write(item);
                self.length += 1;
                true
            }
            None => false,
        }
    }

    /// How many more there is room for.
    pub fn room(&self) -> usize {
        self.memory.len() - self.length
    }

    /// Those that are there.
    pub fn items(&mut self) -> &mut [T] {
        // SAFETY: `push` has written so many.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.length) }
    }
}

impl Array<'_, Extent> {
    /// Appends an extent that is not empty, widened to whole pages of `page` bytes.
    pub fn add(&mut self, range: Range<usize>, row: Owner, page: usize) {
        let (start, end) = (range.start & !(page - 1), range.end.next_multiple_of(page));
        if range.start < range.end {
            self.push(Extent { start, end, row });
        }
    }
}

impl Scratch {
    /// Maps it; None where the system does not.
    pub fn new() -> Option<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                SIZE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        (start != libc::MAP_FAILED).then(|| Scratch {
            start: start.cast(),
        })
    }

    /// Its addresses.
    pub fn addresses(&self) -> Range<usize> {
        self.start.addr()..self.start.addr() + SIZE
    }

    /// Its parts, the lists empty.
    pub fn parts(&mut self) -> Parts<'_> {
        // SAFETY: disjoint parts of the mapping, aligned for what they hold, each borrowed once for
        // as long as the mapping is; text and entries are numbers, which zeroed memory is.
        unsafe {
            Parts {
                extents: self.array(0, EXTENTS),
                threads: self.array(THREADS_AT, THREADS),
                unclaimed: self.array(UNCLAIMED_AT, UNCLAIMED),
                data: self.array(DATA_AT, DATA),
                text: std::slice::from_raw_parts_mut(self.start.add(TEXT_AT), TEXT),
                entries: std::slice::from_raw_parts_mut(self.start.add(ENTRIES_AT).cast(), ENTRIES),
            }
        }
    }

    /// An empty list.
    ///
    /// # Safety
    /// The mapping has room for `count` items at `offset`, which nobody else uses for `'a`.
    unsafe fn array<'a, T>(&self, offset: usize, count: usize) -> Array<'a, T> {
        // SAFETY: the caller's duty; the items need not be initialised.
        let memory =
            unsafe { std::slice::from_raw_parts_mut(self.start.add(offset).cast(), count) };
        Array { memory, length: 0 }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped; nothing borrows it any more.
        unsafe { libc::munmap(self.start.cast(), SIZE) };
    }
}
