//! The free chunks, ordered by size and, among equals, by address; and TensorFlow's 21 bins of sizes, which the statistics
//! sum by.
//!
//! The free chunks are a treap, a search tree by (size, address) that is
//! at the same time a heap by a number which looks random, so its depth is logarithmic whatever
//! the order of events. The links lie in the chunks themselves: an insertion needs no memory.
//!
//! Bin `i` is of chunks from `256 << i` bytes up to, not including, `256 << (i + 1)`; the
//! last one is of all that are larger.
//!
//! No recursion, so that the stack that is needed does not depend on the tree.

use super::chunks::{Chunks, GRANULE, Handle};

/// The number of bins (TensorFlow's `kNumBins`).
pub const BINS: usize = 21;

/// The bin of a chunk of so many granules, at least one.
#[inline]
pub fn bin_of(granules: u32) -> usize {
    (granules.max(1).ilog2() as usize).min(BINS - 1)
}

/// The fewest bytes of a chunk in a bin.
pub fn bin_start(bin: usize) -> usize {
    GRANULE << bin.min(BINS - 1)
}

/// A place that links to a node.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Left(Handle),
    Right(Handle),
}

#[derive(Default)]
pub struct FreeChunks {
    pub(super) root: Handle,
    pub chunks: u64,
}

impl FreeChunks {
    /// The smallest free chunk of at least so many granules; of several, that of the lowest address.
    pub fn best_fit(&self, chunks: &Chunks, granules: u32) -> Option<Handle> {
        let (mut found, mut at) = (None, self.root);
        while at.is_some() {
            if chunks[at].granules >= granules {
                found = Some(at);
                at = chunks[at].left;
            } else {
                at = chunks[at].right;
            }
        }
        found
    }

    /// Granules of the largest free chunk; 0 where there is none.
    pub fn largest(&self, chunks: &Chunks) -> u32 {
        let (mut largest, mut at) = (0, self.root);
        while at.is_some() {
            largest = chunks[at].granules;
            at = chunks[at].right;
        }
        largest
    }

    /// Takes a free chunk up. Its size must not change until [`FreeChunks::remove`].
    pub fn insert(&mut self, chunks: &mut Chunks, handle: Handle) {
        let key = key(chunks, handle);
        let mut place = Place::Root;
        let mut at = self.link(chunks, place);
        while at.is_some() && priority(at) > priority(handle) {
            place = step(chunks, at, key);
            at = self.link(chunks, place);
        }
        self.set(chunks, place, handle);
        // The subtree that was there has a lower priority. The search path for the new key splits it into
        // the chunks before and the chunks after.
        let (mut before, mut after) = (Place::Left(handle), Place::Right(handle));
        while at.is_some() {
            let below = step(chunks, at, key);
            match below {
                Place::Right(_) => {
                    self.set(chunks, before, at);
                    before = below;
                }
                _ => {
                    self.set(chunks, after, at);
                    after = below;
                }
            }
            at = self.link(chunks, below);
        }
        self.set(chunks, before, Handle::NONE);
        self.set(chunks, after, Handle::NONE);
        self.chunks += 1;
    }

    /// Takes a chunk out that [`FreeChunks::insert`] took up. Nothing is done for another one.
    pub fn remove(&mut self, chunks: &mut Chunks, handle: Handle) {
        let key = key(chunks, handle);
        let mut place = Place::Root;
        let mut at = self.link(chunks, place);
        while at != handle {
            if !at.is_some() {
                return;
            }
            place = step(chunks, at, key);
            at = self.link(chunks, place);
        }
        // The two subtrees are merged in its place, the higher priority on top.
        let (mut left, mut right) = (chunks[handle].left, chunks[handle].right);
        while left.is_some() && right.is_some() {
            if priority(left) > priority(right) {
                self.set(chunks, place, left);
                place = Place::Right(left);
                left = chunks[left].right;
            } else {
                self.set(chunks, place, right);
                place = Place::Left(right);
                right = chunks[right].left;
            }
        }
        self.set(chunks, place, if left.is_some() { left } else { right });
        chunks[handle].left = Handle::NONE;
        chunks[handle].right = Handle::NONE;
        self.chunks = self.chunks.saturating_sub(1);
    }

    fn link(&self, chunks: &Chunks, place: Place) -> Handle {
        match place {
            Place::Root => self.root,
            Place::Left(handle) => chunks[handle].left,
            Place::Right(handle) => chunks[handle].right,
        }
    }

    fn set(&mut self, chunks: &mut Chunks, place: Place, to: Handle) {
        match place {
            Place::Root => self.root = to,
            Place::Left(handle) => chunks[handle].left = to,
            Place::Right(handle) => chunks[handle].right = to,
        }
    }
}

/// The order of the tree: size, then address. No two chunks have the same key.
#[inline]
fn key(chunks: &Chunks, handle: Handle) -> (u32, u32) {
    let chunk = &chunks[handle];
    (chunk.granules, chunk.start)
}

/// The link below a node that leads towards a key.
#[inline]
fn step(chunks: &Chunks, at: Handle, towards: (u32, u32)) -> Place {
    if key(chunks, at) < towards {
        Place::Right(at)
    } else {
        Place::Left(at)
    }
}

/// The node's rank in the tree: the handle, scrambled (the finaliser of MurmurHash3). A number
/// of its own for each handle, so nothing need be stored and no two are equal.
#[inline]
pub(super) fn priority(handle: Handle) -> u32 {
    let mut bits = handle.0;
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x85EB_CA6B);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xC2B2_AE35);
    bits ^ (bits >> 16)
}
