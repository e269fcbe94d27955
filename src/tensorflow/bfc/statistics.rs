//! Statistics of a region: totals, totals by bin, and the single chunks; and their text, after the dump that TensorFlow prints
//! where its allocator runs out of memory.
//!
//! Plain figures, taken without allocating. Bytes are usable bytes, in whole granules, unless
//! they are called requested.

use super::bins::{bin_of, bin_start};
use super::{BINS, Bfc, GRANULE};
use pyhost_os::bytes::Bytes;
use std::fmt::{Result, Write};
use std::iter::successors;

/// A region's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes of the usable part, live and free.
    pub region_bytes: u64,
    /// Bytes of address space: what the usable part may grow to.
    pub reserved_bytes: u64,
    pub live_bytes: u64,
    /// Bytes that were asked for in live chunks.
    pub requested_bytes: u64,
    pub peak_live_bytes: u64,
    pub live_chunks: u64,
    pub free_bytes: u64,
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
    pub total_chunks: u64,
    pub total_bytes: u64,
    pub live_chunks: u64,
    pub live_bytes: u64,
    /// Bytes that were asked for in live chunks.
    pub requested_bytes: u64,
    pub free_chunks: u64,
    pub free_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkView {
    pub address: usize,
    pub size: usize,
    /// Bytes that were asked for; 0 where free.
    pub requested: usize,
    /// The number of the allocation that it serves, counted from 1; None where free.
    pub allocation: Option<u64>,
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
            free_chunks: self.free.chunks,
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
        let chunks = handles.take_while(|at| at.is_some());
        let chunks = chunks.map(|at| self.chunks[at]);
        chunks.map(|chunk| ChunkView {
            address: self.region.address() + chunk.offset(),
            size: chunk.bytes(),
            requested: chunk.requested,
            allocation: (!chunk.is_free()).then_some(chunk.allocation),
            bin: bin_of(chunk.granules),
        })
    }

    /// The region at this moment. Visits every chunk.
    pub fn map(&self) -> Map {
        Map {
            statistics: self.statistics(),
            bins: self.bins(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Map {
    pub statistics: Statistics,
    pub bins: [BinStatistics; BINS],
}

impl Map {
    /// Writes the map, with a line for each of `chunks`. Errors are those of `out`.
    pub fn write(&self, chunks: &[ChunkView], out: &mut impl Write) -> Result {
        let bins = self.bins.iter().enumerate();
        for (index, bin) in bins.filter(|(_, bin)| bin.total_chunks > 0) {
            write_bin(out, index, bin)?;
        }
        for chunk in chunks {
            write_chunk(out, chunk)?;
        }
        write_sums(out, &self.statistics)
    }
}

fn write_bin(out: &mut impl Write, index: usize, bin: &BinStatistics) -> Result {
    write!(out, "bin {index:2}, from {}", Bytes(bin.from_bytes))?;
    if let Some(to) = bin.to_bytes {
        write!(out, " to below {}", Bytes(to))?;
    }
    let [chunks, used] = [bin.total_chunks, bin.live_chunks];
    write!(out, ": {chunks} chunks, {used} in use; ")?;
    let [all, live, asked] = [bin.total_bytes, bin.live_bytes, bin.requested_bytes].map(Bytes);
    writeln!(out, "{all}, {live} in use, {asked} requested")
}

fn write_chunk(out: &mut impl Write, chunk: &ChunkView) -> Result {
    let [address, size, asked] = [chunk.address, chunk.size, chunk.requested];
    let Some(number) = chunk.allocation else {
        return writeln!(out, "free   {address:#014x} {size}");
    };
    write!(out, "in use {address:#014x} {size} ")?;
    writeln!(out, "({asked} B requested, allocation {number})")
}

fn write_sums(out: &mut impl Write, sums: &Statistics) -> Result {
    let [reserved, region] = [sums.reserved_bytes, sums.region_bytes].map(Bytes);
    let (growths, failures) = (sums.growths, sums.failures);
    writeln!(
        out,
        "reserved {reserved}, region {region} after {growths} growths"
    )?;
    let [live, asked, peak] =
        [sums.live_bytes, sums.requested_bytes, sums.peak_live_bytes].map(Bytes);
    write!(out, "in use {live} in {} chunks, ", sums.live_chunks)?;
    writeln!(out, "{asked} requested, peak {peak}")?;
    let [free, largest] = [sums.free_bytes, sums.largest_free_bytes].map(Bytes);
    let (chunks, fragmentation) = (sums.free_chunks, sums.fragmentation() * 100.0);
    write!(out, "free {free} in {chunks} chunks, largest {largest}, ")?;
    writeln!(out, "fragmentation {fragmentation:.1} %")?;
    writeln!(out, "{} allocations, {failures} failures", sums.allocations)
}
