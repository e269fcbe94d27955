//! The gate before mimalloc's slow paths, which a thread that forks closes.

use pyhost_loom::gate::{enter, register, while_closed};
use pyhost_loom::ledger::{LEDGER, open};
use pyhost_loom::loom::cell::UnsafeCell;
use pyhost_loom::{Slot, model, spawn};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What threads change inside the gate, a part each, and the thread that closed it reads.
type Heap = Arc<[UnsafeCell<u32>; 2]>;

/// What a thread does inside the gate. It alone changes its part, and a thread that closed the gate does not read it meanwhile.
fn change(heap: &Heap, part: usize) {
    // SAFETY: loom fails the model if another thread has access.
    heap[part].with_mut(|value| unsafe { *value += 1 });
}

fn read(heap: &Heap) -> u32 {
    // SAFETY: as above.
    heap.iter()
        .map(|part| part.with(|value| unsafe { *value }))
        .sum()
}

/// Two slots with an owner, of a ledger in which no thread uses the others.
fn slots() -> [&'static Slot; 2] {
    open(2, &[]);
    [LEDGER.claim(), LEDGER.claim()]
}

/// The number of the thread that owns a slot.
fn number(slot: &Slot) -> usize {
    (&raw const *slot).addr()
}

/// A thread goes in and out, by a hook inside another one's, while one closes the gate; the first changes what the other reads.
fn thread_inside(has_membarrier: bool) {
    let (heap, [own, other]) = (Heap::default(), slots());
    if has_membarrier {
        register();
    }
    let thread = spawn({
        let heap = heap.clone();
        move || {
            let inside = enter(other, number(other));
            drop(enter(other, number(other)));
            change(&heap, 0);
            drop(inside);
        }
    });
    let before = while_closed(own, number(own), |_| read(&heap));
    assert!(before <= 1);
    thread.join();
    assert_eq!(while_closed(own, number(own), |_| read(&heap)), 1);
}

#[test]
fn nobody_is_inside_while_the_gate_is_closed() {
    model(|| thread_inside(false));
}

#[test]
fn nobody_is_inside_while_the_gate_is_closed_by_a_barrier_of_the_kernel() {
    model(|| thread_inside(true));
}

/// Goes in by the slot that threads share, and by a hook inside another one's.
fn share(heap: &Heap, part: usize) {
    let inside = enter(LEDGER.overflow(), 1 + part);
    drop(enter(LEDGER.overflow(), 1 + part));
    change(heap, part);
    drop(inside);
}

#[test]
fn a_thread_that_shares_its_slot_is_not_inside_while_the_gate_is_closed() {
    for has_membarrier in [false, true] {
        model(move || {
            let (heap, [own, _]) = (Heap::default(), slots());
            if has_membarrier {
                register();
            }
            let thread = spawn({
                let heap = heap.clone();
                move || share(&heap, 0)
            });
            while_closed(own, number(own), |_| read(&heap));
            thread.join();
            assert_eq!(while_closed(own, number(own), |_| read(&heap)), 1);
        });
    }
}

// Without a third thread that closes the gate: loom gives three threads that wait for each other no turns that end.
#[test]
fn threads_that_share_a_slot_count_each_other() {
    model(|| {
        let heap = Heap::default();
        open(0, &[]);
        let thread = spawn({
            let heap = heap.clone();
            move || share(&heap, 0)
        });
        let inside = enter(LEDGER.overflow(), 2);
        assert!(LEDGER.overflow().busy.load(Relaxed) > 0);
        drop(inside);
        thread.join();
        assert_eq!(LEDGER.overflow().busy.load(Relaxed), 0);
    });
}

#[test]
fn two_threads_that_fork_close_the_gate_in_turn_and_go_in_while_they_have() {
    model(|| {
        let (heap, slots) = (Heap::default(), slots());
        let run = |heap: &Heap, own: &Slot| {
            while_closed(own, number(own), |_| {
                drop(enter(own, number(own)));
                change(heap, 0);
            });
        };
        let other = spawn({
            let heap = heap.clone();
            move || run(&heap, slots[1])
        });
        run(&heap, slots[0]);
        other.join();
        assert_eq!(read(&heap), 2);
        assert!(slots.iter().all(|slot| slot.busy.load(Relaxed) == 0));
    });
}
