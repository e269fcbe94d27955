//! Which blocks `--guard` asks to be guarded.

use crate::bytes::{self, Expected};
use derive_more::Display;
use std::str::FromStr;

/// The blocks that are guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum GuardSettings {
    /// Nothing.
    #[display("off")]
    Off,
    /// Of the requests of `min` bytes and more one of `every`.
    #[display(
        "min={min}B,every={every}{}{}",
        align.map_or(String::new(), |it| format!(",align={it}")),
        library.map_or(String::new(), |it| format!(",library={it}"))
    )]
    Sample {
        /// The least size in bytes.
        min: u64,
        /// One of so many.
        every: u64,
        /// The least alignment of a block; a larger one that its size is a multiple of, up to 16, is kept. `None`: 16 for those of
        /// malloc, which C promises, and 1 for others, 8 on other processors than x86-64.
        align: Option<u64>,
        /// `align` is of requests of the library with this text in its path, and only they are guarded unless `is_beside_all`; `None`:
        /// those of all code. It is never freed.
        library: Option<&'static str>,
        /// Requests of other code are guarded, too.
        is_beside_all: bool,
    },
}

/// The meaning of `all`: smaller blocks would take all of the room.
const ALL: &str = "min=1K,every=1";
/// The largest alignment that one may ask for: that of malloc's blocks.
const MOST_ALIGN: u64 = 16;
/// The least size if none is given.
const DEFAULT_MIN: u64 = 4096;
/// One of how many if that is not given.
const DEFAULT_EVERY: u64 = 8;

impl GuardSettings {
    /// Every block.
    pub const FULL: GuardSettings = GuardSettings::Sample {
        min: 1,
        every: 1,
        align: None,
        library: None,
        is_beside_all: false,
    };

    /// The same beside [`GuardSettings::FULL`]: those of a library are kept apart by their alignment alone.
    #[must_use]
    pub fn beside_all(self) -> Self {
        match self {
            GuardSettings::Sample {
                align,
                library: Some(text),
                ..
            } => GuardSettings::Sample {
                min: 1,
                every: 1,
                align,
                library: Some(text),
                is_beside_all: true,
            },
            other => other,
        }
    }

    /// Whether a library is named, and nothing is apart for it.
    pub fn is_without_effect(self) -> bool {
        matches!(
            self,
            Self::Sample {
                align: None,
                library: Some(_),
                is_beside_all: true,
                ..
            }
        )
    }

    /// The part of the path of the library whose requests alone are guarded.
    pub fn library(self) -> Option<&'static str> {
        match self {
            GuardSettings::Sample { library, .. } => library,
            GuardSettings::Off => None,
        }
    }
}

impl FromStr for GuardSettings {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let expected = Expected(
            "all, off, or min=SIZE, every=N, align=1 (2, 4, 8, 16) and library=TEXT joined by commas, with a SIZE of 1 or more",
        );
        if text == "off" {
            return Ok(GuardSettings::Off);
        }
        let text = if text == "all" { ALL } else { text };
        let (mut min, mut every, mut align, mut library) = (None, None, None, None);
        for part in text.split(',') {
            let (place, value) = match part.split_once('=') {
                Some(("library", value)) if library.is_none() && !value.is_empty() => {
                    library = Some(&*value.to_owned().leak());
                    continue;
                }
                Some(("min", value)) => (&mut min, bytes::parse(value)),
                Some(("every", value)) => (&mut every, value.parse().ok()),
                Some(("align", value)) => (&mut align, value.parse().ok()),
                _ => return Err(expected),
            };
            if place.is_some() || value.is_none() {
                return Err(expected);
            }
            *place = value;
        }
        let is_all = library.is_some();
        let min = min.unwrap_or(if is_all { 1 } else { DEFAULT_MIN });
        let every = every.unwrap_or(if is_all { 1 } else { DEFAULT_EVERY });
        let is_bad = |align: u64| !align.is_power_of_two() || align > MOST_ALIGN;
        if min == 0 || every == 0 || align.is_some_and(is_bad) {
            return Err(expected);
        }
        Ok(GuardSettings::Sample {
            min,
            every,
            align,
            library,
            is_beside_all: false,
        })
    }
}
