//! How large the live blocks are.

pub mod big_blocks;
pub mod histogram;
pub mod largest_classes;
