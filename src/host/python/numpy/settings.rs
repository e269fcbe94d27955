//! The user's choices for array data.

use crate::bytes::{self, Expected};
use crate::{heap::array_blocks::MAX_ALIGNMENT, heap::placement::HugePages, heap::pool::PoolLimit};
use derive_more::Display;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayAllocator {
    /// The `numpy` heap of mimalloc.
    Mimalloc,
    /// A pool of freed blocks over it, after TensorFlow's PoolAllocator.
    Pool,
    /// One region, best fit with coalescing, after TensorFlow's BFCAllocator.
    Bfc,
    /// The malloc that NumPy itself would use, counted.
    System,
}

pyhost_os::named!(ArrayAllocator: "mimalloc" Mimalloc, "pool" Pool, "bfc" Bfc, "system" System);

/// The alignment of array data, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub struct Alignment(pub usize);

impl FromStr for Alignment {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        match text.parse::<usize>() {
            Ok(bytes) if bytes.is_power_of_two() && (16..=MAX_ALIGNMENT).contains(&bytes) => {
                Ok(Alignment(bytes))
            }
            _ => Err(Expected("a power of two from 16 to 4096")),
        }
    }
}

/// The region of [`ArrayAllocator::Bfc`], in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[display("{initial}B:{maximum}B")]
pub struct ArrayRegion {
    /// In use from the start.
    pub initial: u64,
    /// The size up to which it grows, by doubling.
    pub maximum: u64,
}

impl FromStr for ArrayRegion {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let expected = Expected("a size such as 256M, or a first and a greatest size, 256M:4G");
        let (initial, maximum) = text.split_once(':').unwrap_or((text, text));
        match (bytes::parse(initial), bytes::parse(maximum)) {
            (Some(initial), Some(maximum)) if 0 < initial && initial <= maximum => {
                Ok(ArrayRegion { initial, maximum })
            }
            _ => Err(expected),
        }
    }
}

/// The `--numpy-*` options; None if not given.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArraySettings {
    pub allocator: Option<ArrayAllocator>,
    pub alignment: Option<Alignment>,
    pub huge_pages: Option<HugePages>,
    pub node: Option<u32>,
    pub pool_limit: Option<PoolLimit>,
    pub region: Option<ArrayRegion>,
}

/// The alignment if none is chosen: a cache line, and the widest vector register.
pub const DEFAULT_ALIGNMENT: Alignment = Alignment(64);

/// The largest alignment of [`ArrayAllocator::Bfc`], whose chunks are multiples of it.
pub const REGION_ALIGNMENT: usize = 256;
