//! mimalloc's own blocks: what it keeps for itself lies in the main heap, among the blocks of `native`,
//! and the ledger does not count it. A look at the heaps must leave it out to agree with the ledger.
//!
//! mimalloc has a list of most of these blocks. Two kinds are in no list: a table for each thread that allocates from
//! more than one heap, counted here as threads begin and end, and one bitmap, measured where it is made.

use crate::mimalloc::ffi::{self, Heap};
use crate::{alone, ledger::Account, mimalloc::gate::Closed, mimalloc::pages};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A kind of block: usable bytes, and how many blocks there are.
struct BlockCount {
    bytes: AtomicUsize,
    blocks: AtomicU64,
}

pyhost_os::state! {
    /// mimalloc's blocks that are in no list of its own.
    static STATE: InternalBlocks {
        /// Threads' tables by size: for 16 heaps, or for 32 if a process has more heaps than 16. Free
        /// entries come last.
        tables: [BlockCount; 4] = [const { BlockCount { bytes: AtomicUsize::new(0), blocks: AtomicU64::new(0) } }; 4],
        /// Usable bytes of the bitmap of heaps; 0 before it is made.
        bitmap: AtomicUsize = AtomicUsize::new(0),
    }
}

/// Makes the first heap beside the main one, and learns the size of the bitmap that mimalloc makes with
/// it. While the process has one thread.
pub fn first_heap() -> *mut Heap {
    let before = alone(live_in_main_heap);
    let heap = ffi::mi_heap_new();
    let grown = alone(live_in_main_heap).saturating_sub(before) as usize;
    let description = alone(|closed| pages::holding(closed, heap.addr()));
    let description = description.map_or(0, |page| page.block_bytes as usize);
    let bitmap = grown.saturating_sub(description);
    STATE.bitmap.store(bitmap, Relaxed);
    heap
}

/// Live bytes of the main heap's pages in mimalloc's arenas: a walk over the whole page map would take
/// milliseconds of each start.
fn live_in_main_heap(closed: &Closed) -> u64 {
    let mut bytes = 0;
    pages::each_arena(|arena| {
        pages::each_within(closed, arena.own_end..arena.end, |page| {
            if page.account == Account::Native {
                bytes += page.live_bytes();
            }
        });
    });
    bytes
}

fn count_table(bytes: usize, by: u64) {
    if bytes == 0 {
        return;
    }
    let is_its = |kind: &&BlockCount| {
        // A free entry becomes this size's, unless another thread was faster.
        let _ = kind.bytes.compare_exchange(0, bytes, Relaxed, Relaxed);
        kind.bytes.load(Relaxed) == bytes
    };
    if let Some(kind) = STATE.tables.iter().find(is_its) {
        kind.blocks.fetch_add(by, Relaxed);
    }
}

/// Usable bytes of the calling thread's table; 0 before it has one.
pub fn table() -> usize {
    pages::of_thread_table().map_or(0, |page| page.block_size)
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
pub fn each(closed: &Closed, mut visit: impl FnMut(u64, bool)) {
    ffi::each_own_block(closed, |block| {
        let page = pages::holding(closed, block);
        if let Some(page) = page.filter(|page| page.account == Account::Native) {
            visit(page.block_bytes, page.reserved_blocks == 1);
        }
    });
    let bitmap = STATE.bitmap.load(Relaxed);
    if bitmap != 0 {
        visit(bitmap as u64, false);
    }
    for kind in &STATE.tables {
        for _ in 0..kind.blocks.load(Relaxed) {
            visit(kind.bytes.load(Relaxed) as u64, false);
        }
    }
}
