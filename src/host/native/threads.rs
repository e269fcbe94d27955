//! `pthread_create`, as the executable exports it: beneath a region or a cap no thread is made that
//! would have no memory for its first steps.
//!
//! CPython's `Thread.start()` waits until the new thread has begun, and a thread whose first step was
//! refused memory ends without a word: the caller would wait for ever. `EAGAIN` is an error that every
//! caller knows; CPython raises `RuntimeError: can't start new thread`.
//!
//! The new thread begins in [`begin`], which says to heap and caps that it is new. What it needs for that
//! lies in a table in static memory. Nothing is allocated here.

#![allow(unsafe_code)]

use super::next::{self, call};
use super::{Mode, mode};
use crate::caps;
use crate::heap::bound;
use crate::ledger::LEDGER;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Attributes = *const libc::pthread_attr_t;

/// A thread that is being made.
#[derive(Clone, Copy)]
struct Making {
    start: Start,
    argument: *mut c_void,
    room: Option<bound::Promise>,
}

struct Entry {
    is_taken: AtomicBool,
    making: UnsafeCell<Option<Making>>,
}

// SAFETY: an entry is written by the thread that took it and read once by the thread that it makes,
// which gives it back: `pthread_create` orders the one before the other.
unsafe impl Sync for Entry {}

/// Threads that are being made at once; further ones are not distinguished.
const ENTRIES: usize = 64;
static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        is_taken: AtomicBool::new(false),
        making: UnsafeCell::new(None),
    }
}; ENTRIES];

fn entry() -> Option<&'static Entry> {
    TABLE.iter().find(|entry| {
        !entry.is_taken.load(Relaxed)
            && entry
                .is_taken
                .compare_exchange(false, true, Acquire, Relaxed)
                .is_ok()
    })
}

/// The first function of a thread that was made here.
unsafe extern "C" fn begin(entry: *mut c_void) -> *mut c_void {
    // SAFETY: the entry that `pthread_create` filled for this thread.
    let making = unsafe {
        let entry = &*entry.cast::<Entry>();
        let making = (*entry.making.get()).take();
        entry.is_taken.store(false, Release);
        making
    };
    let Some(making) = making else {
        return null_mut();
    };
    if let Some(room) = making.room {
        bound::take_promise(room);
    }
    caps::thread_begins();
    // SAFETY: the caller's duties of `pthread_create`.
    let result = unsafe { (making.start)(making.argument) };
    // A thread without a slot of the ledger has no other end.
    bound::thread_ends();
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
    // SAFETY: the caller's duties; the next function has this type.
    let create = |start: Start, argument: *mut c_void| unsafe {
        call!(
            next::PTHREAD_CREATE,
            fn(*mut libc::pthread_t, Attributes, Start, *mut c_void) -> c_int,
            (thread, attributes, start, argument),
            libc::EAGAIN
        )
    };
    let is_bound = bound::size().is_some();
    if mode() == Mode::Off || !(is_bound || LEDGER.is_capped()) {
        return create(start, argument);
    }
    if !caps::may_start_thread() {
        return libc::EAGAIN;
    }
    let room = match is_bound {
        true => match bound::promise() {
            None => {
                caps::no_thread_in_region(bound::size().unwrap_or(0), bound::THREAD_NEED);
                return libc::EAGAIN;
            }
            room => room,
        },
        false => None,
    };
    let Some(entry) = entry() else {
        return create(start, argument);
    };
    // SAFETY: the entry is this thread's until the new one runs.
    unsafe {
        *entry.making.get() = Some(Making {
            start,
            argument,
            room,
        });
    }
    let result = create(begin, (&raw const *entry).cast_mut().cast());
    if result != 0 {
        bound::withdraw_promise();
        entry.is_taken.store(false, Release);
    }
    result
}
