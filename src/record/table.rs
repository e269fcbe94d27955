//! The table of accounts, as the host's report and `pyhostctl` print it. Does not allocate.

#![deny(unsafe_code)]

use pyhost_os::bytes::Bytes;
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

/// Writes the line of the total.
pub fn total(out: &mut impl Write, live: u64, peak: u64) -> fmt::Result {
    let (live, peak) = (Bytes(live), Bytes(peak));
    writeln!(out, "{:<8}{live:>12}{peak:>12}", "total")
}
