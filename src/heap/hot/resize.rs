//! Makes a large block longer or shorter where it lies.
//!
//! A block of more than half a mebibyte has a page of its own, and so has one of 128 KiB that had to move to grow. If the
//! addresses behind it are free, it grows into them, as blocks at the top of libc's heap do: nothing is copied, and what it
//! holds stays in memory.

#![allow(unsafe_code)]

use super::booking;
use crate::mimalloc::ffi::{self, Page, Theap};
use crate::mimalloc::pages::{Emptied, SLICE, live_page};
use crate::system_memory::{address_limit, mremap_grow, retention};
use crate::threads::thread_state::{state, thread_id};
use crate::{bounded_heap, ledger::Account, mimalloc::gate};
use crate::{peak_watch, sampling, sizes::big_blocks};
use pyhost_os::errno::KeptErrno;
use std::ptr::null_mut;

/// Blocks up to this size get as many addresses again behind them when they have to move to grow.
const MOST_ROOM: usize = 1 << 30;

/// From this size on a block that has to move to grow gets a page of its own.
pub const LEAST_ALONE: usize = 2 * SLICE;

/// The usable size of a block that is alone in its page, for `size` bytes.
fn rounded(size: usize) -> usize {
    match size > ffi::LARGE_SIZE_MAX {
        true => size.next_multiple_of(SLICE),
        false => size.next_multiple_of(SLICE / 8),
    }
}

/// Whether a block lies alone in its page, so that [`resize`] may be tried.
#[inline]
pub fn is_alone(page: &Page, block: *mut u8) -> bool {
    page.reserved == 1 && page.page_start == block && page.block_size >= LEAST_ALONE
}

/// Makes a block that [`is_alone`] longer or shorter; false, having done nothing, if it must move.
///
/// # Safety
/// A live block of `account`, which nobody else uses, and its page.
#[cold]
#[inline(never)]
pub unsafe fn resize<const BOOK: bool>(account: Account, page: *mut Page, size: usize) -> bool {
    if size < LEAST_ALONE || size > isize::MAX as usize || booking::is_beyond_all(size) {
        return false;
    }
    // SAFETY: the caller's promise.
    let before = unsafe { (*page).block_size };
    if BOOK && size < before && before >= big_blocks::BIG {
        peak_watch::before_big_free();
    }
    let state = state();
    let slot = state.slot();
    let inside = gate::enter(slot, thread_id());
    // SAFETY: the caller's promise, inside the gate.
    unsafe {
        let (block, heap) = ((*page).page_start, (*page).heap);
        if BOOK && !sampling::may_stay(state, account, heap, size) {
            return false;
        }
        let _errno = KeptErrno::new();
        let after = rounded(size);
        if BOOK && after > before && !sampling::may_grow(account, after - before) {
            return false;
        }
        if after < before {
            if !ffi::pyhost_shorten_page(page, after, true) {
                return false;
            }
            let (bytes, is_kept) = (before - after, false);
            retention::came_free(Emptied { bytes, is_kept }, &inside);
        } else if !ffi::pyhost_extend_page(page, after) {
            return false;
        } else if bounded_heap::size().is_some() && !bounded_heap::is_within() {
            ffi::pyhost_shorten_page(page, before, true);
            return false;
        }
        if after > before {
            mremap_grow::has_grown(after);
        }
        if !BOOK {
            return true;
        }
        if !booking::rebook(slot, account, block, before, after) {
            ffi::pyhost_shorten_page(page, before, true);
            return false;
        }
        sampling::stayed(state, account, block, heap, (after, size), &inside);
        true
    }
}

/// Whether a block that moves to grow to `size` bytes gets a page of its own: not if addresses are scarce.
pub fn gets_own_page(size: usize) -> bool {
    (LEAST_ALONE..=MOST_ROOM).contains(&size)
        && ffi::IS_64_BIT
        && bounded_heap::size().is_none()
        && !address_limit::is_on()
}

/// Allocates a block of `size` bytes at the start of a free run of `addresses` bytes; null if that cannot be.
///
/// # Safety
/// A theap of the calling thread, inside the gate.
pub unsafe fn allocate_with_room(
    theap: *mut Theap,
    size: usize,
    addresses: usize,
    usable: &mut usize,
) -> *mut u8 {
    // SAFETY: the caller's promise; a block that nobody else has.
    unsafe {
        // Up to LARGE_SIZE_MAX it would share a page with others.
        let most = addresses.max(ffi::LARGE_SIZE_MAX + 1);
        let block = ffi::_mi_theap_malloc_zero(theap, most, false, usable).cast();
        if let Some(page) = live_page(block) {
            let page = (&raw const *page).cast_mut();
            if !is_alone(&*page, block) || !ffi::pyhost_shorten_page(page, rounded(size), false) {
                ffi::mi_free(block.cast());
                return null_mut();
            }
            *usable = (*page).block_size;
            mremap_grow::has_grown(*usable);
        }
        block
    }
}

#[cfg(test)]
mod tests {
    use crate::{NATIVE, Reallocated, allocate, free, ledger::LEDGER, reallocate, usable_size};
    use pyhost_testing::Random;

    /// A block of `native` whose bytes are all the same.
    struct Block {
        start: *mut u8,
        bytes: usize,
        mark: u8,
    }

    impl Block {
        fn new(bytes: usize, mark: u8) -> Block {
            let start = allocate::<NATIVE, false, true>(bytes);
            // SAFETY: a block of that size.
            unsafe { start.write_bytes(mark, bytes) };
            Block { start, bytes, mark }
        }

        fn resize(&mut self, bytes: usize) {
            // SAFETY: a live block of the test's own.
            unsafe {
                let Reallocated::Block(start) = reallocate::<NATIVE, true>(self.start, bytes)
                else {
                    panic!("the block is mimalloc's");
                };
                self.start = start;
                let kept = std::slice::from_raw_parts(start, self.bytes.min(bytes));
                assert!(kept.iter().all(|&byte| byte == self.mark));
                start.write_bytes(self.mark, bytes);
            }
            self.bytes = bytes;
        }

        fn usable(&self) -> usize {
            // SAFETY: a live block of the test's own.
            unsafe { usable_size(self.start) }.unwrap()
        }
    }

    impl Drop for Block {
        fn drop(&mut self) {
            // SAFETY: a live block of the test's own.
            assert!(unsafe { free::<NATIVE, true>(self.start) });
        }
    }

    fn live() -> i64 {
        crate::slot().live()
    }

    #[test]
    fn blocks_that_grow_and_shrink_keep_what_they_hold_and_are_booked_to_the_byte() {
        stays_if_the_addresses_behind_it_are_free();
        let work = |seed| {
            let mut random = Random(seed);
            let before = live();
            let mut blocks: Vec<Block> = (0..6).map(|mark| Block::new(100, mark)).collect();
            for _ in 0..400 {
                let block = random.below(blocks.len());
                let (bytes, most) = (blocks[block].bytes, 12 << 20);
                let bytes = match random.below(8) {
                    0 => 1 + random.below(most),
                    1 => bytes / 3 + 1,
                    2 => bytes + random.below(100),
                    _ => (bytes + bytes / 8 + (64 << 10)).min(most),
                };
                blocks[block].resize(bytes);
                let usable: usize = blocks.iter().map(Block::usable).sum();
                assert_eq!(live() - before, usable as i64);
            }
            drop(blocks);
            assert_eq!(live(), before);
        };
        std::thread::scope(|scope| {
            for seed in 1..5 {
                scope.spawn(move || work(seed));
            }
        });
        assert!(LEDGER.bound(crate::ledger::Scope::Total) >= live());
    }

    fn stays_if_the_addresses_behind_it_are_free() {
        let mut block = Block::new(1 << 20, 1);
        block.resize(2 << 20);
        let start = block.start;
        for step in 1..=16 {
            block.resize((2 << 20) + step * (64 << 10));
            assert_eq!(block.start, start, "after {step} steps");
        }
        assert_eq!(block.usable(), 3 << 20);
        block.resize(1 << 20);
        assert_eq!((block.start, block.usable()), (start, 1 << 20));
        let mut block = Block::new(100 << 10, 2);
        block.resize(150 << 10);
        let start = block.start;
        block.resize(250 << 10);
        assert_eq!((block.start, block.usable()), (start, 256 << 10));
    }
}
