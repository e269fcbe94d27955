//! The allocator of the host's own Rust code: the process's malloc, but never a forced failure. If malloc has nothing, as in a
//! full region, a small reserve has: Rust's collections answer a refusal by ending the process, and the script's error is
//! another one's to raise. What may need more than the reserve asks with `try_reserve`, or does without.

#![allow(unsafe_code)]

use super::{Mode, mode};
use crate::heap::{self, Reallocated};
use crate::ledger::index::NATIVE;
use pyhost_os::reserve::Reserve;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;

/// The alignment of every block.
const NATURAL_ALIGNMENT: usize = 16;

/// The process's malloc, and 512 KiB for when it has nothing: some ten thousand of the host's usual blocks.
struct Own(Reserve<64>);

#[global_allocator]
static OWN: Own = Own(Reserve::new());

/// Whether a request must go past the exported family.
fn goes_past(layout: Layout) -> bool {
    mode() == Mode::Faulty && layout.align() <= NATURAL_ALIGNMENT
}

impl Own {
    fn or_reserve(&self, block: *mut u8, layout: Layout) -> *mut u8 {
        match block.is_null() {
            true => self.0.allocate(layout),
            false => block,
        }
    }
}

// SAFETY: the blocks are those of the process's malloc family, by whichever way they come, or of the reserve, which knows its own.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = match goes_past(layout) {
            true => heap::allocate::<NATIVE, false, true>(layout.size()),
            // SAFETY: the caller's duties.
            false => unsafe { System.alloc(layout) },
        };
        self.or_reserve(block, layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's duties.
        unsafe {
            if !self.0.free(block, layout.size()) {
                System.dealloc(block, layout);
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's duties; a block of the reserve, and one that malloc cannot make longer, is copied.
        unsafe {
            let mut resized = null_mut();
            if !self.0.has(block) {
                let own = || heap::reallocate::<NATIVE, true>(block, size);
                resized = match goes_past(layout).then(own) {
                    Some(Reallocated::Block(block)) => block,
                    _ => System.realloc(block, layout, size),
                };
            }
            if resized.is_null() {
                resized = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
                if !resized.is_null() {
                    resized.copy_from_nonoverlapping(block, size.min(layout.size()));
                    self.dealloc(block, layout);
                }
            }
            resized
        }
    }
}
