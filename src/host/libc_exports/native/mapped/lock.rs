//! The lock around the table: taken by hooks on any thread, also in signal handlers.
//!
//! Its holder has all signals blocked, so that no handler of its own thread can wait for it. It is
//! held while a process forks by way of libc. A caller whose own thread holds it (a function
//! behind the host's that maps memory itself), or waits for so long that the holder must be gone (a
//! fork past libc), does without: a range may then be missed, but nothing ever waits for good.

use super::table::{Range, Table};
use crate::heap;
use pyhost_os::mapping::{FromZeros, Mapped, resident_bytes};
use pyhost_os::{cell::Exclusive, system_call::change_signal_mask};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Room for so many ranges: the kernel's usual limit of mappings is 65,530. The memory is reserved
/// when the first library maps something, and the kernel backs what is used of it.
pub const RANGES: usize = 1 << 17;
pub const TABLE_BYTES: usize = RANGES * size_of::<Range>();

/// Turns of a waiting thread before it takes the holder to be gone: seconds.
const PATIENCE: u32 = 1 << 22;
const SHORT_PATIENCE: u32 = 1 << 10;

pyhost_os::state! {
    static STATE: MapTableLock {
        /// The thread that holds the lock; 0 if none does.
        holder: AtomicUsize = AtomicUsize::new(0),
        /// Whether the table holds anything.
        used: AtomicBool = AtomicBool::new(false),
        /// Where the table's memory is; 0 before it is needed, 1 if the system gives none.
        memory: AtomicUsize = AtomicUsize::new(0),
        /// Never busy for the holder of the lock.
        table: Exclusive<Option<Table<'static>>> = Exclusive::new(None),
    }
}

/// Whether any library has mapped anything so far.
pub fn is_used() -> bool {
    STATE.used.load(Relaxed)
}

/// The addresses of the table's memory.
pub fn memory() -> Option<std::ops::Range<usize>> {
    let start = STATE.memory.load(Relaxed);
    (start > 1).then(|| start..start + TABLE_BYTES)
}

fn take(own: usize, patience: u32) -> bool {
    for turn in 0..patience {
        match STATE.holder.compare_exchange_weak(0, own, Acquire, Relaxed) {
            Ok(_) => return true,
            Err(holder) if holder == own => return false,
            Err(_) if turn < 64 => std::hint::spin_loop(),
            Err(_) => std::thread::yield_now(),
        }
    }
    false
}

/// Gives the table, made if need be, to `work`; None if that cannot be.
pub fn with_table<T>(work: impl FnOnce(&mut Table<'static>) -> T) -> Option<T> {
    with_patience(PATIENCE, work)
}

/// As [`with_table`], for a caller inside the allocator, for which a thread that forks may wait with the lock: None if
/// another thread has it for long.
pub fn with_table_at_once<T>(work: impl FnOnce(&mut Table<'static>) -> T) -> Option<T> {
    with_patience(SHORT_PATIENCE, work)
}

fn with_patience<T>(patience: u32, work: impl FnOnce(&mut Table<'static>) -> T) -> Option<T> {
    let signals = change_signal_mask(u64::MAX);
    let is_taken = take(heap::thread_number(), patience);
    let table = is_taken.then(|| STATE.table.try_hold()).flatten();
    let answer = table.and_then(|mut table| {
        if table.is_none() {
            *table = make();
        }
        table.as_mut().map(work)
    });
    if is_taken {
        STATE.holder.store(0, Release);
    }
    change_signal_mask(signals);
    answer
}

/// Reserves the table's memory. The lock is held.
fn make() -> Option<Table<'static>> {
    if STATE.memory.load(Relaxed) != 0 {
        return None;
    }
    let Some(ranges) = Mapped::reserve(RANGES) else {
        STATE.memory.store(1, Relaxed);
        return None;
    };
    STATE.memory.store(ranges.addresses().start, Relaxed);
    STATE.used.store(true, Relaxed);
    Some(Table::new(ranges.leak()))
}

/// Holds the lock while the process forks.
pub fn before_fork() {
    // Signals stay as they are: a handler that maps memory meanwhile finds its own thread here.
    take(heap::thread_number(), PATIENCE);
}

/// In parent and child: gives the lock back.
pub fn after_fork() {
    let own = heap::thread_number();
    let _ = STATE.holder.compare_exchange(own, 0, Release, Relaxed);
}

/// Ranges that are looked up at a time: the lock of the table is not held while the kernel is asked.
const BATCH: usize = 32;

/// Visits every range that is of `those`, with the bytes of it that are resident; what is mapped or given back meanwhile may be left out.
/// Returns `None` if another thread has the table. Any thread, also inside the allocator: it allocates nothing, waits for
/// nobody, and takes six kibibytes of the stack.
pub fn each_resident(those: fn(&Range) -> bool, mut visit: impl FnMut(&Range, u64)) -> Option<()> {
    let mut batch: [Range; BATCH] = std::array::from_fn(|_| Range::zeroed());
    let mut behind = 0;
    while is_used() {
        let count = with_table_at_once(|table| table.copy_behind(behind, those, &mut batch))?;
        for range in &batch[..count] {
            visit(range, resident_bytes(range.start..range.end));
            behind = range.end;
        }
        if count < BATCH {
            break;
        }
    }
    Some(())
}

/// Resident bytes; as [`each_resident`].
pub fn resident_of(those: fn(&Range) -> bool) -> Option<u64> {
    let mut bytes = 0;
    each_resident(those, |_, resident| bytes += resident)?;
    Some(bytes)
}
