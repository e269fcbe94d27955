//! Sums of weights.

use crate::chance::Weight;
use std::ops::{AddAssign, SubAssign};

/// A sum of weights, with its sampling error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    bytes: f64,
    blocks: f64,
    variance: f64,
}

impl Sum {
    /// Nothing.
    pub const NONE: Sum = Sum {
        bytes: 0.0,
        blocks: 0.0,
        variance: 0.0,
    };

    /// Estimated bytes.
    pub fn bytes(&self) -> i64 {
        self.bytes.round() as i64
    }

    /// Estimated blocks; of growth not below 0, though more bytes may be in fewer blocks than before. The blocks of bytes
    /// that shrank are not above 0.
    pub fn blocks(&self) -> i64 {
        match self.bytes() < 0 {
            true => self.blocks.round().min(0.0) as i64,
            false => self.blocks.round().max(0.0) as i64,
        }
    }

    /// Bytes by which the estimate may be wrong, either way, in 19 of 20 cases. `interval` bytes in one place that no
    /// point fell on are likely, three times as many are not (exp(-3) is 1 in 20), so this is the least error of any sum.
    pub fn error_bytes(&self, interval: u64) -> i64 {
        match interval {
            0 | 1 => 0,
            _ => (1.96 * self.variance.max(0.0).sqrt() + 3.0 * interval as f64).round() as i64,
        }
    }

    /// The growth since it was `before`. `allocated` is the sum of all that was allocated by now, `marked` by then.
    ///
    /// The samples of both moments are no error of the difference. What was allocated and what was freed since is one, but
    /// for what came and went; nor can the error be larger than that of two sums that have nothing in common.
    pub fn grown_since(self, before: Sum, allocated: Sum, marked: Sum) -> Sum {
        let came = allocated.variance - marked.variance;
        let went = came - (self.variance - before.variance);
        Sum {
            bytes: self.bytes - before.bytes,
            blocks: self.blocks - before.blocks,
            variance: (came + went).min(self.variance + before.variance),
        }
    }

    /// What was added since the sum was `before`.
    pub fn since(self, before: Sum) -> Sum {
        Sum {
            bytes: self.bytes - before.bytes,
            blocks: self.blocks - before.blocks,
            variance: self.variance - before.variance,
        }
    }

    /// As three words.
    pub(crate) fn words(&self) -> [u64; 3] {
        [self.bytes, self.blocks, self.variance].map(f64::to_bits)
    }

    /// The inverse of [`Self::words`].
    pub(crate) fn of_words(words: [u64; 3]) -> Sum {
        let [bytes, blocks, variance] = words.map(f64::from_bits);
        Sum {
            bytes,
            blocks,
            variance,
        }
    }

    /// The sum for `factor` times as many samples.
    pub(crate) fn scaled(self, factor: f64) -> Sum {
        Sum {
            bytes: self.bytes * factor,
            blocks: self.blocks * factor,
            variance: self.variance * factor * factor,
        }
    }
}

impl AddAssign<Weight> for Sum {
    fn add_assign(&mut self, weight: Weight) {
        self.bytes += weight.bytes;
        self.blocks += weight.blocks;
        self.variance += weight.variance;
    }
}

impl SubAssign<Weight> for Sum {
    fn sub_assign(&mut self, weight: Weight) {
        self.bytes -= weight.bytes;
        self.blocks -= weight.blocks;
        self.variance -= weight.variance;
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.variance += other.variance;
    }
}
