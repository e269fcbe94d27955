//! The allocator of the host's own Rust code: the process's malloc, but never a forced failure,
//! which Rust's collections would answer by ending the process.

#![allow(unsafe_code)]

use super::{Mode, mode};
use crate::heap::{self, Reallocated};
use crate::ledger::Account;
use std::alloc::{GlobalAlloc, Layout, System};

const NATIVE: usize = Account::Native as usize;
/// The alignment of every block.
const NATURAL_ALIGNMENT: usize = 16;

struct Own;

#[global_allocator]
static OWN: Own = Own;

/// Whether a request must go past the exported family.
fn goes_past(layout: Layout) -> bool {
    mode() == Mode::Faulty && layout.align() <= NATURAL_ALIGNMENT
}

// SAFETY: the blocks are those of the process's malloc family, by whichever way they come.
unsafe impl GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match goes_past(layout) {
            true => heap::allocate::<NATIVE, false, true>(layout.size()),
            // SAFETY: the caller's duties.
            false => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match goes_past(layout) {
            true => heap::allocate::<NATIVE, true, true>(layout.size()),
            // SAFETY: the caller's duties.
            false => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's duties.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's duties.
        unsafe {
            if goes_past(layout)
                && let Reallocated::Block(block) = heap::reallocate::<NATIVE, true>(pointer, size)
            {
                return block;
            }
            System.realloc(pointer, layout, size)
        }
    }
}
