//! The live blocks of a heap, found by its pages' lists of free blocks.
//!
//! mimalloc's own walk follows the lists as they are, and never ends if a block was freed twice: then the list leads
//! back to itself. Here no list is followed further than the page has blocks, and no link out of the page. Which blocks
//! of such a page live is unknown: all that are not known to be free are given, and each
//! block says whether it is live beyond doubt.
//!
//! Nothing is written, allocated or locked.

use crate::mimalloc::ffi::{Block, Heap, Page};
use crate::{mimalloc::gate::Closed, mimalloc::pages};

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

    /// Notes the blocks of a list of the page; false if it leads back to itself or out of the page's `made` blocks.
    fn add(&mut self, mut block: *const Block, page: &Page, made: usize) -> bool {
        let (first, size) = (page.page_start.addr(), page.block_size);
        while !block.is_null() {
            let offset = block.addr().wrapping_sub(first);
            let index = offset / size;
            if index >= made || !offset.is_multiple_of(size) || self.holds(index) {
                return false;
            }
            self.bits[index / 64] |= 1 << (index % 64);
            block = page.link_at(offset);
        }
        true
    }
}

/// A block of a page, which stays while the gate is closed.
#[derive(Clone, Copy)]
pub struct LiveBlock<'a> {
    pub start: *mut u8,
    /// Its usable bytes.
    pub size: usize,
    /// Whether it is live beyond doubt: its page's lists are whole.
    pub is_sure: bool,
    pub(crate) page: &'a Page,
}

/// Calls `visitor` for each live block of `heap`, null for the main one, and `broken` with the size of the blocks of
/// each page whose lists are not whole: a block of it was freed twice, or written to after it was freed. Right only
/// while no thread allocates or frees in the heap, `visitor` neither.
pub(crate) fn visit(
    closed: &Closed,
    heap: *mut Heap,
    visitor: &mut dyn FnMut(LiveBlock<'_>),
    broken: &mut dyn FnMut(usize),
) {
    pages::each_page(closed, |page| {
        if page.heap == heap {
            visit_page(page, visitor, broken);
        }
    });
}

/// The block, live or free, that an address lies in.
pub(crate) fn holding(closed: &Closed, address: usize) -> Option<LiveBlock<'_>> {
    let page = pages::entered_at(closed, address)?;
    let start = page.start_of(address as *mut u8);
    let made = page.block_size * usize::from(page.capacity.get());
    let is_made = start.addr().wrapping_sub(page.page_start.addr()) < made;
    let (size, is_sure) = (page.block_size, false);
    is_made.then_some(LiveBlock {
        start,
        size,
        is_sure,
        page,
    })
}

fn visit_page(page: &Page, visitor: &mut dyn FnMut(LiveBlock<'_>), broken: &mut dyn FnMut(usize)) {
    let made = usize::from(page.capacity.get());
    let size = page.block_size;
    if page.used.get() == 0 || size == 0 {
        return;
    }
    let mut free = Free {
        bits: [0; MOST / 64],
    };
    let lists = [
        page.free.get(),
        page.local_free.get(),
        page.freed_elsewhere(),
    ];
    let mut is_whole = true;
    for list in lists {
        is_whole &= free.add(list, page, made);
    }
    if !is_whole {
        broken(size);
    }
    for index in (0..made).filter(|&index| !free.holds(index)) {
        visitor(LiveBlock {
            start: page.page_start.wrapping_add(index * size),
            size,
            is_sure: is_whole,
            page,
        });
    }
}
