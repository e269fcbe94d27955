//! The table of accounts, as the host's report and `pyhostctl` print it. Does not allocate.

#![deny(unsafe_code)]

use pyhost_os::{bytes::Bytes, terminal_text::Plain};
use std::fmt::{self, Write};

/// Writes the titles, without the end of the line.
pub fn titles(out: &mut impl Write) -> fmt::Result {
    out.write_str("account         live        peak  live blocks   allocations")
}

/// Writes an account, without the end of the line: live and peak bytes, live blocks and allocations.
pub fn row(
    out: &mut impl Write,
    name: &str,
    [live, peak]: [u64; 2],
    [blocks, allocations]: [u64; 2],
) -> fmt::Result {
    let (live, peak) = (Bytes(live), Bytes(peak));
    write!(out, "{name:<8}{live:>12}{peak:>12}")?;
    write!(out, "{blocks:>13}{allocations:>14}")
}

pub fn total(out: &mut impl Write, live: u64, peak: u64) -> fmt::Result {
    let (live, peak) = (Bytes(live), Bytes(peak));
    writeln!(out, "{:<8}{live:>12}{peak:>12}", "total")
}

/// The moment with the most resident memory.
pub struct HighestResident {
    /// From the start.
    pub seconds: f64,
    pub resident: u64,
    /// Live bytes of all accounts.
    pub live: u64,
    /// Libraries' maps, heaps, files, stacks, libraries' data and others.
    pub parts: [u64; 6],
    /// By how much the kernel's peak is higher.
    pub missed: Option<u64>,
}

impl HighestResident {
    /// Whether the table has it: libraries' maps are a part of it, or an eighth more was resident than the table shows anyway.
    pub fn says_more_than(&self, shown: u64) -> bool {
        self.resident > shown.saturating_add(shown / 8) || self.parts[0] > self.resident / 8
    }

    pub fn parts(&self, out: &mut impl Write) -> fmt::Result {
        let [maps, heaps, files, stacks, data, others] = self.parts.map(Bytes);
        let (resident, live) = (Bytes(self.resident), Bytes(self.live));
        let seconds = self.seconds;
        writeln!(
            out,
            "at the highest resident size, after {seconds:.2} s: resident {resident}, with {live} live, of which\n  \
             libraries' maps {maps}, heaps {heaps}, files {files}, stacks {stacks}, libraries' data {data}, others {others}"
        )
    }

    /// Writes by how much the kernel's peak is higher, if that is a 32nd of it.
    pub fn missed(&self, out: &mut impl Write) -> fmt::Result {
        match self.missed {
            Some(missed) if missed > self.resident.saturating_add(missed) / 32 => writeln!(
                out,
                "the kernel's peak (VmHWM) was {} higher than the highest moment that was seen",
                Bytes(missed)
            ),
            _ => Ok(()),
        }
    }
}

/// Writes who has mapped memory, each with mapped and resident bytes: those that have the most resident of it, of those that have
/// the most mapped.
pub fn mapped_by<'a>(
    all: impl Iterator<Item = (&'a str, [u64; 2])> + Clone,
    out: &mut impl Write,
) -> fmt::Result {
    /// Libraries at most.
    const MOST: usize = 4;
    let mut separator = "mapped by ";
    let mut least = (u64::MAX, u64::MAX);
    for _ in 0..MOST {
        let rank = |&(_, [mapped, resident]): &(_, [u64; 2])| (resident, mapped);
        let rest = all.clone().filter(|it| rank(it) < least);
        let Some((name, [mapped, resident])) = rest.max_by_key(rank) else {
            break;
        };
        least = (resident, mapped);
        let (name, mapped, resident) = (Plain(name), Bytes(mapped), Bytes(resident));
        write!(out, "{separator}{name} {mapped} (resident {resident})")?;
        separator = ", ";
    }
    match least.0 {
        u64::MAX => Ok(()),
        _ => writeln!(out),
    }
}
