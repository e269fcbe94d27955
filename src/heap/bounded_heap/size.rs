//! The size of a region, as it is asked for.

use super::LEAST;
use crate::bytes::{self, Expected};
use derive_more::Display;
use std::str::FromStr;

/// Bytes that a region may commit; at least [`LEAST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        bytes::parse(text)
            .filter(|&size| size >= LEAST)
            .map(Size)
            .ok_or(Expected("a size of at least 8M, such as 24M"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_as_it_is_shown_and_has_a_least_value() {
        for text in ["8M", "24MiB", "1.5G", "8388608"] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        for text in ["8388607", "1K", "", "24", "x", "-8M", "25%"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!(LEAST, 8 << 20, "as the text says");
    }
}
