//! A list of a fixed capacity in memory that its user brings. Nothing here allocates.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// A list of a fixed capacity. Its items are not dropped.
pub struct Array<'a, T> {
    memory: &'a mut [MaybeUninit<T>],
    /// Items at the start that were written.
    length: usize,
}

impl<'a, T> Array<'a, T> {
    /// An empty list.
    pub fn new(memory: &'a mut [MaybeUninit<T>]) -> Self {
        Array { memory, length: 0 }
    }

    /// Appends an item; false, and it is lost, if the list is full.
    pub fn push(&mut self, item: T) -> bool {
        let Some(place) = self.memory.get_mut(self.length) else {
            return false;
        };
        place.write(item);
        self.length += 1;
        true
    }

    /// How many more there is room for.
    pub fn room(&self) -> usize {
        self.memory.len() - self.length
    }

    /// Takes the last item.
    pub fn pop(&mut self) -> Option<T>
    where
        T: Copy,
    {
        let last = self.last().copied()?;
        self.length -= 1;
        Some(last)
    }
}

impl<T> Deref for Array<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `push` has written so many.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.length) }
    }
}

impl<T> DerefMut for Array<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_what_fits() {
        let mut memory = [MaybeUninit::uninit(); 2];
        let mut list = Array::new(&mut memory);
        assert!(list.push(1) && list.push(2) && !list.push(3));
        assert_eq!(*list, [1, 2]);
        assert_eq!((list.pop(), list.room()), (Some(2), 1));
        assert_eq!((list.pop(), list.pop()), (Some(1), None));
    }
}
