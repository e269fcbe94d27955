//! A number of bytes, as people read it.

use std::fmt;

/// Displays as `512 B`, `1.5 KiB`, `23.4 MiB`: one decimal from a unit on, powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return write!(out, "{} B", self.0);
        }
        // In tenths, rounded, and never "1024.0" of a unit.
        let mut unit = 0;
        let mut scale: u128 = 1024;
        let tenths = |scale: u128| (u128::from(self.0) * 10 + scale / 2) / scale;
        while tenths(scale) >= 10240 && unit + 1 < UNITS.len() {
            scale *= 1024;
            unit += 1;
        }
        let tenths = tenths(scale);
        write!(out, "{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn sizes_are_rounded_to_a_tenth_of_the_largest_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1048575, "1.0 MiB"),
            (23 * 1048576 + 400_000, "23.4 MiB"),
            (u64::MAX, "16384.0 PiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
