//! Lists for callers that must not allocate: one that grows, in mappings of its own, and one of a fixed capacity, in memory
//! that its user brings.

#![allow(unsafe_code)]

use crate::mapping::Mapped;
use std::ops::{Deref, DerefMut};
use std::{fmt, mem::MaybeUninit};

/// Bytes of the first mapping.
const FIRST: usize = 16 << 10;

/// A list of plain values. Its memory doubles when it is full.
pub struct MmapVec<T> {
    memory: Option<Mapped<MaybeUninit<T>>>,
    length: usize,
}

impl<T: Copy> MmapVec<T> {
    /// An empty list, without memory.
    pub const fn new() -> Self {
        MmapVec {
            memory: None,
            length: 0,
        }
    }

    /// A list of `length` times the same value. Returns `None` if the kernel has no memory.
    pub fn filled(length: usize, value: T) -> Option<Self> {
        let mut memory = Mapped::private(length)?;
        memory.fill(MaybeUninit::new(value));
        Some(MmapVec {
            memory: Some(memory),
            length,
        })
    }

    /// Appends an item; false, and it is lost, if the kernel has no memory for more.
    pub fn push(&mut self, item: T) -> bool {
        self.extend(&[item])
    }

    /// Appends items; false, and all are lost, if the kernel has no memory for them.
    pub fn extend(&mut self, items: &[T]) -> bool {
        let length = self.length + items.len();
        let capacity = self.capacity();
        let larger = length.max(2 * capacity).max(FIRST / size_of::<T>());
        if length > capacity {
            let Some(larger) = self.with_room(larger) else {
                return false;
            };
            *self = larger;
        }
        if let Some(memory) = &mut self.memory {
            for (place, item) in memory[self.length..length].iter_mut().zip(items) {
                place.write(*item);
            }
        }
        self.length = length;
        true
    }

    /// Takes an item out, and puts the last one in its place.
    pub fn swap_remove(&mut self, place: usize) -> T {
        let last = self.length - 1;
        self.swap(place, last);
        let item = self[last];
        self.length = last;
        item
    }

    /// Empties the list, which keeps its memory.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// A copy, without room for more. Returns `None` if the kernel has no memory.
    pub fn copied(&self) -> Option<Self> {
        match self.memory {
            None => Some(MmapVec::new()),
            Some(_) => self.with_room(self.length.max(1)),
        }
    }

    fn with_room(&self, capacity: usize) -> Option<Self> {
        let mut larger = Mapped::private(capacity)?;
        if let Some(memory) = &self.memory {
            larger[..self.length].copy_from_slice(&memory[..self.length]);
        }
        let (memory, length) = (Some(larger), self.length);
        Some(MmapVec { memory, length })
    }

    fn capacity(&self) -> usize {
        self.memory.as_ref().map_or(0, |memory| memory.len())
    }

    /// Its addresses; empty without memory.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        let memory = self.memory.as_ref();
        memory.map_or(0..0, Mapped::addresses)
    }
}

/// A text, which ends with an error if the kernel has no memory for more.
impl fmt::Write for MmapVec<u8> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match self.extend(text.as_bytes()) {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

impl<T: Copy> Default for MmapVec<T> {
    fn default() -> Self {
        MmapVec::new()
    }
}

impl<T> Deref for MmapVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.memory {
            // SAFETY: `push` and `filled` have written so many.
            Some(memory) => unsafe {
                std::slice::from_raw_parts(memory.as_ptr().cast(), self.length)
            },
            None => &[],
        }
    }
}

impl<T> DerefMut for MmapVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            // SAFETY: as in `deref`, and `self` is borrowed mutably.
            Some(memory) => unsafe {
                std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), self.length)
            },
            None => &mut [],
        }
    }
}

/// A list of a fixed capacity. Its items are not dropped.
pub struct Array<'a, T> {
    memory: &'a mut [MaybeUninit<T>],
    /// Items at the start that were written.
    length: usize,
}

impl<'a, T> Array<'a, T> {
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

    /// Appends items, as many as there is room for.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        items.into_iter().all(|item| self.push(item));
    }

    /// How many more there is room for.
    pub fn room(&self) -> usize {
        self.memory.len() - self.length
    }

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
    fn a_list_keeps_its_items_when_it_grows() {
        const COUNT: usize = if cfg!(miri) { 2000 } else { 10_000 };
        let mut list = MmapVec::new();
        assert!(list.is_empty() && list.addresses().is_empty());
        for number in 0..COUNT as u32 {
            assert!(list.push(number));
        }
        assert!(list.iter().copied().eq(0..COUNT as u32));
        list[7] = 1;
        assert_eq!((list[7], list.len()), (1, COUNT));
        assert_eq!(*MmapVec::filled(3, 5u8).unwrap(), [5; 3]);
        let mut copy = list.copied().unwrap();
        list[8] = 2;
        assert!(copy.extend(&[1; 2 * COUNT]) && copy.extend(&[]));
        assert_eq!((copy[8], copy[COUNT], copy.len()), (8, 1, 3 * COUNT));
        let nothing = MmapVec::<u32>::new();
        assert!(nothing.copied().unwrap().extend(&[]));
    }

    #[test]
    fn a_list_keeps_what_fits() {
        let mut memory = [MaybeUninit::uninit(); 2];
        let mut list = Array::new(&mut memory);
        assert!(list.push(1) && list.push(2) && !list.push(3));
        assert_eq!(*list, [1, 2]);
        assert_eq!((list.pop(), list.room()), (Some(2), 1));
        assert_eq!((list.pop(), list.pop()), (Some(1), None));
        list.extend([4, 5, 6]);
        assert_eq!(*list, [4, 5]);
    }
}
