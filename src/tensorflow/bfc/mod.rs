//! A region of memory of the host's own, managed as TensorFlow's `BFCAllocator` does: best fit with coalescing.
//!
//! The region is one stretch of address space. It is tiled by *chunks*, live or free, of multiples of 256 bytes. A
//! request takes the smallest free chunk that fits; what is left over becomes a chunk of its own where it is as large
//! as the request, or 128 MiB. A freed chunk is merged with its free neighbours, so no two free chunks are ever
//! adjacent. Where nothing fits, the usable part of the region doubles, up to what was reserved.
//!
//! Unlike TensorFlow's, the region grows in place rather than by further regions, so a free chunk
//! at its end grows with it; and the tree of free chunks is in the chunks themselves. A call takes
//! logarithmic time in the number of free chunks.
//!
//! A [`Bfc`] is plain data: the caller holds a lock, so that one thread uses it at a time. Hooks such as malloc call
//! it: it takes no memory from any heap (see [`reserved`]), does not panic, and only [`Map::write`] formats. The memory
//! of free chunks goes back to the system when the caller asks for it ([`Bfc::give_back_idle`]); a large request for
//! zeroed memory takes fresh pages.

mod bins;
mod chunks;
mod reserved;
mod statistics;
#[cfg(test)]
mod tests;

use bins::FreeChunks;
use chunks::{Chunk, Chunks, Handle, Pages};
use pyhost_os::mapping::page_size;
use reserved::Reservation;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

pub use bins::BINS;
pub use chunks::GRANULE;
pub use statistics::{BinStatistics, ChunkView, Map, Statistics};

/// A remainder of so many granules is split off however large the request is (TensorFlow's
/// `kMaxInternalFragmentation`, 128 MiB).
const LARGE_REMAINDER: u32 = (128 << 20) / GRANULE as u32;

/// Free chunks from so many granules on give their memory back: 64 KiB, below which a call of the
/// system costs more than it brings.
const LEAST_GIVEN_BACK: u32 = (64 << 10) / GRANULE as u32;

/// Fewer free bytes than this that could be given back are not looked for.
const WORTH_A_LOOK: u64 = 1 << 20;

/// The region with all that is known of it.
///
/// Dropping it unmaps the region, with every live chunk in it.
pub struct Bfc {
    region: Reservation,
    chunks: Chunks,
    free: FreeChunks,
    /// Length of the usable part, which the chunks tile; at least one.
    granules: u32,
    /// The largest length of the usable part: the length of the reservation.
    maximum: u32,
    /// Bytes from the start that were ever part of a live chunk. Those beyond were never written to, so they are zero.
    touched: usize,
    /// Bytes of free chunks in the tree that could be given back.
    dirty_bytes: u64,
    /// Whether the memory of a chunk goes back the moment that it is freed.
    pub gives_back_at_once: bool,
    /// Figures that are kept up to date because they cannot be read off the chunks in constant time; the others are 0.
    counts: Statistics,
}

impl Bfc {
    /// Reserves `maximum` bytes of address space, of which the first `initial` are usable at
    /// once; both in whole pages, at least one.
    ///
    /// None where the system gives no address space, and for a terabyte or more, which granules
    /// cannot be numbered for in 32 bits.
    pub fn reserve(initial: usize, maximum: usize) -> Option<Bfc> {
        let page = page_size() as usize;
        let maximum = maximum.max(1).checked_next_multiple_of(page)?;
        let initial = initial.max(1).checked_next_multiple_of(page);
        let initial = initial.map_or(maximum, |initial| initial.min(maximum));
        let maximum_granules = u32::try_from(maximum / GRANULE).ok()?;
        let mut bfc = Bfc {
            region: Reservation::new(maximum)?,
            chunks: Chunks::reserve(maximum_granules)?,
            free: FreeChunks::default(),
            granules: 0,
            maximum: maximum_granules,
            touched: 0,
            dirty_bytes: 0,
            gives_back_at_once: false,
            counts: Statistics::default(),
        };
        // `initial` is at most `maximum`, so this does not cut it.
        bfc.extend_to((initial / GRANULE) as u32)?;
        Some(bfc)
    }

    /// Allocates `bytes`, or 1 for 0; with `zero`, these bytes are zero. None where no chunk fits
    /// and the region cannot grow enough, which leaves everything as it was.
    pub fn allocate(&mut self, bytes: usize, zero: bool) -> Option<NonNull<u8>> {
        let bytes = bytes.max(1);
        let taken = self.take(bytes);
        let Some((chunk, pointer)) = taken else {
            self.counts.failures += 1;
            return None;
        };
        if zero {
            let from = chunk.offset().min(self.touched);
            let to = (chunk.offset() + bytes).min(self.touched);
            // The chunk was free until now, so nobody uses its memory.
            self.region.clear(from, to);
        }
        self.touched = self.touched.max(chunk.end());
        Some(pointer)
    }

    /// Frees a live chunk and returns the bytes that it had. None for a pointer that is not the start of a live chunk:
    /// one that was freed before, one into a chunk, a foreign one; nothing is done.
    pub fn free(&mut self, pointer: *mut u8) -> Option<usize> {
        let handle = self.live(pointer)?;
        let chunk = &mut self.chunks[handle];
        let bytes = chunk.bytes();
        self.counts.live_bytes -= bytes as u64;
        self.counts.requested_bytes -= chunk.requested as u64;
        self.counts.live_chunks -= 1;
        chunk.allocation = 0;
        chunk.requested = 0;
        chunk.pages = Pages::USED;
        if self.gives_back_at_once {
            self.give_pages_back(handle);
        }
        self.merge(handle);
        Some(bytes)
    }

    /// Gives the memory of those free chunks back that were free at the previous call already, or of all with `all`;
    /// chunks of 64 KiB and more. Returns their bytes. The usable part stays as long as it is.
    pub fn give_back_idle(&mut self, all: bool) -> u64 {
        if self.dirty_bytes < WORTH_A_LOOK && !all {
            return 0;
        }
        let before = self.dirty_bytes;
        let mut at = self.chunks.first();
        while at.is_some() {
            let chunk = self.chunks[at];
            if can_give_back(&chunk) {
                match all || chunk.pages.are_idle {
                    true => {
                        self.give_pages_back(at);
                        let given = !self.chunks[at].pages.are_dirty;
                        self.dirty_bytes -= if given { chunk.bytes() as u64 } else { 0 };
                    }
                    false => self.chunks[at].pages.are_idle = true,
                }
            }
            at = chunk.next;
        }
        before - self.dirty_bytes
    }

    /// Resizes a live chunk where it is, to `bytes` or to 1 for 0, and returns its bytes before
    /// and after. None where the chunk would have to move, and for a pointer that [`Bfc::free`]
    /// would not take; nothing is done. The region does not grow for it.
    ///
    /// A smaller size gives the tail back by the rule that splits a chunk for a request: not
    /// where that would be less than what stays. A larger one takes the next chunk, if that is
    /// free and large enough, and splits by the same rule.
    pub fn reallocate_in_place(&mut self, block: *mut u8, bytes: usize) -> Option<(usize, usize)> {
        let handle = self.live(block)?;
        let bytes = bytes.max(1);
        let granules = granules_of(bytes)?;
        let before = self.chunks[handle];
        if granules > before.granules {
            let next = self.chunks[before.next];
            // Both lie in the region, so the sum does not overflow.
            if !next.is_free() || before.granules + next.granules < granules {
                return None;
            }
            self.take_out(before.next);
            self.chunks.join_next(handle);
        }
        self.trim(handle, granules, Pages::USED);
        self.chunks[handle].requested = bytes;
        let after = self.chunks[handle];
        self.touched = self.touched.max(after.end());
        self.counts.live_bytes -= before.bytes() as u64;
        self.counts.requested_bytes -= before.requested as u64;
        self.counts.add_live(&after);
        Some((before.bytes(), after.bytes()))
    }

    /// Bytes that may be used from the start of a live chunk; None as for [`Bfc::free`].
    pub fn usable(&self, pointer: *mut u8) -> Option<usize> {
        Some(self.chunks[self.live(pointer)?].bytes())
    }

    /// Start and length of the reserved address space.
    pub fn memory(&self) -> (*mut u8, usize) {
        let start = self.region.pointer(0).map_or(null_mut(), NonNull::as_ptr);
        (start, self.region.0.bytes())
    }

    /// The addresses of the allocator's own tables, which lie outside of the region.
    pub fn tables(&self) -> [Range<usize>; 2] {
        self.chunks.tables()
    }

    /// The live chunk that starts at `pointer`.
    fn live(&self, pointer: *mut u8) -> Option<Handle> {
        let offset = pointer.addr().checked_sub(self.region.address())?;
        if !offset.is_multiple_of(GRANULE) {
            return None;
        }
        let handle = self.chunks.starting_at(offset / GRANULE)?;
        (!self.chunks[handle].is_free()).then_some(handle)
    }

    /// Makes the best chunk for `bytes`, at least 1, a live one.
    fn take(&mut self, bytes: usize) -> Option<(Chunk, NonNull<u8>)> {
        let granules = granules_of(bytes)?;
        let handle = match self.free.best_fit(&self.chunks, granules) {
            Some(handle) => handle,
            None => self.grow(granules)?,
        };
        let pointer = self.region.pointer(self.chunks[handle].offset())?;
        self.take_out(handle);
        self.counts.allocations += 1;
        // Live before it is trimmed: else the remainder would be merged with it at once.
        self.chunks[handle].allocation = self.counts.allocations;
        self.chunks[handle].requested = bytes;
        self.trim(handle, granules, self.chunks[handle].pages);
        let chunk = self.chunks[handle];
        self.counts.add_live(&chunk);
        self.counts.live_chunks += 1;
        Some((chunk, pointer))
    }

    /// Splits off what a live chunk has beyond `granules`, which it holds, where that is worth a
    /// chunk, whose pages are as `pages` says.
    fn trim(&mut self, handle: Handle, granules: u32, pages: Pages) {
        let remainder = self.chunks[handle].granules - granules;
        if (remainder >= granules || remainder >= LARGE_REMAINDER)
            && let Some(rest) = self.chunks.split(handle, granules)
        {
            self.chunks[rest].pages = pages;
            self.merge(rest);
        }
    }

    /// Merges a free chunk, which is not in the tree, with its free neighbours, and puts what results in it.
    fn merge(&mut self, handle: Handle) -> Handle {
        let mut handle = handle;
        let Chunk { previous, next, .. } = self.chunks[handle];
        if self.chunks[next].is_free() {
            self.take_out(next);
            self.chunks.join_next(handle);
        }
        if self.chunks[previous].is_free() {
            self.take_out(previous);
            self.chunks.join_next(previous);
            handle = previous;
        }
        self.free.insert(&mut self.chunks, handle);
        if can_give_back(&self.chunks[handle]) {
            self.dirty_bytes += self.chunks[handle].bytes() as u64;
        }
        handle
    }

    /// Takes a free chunk out of the tree.
    fn take_out(&mut self, handle: Handle) {
        if can_give_back(&self.chunks[handle]) {
            self.dirty_bytes -= self.chunks[handle].bytes() as u64;
        }
        self.free.remove(&mut self.chunks, handle);
    }

    /// Gives the memory of a free chunk back, as far as it was ever used.
    fn give_pages_back(&mut self, handle: Handle) {
        let chunk = self.chunks[handle];
        let to = chunk.end().min(self.touched);
        if chunk.granules < LEAST_GIVEN_BACK {
            return;
        }
        // The chunk is free, so nobody uses its memory.
        if chunk.offset() >= to || self.region.give_back(chunk.offset(), to).is_some() {
            self.chunks[handle].pages = Pages::default();
        }
    }

    /// Doubles the usable part until its last chunk, which is free then, has `granules`. None,
    /// with nothing done, where the reservation is too short.
    fn grow(&mut self, granules: u32) -> Option<Handle> {
        let last = self.chunks[self.chunks.last()];
        let tail = if last.is_free() { last.granules } else { 0 };
        let mut length = self.granules;
        // The sum is at most `length`.
        while tail + (length - self.granules) < granules {
            if length >= self.maximum {
                return None;
            }
            length = length.saturating_mul(2).min(self.maximum);
        }
        let handle = self.extend_to(length)?;
        self.counts.growths += 1;
        Some(handle)
    }

    /// Makes the usable part `length` granules long, more than it is, and returns the free chunk at its end.
    fn extend_to(&mut self, length: u32) -> Option<Handle> {
        let last = self.chunks.last();
        let new = self
            .chunks
            .add(last, self.granules, length - self.granules)?;
        self.granules = length;
        Some(self.merge(new))
    }
}

impl Statistics {
    /// Counts the bytes of a chunk that is live now.
    fn add_live(&mut self, chunk: &Chunk) {
        self.live_bytes += chunk.bytes() as u64;
        self.requested_bytes += chunk.requested as u64;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
    }
}

/// Whether a chunk is free and has memory that is worth giving back.
#[inline]
fn can_give_back(chunk: &Chunk) -> bool {
    chunk.is_free() && chunk.pages.are_dirty && chunk.granules >= LEAST_GIVEN_BACK
}

/// Granules that hold `bytes`; None where there are too many to number.
#[inline]
fn granules_of(bytes: usize) -> Option<u32> {
    u32::try_from(bytes.div_ceil(GRANULE)).ok()
}
