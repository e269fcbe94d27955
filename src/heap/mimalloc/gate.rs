//! The gate in front of mimalloc's slow paths, closed while the process forks.
//!
//! mimalloc has no fork handlers on Linux: a thread that holds one of its locks, or one of the bits of its bitmaps, at
//! the moment of a fork leaves them held for ever in the child. So each thread marks itself busy in its ledger slot
//! while it is inside; the forking thread closes the gate and waits until nobody is. What runs without the mark, the
//! pop from and the push to a page of the thread's own, leaves at worst a block that nobody uses.
//!
//! The gate is closed by a handler of `pthread_atfork`, which libc runs before it takes stdio's
//! list lock; libc's own functions do not allocate while they hold that lock.
//!
//! Entering costs three plain stores and two loads: the forking thread pays for the ordering with
//! `membarrier(2)`. If the kernel has none, entering runs a fence.
//!
//! A slot says whether its thread tries to enter, or is inside and how deep. A signal handler may run between
//! the two. It finds the try, which the forking thread may have seen or not, takes it back, and tries itself:
//! only who is inside goes on while the gate is closed.

use crate::ledger::{LEDGER, Slot};
use pyhost_os::system_call::membarrier;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize, compiler_fence, fence};
use std::{cell::Cell, thread::yield_now};

pyhost_os::state! {
    /// Who has closed the gate, and what entering costs.
    static STATE: Gate {
        /// Thread pointer of the thread that closed the gate; 0 while it is open.
        closed_by: AtomicUsize = AtomicUsize::new(0),
        /// Whether `membarrier` is registered, so that entering needs no fence.
        membarrier: AtomicBool = AtomicBool::new(false),
    }
}

/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED` and its registration, from `linux/membarrier.h`.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Asks the kernel for cheap barriers. Once, while the process has one thread.
pub fn register() {
    let membarrier = membarrier(REGISTER_PRIVATE_EXPEDITED);
    STATE.membarrier.store(membarrier, Relaxed);
}

/// Returns once every running thread of the process has passed a memory barrier.
pub fn barrier_everywhere() {
    fence(SeqCst);
    if STATE.membarrier.load(Relaxed) {
        membarrier(PRIVATE_EXPEDITED);
    }
}

/// A slot's `busy` of a thread that tries to enter. Higher by one for each level that it is inside.
const TRIES: u32 = 1;
/// [`Inside::before`] of a thread that shares its slot.
const SHARED: u32 = u32::MAX;

thread_local! {
    /// How deep the thread is inside by a slot that it shares.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Marks the calling thread as inside until dropped. Nests.
pub struct Inside<'a> {
    slot: &'a Slot,
    /// What `busy` was before.
    before: u32,
}

/// Waits while a fork is on its way, then marks the thread as inside. `slot` is the caller's.
#[inline]
pub fn enter(slot: &Slot, own_thread: usize) -> Inside<'_> {
    if LEDGER.is_overflow(slot) {
        return enter_shared(slot, own_thread);
    }
    let before = slot.busy.load(Relaxed);
    if before <= TRIES {
        loop {
            slot.busy.store(TRIES, Relaxed);
            if STATE.membarrier.load(Relaxed) {
                compiler_fence(SeqCst);
            } else {
                fence(SeqCst);
            }
            if is_open_to(own_thread) {
                break;
            }
            slot.busy.store(0, Release);
            wait();
        }
    }
    slot.busy.store(before.max(TRIES) + 1, Relaxed);
    Inside { slot, before }
}

/// [`enter`] by a slot that counts the threads that try to enter or are inside. How deep each of them is lies with it. A
/// handler that interrupts a try here cannot take it back, as it may not be counted yet.
#[cold]
#[inline(never)]
fn enter_shared(slot: &Slot, own_thread: usize) -> Inside<'_> {
    while DEPTH.get() == 0 {
        slot.busy.fetch_add(1, Relaxed);
        fence(SeqCst);
        if is_open_to(own_thread) {
            break;
        }
        leave_shared(slot);
        wait();
    }
    DEPTH.set(DEPTH.get() + 1);
    Inside {
        slot,
        before: SHARED,
    }
}

/// A ledger that was restored after its file was lost counts nobody inside. A thread that was inside does not take the count
/// below 0.
fn leave_shared(slot: &Slot) {
    let _ = slot
        .busy
        .fetch_update(SeqCst, SeqCst, |inside| inside.checked_sub(1));
}

fn is_open_to(own_thread: usize) -> bool {
    [0, own_thread].contains(&STATE.closed_by.load(Acquire))
}

#[cold]
fn wait() {
    while STATE.closed_by.load(Acquire) != 0 {
        yield_now();
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.before != SHARED {
            return self.slot.busy.store(self.before, Release);
        }
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            leave_shared(self.slot);
        }
    }
}

/// Before a fork: closes the gate and waits until no other thread is inside.
pub(crate) fn close(own: &Slot, own_thread: usize) {
    let close = || (STATE.closed_by).compare_exchange(0, own_thread, SeqCst, Relaxed);
    while close().is_err() {
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

/// Whether no other thread is inside, nor comes in without seeing what the caller has stored before. The caller is inside by `own`.
pub fn is_alone(own: &Slot) -> bool {
    barrier_everywhere();
    let mut others = LEDGER.slots().filter(|slot| !std::ptr::eq(*slot, own));
    !LEDGER.is_overflow(own) && others.all(|slot| slot.busy.load(Acquire) == 0)
}

/// Proof that the gate is closed: no page comes or goes, unless the thread that closed it allocates or frees. Opens the
/// gate when dropped, after a panic as well.
pub struct Closed(());

impl Drop for Closed {
    fn drop(&mut self) {
        open();
    }
}

/// Runs `work` while the gate is closed to others than the calling thread.
pub fn while_closed<T>(own: &Slot, own_thread: usize, work: impl FnOnce(&Closed) -> T) -> T {
    close(own, own_thread);
    work(&Closed(()))
}

pub fn is_open() -> bool {
    STATE.closed_by.load(Relaxed) == 0
}

/// After a fork: opens the gate, in the parent and in the child.
pub(crate) fn open() {
    STATE.closed_by.store(0, Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{slot, thread_number as thread_id};
    use std::sync::Barrier;

    /// A gate is one for the process: the tests take turns.
    fn turn() -> std::sync::MutexGuard<'static, ()> {
        static TURNS: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let turn = TURNS.lock();
        turn.unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[test]
    fn a_signal_handler_that_interrupts_a_try_waits_until_the_fork_is_over() {
        let _turn = turn();
        let (is_closed, has_entered) = (Barrier::new(2), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let handler = scope.spawn(|| {
                let own = slot();
                is_closed.wait();
                // The forking thread has seen 0 here. Then the thread tries, and is interrupted before it looks.
                own.busy.store(TRIES, Relaxed);
                let inside = enter(own, thread_id());
                has_entered.store(true, Relaxed);
                assert_eq!(own.busy.load(Relaxed), TRIES + 1);
                drop(enter(own, thread_id()));
                drop(inside);
                assert_eq!(own.busy.load(Relaxed), TRIES, "as the handler found it");
                own.busy.store(0, Relaxed);
            });
            while_closed(slot(), thread_id(), |_| {
                is_closed.wait();
                std::thread::sleep(std::time::Duration::from_millis(20));
                assert!(!has_entered.load(Relaxed));
            });
            handler.join().unwrap();
        });
        assert!(has_entered.load(Relaxed));
    }

    #[test]
    fn a_panic_opens_the_gate() {
        let _turn = turn();
        let panics = || {
            while_closed(slot(), thread_id(), |_| {
                std::panic::resume_unwind(Box::new(()))
            })
        };
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(is_open());
    }
}
