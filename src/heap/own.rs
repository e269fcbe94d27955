//! mimalloc's own blocks: what it keeps for itself lies in the main heap, among the blocks of `native`,
//! and the ledger does not count it. A look at the heaps must leave it out to agree with the ledger.
//!
//! mimalloc has a list of most of these blocks. Two kinds are in no list: a table for each thread that
//! allocates from more than one heap, counted here as threads begin and end, and one bitmap, measured
//! where it is made.

#![allow(unsafe_code)]

use super::ffi::{self, Page};
use super::pages;
use super::{account_of, page_of};
use crate::ledger::Account;
use std::ffi::c_void;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// A kind of block: usable bytes, and how many blocks there are.
struct Kind {
    bytes: AtomicUsize,
    blocks: AtomicU64,
}

/// Threads' tables by size: for 16 heaps, or for 32 where a process has more heaps than 16. Free
/// entries come last.
static TABLES: [Kind; 4] = [const {
    Kind {
        bytes: AtomicUsize::new(0),
        blocks: AtomicU64::new(0),
    }
}; 4];

/// Usable bytes of the bitmap of heaps; 0 before it is made.
static BITMAP: AtomicUsize = AtomicUsize::new(0);

/// Usable bytes of a live block; 0 for null.
fn usable(block: *mut c_void) -> usize {
    let page: *mut Page = page_of(block.cast());
    // SAFETY: null, or the page of a live block.
    unsafe { page.as_ref() }.map_or(0, |page| page.block_size)
}

/// Makes the first heap beside the main one, and learns the size of the bitmap that mimalloc makes with
/// it. While the process has one thread.
pub fn with_first_heap<T>(make: impl FnOnce() -> (T, *mut c_void)) -> T {
    let before = live_in_main_heap();
    let (made, heap) = make();
    let grown = live_in_main_heap().saturating_sub(before) as usize;
    BITMAP.store(grown.saturating_sub(usable(heap)), Relaxed);
    made
}

/// Live bytes of the main heap's pages in mimalloc's arenas: a walk over the whole page map would take
/// milliseconds of each start.
fn live_in_main_heap() -> u64 {
    let mut bytes = 0;
    pages::each_arena(|arena| {
        for address in (arena.own_end..arena.end).step_by(pages::SLICE) {
            let page = pages::beginning_at(address);
            let page = page.filter(|page| page.account == Account::Native);
            bytes += page.map_or(0, |page| page.live_bytes());
        }
    });
    bytes
}

fn count_table(bytes: usize, by: u64) {
    if bytes == 0 {
        return;
    }
    let is_its = |kind: &&Kind| {
        // A free entry becomes this size's, unless another thread was faster.
        let _ = kind.bytes.compare_exchange(0, bytes, Relaxed, Relaxed);
        kind.bytes.load(Relaxed) == bytes
    };
    if let Some(kind) = TABLES.iter().find(is_its) {
        kind.blocks.fetch_add(by, Relaxed);
    }
}

/// Usable bytes of the calling thread's table; 0 before it has one.
pub fn table() -> usize {
    // SAFETY: reads a variable of the calling thread's.
    usable(unsafe { ffi::pyhost_thread_table() })
}

/// Notes that the calling thread's table, of `before` bytes, may be another now. Inside the gate.
pub fn table_changed(before: usize) {
    let now = table();
    if now != before {
        count_table(before, 1u64.wrapping_neg());
        count_table(now, 1);
    }
}

/// Notes that mimalloc is about to free the calling thread's table. Inside the gate.
pub fn thread_ends() {
    count_table(table(), 1u64.wrapping_neg());
}

/// Calls `visit` for each of mimalloc's own blocks: its usable bytes, and whether it has a page to itself.
/// The gate is closed.
pub fn each(mut visit: impl FnMut(u64, bool)) {
    unsafe extern "C" fn tell(arg: *mut c_void, block: *mut c_void) {
        // SAFETY: `arg` is the visitor that `each` passed, on its own stack.
        let visit = unsafe { &mut *arg.cast::<&mut dyn FnMut(*mut c_void)>() };
        visit(block);
    }
    let mut of_list = |block: *mut c_void| {
        let page = page_of(block.cast());
        if !page.is_null() && account_of(page) == Account::Native {
            // SAFETY: the page of a live block.
            let is_single = unsafe { (*page).reserved } == 1;
            visit(usable(block) as u64, is_single);
        }
    };
    let mut of_list: &mut dyn FnMut(*mut c_void) = &mut of_list;
    // SAFETY: `tell` has the function's type and gets what it casts to.
    unsafe { ffi::pyhost_each_own_block(tell, (&raw mut of_list).cast()) };
    let bitmap = BITMAP.load(Relaxed);
    if bitmap != 0 {
        visit(bitmap as u64, false);
    }
    for kind in &TABLES {
        for _ in 0..kind.blocks.load(Relaxed) {
            visit(kind.bytes.load(Relaxed) as u64, false);
        }
    }
}
