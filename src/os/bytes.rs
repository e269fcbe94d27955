//! A number of bytes, as people read and write it.

use crate::format::text_into;
use std::fmt;

/// Displays as `512 B`, `1.5 KiB`, `23.4 MiB`: one decimal from a unit on, powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return padded(out, format_args!("{} B", self.0));
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
        let (whole, tenths, unit) = (tenths / 10, tenths % 10, UNITS[unit]);
        padded(out, format_args!("{whole}.{tenths} {unit}"))
    }
}

/// Writes a short text in the width that is asked for.
fn padded(out: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    let mut room = [0; 32];
    out.pad(text_into(&mut room, text))
}

/// Displays as `24 MiB`, `1536 KiB` or `25165825 B`: the exact number, in the largest unit that it is a
/// whole number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exact(pub u64);

impl fmt::Display for Exact {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut number = self.0;
        let mut unit = 0;
        while number > 0 && number.is_multiple_of(1024) && unit + 1 < UNITS.len() {
            number /= 1024;
            unit += 1;
        }
        write!(out, "{number} {}", UNITS[unit])
    }
}

/// The values that are allowed: the end of an error line about a bad one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected(pub &'static str);

impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for Expected {}

/// Reads a number of bytes: `512`, `64K`, `64KiB` (powers of 1024), `64KB` (powers of 1000), with
/// M, G and T likewise, as GNU's coreutils do; a fraction is allowed before a unit.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let scale: u64 = match unit {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "KB" => 1000,
        "MB" => 1000_u64.pow(2),
        "GB" => 1000_u64.pow(3),
        "TB" => 1000_u64.pow(4),
        _ => return None,
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let bytes = number.parse::<f64>().ok()? * scale as f64;
    (scale > 1 && bytes < (1_u64 << 53) as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Exact, parse};

    #[test]
    fn units_are_those_of_coreutils() {
        let sizes = "0=0 512=512 7B=7 64K=65536 64KiB=65536 64KB=64000 1.5M=1572864 2GB=2000000000 1T=1099511627776 \
            18446744073709551615=18446744073709551615 \
            1.5=none =none M=none .=none 1.2.3M=none 64m=none -1=none 99999999T=none 9999999.9T=none 18446744073709551616=none";
        for size in sizes.split(' ') {
            let (text, bytes) = size.split_once('=').unwrap();
            assert_eq!(parse(text), bytes.parse().ok(), "{text}");
        }
    }

    #[test]
    fn sizes_are_whole_numbers_of_a_unit_or_rounded_to_a_tenth_of_the_largest() {
        for (bytes, exact, rounded) in [
            (0, "0 B", "0 B"),
            (1023, "1023 B", "1023 B"),
            (1024, "1 KiB", "1.0 KiB"),
            (1536, "1536 B", "1.5 KiB"),
            (1_048_575, "1048575 B", "1.0 MiB"),
            (64 << 20, "64 MiB", "64.0 MiB"),
            (23 * 1_048_576 + 400_000, "24517248 B", "23.4 MiB"),
            (3 << 19, "1536 KiB", "1.5 MiB"),
            (64_000_000, "62500 KiB", "61.0 MiB"),
            (1 << 50, "1024 TiB", "1.0 PiB"),
            (u64::MAX, "18446744073709551615 B", "16384.0 PiB"),
        ] {
            assert_eq!(Exact(bytes).to_string(), exact);
            assert_eq!(Bytes(bytes).to_string(), rounded);
            assert_eq!(format!("{:>12}", Bytes(bytes)), format!("{rounded:>12}"));
        }
    }
}
