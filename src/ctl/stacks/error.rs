//! The sampling error of a sum of stacks.
//!
//! A report's `error_bytes` is 1.96 standard deviations and three intervals. The stacks of a sum were sampled
//! independently of each other, so their variances add. The three intervals are for the bytes of one place that no point
//! fell on, and are added once. So the error of a sum is
//!
//! ```text
//! 3 * interval + sqrt(sum of (error - 3 * interval)^2)
//! ```

/// The bytes that a sample may have missed, whatever it found. None if every allocation is a sample.
pub fn missed(interval: i64) -> f64 {
    match interval {
        ..=1 => 0.0,
        _ => 3.0 * interval as f64,
    }
}

/// The part that adds up: the square of 1.96 standard deviations.
pub fn square(error_bytes: i64, interval: i64) -> f64 {
    (error_bytes as f64 - missed(interval)).max(0.0).powi(2)
}

pub fn error_bytes(squares: f64, interval: i64) -> i64 {
    (squares.sqrt() + missed(interval)).round() as i64
}
