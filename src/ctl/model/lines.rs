//! The section `lines` of a report: which lines of Python allocated, as `pyhost --lines` samples it.
//!
//! Rows and calls have all their fields: a host that writes the section writes them.

use super::Ordered;
use serde::{Deserialize, Serialize};

/// The samples, in three views.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledLines {
    /// The mean distance of two samples; 1 if every allocation was sampled.
    pub interval_bytes: i64,
    pub samples: i64,
    pub dropped: i64,
    /// For each view, the sums of its accounts over all stacks.
    pub sums: Ordered<Ordered<LineSum>>,
    /// The stacks with the most bytes of each view, most first.
    pub at_peak: Vec<StackRow>,
    pub live: Vec<StackRow>,
    pub allocated: Vec<StackRow>,
}

/// An account's sum in a view.
#[derive(Debug, Serialize, Deserialize)]
pub struct LineSum {
    pub bytes: i64,
    pub blocks: i64,
    pub error_bytes: i64,
    pub stacks: i64,
}

/// The memory of an account that one stack allocated.
#[derive(Debug, Serialize, Deserialize)]
pub struct StackRow {
    pub account: String,
    pub bytes: i64,
    pub blocks: i64,
    pub error_bytes: i64,
    /// The innermost call first; empty if no Python code ran.
    pub stack: Vec<Call>,
}

/// A call of a stack.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    pub file: String,
    /// The line; 0 if it is not known.
    pub line: i64,
    pub function: String,
}
