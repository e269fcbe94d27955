//! Caps, and the bounded heap's start.

pub mod budgets;
pub mod caps;
pub mod recycling;
pub mod region;
