//! Where CPython's own mimalloc keeps the size of a block. A free-threaded Python has its objects there: the collector walks its pages,
//! and no function of libpython's gives a size.
//!
//! It takes segments of 32 MiB, cut into slices of 64 KiB. The first slice begins with a description of each; the description of
//! a page's first slice has the size of the page's blocks. Micro versions of CPython differ in these descriptions (3.14.10 has another
//! mimalloc than 3.14.9), so the running libpython is asked ([`layout_of`]), not the headers of the build.

#![allow(unsafe_code)]

use crate::heap::pages::PageView;
use pyhost_ledger::Account;
use pyhost_os::calls::read_memory;
use pyhost_os::mapping::{is_mapped, page_size};
use std::{array, iter::successors, ops::Range};

const SEGMENT: usize = 32 << 20;
const SLICE: usize = 64 << 10;
/// Where a description has the bytes back to that of the page's first slice, a u32.
const OFFSET: usize = 4;
/// `MI_HUGE_BLOCK_SIZE`, which stands for all that a u32 does not hold.
const HUGE: usize = 1 << 31;
/// Bytes before the first description of the number of the segment's slices.
const SLICES: usize = 40;
/// Bytes of the longest description.
const LONGEST: usize = 112;

/// The descriptions of a version of mimalloc.
pub struct Layout {
    /// Where the first of a segment lies.
    first: usize,
    /// Bytes of each.
    bytes: usize,
    /// Where it has the size of the page's blocks.
    size: usize,
    /// Whether that is a word; else it is a u32, and larger blocks are as large as their slices.
    is_word: bool,
    /// Where it has how many blocks of the page are in use, a u32, and the list of those that other threads have freed.
    used: usize,
    freed_elsewhere: usize,
    /// Bytes before the first description of the segment's mark.
    mark: usize,
}

/// mimalloc 2.1.2: CPython 3.13, 3.14.0 to 3.14.9, 3.15.0 and 3.15.1. Then 2.5.2: 3.14.10 and 3.15.2.
pub const LAYOUTS: [Layout; 2] = [
    Layout {
        first: 264,
        bytes: 96,
        size: 28,
        is_word: false,
        used: 24,
        freed_elsewhere: 40,
        mark: 48,
    },
    Layout {
        first: 288,
        bytes: 112,
        size: 40,
        is_word: true,
        used: 32,
        freed_elsewhere: 56,
        mark: 64,
    },
];

/// The segment of a block, and the number of its slice. A block that starts at a multiple of a segment's size lies in the one before.
#[inline(always)]
fn place(block: usize) -> (usize, usize) {
    let segment = (block - 1) & !(SEGMENT - 1);
    (segment, (block - segment) / SLICE)
}

impl Layout {
    /// The usable bytes of a block. `AT_ONCE`: of one of more than 2 GiB perhaps that alone.
    ///
    /// # Safety
    /// A live block of CPython's mimalloc, which has this layout.
    #[inline(always)]
    pub unsafe fn size_of_block<const AT_ONCE: bool>(&self, block: usize) -> usize {
        let (segment, slice) = place(block);
        let description = segment + self.first + slice * self.bytes;
        // SAFETY: the descriptions lie at the segment's start, and do not change while a page has live blocks.
        unsafe {
            let page = description - *((description + OFFSET) as *const u32) as usize;
            let size = (page + self.size) as *const u32;
            match self.is_word {
                true => *size.cast::<usize>(),
                // The first word is the number of the page's slices.
                false if !AT_ONCE && *size as usize == HUGE => {
                    *(page as *const u32) as usize * SLICE
                }
                false => *size as usize,
            }
        }
    }

    /// What all segments' marks have in common (`_mi_ptr_cookie`), read off that of a block.
    ///
    /// # Safety
    /// A live block of CPython's mimalloc, which has this layout.
    pub unsafe fn common_mark(&self, block: usize) -> usize {
        let (segment, _) = place(block);
        // SAFETY: in the segment's first slice.
        unsafe { *((segment + self.first - self.mark) as *const usize) ^ segment }
    }

    /// Calls `visit` for each page that begins in `range` and has made blocks. Any thread, while others allocate and free: the
    /// system reads the memory. Blocks that other threads are freeing may be a few too many.
    pub fn each_page(&self, common: usize, range: Range<usize>, mut visit: impl FnMut(&PageView)) {
        let mut segment = range.start.next_multiple_of(SEGMENT);
        while segment + SLICE <= range.end {
            let head = words::<8>(segment + self.first - 64);
            let field = |before: usize| head.map_or(0, |head| head[(64 - before) / 8]);
            let mut slices = 1;
            if field(self.mark) == segment ^ common {
                slices = field(SLICES).max(1);
                self.each_page_of(segment, slices, &mut visit);
            }
            segment = (segment + slices * SLICE).next_multiple_of(SEGMENT);
        }
    }

    fn each_page_of(&self, segment: usize, slices: usize, visit: &mut impl FnMut(&PageView)) {
        let mut slice = 0;
        while slice < slices.min(SEGMENT / SLICE) {
            let mut page = [0; LONGEST];
            let page = &mut page[..self.bytes];
            if read_memory(segment + self.first + slice * self.bytes, page) < page.len() {
                return;
            }
            let number =
                |at: usize| u64::from(u32::from_ne_bytes(array::from_fn(|it| page[at + it])));
            let word = |at: usize| number(at) | number(at + 4) << 32;
            let own = number(0) as usize;
            let block_bytes = match self.is_word {
                true => word(self.size),
                false if number(self.size) as usize == HUGE => (own * SLICE) as u64,
                false => number(self.size),
            };
            // The first slices have the descriptions.
            if block_bytes > 1 && slice > 0 {
                let (start, end) = (segment + slice * SLICE, segment + (slice + own) * SLICE);
                let (made, reserved) = (number(8) >> 16, number(12) & 0xffff);
                let next = |block: &usize| words::<1>(*block).map(|[next]| next);
                let freed = successors(Some(word(self.freed_elsewhere) as usize & !3), next);
                let freed = freed
                    .take_while(|block| (start..end).contains(block))
                    .take(made as usize);
                visit(&PageView {
                    account: Account::Obj,
                    addresses: (start, end),
                    // As far as anybody asks.
                    blocks: (start, end),
                    block_bytes,
                    live_blocks: number(self.used).saturating_sub(freed.count() as u64),
                    capacity_blocks: made,
                    reserved_blocks: reserved,
                });
            }
            slice += own.max(1);
        }
    }

    /// Whether a block, which may be any allocator's, has this size by the layout.
    ///
    /// # Safety
    /// A live block.
    unsafe fn fits(&self, block: usize, size: usize) -> bool {
        let (segment, slice) = place(block);
        let own = slice * self.bytes;
        let mut pages = (segment..segment + SLICE).step_by(page_size() as usize);
        pages.all(is_mapped)
            // SAFETY: in the first slice, which is mapped.
            && unsafe { *((segment + self.first + own + OFFSET) as *const u32) } as usize <= own
            // SAFETY: what it reads is there, too.
            && unsafe { self.size_of_block::<false>(block) } == size
    }
}

/// Words of memory that may not be there.
fn words<const N: usize>(address: usize) -> Option<[usize; N]> {
    let mut words = [[0; size_of::<usize>()]; N];
    let is_read = read_memory(address, words.as_flattened_mut()) == size_of_val(&words);
    is_read.then(|| words.map(usize::from_ne_bytes))
}

/// Requests whose blocks show the layout: in several pages of several slices.
pub const PROBES: [usize; 8] = [16, 24, 250, 700, 1025, 9000, 20000, 60000];
/// mimalloc's sizes of these blocks.
const SIZES: [usize; 8] = [16, 32, 256, 768, 1280, 10240, 20480, 65536];

/// The number of the layout by which the blocks of [`PROBES`] have their sizes.
///
/// # Safety
/// Live blocks, or 0.
pub unsafe fn layout_of(blocks: [usize; 8]) -> Option<usize> {
    LAYOUTS.iter().position(|layout| {
        let mut probes = blocks.iter().zip(SIZES);
        // SAFETY: the caller's duty.
        probes.all(|(&block, size)| block != 0 && unsafe { layout.fits(block, size) })
    })
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use pyhost_os::mapping::Mapping;

    /// Writes the description of a page of three slices, the fifth to seventh, asks for blocks in the first and the last, and for
    /// all pages.
    fn page(layout: &Layout, size: usize) -> [usize; 2] {
        let room = Mapping::private(2 * SEGMENT).unwrap();
        let segment = room.addresses().start.next_multiple_of(SEGMENT);
        let description = |slice: usize| segment + layout.first + slice * layout.bytes;
        let [first, last] = [5, 7].map(|slice| segment + slice * SLICE + 64);
        // SAFETY: inside the mapping, which nobody else uses.
        unsafe {
            *((description(7) + OFFSET) as *mut u32) = 2 * layout.bytes as u32;
            *(description(5) as *mut u32) = 3;
            *((description(5) + 8) as *mut u32) = 4 << 16;
            *((description(5) + layout.used) as *mut u32) = 3;
            *((description(5) + layout.freed_elsewhere) as *mut usize) = segment + 5 * SLICE;
            *((description(0) - layout.mark) as *mut usize) = segment ^ 77;
            *((description(0) - SLICES) as *mut usize) = 8;
            match layout.is_word {
                true => *((description(5) + layout.size) as *mut usize) = size,
                false => *((description(5) + layout.size) as *mut u32) = size as u32,
            }
            assert_eq!(layout.fits(last, size), layout.is_word || size < HUGE);
            assert!(!layout.fits(last, 2 * size));
            let mut found = Vec::new();
            layout.each_page(77, room.addresses(), |page| {
                found.push((page.block_bytes, page.live_blocks, page.capacity_blocks));
            });
            assert_eq!(found, [(layout.size_of_block::<false>(last) as u64, 2, 4)]);
            assert_eq!(layout.common_mark(first), 77);
            [first, last].map(|block| layout.size_of_block::<false>(block))
        }
    }

    #[test]
    fn each_slice_of_a_page_leads_to_its_size_and_no_block_elsewhere() {
        assert_eq!(page(&LAYOUTS[0], 1280), [1280; 2]);
        assert_eq!(page(&LAYOUTS[1], 1280), [1280; 2]);
        assert_eq!(page(&LAYOUTS[1], 5 << 30), [5 << 30; 2]);
        assert_eq!(page(&LAYOUTS[0], HUGE), [3 * SLICE; 2]);
        // SAFETY: a live block.
        assert!(!unsafe { LAYOUTS[0].fits([0u8; 100].as_ptr().addr(), 112) });
    }
}
