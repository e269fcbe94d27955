//! A value in static memory that the allocator writes and others copy: a writer that finds another
//! one at work leaves its own away, a reader waits for the moment that a copy takes. Any thread,
//! also in a signal handler; nothing is allocated or locked for good.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A value that hooks write and others copy.
pub struct Kept<T> {
    busy: AtomicBool,
    filled: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is touched only by the thread that has set `busy`.
unsafe impl<T: Copy> Sync for Kept<T> {}

impl<T: Copy> Kept<T> {
    /// Nothing yet.
    pub const fn empty() -> Self {
        Kept {
            busy: AtomicBool::new(false),
            filled: AtomicBool::new(false),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Forgets the value. While no other thread writes or reads, or in a forked child, where one that did
    /// is gone.
    pub fn clear(&self) {
        self.filled.store(false, Release);
        self.busy.store(false, Release);
    }

    fn enter(&self) -> bool {
        self.busy
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_ok()
    }

    /// Keeps a value, unless another thread is at it.
    pub fn set(&self, value: &T) {
        if self.enter() {
            // SAFETY: `busy` is this thread's.
            unsafe { (*self.value.get()).write(*value) };
            self.filled.store(true, Release);
            self.busy.store(false, Release);
        }
    }

    /// Returns a copy. `None` if nothing is kept, or if another thread writes it for long.
    pub fn get(&self) -> Option<T> {
        self.hold().map(|held| *held)
    }

    /// The value in its place, for a reader whose stack is small; None as in [`Kept::get`]. Writers leave
    /// theirs away meanwhile.
    pub fn hold(&self) -> Option<Held<'_, T>> {
        for _ in 0..10_000 {
            if !self.filled.load(Acquire) {
                return None;
            }
            if self.enter() {
                return Some(Held(self));
            }
            std::hint::spin_loop();
        }
        None
    }
}

/// A value that nobody else touches until this goes.
pub struct Held<'a, T>(&'a Kept<T>);

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: `busy` is the holder's, and the value was written.
        unsafe { (*self.0.value.get()).assume_init_ref() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.busy.store(false, Release);
    }
}
