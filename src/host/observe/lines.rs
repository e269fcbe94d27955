//! Which lines of Python allocated (`--lines`): starts the samples of the heap.

use crate::bytes::{self, Expected};
use crate::heap::{self, sampling};
use crate::libc_exports::native::Mode;
use derive_more::Display;
use std::str::FromStr;

/// Begins to sample. Once, after the heaps were made, while the process has one thread. Returns the reason if it
/// cannot: nothing is sampled.
pub fn start(settings: LineSettings, native: Mode) -> Result<(), &'static str> {
    let LineSettings::Every { interval, seed } = settings else {
        return Ok(());
    };
    if native == Mode::Off {
        return Err("malloc is left to another allocator");
    }
    match sampling::start(interval, seed) {
        true => Ok(()),
        false => Err("mimalloc gives no heap"),
    }
}

/// Begins to sample anew, while the script runs; false if malloc is left to another allocator or there is no memory.
pub fn begin(interval: u64) -> bool {
    heap::has_heaps() && sampling::start(interval, None)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display)]
pub enum LineSettings {
    #[default]
    #[display("off")]
    Off,
    /// One point every so many bytes.
    #[display("{interval}{}", seed.map_or(String::new(), |seed| format!(",seed={seed}")))]
    Every {
        /// The mean distance of two points, in bytes; with 1 every allocation is sampled.
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
        let (first, rest) = text
            .split_once(',')
            .map_or((text, None), |(first, rest)| (first, Some(rest)));
        let interval = match first {
            "off" if rest.is_none() => return Ok(LineSettings::Off),
            "on" => DEFAULT_INTERVAL,
            _ => bytes::parse(first).ok_or(expected)?,
        };
        let number = |rest: &str| rest.strip_prefix("seed=")?.parse().ok();
        let seed = rest.map(|rest| number(rest).ok_or(expected)).transpose()?;
        match interval {
            1..=MOST => Ok(LineSettings::Every { interval, seed }),
            _ => Err(expected),
        }
    }
}
