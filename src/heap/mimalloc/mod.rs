//! mimalloc as the heaps use it: its structures, its heaps and their pages, and the gate in front of its slow paths.

pub mod ffi;
pub mod gate;
pub mod heaps;
pub mod internal_blocks;
pub mod live_blocks;
pub mod pages;
