//! The pages of all heaps, found by mimalloc's map from addresses to pages: whose each is, how
//! many of its blocks are live, and what else mimalloc has taken from the system.
//!
//! mimalloc's own walk misses the pages that lie outside its arenas, which are those of the largest blocks, and
//! collects pages of other threads, too. The map has every page, and nothing is written here. While the gate is
//! closed ([`crate::alone`]) no page comes or goes; threads meanwhile still take blocks from their own pages and give
//! them back, so a page's count is of one moment, and two pages' of two. Nothing here allocates, locks or panics.

#![allow(unsafe_code)]

use crate::mimalloc::ffi::{self, Block, Heap, Page, PageMap, Submap};
pub use crate::mimalloc::ffi::{Arena, each_arena, each_thread};
use crate::mimalloc::heaps::{self, HEAPS};
use crate::{ledger::Account, mimalloc::gate::Closed, threads::thread_state::thread_id};
use pyhost_os::{errno::KeptErrno, mapping::give_pages_back, process::read_memory};
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{mem::offset_of, ops::Range, sync::atomic::AtomicPtr};

/// Bytes of mimalloc's unit of addresses, on which pages begin.
pub const SLICE: usize = 1 << ffi::SLICE_SHIFT;
/// Bytes of addresses that a part of the page map is for.
pub const SUBMAP_SPAN: usize = 1 << (ffi::SLICE_SHIFT + ffi::SUBMAP_SHIFT);

/// mimalloc's page map, which never moves; null before the first block. A copy, since the
/// compiler reaches a C library's variable by way of the global offset table.
static PAGE_MAP: AtomicPtr<PageMap> = AtomicPtr::new(null_mut());

/// Notes where mimalloc has its map.
pub(crate) fn find_map() {
    PAGE_MAP.store(ffi::_mi_page_map.load(Acquire), Release);
}

#[inline(always)]
fn map() -> Option<&'static PageMap> {
    // SAFETY: mimalloc's map, all of which is committed (see `start_mimalloc`), and whose entries only change
    // from null to a part.
    unsafe { PAGE_MAP.load(Relaxed).as_ref() }
}

/// A part of the map, which is readable as a whole and never unmapped.
fn submap(index: usize) -> Option<&'static Submap> {
    let part = map()?.get(index)?.load(Acquire);
    // SAFETY: as said.
    unsafe { part.as_ref() }
}

/// The entry of the map for an address; null for memory that is not mimalloc's.
fn entry(address: usize) -> *mut Page {
    let slice = address >> ffi::SLICE_SHIFT;
    let found = submap(slice >> ffi::SUBMAP_SHIFT);
    found.map_or(null_mut(), |part| part[slice % part.len()].load(Relaxed))
}

/// Whether mimalloc has its map: from [`crate::start`] on.
pub(crate) fn has_map() -> bool {
    map().is_some()
}

/// The page that holds `pointer`, or null for memory that is not mimalloc's. With `STARTED` it does not check that the map
/// exists.
///
/// # Safety
/// It is an address of user space; if `STARTED`, the heaps of the domains have been made.
#[inline(always)]
pub(crate) unsafe fn page_of<const STARTED: bool>(pointer: *mut u8) -> *mut Page {
    let slice = pointer.addr() >> ffi::SLICE_SHIFT;
    let map = PAGE_MAP.load(Relaxed);
    if !STARTED && map.is_null() {
        return null_mut();
    }
    // SAFETY: the map is for all of user space, and is there; as in `submap`.
    let part = unsafe {
        (*map)
            .get_unchecked(slice >> ffi::SUBMAP_SHIFT)
            .load(Relaxed)
            .as_ref()
    };
    part.map_or(null_mut(), |part| part[slice % part.len()].load(Relaxed))
}

/// The page of a block, or `None` for a pointer that is not mimalloc's.
///
/// # Safety
/// `pointer` is null or lies in a block, by whatever allocator, that lives for as long as the page is used.
#[inline]
pub(crate) unsafe fn live_page<'a>(pointer: *mut u8) -> Option<&'a Page> {
    // SAFETY: the caller's promise.
    unsafe { page_of::<false>(pointer).as_ref() }
}

/// Gives the memory of a new page for samples back to the system, but for the blocks that it has made: few blocks of a size
/// are samples, and all of that memory may be resident from an earlier page. Inside the gate.
///
/// # Safety
/// `block` is the page's first, which was just given to the calling thread, or null.
#[cold]
pub(crate) unsafe fn give_back_new(block: *mut u8) {
    // SAFETY: the caller's promise. mimalloc expects nothing of the memory of blocks that a page has not made; if the system
    // refuses, as for locked memory, it stays.
    unsafe {
        if let Some(page) = live_page(block)
            && page.used.get() == 1
        {
            let _errno = KeptErrno::new();
            let made = page.block_size * usize::from(page.capacity.get());
            give_pages_back(page.page_start.add(made), page.bytes() - made);
        }
    }
}

/// The page of the calling thread's table of theaps, if it has one.
pub(crate) fn of_thread_table() -> Option<&'static Page> {
    // SAFETY: a block that lives until the thread ends, or null.
    unsafe { live_page(ffi::pyhost_thread_table().cast()) }
}

/// Whether `pointer`, which may be any number, lies in a page of one of the heaps.
pub fn is_in_page(pointer: *mut u8) -> bool {
    !entry(pointer.addr()).is_null()
}

/// Whether `address`, which may be any number, lies in a page of CPython's raw allocator. The system copies what the page says,
/// as it may be given back meanwhile.
pub fn is_raw(address: usize) -> bool {
    let (page, mut heap) = (entry(address), [0; size_of::<usize>()]);
    let place = page.addr() + offset_of!(Page, heap);
    let is_read = !page.is_null() && read_memory(place, &mut heap) == heap.len();
    let heap = usize::from_ne_bytes(heap) as *mut Heap;
    is_read && heaps::all_of(Account::Raw).any(|it| it == heap)
}

/// A page without a live block.
#[derive(Clone, Copy)]
pub(crate) struct Emptied {
    /// Its bytes; 0 if there is none.
    pub bytes: usize,
    /// Its owner keeps it for a while, as its only one for blocks of that size (`_mi_page_retire`).
    pub is_kept: bool,
}

impl Emptied {
    const NOTHING: Emptied = Emptied {
        bytes: 0,
        is_kept: false,
    };
}

impl Page {
    #[inline]
    pub(crate) fn account(&self) -> Account {
        if !self.heap.is_null() {
            for account in Account::WITH_HEAP {
                if HEAPS.own[account as usize].load(Relaxed) == self.heap {
                    return account;
                }
            }
            if let Some(account) = heaps::account_of_other(self.heap) {
                return account;
            }
        }
        Account::Native
    }

    /// Bytes of all its blocks, made or not.
    pub(crate) fn bytes(&self) -> usize {
        self.block_size * usize::from(self.reserved)
    }

    /// What the free of one block empties. A block lives in the page.
    pub(crate) fn emptied_by_a_free(&self) -> Emptied {
        match self.used.get() <= 1 {
            true => self.emptied(),
            false => Emptied::NOTHING,
        }
    }

    /// The page as one without a live block.
    pub(crate) fn emptied(&self) -> Emptied {
        let is_own = self.xthread_id.load(Relaxed) & !ffi::FLAGS == thread_id();
        let is_only = || self.next.get().is_null() && self.previous.get().is_null();
        Emptied {
            bytes: self.bytes(),
            is_kept: is_own && self.block_size <= ffi::LARGE_SIZE_MAX && is_only(),
        }
    }

    /// How far into a block of the page `pointer` lies.
    pub(crate) fn offset_of(&self, pointer: *mut u8) -> usize {
        pointer.addr().wrapping_sub(self.page_start.addr()) % self.block_size
    }

    /// The start of the block that `pointer`, in the page, lies in.
    pub(crate) fn start_of(&self, pointer: *mut u8) -> *mut u8 {
        pointer.wrapping_sub(self.offset_of(pointer))
    }

    /// Whether it has aligned blocks, whose pointers may lie anywhere in a block.
    fn has_aligned(&self) -> bool {
        self.xthread_id.load(Relaxed) & ffi::HAS_INTERIOR_POINTERS != 0
    }

    /// How far into a block `pointer` lies; `None` if that is where a pointer of the program may lead.
    pub(crate) fn misplaced(&self, pointer: *mut u8) -> Option<usize> {
        let offset = self.offset_of(pointer);
        (offset != 0 && !self.has_aligned()).then_some(offset)
    }

    /// Usable bytes behind `pointer`, which a block of the page was given out by.
    #[inline]
    pub(crate) fn usable(&self, pointer: *mut u8) -> usize {
        match self.has_aligned() {
            true => self.block_size - self.offset_of(pointer),
            false => self.block_size,
        }
    }

    /// The word at an offset within the blocks that it has made, which a thread may be writing to; null if it is elsewhere.
    pub(crate) fn link_at(&self, offset: usize) -> *const Block {
        let made = self.block_size * usize::from(self.capacity.get());
        if !offset.is_multiple_of(size_of::<usize>()) || offset >= made {
            return null();
        }
        // SAFETY: a word of one of its blocks, which have whole ones.
        unsafe {
            let word = self.page_start.add(offset).cast::<*const Block>();
            word.read_volatile()
        }
    }

    /// The list of blocks that other threads have freed, which its owner has not taken back.
    pub(crate) fn freed_elsewhere(&self) -> *const Block {
        // The lowest bit is mimalloc's mark of ownership (`mi_tf_block`).
        (self.xthread_free.load(Acquire) & !1) as *const Block
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PageView {
    /// Whose heap it is of.
    pub account: Account,
    /// Its addresses, by whole slices.
    pub addresses: (usize, usize),
    /// Where its first block begins, and where the last that it has made so far ends.
    pub blocks: (usize, usize),
    pub block_bytes: u64,
    pub live_blocks: u64,
    /// Blocks that it has made so far, live or free.
    pub capacity_blocks: u64,
    /// Blocks that it has room for.
    pub reserved_blocks: u64,
}

impl PageView {
    pub fn live_bytes(&self) -> u64 {
        self.live_blocks * self.block_bytes
    }

    /// Bytes of the blocks that it has made.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * self.block_bytes
    }
}

/// Calls `visit` for each page of every heap, by ascending address.
pub fn each(closed: &Closed, mut visit: impl FnMut(&PageView)) {
    each_page(closed, |page| visit(&view(page)));
}

/// Calls `visit` for each page of every heap, as mimalloc has it.
pub(crate) fn each_page(closed: &Closed, mut visit: impl FnMut(&Page)) {
    each_submap(|index, part| {
        for (entry, page) in part.iter().enumerate() {
            let slice = index << ffi::SUBMAP_SHIFT | entry;
            if let Some(page) = beginning_in(closed, page.load(Relaxed), slice) {
                visit(page);
            }
        }
    });
}

/// Calls `visit` for each page of an account that has live blocks, with their usable bytes and how many it has. Without the
/// gate: a page that another thread frees blocks of may have a few too many.
pub(crate) fn each_used(account: Account, mut visit: impl FnMut(u64, u64)) {
    let own = |heap: &*mut Heap| account == Account::Native || !heap.is_null();
    for heap in heaps::all_of(account).filter(own) {
        ffi::each_used(heap, &mut visit);
    }
}

/// Calls `visit` for each page that begins in `addresses`, ascending.
pub(crate) fn each_within(closed: &Closed, range: Range<usize>, mut visit: impl FnMut(&PageView)) {
    let slices = range.start.div_ceil(SLICE)..range.end.div_ceil(SLICE);
    let mut first = slices.start;
    while first < slices.end {
        let index = first >> ffi::SUBMAP_SHIFT;
        let end = slices.end.min((index + 1) << ffi::SUBMAP_SHIFT);
        if let Some(part) = submap(index) {
            let entries = &part[first % part.len()..][..end - first];
            for (slice, page) in (first..end).zip(entries) {
                if let Some(page) = beginning_in(closed, page.load(Relaxed), slice) {
                    visit(&view(page));
                }
            }
        }
        first = end;
    }
}

/// The page of an entry of the map.
fn entered(_closed: &Closed, entry: *mut Page) -> Option<&Page> {
    // SAFETY: null, or a page of the map, which stays while the gate is closed.
    unsafe { entry.as_ref() }
}

/// The page of an entry, if `slice` is the first that it is entered for.
fn beginning_in(closed: &Closed, entry: *mut Page, slice: usize) -> Option<&Page> {
    entered(closed, entry).filter(|page| page.page_start.addr() >> ffi::SLICE_SHIFT == slice)
}

pub(crate) fn entered_at(closed: &Closed, address: usize) -> Option<&Page> {
    entered(closed, entry(address))
}

/// The page that begins in the slice of `address`.
pub fn beginning_at(closed: &Closed, address: usize) -> Option<PageView> {
    beginning_in(closed, entry(address), address >> ffi::SLICE_SHIFT).map(view)
}

pub fn holding(closed: &Closed, address: usize) -> Option<PageView> {
    entered_at(closed, address).map(view)
}

/// Whether the map knows no page in the [`SUBMAP_SPAN`] of addresses around `address`.
pub fn none_around(address: usize) -> bool {
    submap(address / SUBMAP_SPAN).is_none()
}

/// Tells of the memory of the page map itself.
pub fn each_part_of_map(mut visit: impl FnMut(Range<usize>)) {
    fn addresses<T>(part: &[T]) -> Range<usize> {
        let range = part.as_ptr_range();
        range.start.addr()..range.end.addr()
    }
    if let Some(map) = map() {
        visit(addresses(map));
    }
    each_submap(|_, part| visit(addresses(part)));
}

fn each_submap(mut visit: impl FnMut(usize, &Submap)) {
    // Most of the map is empty: so many parts are looked at together.
    const TOGETHER: usize = 16;
    let Some(map) = map() else { return };
    for (group, parts) in map.chunks_exact(TOGETHER).enumerate() {
        let any = parts
            .iter()
            .fold(0, |any, part| any | part.load(Relaxed).addr());
        if any == 0 {
            continue;
        }
        for index in group * TOGETHER..(group + 1) * TOGETHER {
            if let Some(part) = submap(index) {
                visit(index, part);
            }
        }
    }
}

fn view(page: &Page) -> PageView {
    let first = page.page_start.addr();
    let used = u64::from(page.used.get());
    let capacity = u64::from(page.capacity.get()).max(used);
    let reserved = u64::from(page.reserved);
    let end = (first + page.bytes()).next_multiple_of(SLICE);
    let made = capacity.min(reserved) as usize;
    PageView {
        account: page.account(),
        addresses: (first & !(SLICE - 1), end),
        blocks: (first, first + page.block_size * made),
        block_bytes: page.block_size as u64,
        live_blocks: used - count_freed_elsewhere(page, used, first..end),
        capacity_blocks: capacity,
        reserved_blocks: reserved,
    }
}

/// Blocks that other threads have freed, which the page counts until its owner takes them back. The list grows and
/// shrinks inside the gate alone.
fn count_freed_elsewhere(page: &Page, used: u64, area: Range<usize>) -> u64 {
    let mut block = page.freed_elsewhere();
    let mut count = 0;
    // A link that leads out of the page, which only a script that writes to freed memory can have made, is not followed.
    while area.contains(&block.addr()) && count < used {
        count += 1;
        block = page.link_at(block.addr() - area.start);
    }
    count
}

/// Whether the slice at `address` holds mimalloc's descriptions of threads.
pub fn is_description(address: usize) -> bool {
    ffi::_mi_meta_is_meta_page(std::ptr::without_provenance_mut(address & !(SLICE - 1)))
}
