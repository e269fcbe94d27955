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
