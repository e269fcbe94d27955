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
    writeln!(
        out,
        ": {} chunks, {} in use; {}, {} in use, {} requested",
        bin.total_chunks,
        bin.live_chunks,
        Bytes(bin.total_bytes),
        Bytes(bin.live_bytes),
        Bytes(bin.requested_bytes),
    )
}

fn write_chunk(out: &mut impl Write, chunk: &ChunkView) -> Result {
    match chunk.allocation {
        Some(allocation) => writeln!(
            out,
            "in use {:#014x} {} ({} B requested, allocation {allocation})",
            chunk.address, chunk.size, chunk.requested,
        ),
        None => writeln!(out, "free   {:#014x} {}", chunk.address, chunk.size),
    }
}

fn write_sums(out: &mut impl Write, sums: &Statistics) -> Result {
    writeln!(
        out,
        "reserved {}, region {} after {} growths",
        Bytes(sums.reserved_bytes),
        Bytes(sums.region_bytes),
        sums.growths,
    )?;
    writeln!(
        out,
        "in use {} in {} chunks, {} requested, peak {}",
        Bytes(sums.live_bytes),
        sums.live_chunks,
        Bytes(sums.requested_bytes),
        Bytes(sums.peak_live_bytes),
    )?;
    writeln!(
        out,
        "free {} in {} chunks, largest {}, fragmentation {:.1} %",
        Bytes(sums.free_bytes),
        sums.free_chunks,
        Bytes(sums.largest_free_bytes),
        sums.fragmentation() * 100.0,
    )?;
    writeln!(
        out,
        "{} allocations, {} failures",
        sums.allocations, sums.failures,
    )
}
