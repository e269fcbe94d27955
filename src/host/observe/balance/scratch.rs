//! Room for one look at the balance: a mapping of its own, so that no heap moves while it is looked
//! at. The kernel backs what is touched of it alone.

use super::{claims::Unclaimed, rows::Row};
use crate::{ledger::Account, process::maps::Entry};
use pyhost_os::{mapping::Mapped, mmap_vec::Array, zeros_are_valid};
use std::{mem::MaybeUninit, ops::Range};

/// Addresses whose owner is known before the heaps are asked.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub start: usize,
    /// Behind the last.
    pub end: usize,
    pub row: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Row(Row),
    Account(Account),
    /// Maps of a library, by its number.
    Library(usize),
}

const EXTENTS: usize = 16384;
const THREADS: usize = 8192;
const UNCLAIMED: usize = 1024;
const DATA: usize = 4096;
const TEXT: usize = 64 * 1024;
const ENTRIES: usize = 8192;

struct Memory {
    extents: [MaybeUninit<Extent>; EXTENTS],
    threads: [MaybeUninit<usize>; THREADS],
    unclaimed: [MaybeUninit<Unclaimed>; UNCLAIMED],
    data: [MaybeUninit<Range<usize>>; DATA],
    text: [u8; TEXT],
    entries: [Entry; ENTRIES],
}

zeros_are_valid!(Memory: extents, threads, unclaimed, data, text, entries);

/// The mapping, unmapped when dropped.
pub struct Scratch(Mapped<Memory>);

pub struct Parts<'a> {
    pub extents: Extents<'a>,
    pub threads: Array<'a, usize>,
    /// Memory without a known owner.
    pub unclaimed: Array<'a, Unclaimed>,
    pub data: Array<'a, Range<usize>>,
    pub text: &'a mut [u8],
    /// For the entries of the page map.
    pub entries: &'a mut [Entry],
}

pub type Extents<'a> = Array<'a, Extent>;

/// Appends an extent that is not empty, widened to whole pages of `page` bytes.
pub fn add(extents: &mut Extents<'_>, range: Range<usize>, row: Owner, page: usize) {
    let (start, end) = (range.start & !(page - 1), range.end.next_multiple_of(page));
    if range.start < range.end {
        extents.push(Extent { start, end, row });
    }
}

impl Scratch {
    /// Maps it; None if the system does not.
    pub fn new() -> Option<Self> {
        Mapped::private(1).map(Scratch)
    }

    pub fn addresses(&self) -> Range<usize> {
        self.0.addresses()
    }

    /// Its parts, the lists empty.
    pub fn parts(&mut self) -> Parts<'_> {
        let memory = &mut self.0[0];
        Parts {
            extents: Array::new(&mut memory.extents),
            threads: Array::new(&mut memory.threads),
            unclaimed: Array::new(&mut memory.unclaimed),
            data: Array::new(&mut memory.data),
            text: &mut memory.text,
            entries: &mut memory.entries,
        }
    }
}
