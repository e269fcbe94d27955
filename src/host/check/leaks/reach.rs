//! Which blocks nothing points at any more.
//!
//! A block that was allocated since the mark is lost if no pointer to it, or into it, can be
//! found by way of the roots: the data of the libraries, the memory that they have mapped, the stack, libc's
//! description of the thread, and every block of before the mark. All that is found is searched in turn. A word that
//! happens to look like a pointer keeps a block, so that the error is on the side of silence. The links of Python's
//! collector are no references: they lead through every container, lost ones too.

#![allow(unsafe_code)]

use super::WORD;
use super::memory::{self, Range};
use super::table::{Table, new_table, table_of_blocks};
use crate::cpython::layout::objects_in_blocks::{self, Memory, Object};
use crate::heap::live_objects::Age;
use crate::heap::{self, leak_mark};
use crate::python::hooks;
use crate::{heap::gate::Closed, ledger::Account, process::read_memory};

/// A block that was allocated since the mark.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub start: usize,
    /// Usable bytes.
    pub size: usize,
    pub account: Account,
    /// The object in the block, if it holds one.
    pub object: Option<Object>,
    pub is_reached: bool,
}

/// Pages in which a block was freed twice, or written to after it was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    pub account: Account,
    /// Usable bytes of their blocks.
    pub size: usize,
    pub pages: u64,
}

fn note(broken: &mut Table<Broken>, account: Account, size: usize) {
    let mut known = broken.iter_mut();
    match known.find(|known| (known.account, known.size) == (account, size)) {
        Some(known) => known.pages += 1,
        None => drop(broken.push(Broken {
            account,
            size,
            pages: 1,
        })),
    }
}

/// The live blocks of `accounts` that were allocated since the mark, by address, and `chunks`, the live array data of
/// the region. Right as [`leak_mark::visit_since`].
fn blocks_since(
    closed: &Closed,
    accounts: &[Account],
    chunks: &[(usize, usize)],
    broken: &mut Table<Broken>,
) -> Option<Table<Block>> {
    let mut blocks = table_of_blocks()?;
    let mut add = |account, start, size| {
        blocks.push(Block {
            start,
            size,
            account,
            object: None,
            is_reached: false,
        });
    };
    for &account in accounts {
        leak_mark::visit_since(
            closed,
            account,
            &mut |start, size| add(account, start.addr(), size),
            &mut |account, size| note(broken, account, size),
        );
    }
    hooks::each_object(Age::Younger, |start, size| add(Account::Obj, start, size));
    for &(start, size) in chunks {
        add(Account::Numpy, start, size);
    }
    blocks.sort_unstable_by_key(|block| block.start);
    Some(blocks)
}

/// The blocks of `accounts` since the mark, those that are reached marked so; None if the system
/// has no memory for it. Memory of the second list of ranges may be unmapped meanwhile.
///
/// After finalisation.
#[inline(never)]
pub fn find(
    closed: &Closed,
    accounts: &[Account],
    chunks: &[(usize, usize)],
    [ranges, far]: [&[Range]; 2],
    memory: &Readable<'_>,
    broken: &mut Table<Broken>,
) -> Option<Table<Block>> {
    let mut blocks = blocks_since(closed, accounts, chunks, broken)?;
    let mut open = new_table(blocks.len().max(1))?;
    for (index, block) in blocks.iter_mut().enumerate() {
        let front = super::front(block.start);
        let (start, size) = (block.start + front, block.size.saturating_sub(front));
        block.is_reached = match block.account {
            Account::Obj => {
                block.object = objects_in_blocks::object_in(memory, start, size);
                let kept = |object: &Object| objects_in_blocks::is_kept(memory, object);
                let address = block.object.map_or(start, |object| object.address);
                block.object.as_ref().is_some_and(kept)
                    || objects_in_blocks::is_free(memory, address)
            }
            Account::Mem => objects_in_blocks::is_freed_later(memory, start, size),
            _ => false,
        };
        if block.is_reached {
            open.push(index as u32);
        }
    }
    let mut search = Search::new(&mut blocks, open);
    // SAFETY: nothing of Python runs any more; the ranges and the live blocks can be read.
    unsafe {
        for range in ranges {
            // The loader takes a library's thread-local data from malloc, and keeps the address in a table of its own.
            search.follow(range.start);
            search.search(range.start, range.end);
        }
        memory::each_far_word(far, |word| search.follow(word));
        leak_mark::visit_before(
            closed,
            &mut |start, size| {
                search.search(start.addr(), start.addr() + size);
            },
            &mut |account, size| note(broken, account, size),
        );
        hooks::each_object(Age::Older, |start, size| search.search(start, start + size));
        search.search_open();
    }
    Some(blocks)
}

/// Memory that the check can read without a fault: the libraries' data, the pages of the heaps, freed blocks included, and what
/// can be read of where a free-threaded Python has its objects.
pub struct Readable<'a> {
    pub ranges: &'a [Range],
    pub objects: &'a [Range],
}

impl Memory for Readable<'_> {
    fn holds(&self, address: usize, length: usize) -> bool {
        if address == 0 || !address.is_multiple_of(WORD) {
            return false;
        }
        let Some(last) = address.checked_add(length - 1) else {
            return false;
        };
        let in_library = |range: &Range| range.start <= address && last < range.end;
        let in_heap = |address: usize| {
            let pointer = address as *mut u8;
            let has_objects = || self.objects.iter().any(|range| range.contains(&address));
            heap::is_in_page(pointer)
                || heap::guards::is_live(address)
                || has_objects() && read_memory(address, &mut [0]) == 1
        };
        (in_heap(address) && in_heap(last)) || self.ranges.iter().any(in_library)
    }

    fn word(&self, address: usize) -> Option<usize> {
        // SAFETY: readable, as was just seen.
        self.holds(address, WORD)
            .then(|| unsafe { (address as *const usize).read_volatile() })
    }
}

/// Marks blocks as reached, by their indices, and all that is found from there.
pub fn keep(blocks: &mut [Block], kept: Table<u32>) {
    for &index in kept.iter() {
        blocks[index as usize].is_reached = true;
    }
    // SAFETY: nothing of Python runs any more; live blocks can be read.
    unsafe { Search::new(blocks, kept).search_open() };
}

struct Search<'a> {
    blocks: &'a mut [Block],
    /// Found, and not searched yet.
    open: Table<u32>,
    first: usize,
    last: usize,
}

/// A word at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Word(usize);

impl<'a> Search<'a> {
    fn new(blocks: &'a mut [Block], open: Table<u32>) -> Self {
        let ends = blocks.iter().map(|block| block.start + block.size);
        Search {
            open,
            first: blocks.first().map_or(0, |block| block.start),
            last: ends.max().unwrap_or(0),
            blocks,
        }
    }

    /// Searches the blocks that were found, and those that are found in them.
    ///
    /// # Safety
    /// The blocks can be read.
    unsafe fn search_open(&mut self) {
        while let Some(index) = self.open.pop() {
            let block = self.blocks[index as usize];
            // SAFETY: the caller's promise.
            unsafe { self.search(block.start, block.start + block.size) };
        }
    }

    /// The block that a word leads to.
    fn follow(&mut self, word: usize) {
        if word < self.first || word >= self.last {
            return;
        }
        let after = self.blocks.partition_point(|block| block.start <= word);
        let Some(index) = after.checked_sub(1) else {
            return;
        };
        let block = &mut self.blocks[index];
        let is_inside = word - block.start < block.size;
        // The links' two lowest bits are the collector's flags.
        let is_link = block.object.and_then(|object| object.links()) == Some(word & !3);
        if is_inside && !is_link && !block.is_reached {
            block.is_reached = true;
            self.open.push(index as u32);
        }
    }

    /// Follows every word of a piece of memory, counted from its start: a guarded block may start anywhere.
    ///
    /// # Safety
    /// It can be read.
    unsafe fn search(&mut self, start: usize, end: usize) {
        let last = end.saturating_sub(WORD - 1);
        for address in (start..last).step_by(WORD) {
            // SAFETY: the caller's duty. Read as volatile: other threads may write there.
            let word = unsafe { (address as *const Word).read_volatile() };
            self.follow(word.0);
        }
    }
}
