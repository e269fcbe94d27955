//! The thread pointers of the threads that have allocated since somebody began to watch.
//!
//! libc's description of a thread lies at its thread pointer. libc keeps it, with the stack, for the next thread when one has
//! ended, and has no other pointer to what belongs to it, as the table of thread-local data (`dtv` in "ELF Handling For
//! Thread-Local Storage").

use pyhost_os::mapping::Mapped;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Most of them. libc uses a stack again, and with it the pointer, as long as it keeps the stack: up to 40 MiB of them.
pub const MOST: usize = 1 << 16;

/// Places that are tried for one: a table that is full must not cost each new thread a walk.
const TRIED: usize = 64;

/// Zeroes if none is. A pointer is in the first place that was free, from that of its page on.
static SEEN: OnceLock<&'static [AtomicUsize]> = OnceLock::new();

/// Begins to note them. Does nothing if they are noted, or the system has no address space.
pub fn watch() {
    if SEEN.get().is_none()
        && let Some(table) = Mapped::<AtomicUsize>::reserve(MOST)
    {
        let _ = SEEN.set(table.leak());
    }
}

/// Notes the calling thread's. At any moment; it takes no lock and no memory.
#[inline]
pub(crate) fn note(pointer: usize) {
    if let Some(table) = SEEN.get() {
        add(table, pointer);
    }
}

#[cold]
fn add(table: &[AtomicUsize], pointer: usize) {
    let first = pointer >> 12; // stacks are whole pages
    for place in (first..first + TRIED).map(|place| &table[place % MOST]) {
        match place.compare_exchange(0, pointer, Relaxed, Relaxed) {
            Err(known) if known != pointer => {}
            _ => return,
        }
    }
}

/// Visits them. The memory there may be gone, or another's.
pub fn each(visit: impl FnMut(usize)) {
    let table = SEEN.get().copied().unwrap_or_default();
    let pointers = table.iter().map(|place| place.load(Relaxed));
    pointers.filter(|&pointer| pointer != 0).for_each(visit);
}
