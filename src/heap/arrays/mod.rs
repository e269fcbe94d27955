//! Blocks for the data of arrays.

pub mod array_blocks;
pub mod placement;
