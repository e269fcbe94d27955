//! `pthread_create`, as the executable exports it: beneath a region or a cap no thread is made that
//! would have no memory for its first steps.
//!
//! CPython's `Thread.start()` waits until the new thread has begun, and a thread whose first step was
//! refused memory ends without a word: the caller would wait for ever. `EAGAIN` is an error that every
//! caller knows; CPython raises `RuntimeError: can't start new thread`.
//!
//! Beneath a region the new thread begins in [`begin`], which says to the heap that it is new. What it needs for that
//! lies in a table in static memory. Nothing is allocated here.

#![allow(unsafe_code)]

use super::next::{self, Attributes, Start, call};
use super::{Mode, mode};
use crate::heap::{self, address_limit, bounded_heap};
use crate::{ledger::LEDGER, limit::caps};
use pyhost_os::cell::Exclusive;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

#[derive(Clone, Copy)]
struct Making {
    start: Start,
    argument: *mut c_void,
    room: bounded_heap::Promise,
}

// SAFETY: the argument is for the thread that is made, whichever thread passes it on.
unsafe impl Send for Making {}

/// Taken by the thread that makes another one, and freed by that one: `pthread_create` orders the one before the other.
type Entry = Exclusive<Option<Making>>;

/// Threads that are being made at once; further ones are not distinguished.
const ENTRIES: usize = 64;
static TABLE: [Entry; ENTRIES] = [const { Exclusive::new(None) }; ENTRIES];

/// Fills an entry for a thread, which stays taken.
fn fill(making: Making) -> Option<&'static Entry> {
    TABLE.iter().find_map(|entry| {
        *entry.try_hold()?.keep() = Some(making);
        Some(entry)
    })
}

/// The first function of a thread that was made here.
unsafe extern "C" fn begin(entry: *mut c_void) -> *mut c_void {
    // SAFETY: an entry of the table, which `pthread_create` filled for this thread and which nobody looks at since.
    let making = unsafe { (*entry.cast::<Entry>()).take_over() }.take();
    let Some(making) = making else {
        return null_mut();
    };
    bounded_heap::take_promise(making.room);
    // SAFETY: the caller's duties of `pthread_create`.
    let result = unsafe { (making.start)(making.argument) };
    // A thread without a slot of the ledger has no other end.
    bounded_heap::thread_ends();
    result
}

/// `pthread_create(3)`.
///
/// # Safety
/// As the manual says.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: Attributes,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    next::resolve();
    // SAFETY: the caller's duties.
    let attempt = |start: Start, argument: *mut c_void| unsafe {
        call!(
            PTHREAD_CREATE(thread, attributes, start, argument),
            libc::EAGAIN
        )
    };
    let create = |start: Start, argument: *mut c_void| match attempt(start, argument) {
        libc::EAGAIN if mode() != Mode::Off && address_limit::make_room(None) => {
            attempt(start, argument)
        }
        result => result,
    };
    let is_bound = bounded_heap::size().is_some();
    if mode() == Mode::Off || !(is_bound || LEDGER.is_capped()) {
        return create(start, argument);
    }
    if !caps::may_start_thread(heap::slot()) {
        return libc::EAGAIN;
    }
    if !is_bound {
        return create(start, argument);
    }
    let Some(room) = bounded_heap::promise() else {
        caps::no_thread_in_region(bounded_heap::size().unwrap_or(0), bounded_heap::THREAD_NEED);
        return libc::EAGAIN;
    };
    let making = Making {
        start,
        argument,
        room,
    };
    let Some(entry) = fill(making) else {
        return create(start, argument);
    };
    let result = create(begin, (&raw const *entry).cast_mut().cast());
    if result != 0 {
        bounded_heap::withdraw_promise();
        // SAFETY: this thread filled it, and no other one was made.
        drop(unsafe { entry.take_over() });
    }
    result
}
