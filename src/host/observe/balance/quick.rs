//! What is resident of the heaps and of stacks, by mincore(2): a hundred times faster than `/proc/self/smaps`, but not by account.

use crate::cpython::IS_FREE_THREADED;
use crate::heap::{pages, thread_pointers};
use crate::libc_exports::native::mapped;
use crate::process::{limits, maps};
use pyhost_os::mapping::{Mapped, page_size, resident_bytes};
use pyhost_os::{clock::monotonic, mmap_vec::Array, zeros_are_valid};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Resident bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuickBalance {
    /// All that the heaps have in mimalloc's arenas, CPython's own included: live blocks, free ones, and descriptions.
    pub heaps: u64,
    /// Stacks of threads that have allocated, running or ended, and the main thread's.
    pub stacks: u64,
    /// The data of loaded libraries that begins as zeros.
    pub zeroed: u64,
}

struct Memory {
    threads: [MaybeUninit<usize>; 8192],
    text: [u8; 32 * 1024],
}

zeros_are_valid!(Memory: threads, text);

pyhost_os::state! {
    /// The stacks and the zeroed data when they were measured last.
    static STATE: MeasuredStacks {
        bytes: AtomicU64 = AtomicU64::new(0),
        zeroed: AtomicU64 = AtomicU64::new(0),
        /// Threads that had allocated.
        threads: AtomicUsize = AtomicUsize::new(0),
        /// When they are measured again, though no thread has come: nanoseconds of the clock.
        again: AtomicU64 = AtomicU64::new(0),
    }
}

/// Reading `/proc/self/maps` takes half a millisecond.
const REST: u64 = 100_000_000;

/// That of this moment; stacks and data of up to 100 ms ago, if no thread has come since. Any thread, also inside an exported function of libc; it allocates nothing.
pub fn quick() -> QuickBalance {
    let mut found = QuickBalance::default();
    pages::each_arena(|arena| found.heaps += resident_bytes(arena.start..arena.end));
    if IS_FREE_THREADED {
        found.heaps += mapped::resident_of(mapped::LEFT_OUT).unwrap_or(0);
    }
    if let Some(mut memory) = Mapped::<Memory>::private(1) {
        let Memory { threads, text } = &mut memory[0];
        (found.stacks, found.zeroed) = by_map(Array::new(threads), text);
    }
    found
}

/// Stacks, and zeroed data. A thread's pointer is in the last page of its stack, which follows closed memory. Zeroed data has no
/// file, and follows written data, which has.
fn by_map(mut threads: Array<'_, usize>, text: &mut [u8]) -> (u64, u64) {
    thread_pointers::each(|thread| {
        threads.push(thread);
    });
    let now = monotonic();
    if STATE.threads.swap(threads.len(), Relaxed) == threads.len()
        && now < STATE.again.load(Relaxed)
    {
        return (STATE.bytes.load(Relaxed), STATE.zeroed.load(Relaxed));
    }
    STATE.again.store(now + REST, Relaxed);
    threads.sort_unstable();
    let page = page_size() as usize;
    // With glibc 2.42 and Linux 6.13 stacks are parts of one mapping, each with a closed page within. Those of the default size are seen.
    let stack = page + limits::bytes(libc::RLIMIT_STACK).unwrap_or(2 << 20) as usize;
    let (mut bytes, mut zeroed, mut closed_end, mut data_end) = (0, 0, 0, 0);
    let _ = maps::each_range(text, |mapping| {
        let before = |address: usize| threads.partition_point(|&thread| thread < address);
        let within = threads[before(mapping.start)..before(mapping.end)].iter();
        let length = |thread| ((thread + page) & !(page - 1)) - mapping.start;
        let is_stack = |length: &usize| closed_end == mapping.start || length.is_multiple_of(stack);
        if mapping.name == b"[stack]" {
            bytes += resident_bytes(mapping.start..mapping.end);
        } else if let Some(length) = within.rev().map(length).find(is_stack) {
            bytes += resident_bytes(mapping.start..mapping.start + length);
        } else if data_end == mapping.start && mapping.name.is_empty() {
            zeroed += resident_bytes(mapping.start..mapping.end);
        }
        let is_data = mapping.writable && mapping.private && mapping.name.starts_with(b"/");
        data_end = if is_data { mapping.end } else { 0 };
        let is_closed = !mapping.readable && !mapping.writable;
        closed_end = if is_closed { mapping.end } else { 0 };
    });
    STATE.bytes.store(bytes, Relaxed);
    STATE.zeroed.store(zeroed, Relaxed);
    (bytes, zeroed)
}
