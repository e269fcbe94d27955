//! Caps, and the bounded heap's start.

pub mod caps;
pub mod region;
