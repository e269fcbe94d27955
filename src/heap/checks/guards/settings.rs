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
    #[display("min={min}B,every={every}{}", library.map_or(String::new(), |it| format!(",library={it}")))]
    Sample {
        /// The least size in bytes.
        min: u64,
        /// One of so many.
        every: u64,
        /// Only requests of the library with this text in its path are guarded; `None`: those of all code. It is never freed.
        library: Option<&'static str>,
    },
}

/// The meaning of `all`: smaller blocks would take all of the room.
const ALL: &str = "min=1K,every=1";
/// The least size if none is given.
const DEFAULT_MIN: u64 = 4096;
/// One of how many if that is not given.
const DEFAULT_EVERY: u64 = 8;

impl GuardSettings {
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
            "all, off, or min=SIZE, every=N and library=TEXT joined by commas, with a SIZE of 1 or more",
        );
        if text == "off" {
            return Ok(GuardSettings::Off);
        }
        let text = if text == "all" { ALL } else { text };
        let (mut min, mut every, mut library) = (None, None, None);
        for part in text.split(',') {
            let (place, value) = match part.split_once('=') {
                Some(("library", value)) if library.is_none() && !value.is_empty() => {
                    library = Some(&*value.to_owned().leak());
                    continue;
                }
                Some(("min", value)) => (&mut min, bytes::parse(value)),
                Some(("every", value)) => (&mut every, value.parse().ok()),
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
        if min == 0 || every == 0 {
            return Err(expected);
        }
        Ok(GuardSettings::Sample {
            min,
            every,
            library,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back_as_it_was() {
        for text in
            "all off min=64K every=10 every=3,min=1M min=1B library=/a=b.so,every=2".split(' ')
        {
            let settings: GuardSettings = text.parse().unwrap();
            assert_eq!(settings.to_string().parse(), Ok(settings));
        }
        let sample = |min, every| {
            Ok(GuardSettings::Sample {
                min,
                every,
                library: None,
            })
        };
        assert_eq!("all".parse(), sample(1024, 1));
        assert_eq!("min=64K".parse(), sample(65536, DEFAULT_EVERY));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let texts = " on min min= min=0 every=0 every=-1 min=4K, all,min=4K min=4K,min=4K min=4K;every=2 size=4K library= library=a,library=b";
        for text in texts.split(' ') {
            assert!(text.parse::<GuardSettings>().is_err(), "{text}");
        }
    }
}
