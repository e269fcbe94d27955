//! Statistics of a region: totals, totals by bin, and the single chunks.
//!
//! Plain figures, taken without allocating. Bytes are usable bytes, in whole granules, unless
//! they are called requested.

use super::bins::{bin_of, bin_start};
use super::{BINS, Bfc, GRANULE};
use std::iter::successors;

/// A region's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes of the usable part, live and free.
    pub region_bytes: u64,
    /// Bytes of address space: what the usable part may grow to.
    pub reserved_bytes: u64,
    /// Bytes of live chunks.
    pub live_bytes: u64,
    /// Bytes that were asked for in live chunks.
    pub requested_bytes: u64,
    /// The highest live bytes so far.
    pub peak_live_bytes: u64,
    /// Live chunks.
    pub live_chunks: u64,
    /// Bytes of free chunks.
    pub free_bytes: u64,
    /// Free chunks.
    pub free_chunks: u64,
    /// Bytes of the largest free chunk; 0 where there is none.
    pub largest_free_bytes: u64,
    /// Allocations so far that were met; also the number of the latest.
    pub allocations: u64,
    /// How often the usable part grew, by whatever factor.
    pub growths: u64,
    /// Allocations so far that could not be met.
    pub failures: u64,
}

impl Statistics {
    /// The part of the free bytes that is not in the largest free chunk: 0 where all of them are,
    /// or there are none, near 1 where they are in splinters.
    pub fn fragmentation(&self) -> f64 {
        if self.free_bytes == 0 {
            return 0.0;
        }
        1.0 - self.largest_free_bytes as f64 / self.free_bytes as f64
    }
}

/// One bin's sums, over the live and the free chunks of its sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BinStatistics {
    /// The fewest bytes of a chunk of this bin.
    pub from_bytes: u64,
    /// More bytes than any of its chunks has; None for the last bin.
    pub to_bytes: Option<u64>,
    /// All chunks.
    pub total_chunks: u64,
    /// Their bytes.
    pub total_bytes: u64,
    /// Live chunks.
    pub live_chunks: u64,
    /// Bytes of live chunks.
    pub live_bytes: u64,
    /// Bytes that were asked for in live chunks.
    pub requested_bytes: u64,
    /// Free chunks.
    pub free_chunks: u64,
    /// Bytes of free chunks.
    pub free_bytes: u64,
}

/// One chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkView {
    /// Where it starts.
    pub address: usize,
    /// Its bytes.
    pub size: usize,
    /// Bytes that were asked for; 0 where free.
    pub requested: usize,
    /// The number of the allocation that it serves, counted from 1; None where free.
    pub allocation: Option<u64>,
    /// The bin of its size.
    pub bin: usize,
}

impl ChunkView {
    /// Whether an allocation holds it.
    pub fn is_live(&self) -> bool {
        self.allocation.is_some()
    }
}

impl Bfc {
    /// The sums of this moment. In logarithmic time: the largest free chunk is looked up.
    pub fn statistics(&self) -> Statistics {
        let bytes = |granules: u32| granules as u64 * GRANULE as u64;
        Statistics {
            region_bytes: bytes(self.granules),
            reserved_bytes: bytes(self.maximum),
            free_bytes: bytes(self.granules).saturating_sub(self.counts.live_bytes),
            free_chunks: self.free.chunks(),
            largest_free_bytes: bytes(self.free.largest(&self.chunks)),
            ..self.counts
        }
    }

    /// The sums of each bin. Visits every chunk.
    pub fn bins(&self) -> [BinStatistics; BINS] {
        let mut bins = [BinStatistics::default(); BINS];
        for (index, bin) in bins.iter_mut().enumerate() {
            bin.from_bytes = bin_start(index) as u64;
            bin.to_bytes = (index + 1 < BINS).then(|| bin_start(index + 1) as u64);
        }
        for chunk in self.chunks() {
            let Some(bin) = bins.get_mut(chunk.bin) else {
                continue;
            };
            let bytes = chunk.size as u64;
            bin.total_chunks += 1;
            bin.total_bytes += bytes;
            if chunk.is_live() {
                bin.live_chunks += 1;
                bin.live_bytes += bytes;
                bin.requested_bytes += chunk.requested as u64;
            } else {
                bin.free_chunks += 1;
                bin.free_bytes += bytes;
            }
        }
        bins
    }

    /// Every chunk, by ascending address.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkView> {
        let handles = successors(Some(self.chunks.first()), |&at| Some(self.chunks[at].next));
        let chunks = handles
            .take_while(|at| at.is_some())
            .map(|at| self.chunks[at]);
        chunks.map(|chunk| ChunkView {
            address: self.region.address() + chunk.offset(),
            size: chunk.bytes(),
            requested: chunk.requested,
            allocation: (!chunk.is_free()).then_some(chunk.allocation),
            bin: bin_of(chunk.granules),
        })
    }
}
