//! Where CPython's own mimalloc keeps the size of a block. A free-threaded Python has its objects there: the collector walks its pages,
//! and no function of libpython's gives a size.
//!
//! It takes segments of 32 MiB, cut into slices of 64 KiB. A segment begins with a description of each slice; the description of
//! a page's first slice has the size of the page's blocks. Micro versions of CPython differ in these descriptions (3.14.10 has another
//! mimalloc than 3.14.9), so the running libpython is asked ([`fits`]), not the headers of the build.

#![allow(unsafe_code)]

use pyhost_os::mapping::is_mapped;

const SEGMENT: usize = 32 << 20;
const SLICE: usize = 64 << 10;
/// Where a description has the bytes back to that of the page's first slice, a u32.
const OFFSET: usize = 4;

/// The descriptions of a version of mimalloc.
pub trait Layout: 'static {
    /// Where the first of a segment lies.
    const FIRST: usize;
    /// Bytes of each.
    const BYTES: usize;
    /// Where it has the size of the page's blocks.
    const SIZE: usize;
    /// Whether that is a word; else it is a u32, and larger blocks are as large as their slices.
    const IS_WORD: bool;
}

/// mimalloc 2.1.2: CPython 3.13, 3.14.0 to 3.14.9, 3.15.0 and 3.15.1.
pub struct Mimalloc212;

impl Layout for Mimalloc212 {
    const FIRST: usize = 264;
    const BYTES: usize = 96;
    const SIZE: usize = 28;
    const IS_WORD: bool = false;
}

/// mimalloc 2.5.2: CPython 3.14.10 and 3.15.2.
pub struct Mimalloc252;

impl Layout for Mimalloc252 {
    const FIRST: usize = 288;
    const BYTES: usize = 112;
    const SIZE: usize = 40;
    const IS_WORD: bool = true;
}

/// The segment of a block, and the number of its slice. A block that starts at a multiple of a segment's size lies in the one before.
#[inline(always)]
fn place(block: usize) -> (usize, usize) {
    let segment = (block - 1) & !(SEGMENT - 1);
    (segment, (block - segment) / SLICE)
}

/// `MI_HUGE_BLOCK_SIZE`, which stands for all that a u32 does not hold.
const HUGE: usize = 1 << 31;

/// The page of a block, and the size that it has for its blocks: for more than 2 GiB perhaps that alone.
///
/// # Safety
/// A live block of CPython's mimalloc, which has this layout.
#[inline(always)]
pub unsafe fn page_and_size<L: Layout>(block: usize) -> (usize, usize) {
    let (segment, slice) = place(block);
    let description = segment + L::FIRST + slice * L::BYTES;
    // SAFETY: the descriptions lie at the segment's start, and do not change while a page has live blocks.
    unsafe {
        let page = description - *((description + OFFSET) as *const u32) as usize;
        match L::IS_WORD {
            true => (page, *((page + L::SIZE) as *const usize)),
            false => (page, *((page + L::SIZE) as *const u32) as usize),
        }
    }
}

/// The usable bytes of a block.
///
/// # Safety
/// As for [`page_and_size`].
pub unsafe fn size_of_block<L: Layout>(block: usize) -> usize {
    // SAFETY: the caller's duty.
    let (page, size) = unsafe { page_and_size::<L>(block) };
    match L::IS_WORD || size < HUGE {
        true => size,
        // SAFETY: as in `page_and_size`. The first word is the number of the page's slices.
        false => unsafe { *(page as *const u32) as usize * SLICE },
    }
}

/// Whether a block that was asked for with `size` bytes, 64 KiB at most, has the size that this layout has for it. The block may be
/// any allocator's.
///
/// # Safety
/// A live block.
pub unsafe fn fits<L: Layout>(block: usize, size: usize) -> bool {
    let (segment, slice) = place(block);
    let own = slice * L::BYTES;
    let description = segment + L::FIRST + own;
    if cfg!(not(target_pointer_width = "64")) || !is_mapped(description + OFFSET) {
        return false;
    }
    // SAFETY: mapped.
    let offset = unsafe { *((description + OFFSET) as *const u32) } as usize;
    offset <= own
        && offset.is_multiple_of(L::BYTES)
        && is_mapped(description - offset)
        && is_mapped(description - offset + L::BYTES)
        // SAFETY: the words that it reads are mapped.
        && unsafe { size_of_block::<L>(block) } == class_of(size)
}

/// The size of the blocks that mimalloc has for requests of `size` bytes: multiples of two words up to eight, then four sizes between
/// powers of two.
fn class_of(size: usize) -> usize {
    let words = size.div_ceil(size_of::<usize>()).max(1);
    let words = match words {
        1 => 1,
        2..=8 => words.next_multiple_of(2),
        _ => words.next_multiple_of(1 << ((words - 1).ilog2() - 2)),
    };
    words * size_of::<usize>()
}

/// Requests whose blocks show the layout: in several pages of several slices.
pub const PROBES: [usize; 12] = [
    16, 24, 40, 100, 250, 512, 700, 1025, 3000, 9000, 20_000, 60_000,
];

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use pyhost_os::mapping::Mapping;

    #[test]
    fn classes_are_mimallocs() {
        let sizes = [0, 1, 9, 16, 24, 40, 65, 100, 513, 1025, 60_000];
        let classes = [8, 8, 16, 16, 32, 48, 80, 112, 640, 1280, 65_536];
        assert_eq!(sizes.map(class_of), classes);
    }

    /// Writes the description of a page of three slices, the fifth to seventh, and asks for blocks in the first and the last.
    fn page<L: Layout>(size: usize) -> [usize; 2] {
        let room = Mapping::private(2 * SEGMENT).unwrap();
        let segment = room.addresses().start.next_multiple_of(SEGMENT);
        let description = |slice: usize| segment + L::FIRST + slice * L::BYTES;
        let [first, last] = [5, 7].map(|slice| segment + slice * SLICE + 64);
        // SAFETY: inside the mapping, which nobody else uses.
        unsafe {
            *((description(7) + OFFSET) as *mut u32) = 2 * L::BYTES as u32;
            *(description(5) as *mut u32) = 3;
            match L::IS_WORD {
                true => *((description(5) + L::SIZE) as *mut usize) = size,
                false => *((description(5) + L::SIZE) as *mut u32) = size as u32,
            }
            assert_eq!(fits::<L>(last, size), L::IS_WORD || size < HUGE);
            assert!(!fits::<L>(last, 2 * size));
            [first, last].map(|block| size_of_block::<L>(block))
        }
    }

    #[test]
    fn each_slice_of_a_page_leads_to_its_size() {
        assert_eq!(page::<Mimalloc212>(1280), [1280; 2]);
        assert_eq!(page::<Mimalloc252>(1280), [1280; 2]);
        assert_eq!(page::<Mimalloc252>(5 << 30), [5 << 30; 2]);
        assert_eq!(page::<Mimalloc212>(1 << 31), [3 * SLICE; 2]);
    }

    #[test]
    fn a_block_elsewhere_has_no_layout() {
        let block = Box::new([0u8; 100]);
        // SAFETY: a live block.
        assert!(!unsafe { fits::<Mimalloc212>(block.as_ptr().addr(), 100) });
    }
}
