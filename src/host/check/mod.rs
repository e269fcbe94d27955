//! Heap bugs of extensions: injected failures, leaks, and the native calls of a block.

pub mod faults;
pub mod leaks;
pub mod stacks;
