//! The chunks of the region: a table of them, in a ring by address, and a map from addresses.
//!
//! A chunk is named by a [`Handle`], its index in the table; entries that are no chunk's wait in
//! a list. All lengths are in granules of 256 bytes, so that 32 bits name any place.

use super::reserved::Table;
use pyhost_os::zeros_are_valid;
use std::ops::{Index, IndexMut, Range};

/// Bytes of a granule: every chunk starts at a multiple of it and is a multiple long
/// (TensorFlow's `kMinAllocationSize`).
pub const GRANULE: usize = 256;

/// Index of a chunk in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Handle(pub(super) u32);

zeros_are_valid!(Handle: 0);

impl Handle {
    /// No chunk. As an index, the head of the ring.
    pub const NONE: Handle = Handle(0);

    #[inline]
    pub fn is_some(self) -> bool {
        self != Handle::NONE
    }
}

/// The head's allocation, so that it never counts as a free neighbour.
const HEAD_ALLOCATION: u64 = u64::MAX;

/// The content of a free chunk's pages; by default, of a chunk without memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Whether they may hold memory that could be given back.
    pub are_dirty: bool,
    /// Whether they were free at the last look for such memory.
    pub are_idle: bool,
}

impl Pages {
    /// Of a chunk that was used until now.
    pub const USED: Pages = Pages {
        are_dirty: true,
        are_idle: false,
    };
}

/// A stretch of the region, live or free.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk {
    /// Bytes that the caller asked for; 0 where free.
    pub requested: usize,
    /// Number of the allocation that it serves, from 1; 0 where free.
    pub allocation: u64,
    /// First granule in the region.
    pub start: u32,
    /// Length in granules; at least one.
    pub granules: u32,
    /// Neighbours by address; the head beyond either end of the region.
    pub previous: Handle,
    pub next: Handle,
    /// Children in the tree, where free: those before and those after it.
    pub left: Handle,
    pub right: Handle,
    /// Where free: its pages.
    pub pages: Pages,
}

zeros_are_valid!(Pages: are_dirty, are_idle);
zeros_are_valid!(Chunk: requested, allocation, start, granules, previous, next, left, right, pages);

impl Chunk {
    #[inline]
    pub fn is_free(&self) -> bool {
        self.allocation == 0
    }

    #[inline]
    pub fn bytes(&self) -> usize {
        self.granules as usize * GRANULE
    }

    /// Where it starts, in bytes from the region's start.
    #[inline]
    pub fn offset(&self) -> usize {
        self.start as usize * GRANULE
    }

    /// Where it ends, in bytes from the region's start.
    #[inline]
    pub fn end(&self) -> usize {
        self.offset() + self.bytes()
    }
}

/// The table of chunks and the map.
///
/// Entry 0 is the head of the ring: live for ever and of no size. It spares each look at a
/// neighbour the question whether there is one.
pub struct Chunks {
    entries: Table<Chunk>,
    /// For each granule the chunk that starts there.
    starts: Table<Handle>,
    /// Entries that were given back, linked by `next`.
    unused: Handle,
    /// The first entry that never was a chunk.
    fresh: u32,
}

impl Chunks {
    /// Reserves what a region of `granules` can need: at worst a chunk a granule, and the head.
    pub fn reserve(granules: u32) -> Option<Chunks> {
        let mut chunks = Chunks {
            entries: Table::reserve(granules as usize + 1)?,
            starts: Table::reserve(granules as usize)?,
            unused: Handle::NONE,
            fresh: 1,
        };
        chunks[Handle::NONE].allocation = HEAD_ALLOCATION;
        Some(chunks)
    }

    pub fn tables(&self) -> [Range<usize>; 2] {
        [self.entries.0.addresses(), self.starts.0.addresses()]
    }

    /// The chunk that starts at a granule of the region.
    #[inline]
    pub fn starting_at(&self, granule: usize) -> Option<Handle> {
        if granule >= self.starts.0.len() {
            return None;
        }
        let handle = *self.starts.at(granule as u32);
        handle.is_some().then_some(handle)
    }

    /// The chunk of the lowest address.
    pub fn first(&self) -> Handle {
        self[Handle::NONE].next
    }

    /// The chunk of the highest address.
    pub fn last(&self) -> Handle {
        self[Handle::NONE].previous
    }

    /// Makes a free chunk that follows the chunk `after`. None where the table is full, which it
    /// cannot be while chunks do not overlap.
    pub fn add(&mut self, after: Handle, start: u32, granules: u32) -> Option<Handle> {
        let handle = self.take_entry()?;
        let next = self[after].next;
        self[handle] = Chunk {
            start,
            granules,
            previous: after,
            next,
            ..Chunk::default()
        };
        self[after].next = handle;
        self[next].previous = handle;
        *self.starts.at_mut(start) = handle;
        Some(handle)
    }

    /// Cuts a chunk down to `granules`, fewer than it has; the rest becomes a free chunk, which is not in the tree yet.
    pub fn split(&mut self, handle: Handle, granules: u32) -> Option<Handle> {
        let whole = self[handle];
        let rest = self.add(handle, whole.start + granules, whole.granules - granules)?;
        self[handle].granules = granules;
        Some(rest)
    }

    /// Adds the next chunk, which is not in the tree, to this one. How long the pages were free is as of
    /// the longer one: else a small chunk in steady use would keep its neighbour's.
    pub fn join_next(&mut self, handle: Handle) {
        let next = self[handle].next;
        let lost = self[next];
        let own = &mut self[handle];
        own.pages.are_dirty |= lost.pages.are_dirty;
        if lost.granules > own.granules {
            own.pages.are_idle = lost.pages.are_idle;
        }
        own.granules += lost.granules;
        own.next = lost.next;
        self[lost.next].previous = handle;
        // Else a stale pointer to the lost chunk would find the entry's next owner.
        *self.starts.at_mut(lost.start) = Handle::NONE;
        self.give_entry(next);
    }

    /// Asserts that every entry is the head, one of the `count` chunks, or unused.
    #[cfg(test)]
    pub(super) fn check(&self, count: usize) {
        let head = self[Handle::NONE];
        assert_eq!((head.allocation, head.granules), (HEAD_ALLOCATION, 0));
        let (mut unused, mut at) = (0, self.unused);
        while at.is_some() {
            assert!(at.0 < self.fresh && self[at].granules == 0);
            at = self[at].next;
            unused += 1;
        }
        assert_eq!(1 + count + unused, self.fresh as usize);
    }

    fn take_entry(&mut self) -> Option<Handle> {
        let handle = self.unused;
        if handle.is_some() {
            self.unused = self[handle].next;
            return Some(handle);
        }
        if self.fresh as usize >= self.entries.0.len() {
            return None;
        }
        let handle = Handle(self.fresh);
        self.fresh += 1;
        Some(handle)
    }

    fn give_entry(&mut self, handle: Handle) {
        self[handle] = Chunk {
            next: self.unused,
            ..Chunk::default()
        };
        self.unused = handle;
    }
}

impl Index<Handle> for Chunks {
    type Output = Chunk;

    #[inline]
    fn index(&self, handle: Handle) -> &Chunk {
        self.entries.at(handle.0)
    }
}

impl IndexMut<Handle> for Chunks {
    #[inline]
    fn index_mut(&mut self, handle: Handle) -> &mut Chunk {
        self.entries.at_mut(handle.0)
    }
}
