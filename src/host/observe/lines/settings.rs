//! What `--lines` asks for.

use crate::bytes::{self, Expected};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineSettings {
    #[default]
    Off,
    /// One point every so many bytes.
    Every {
        /// The mean distance of two points, in bytes; 1 has every allocation sampled.
        interval: u64,
        /// Repeats the draws.
        seed: Option<u64>,
    },
}

/// The interval if none is given: see docs/results/lines.md for its cost.
const DEFAULT_INTERVAL: u64 = 128 << 10;
const MOST: u64 = 1 << 40;

impl LineSettings {
    /// What `--lines` without an interval asks for.
    pub const DEFAULT: Self = LineSettings::Every {
        interval: DEFAULT_INTERVAL,
        seed: None,
    };
}

impl FromStr for LineSettings {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let expected = Expected(
            "on, off, or a size from 1 to 1T such as 64K, with seed=N behind a comma if the draws shall repeat",
        );
        let (first, rest) = match text.split_once(',') {
            Some((first, rest)) => (first, Some(rest)),
            None => (text, None),
        };
        let interval = match first {
            "off" if rest.is_none() => return Ok(LineSettings::Off),
            "on" => DEFAULT_INTERVAL,
            _ => bytes::parse(first).ok_or(expected)?,
        };
        let seed = match rest {
            None => None,
            Some(rest) => {
                let seed = rest.strip_prefix("seed=").ok_or(expected)?;
                Some(seed.parse().map_err(|_| expected)?)
            }
        };
        match interval {
            1..=MOST => Ok(LineSettings::Every { interval, seed }),
            _ => Err(expected),
        }
    }
}

impl fmt::Display for LineSettings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineSettings::Off => out.write_str("off"),
            LineSettings::Every { interval, seed } => {
                write!(out, "{interval}")?;
                seed.map_or(Ok(()), |seed| write!(out, ",seed={seed}"))
            }
        }
    }
}
