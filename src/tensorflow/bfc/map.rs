//! The map of a region as text, after the dump that TensorFlow prints where its allocator runs
//! out of memory: a line for each bin with chunks, a line a chunk if asked for, the sums.
//!
//! Writes directly to its output and allocates nothing.

use super::{BINS, Bfc, BinStatistics, ChunkView, Statistics};
use pyhost_os::bytes::Bytes;
use std::fmt::{Result, Write};

/// A region at one moment.
#[derive(Clone, Debug)]
pub struct Map {
    /// The sums.
    pub statistics: Statistics,
    /// The sums of each bin.
    pub bins: [BinStatistics; BINS],
}

impl Bfc {
    /// The region at this moment. Visits every chunk.
    pub fn map(&self) -> Map {
        Map {
            statistics: self.statistics(),
            bins: self.bins(),
        }
    }
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
