//! Values in static memory that hooks and signal handlers share: nothing here allocates, calls the system or waits
//! for long.
//!
//! The protocol of all: a number says who may touch the value. A thread that moves it from free to busy, by one
//! exchange with acquire, has the value to itself; a store with release ends that. So each holder sees all that the
//! holder before it wrote. Whoever finds the value busy goes without it, since the holder may be the very thread that
//! a signal handler has interrupted.
//!
//! In a forked child the holder may be gone. What has [`Child`] gets the value from it there.

#![allow(unsafe_code)]

use crate::forks::Child;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::{cell::UnsafeCell, hint::spin_loop, marker::PhantomData, sync::atomic::AtomicUsize};

/// The number of a holder that gives none.
const ANYBODY: usize = 1;

/// Turns of a reader before it goes without the value: the moment that a copy takes, many times over.
const TURNS: u32 = if cfg!(miri) { 50 } else { 10_000 };

/// A value that one holder at a time may touch.
pub struct Exclusive<T> {
    /// Who has the value: the number given to [`Exclusive::try_hold_for`], or [`ANYBODY`]. 0 if nobody has it.
    holder: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: the value is touched by the holder alone, and holders follow each other by release and acquire. It may be
// made by one thread and dropped by another, hence `Send`.
unsafe impl<T: Send> Sync for Exclusive<T> {}

impl<T> Exclusive<T> {
    pub const fn new(value: T) -> Self {
        Exclusive {
            holder: AtomicUsize::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the value. Returns `None` while another holder has it.
    pub fn try_hold(&self) -> Option<Held<'_, T>> {
        self.try_hold_for(ANYBODY)
    }

    /// Takes the value for the thread whose number is `own`, which is not 0. Returns `None` if it is held, be it by the
    /// same thread, which [`Exclusive::is_held_by`] tells.
    #[inline]
    pub fn try_hold_for(&self, own: usize) -> Option<Held<'_, T>> {
        let exchange = self.holder.compare_exchange(0, own, Acquire, Relaxed);
        exchange.is_ok().then(|| Held(self, PhantomData)) // not `then_some`, which would drop one that is not held
    }

    /// Whether the thread whose number is `own` has the value.
    pub fn is_held_by(&self, own: usize) -> bool {
        self.holder.load(Relaxed) == own
    }

    /// Takes the value. Returns `None` if another holder has it for longer than a copy takes.
    pub fn hold(&self) -> Option<Held<'_, T>> {
        (0..TURNS).find_map(|_| {
            let held = self.try_hold();
            if held.is_none() {
                spin_loop();
            }
            held
        })
    }

    /// Takes the value from whoever has it.
    ///
    /// # Safety
    /// Nobody who still runs uses it: after the last use of what [`Held::keep`] returned.
    pub unsafe fn take_over(&self) -> Held<'_, T> {
        self.holder.store(ANYBODY, Relaxed);
        Held(self, PhantomData)
    }

    /// Takes the value from a thread of the parent.
    pub fn take_in_child(&self, _child: &Child) -> Held<'_, T> {
        // SAFETY: the threads of the parent are gone, and the one of the child uses nothing of its parent's.
        unsafe { self.take_over() }
    }
}

/// A value that nobody else touches until this is dropped. A reference to it gives out a `&T`, so threads may share it
/// only if they may share `T`: the marker has what a `&mut T` has.
pub struct Held<'a, T>(&'a Exclusive<T>, PhantomData<&'a mut T>);

impl<'a, T> Held<'a, T> {
    /// Holds the value for good.
    pub fn keep(self) -> &'a mut T {
        let value = self.0.value.get();
        std::mem::forget(self);
        // SAFETY: this was the holder, and never frees the value.
        unsafe { &mut *value }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this is the holder.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the holder, and `self` is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.0.holder.store(0, Release);
    }
}

/// The latest of the values that hooks have set: a writer that finds it busy leaves its own value away.
pub struct Latest<T>(Exclusive<Option<T>>);

impl<T: Copy> Latest<T> {
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Latest(Exclusive::new(None))
    }

    /// Sets the value, unless another thread is at it.
    pub fn set(&self, value: &T) {
        if let Some(mut held) = self.0.try_hold() {
            *held = Some(*value);
        }
    }

    /// Returns a copy, or `None` if nothing was set, or another thread is at it for long.
    pub fn get(&self) -> Option<T> {
        *self.0.hold()?
    }

    /// The value in its place, for a reader whose stack is small; `None` as in [`Latest::get`]. Writers leave theirs
    /// away meanwhile.
    pub fn hold(&self) -> Option<HeldLatest<'_, T>> {
        let held = self.0.hold()?;
        held.is_some().then_some(HeldLatest(held))
    }

    /// Forgets the value, unless another thread is at it for long.
    pub fn clear(&self) {
        if let Some(mut held) = self.0.hold() {
            *held = None;
        }
    }

    /// Forgets the value of the parent.
    pub fn clear_in_child(&self, child: &Child) {
        *self.0.take_in_child(child) = None;
    }
}

/// A value that is there, and that nobody else touches until this is dropped.
pub struct HeldLatest<'a, T>(Held<'a, Option<T>>);

impl<T> Deref for HeldLatest<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        let value = self.0.as_ref();
        value.expect("`Latest::hold` found it, and nobody else has taken it since")
    }
}

/// The number of the holder of a value that stays.
const SET: usize = usize::MAX;

/// A value that is set once in a process, and stays. Threads share it, so they must be allowed to share a `T`.
pub struct Published<T>(Exclusive<Option<T>>, PhantomData<T>);

impl<T: Copy> Published<T> {
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Published(Exclusive::new(None), PhantomData)
    }

    /// Sets the value to what `make` returns; does nothing if another call was first.
    pub fn set_once(&self, make: impl FnOnce() -> T) {
        if let Some(held) = self.0.try_hold() {
            *held.keep() = Some(make());
            self.0.holder.store(SET, Release);
        }
    }

    /// The value; `None` before it is there.
    pub fn get(&self) -> Option<&T> {
        let is_set = self.0.holder.load(Acquire) == SET;
        // SAFETY: the value was written, and nobody holds it any more.
        is_set.then(|| unsafe { (*self.0.value.get()).as_ref() })?
    }

    /// Lets the value be set anew.
    pub fn forget_in_child(&self, _child: &Child) {
        self.0.holder.store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Does not compile if a holder of a value that threads may not share is one that they may: then both
    /// implementations fit, and the call is ambiguous.
    trait NotShared<Mark> {
        fn check() {}
    }
    impl<T> NotShared<()> for T {}
    impl<T: Sync> NotShared<u8> for T {}

    #[test]
    fn threads_share_a_holder_only_if_they_may_share_the_value() {
        fn is_shared<T: Sync>() {}
        is_shared::<(Held<'_, u8>, HeldLatest<'_, u8>)>();
        is_shared::<(Exclusive<Cell<u8>>, Latest<Cell<u8>>)>();
        <Held<'_, Cell<u8>> as NotShared<_>>::check();
        <HeldLatest<'_, Cell<u8>> as NotShared<_>>::check();
        <Published<Cell<u8>> as NotShared<_>>::check();
    }

    #[test]
    fn a_value_that_is_held_is_not_given_to_another_and_a_writer_goes_without_it() {
        let latest = Latest::new();
        assert!(latest.get().is_none() && latest.hold().is_none());
        latest.set(&1);
        let held = latest.hold().unwrap();
        latest.set(&2);
        assert!(latest.hold().is_none() && latest.get().is_none());
        assert_eq!(*held, 1);
        drop(held);
        latest.set(&3);
        assert_eq!(latest.get(), Some(3));
    }

    #[test]
    fn what_is_kept_stays_busy_until_another_takes_it_over() {
        let cell = Exclusive::new(1);
        *cell.try_hold().unwrap().keep() = 2;
        assert!(cell.hold().is_none());
        // SAFETY: the only borrow has ended.
        assert_eq!(*unsafe { cell.take_over() }, 2);
        assert_eq!(*cell.hold().unwrap(), 2);
    }
}
