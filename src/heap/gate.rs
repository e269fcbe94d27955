//! The gate in front of mimalloc's slow paths, closed while the process forks.
//!
//! mimalloc has no fork handlers on Linux: a thread that holds one of its locks, or one of the
//! bits of its bitmaps, at the moment of a fork leaves them held for ever in the child. So each
//! thread marks itself busy in its ledger slot while it is inside; the forking thread closes the
//! gate and waits until nobody is. What runs without the mark, the pop from and the push to a
//! page of the thread's own, leaves at worst a block that nobody uses.
//!
//! The gate is closed by a handler of `pthread_atfork`, which libc runs before it takes stdio's
//! list lock; libc's own functions do not allocate while they hold that lock.
//!
//! Entering costs two plain stores and a load: the forking thread pays for the ordering with
//! `membarrier(2)`. Where the kernel has none, entering runs a fence.

#![allow(unsafe_code)]

use crate::ledger::{LEDGER, Slot};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, compiler_fence, fence};
use std::thread::yield_now;

/// Thread pointer of the thread that closed the gate; 0 while it is open.
static CLOSED_BY: AtomicUsize = AtomicUsize::new(0);
/// Whether `membarrier` is registered, so that entering needs no fence.
static MEMBARRIER: AtomicBool = AtomicBool::new(false);

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration, from `linux/membarrier.h`.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: the call takes plain integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Asks the kernel for cheap barriers. Once, while the process has one thread.
pub fn register() {
    MEMBARRIER.store(membarrier(REGISTER_PRIVATE_EXPEDITED), Relaxed);
}

/// Returns once every running thread of the process has passed a memory barrier.
pub fn barrier_everywhere() {
    fence(SeqCst);
    if MEMBARRIER.load(Relaxed) {
        membarrier(PRIVATE_EXPEDITED);
    }
}

/// Marks the calling thread as inside until dropped. Nests.
pub struct Inside<'a> {
    slot: &'a Slot,
    shared: bool,
}

/// Waits while a fork is on its way, then marks the thread as inside. `slot` is the caller's.
#[inline]
pub fn enter(slot: &Slot, own_thread: usize) -> Inside<'_> {
    let shared = LEDGER.is_overflow(slot);
    loop {
        if shared {
            slot.busy.fetch_add(1, SeqCst);
        } else {
            slot.busy.store(slot.busy.load(Relaxed) + 1, Relaxed);
            if MEMBARRIER.load(Relaxed) {
                compiler_fence(SeqCst);
            } else {
                fence(SeqCst);
            }
        }
        let inside = Inside { slot, shared };
        let closed_by = CLOSED_BY.load(Acquire);
        // A thread that was inside before (a signal handler, say) must go on: the forking
        // thread waits for it.
        if closed_by == 0 || closed_by == own_thread || (!shared && slot.busy.load(Relaxed) > 1) {
            return inside;
        }
        drop(inside);
        while CLOSED_BY.load(Acquire) != 0 {
            yield_now();
        }
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.shared {
            self.slot.busy.fetch_sub(1, SeqCst);
        } else {
            self.slot
                .busy
                .store(self.slot.busy.load(Relaxed) - 1, Release);
        }
    }
}

/// Before a fork: closes the gate and waits until no other thread is inside.
pub(super) fn close(own: &Slot, own_thread: usize) {
    while CLOSED_BY
        .compare_exchange(0, own_thread, SeqCst, Relaxed)
        .is_err()
    {
        yield_now(); // another thread is forking
    }
    barrier_everywhere();
    for slot in LEDGER.slots() {
        // The overflow slot is also other threads', whoever forks.
        let is_own_alone = std::ptr::eq(slot, own) && !LEDGER.is_overflow(slot);
        while !is_own_alone && slot.busy.load(Acquire) != 0 {
            yield_now();
        }
    }
}

/// Proof that the gate is closed: no page comes or goes, unless the thread that closed it allocates or frees.
pub struct Closed(());

/// Runs `work` while the gate is closed to others than the calling thread.
pub fn while_closed<T>(own: &Slot, own_thread: usize, work: impl FnOnce(&Closed) -> T) -> T {
    close(own, own_thread);
    let result = work(&Closed(()));
    open();
    result
}

/// Whether the gate is open.
pub fn is_open() -> bool {
    CLOSED_BY.load(Relaxed) == 0
}

/// After a fork: opens the gate, in the parent and in the child.
pub(super) fn open() {
    CLOSED_BY.store(0, Release);
}
