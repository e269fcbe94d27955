//! The live blocks of a heap, found by its pages' lists of free blocks.
//!
//! mimalloc's own walk follows the lists as they are, and never ends where a block was freed twice: then
//! the list leads back to itself. Here no list is followed further than the page has blocks, and no link
//! out of the page. What such a page has live cannot be known, so all of it that is not known to be
//! free is given, and the caller is told so.
//!
//! Nothing is written, allocated or locked. The gate is closed.

#![allow(unsafe_code)]

use super::ffi::{Block, Heap, Page};
use super::pages;
use std::sync::atomic::Ordering::Acquire;

/// Most blocks of a page (`mi_page_t` counts them by 16 bits).
const MOST: usize = 1 << 16;

/// The blocks of a page that are known to be free, a bit each.
struct Free {
    bits: [u64; MOST / 64],
}

impl Free {
    fn holds(&self, index: usize) -> bool {
        self.bits[index / 64] >> (index % 64) & 1 == 1
    }

    /// Notes the blocks of a list; false where the list leads back to itself or out of the page's
    /// `made` blocks.
    ///
    /// # Safety
    /// The page's blocks can be read.
    unsafe fn add(&mut self, mut block: *const Block, page: *const Page, made: usize) -> bool {
        // SAFETY: a page of the map; only links to its own blocks are followed.
        unsafe {
            let (first, size) = ((*page).page_start.addr(), (*page).block_size);
            while !block.is_null() {
                let offset = block.addr().wrapping_sub(first);
                let index = offset / size;
                if index >= made || !offset.is_multiple_of(size) || self.holds(index) {
                    return false;
                }
                self.bits[index / 64] |= 1 << (index % 64);
                block = (&raw const (*block).next).read_volatile();
            }
        }
        true
    }
}

/// The result of a walk.
#[derive(Clone, Copy)]
pub struct LiveBlock {
    /// Its start.
    pub start: *mut u8,
    /// Its usable bytes.
    pub size: usize,
    /// Whether it is live beyond doubt: its page's lists are whole.
    pub is_sure: bool,
}

/// Calls `visitor` for each live block of `heap`, null for the main one, and `broken` with the size of the
/// blocks of each page whose lists are not whole: a block of it was freed twice, or written to after
/// it was freed.
///
/// # Safety
/// No thread allocates or frees in the heap meanwhile, `visitor` neither.
pub(super) unsafe fn visit(
    heap: *mut Heap,
    visitor: &mut dyn FnMut(LiveBlock),
    broken: &mut dyn FnMut(usize),
) {
    pages::each_page(|page| {
        // SAFETY: a page of the map, while the gate is closed.
        unsafe {
            if (*page).heap == heap {
                visit_page(page, visitor, broken);
            }
        }
    });
}

/// # Safety
/// As for [`visit`], of a page of the map.
unsafe fn visit_page(
    page: *mut Page,
    visitor: &mut dyn FnMut(LiveBlock),
    broken: &mut dyn FnMut(usize),
) {
    // SAFETY: the caller's duty. The lowest bit of the list of other threads is mimalloc's mark of
    // ownership (`mi_tf_block`).
    unsafe {
        let made = usize::from((*page).capacity);
        let (first, size) = ((*page).page_start, (*page).block_size);
        if (*page).used == 0 || size == 0 {
            return;
        }
        let elsewhere = ((*page).xthread_free.load(Acquire) & !1) as *const Block;
        let mut free = Free {
            bits: [0; MOST / 64],
        };
        let lists = [(*page).free.cast_const(), (*page).local_free, elsewhere];
        let mut is_whole = true;
        for list in lists {
            is_whole &= free.add(list, page, made);
        }
        if !is_whole {
            broken(size);
        }
        for index in (0..made).filter(|&index| !free.holds(index)) {
            visitor(LiveBlock {
                start: first.add(index * size),
                size,
                is_sure: is_whole,
            });
        }
    }
}
