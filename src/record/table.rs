//! The table of accounts, as the host's report and `pyhostctl` print it. Does not allocate.

#![deny(unsafe_code)]

use pyhost_os::bytes::Bytes;
use std::fmt::{self, Display, Write};

/// Pads a value to the right edge of its column. `Bytes` writes itself in pieces, which the
/// formatter's own width does not take.
pub struct Right<T>(pub T, pub usize);

impl<T: Display> Display for Right<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Count(usize);
        impl Write for Count {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0 += text.chars().count();
                Ok(())
            }
        }
        let mut count = Count(0);
        write!(count, "{}", self.0)?;
        for _ in count.0..self.1 {
            out.write_char(' ')?;
        }
        write!(out, "{}", self.0)
    }
}

/// Writes the titles, without the end of the line.
pub fn titles(out: &mut impl Write) -> fmt::Result {
    write!(
        out,
        "{:<8}{:>12}{:>12}{:>13}{:>14}",
        "account", "live", "peak", "live blocks", "allocations"
    )
}

/// Writes an account, without the end of the line: live and peak bytes, live blocks and allocations.
pub fn row(
    out: &mut impl Write,
    name: &str,
    [live, peak]: [u64; 2],
    [blocks, allocations]: [u64; 2],
) -> fmt::Result {
    write!(
        out,
        "{name:<8}{}{}{blocks:>13}{allocations:>14}",
        Right(Bytes(live), 12),
        Right(Bytes(peak), 12)
    )
}

/// Writes the line of the total.
pub fn total(out: &mut impl Write, live: u64, peak: u64) -> fmt::Result {
    let (live, peak) = (Right(Bytes(live), 12), Right(Bytes(peak), 12));
    writeln!(out, "{:<8}{live}{peak}", "total")
}
