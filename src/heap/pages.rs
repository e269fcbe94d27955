//! The pages of all heaps, found by mimalloc's map from addresses to pages: whose each is, how
//! many of its blocks are live, and what else mimalloc has taken from the system.
//!
//! mimalloc's own walk misses the pages that lie outside its arenas, which are those of the
//! largest blocks, and collects what it visits, whoever owns it. The map has every page, and
//! nothing is written here. The caller has closed the gate ([`super::alone`]), so that no page comes
//! or goes; threads meanwhile still take blocks from their own pages and give them back, so a page's
//! count is of one moment, and two pages' of two. Nothing here allocates, locks or panics.

#![allow(unsafe_code)]

use super::ffi::{self, Block, Page};
use super::{PAGE_MAP, account_of, page_of};
use crate::ledger::Account;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Bytes of mimalloc's unit of addresses, on which pages begin.
pub const SLICE: usize = 1 << ffi::SLICE_SHIFT;
/// Bytes of addresses that a part of the page map is for.
pub const SUBMAP_SPAN: usize = 1 << (ffi::SLICE_SHIFT + ffi::SUBMAP_SHIFT);
/// Entries of a part of the map.
const ENTRIES: usize = 1 << ffi::SUBMAP_SHIFT;
/// Parts of the map.
const SUBMAPS: usize = 1 << (ffi::ADDRESS_BITS - ffi::SLICE_SHIFT - ffi::SUBMAP_SHIFT);

/// A page of a heap at one moment.
#[derive(Clone, Copy, Debug)]
pub struct PageView {
    /// Whose heap it is of.
    pub account: Account,
    /// Its addresses, by whole slices.
    pub addresses: (usize, usize),
    /// Where its first block begins, and where the last that it has made so far ends.
    pub blocks: (usize, usize),
    /// Usable bytes of each of its blocks.
    pub block_bytes: u64,
    /// Blocks that are live.
    pub live_blocks: u64,
    /// Blocks that it has made so far, live or free.
    pub capacity_blocks: u64,
    /// Blocks that it has room for.
    pub reserved_blocks: u64,
}

impl PageView {
    /// Usable bytes of its live blocks.
    pub fn live_bytes(&self) -> u64 {
        self.live_blocks * self.block_bytes
    }

    /// Bytes of the blocks that it has made.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_blocks * self.block_bytes
    }
}

/// Calls `visit` for each page of every heap, by ascending address. The gate is closed.
pub fn each(mut visit: impl FnMut(&PageView)) {
    each_submap(|index, submap| {
        for entry in 0..ENTRIES {
            // SAFETY: a part of the map has so many entries, and is never unmapped.
            let page = unsafe { *submap.add(entry) };
            // A page is entered for each of its slices.
            if let Some(view) = view(page, index << ffi::SUBMAP_SHIFT | entry) {
                visit(&view);
            }
        }
    });
}

/// Calls `visit` for each page of every heap, as mimalloc has it. The gate is closed.
pub(super) fn each_page(mut visit: impl FnMut(*mut Page)) {
    each_submap(|index, submap| {
        for entry in 0..ENTRIES {
            // SAFETY: as in `each`.
            let page = unsafe { *submap.add(entry) };
            if begins_in(page, index << ffi::SUBMAP_SHIFT | entry) {
                visit(page);
            }
        }
    });
}

/// Whether there is a page, and `slice` is the first that it is entered for.
fn begins_in(page: *mut Page, slice: usize) -> bool {
    // SAFETY: a page of the map stays while the gate is closed.
    !page.is_null() && unsafe { (*page).page_start.addr() } >> ffi::SLICE_SHIFT == slice
}

/// The page that begins in the slice of `address`. The gate is closed.
pub fn beginning_at(address: usize) -> Option<PageView> {
    let slice = address >> ffi::SLICE_SHIFT;
    let submap = submap(slice >> ffi::SUBMAP_SHIFT)?;
    // SAFETY: as in `each`.
    let page = unsafe { *submap.add(slice & (ENTRIES - 1)) };
    view(page, slice)
}

/// The page that holds a block at `address`. The gate is closed.
pub fn holding(address: usize) -> Option<PageView> {
    let page = page_of(address as *mut u8);
    if page.is_null() {
        return None;
    }
    // SAFETY: a page of the map stays while the gate is closed.
    let first = unsafe { (*page).page_start.addr() };
    view(page, first >> ffi::SLICE_SHIFT)
}

/// Whether the map knows no page in the [`SUBMAP_SPAN`] of addresses around `address`.
pub fn none_around(address: usize) -> bool {
    submap(address / SUBMAP_SPAN).is_none()
}

/// Tells of the memory of the page map itself.
pub fn each_part_of_map(mut visit: impl FnMut(Range<usize>)) {
    let map = PAGE_MAP.load(Acquire).addr();
    if map != 0 {
        visit(map..map + SUBMAPS * size_of::<usize>());
    }
    each_submap(|_, submap| visit(submap.addr()..submap.addr() + ENTRIES * size_of::<usize>()));
}

fn each_submap(mut visit: impl FnMut(usize, *mut *mut Page)) {
    // Most of the map is empty: so many parts are looked at together.
    const TOGETHER: usize = 16;
    let map = PAGE_MAP.load(Acquire);
    if map.is_null() {
        return;
    }
    // SAFETY: the map has so many entries and is readable as a whole (see `start_mimalloc`).
    let map = unsafe { std::slice::from_raw_parts(map, SUBMAPS) };
    for (group, parts) in map.chunks_exact(TOGETHER).enumerate() {
        let any = parts
            .iter()
            .fold(0, |any, part| any | part.load(Relaxed).addr());
        if any == 0 {
            continue;
        }
        for (index, part) in parts.iter().enumerate() {
            let part = part.load(Acquire);
            if !part.is_null() {
                visit(group * TOGETHER + index, part);
            }
        }
    }
}

fn submap(index: usize) -> Option<*mut *mut Page> {
    let map = PAGE_MAP.load(Acquire);
    if map.is_null() || index >= SUBMAPS {
        return None;
    }
    // SAFETY: the map has that many parts and is readable as a whole (see `start_mimalloc`).
    let submap = unsafe { (*map.add(index)).load(Acquire) };
    (!submap.is_null()).then_some(submap)
}

/// The view of a page, if `slice` is the first slice of the page.
fn view(page: *mut Page, slice: usize) -> Option<PageView> {
    if !begins_in(page, slice) {
        return None;
    }
    // SAFETY: a page of the map stays while the gate is closed. Its owner counts its blocks by plain
    // stores, which a volatile read of a word sees whole.
    unsafe {
        let first = (*page).page_start.addr();
        let used = u64::from((&raw const (*page).used).read_volatile());
        let capacity = u64::from((&raw const (*page).capacity).read_volatile());
        let reserved = usize::from((*page).reserved);
        let size = (*page).block_size;
        let end = (first + size * reserved).next_multiple_of(SLICE);
        let made = capacity.max(used).min(reserved as u64) as usize;
        Some(PageView {
            account: account_of(page),
            addresses: (slice << ffi::SLICE_SHIFT, end),
            blocks: (first, first + size * made),
            block_bytes: size as u64,
            live_blocks: used - freed_elsewhere(page, used, first..end),
            capacity_blocks: capacity.max(used),
            reserved_blocks: reserved as u64,
        })
    }
}

/// Blocks that other threads have freed, which the page counts until its owner takes them back.
///
/// # Safety
/// A page of the map, while the gate is closed: the list grows and shrinks inside the gate alone.
unsafe fn freed_elsewhere(page: *mut Page, used: u64, area: Range<usize>) -> u64 {
    // The lowest bit is mimalloc's mark of ownership (`mi_tf_block`).
    // SAFETY: the caller's duty; a link that leads out of the page, which only a script that writes
    // to freed memory can have made, is not followed.
    unsafe {
        let mut block = ((*page).xthread_free.load(Acquire) & !1) as *const Block;
        let mut count = 0;
        while area.contains(&block.addr()) && count < used {
            count += 1;
            block = (*block).next;
        }
        count
    }
}

/// Other memory of mimalloc: for future pages, and for its own description of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arena {
    /// Its first address.
    pub start: usize,
    /// Behind its last.
    pub end: usize,
    /// Where its description ends, which comes first.
    pub own_end: usize,
}

/// Calls `visit` for each of mimalloc's arenas, in the order in which they were made.
pub fn each_arena(mut visit: impl FnMut(Arena)) {
    unsafe extern "C" fn tell(arg: *mut c_void, start: usize, bytes: usize, own: usize) {
        // SAFETY: `arg` is the visitor that `each_arena` passed, on its own stack.
        let visit = unsafe { &mut *arg.cast::<&mut dyn FnMut(Arena)>() };
        visit(Arena {
            start,
            end: start + bytes,
            own_end: start + own,
        });
    }
    let mut visit: &mut dyn FnMut(Arena) = &mut visit;
    // SAFETY: `tell` has the function's type and gets what it casts to.
    unsafe { ffi::pyhost_each_arena(tell, (&raw mut visit).cast()) };
}

/// Whether the slice at `address` holds mimalloc's descriptions of threads.
pub fn is_description(address: usize) -> bool {
    // SAFETY: the address is compared with those of a list that only grows.
    unsafe { ffi::_mi_meta_is_meta_page((address & !(SLICE - 1)) as *mut c_void) }
}

/// Calls `visit` with the thread pointer of each thread that has ever allocated and is not gone.
/// The gate is closed.
pub fn each_thread(mut visit: impl FnMut(usize)) {
    unsafe extern "C" fn tell(arg: *mut c_void, thread: usize) {
        // SAFETY: as in `each_arena`.
        let visit = unsafe { &mut *arg.cast::<&mut dyn FnMut(usize)>() };
        visit(thread);
    }
    let mut visit: &mut dyn FnMut(usize) = &mut visit;
    // SAFETY: as in `each_arena`.
    unsafe { ffi::pyhost_each_thread(tell, (&raw mut visit).cast()) };
}
