//! Weights of samples, and their sums.

use derive_more::{Add, AddAssign, Sub, SubAssign};

/// The bytes and blocks that samples stand for, with their sampling error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Add, AddAssign, Sub, SubAssign)]
pub struct Sum {
    pub bytes: f64,
    pub blocks: f64,
    pub variance: f64,
}

/// The sum of one sample.
pub type Weight = Sum;

impl Sum {
    /// The weight of a block of `bytes` bytes, of which `counted` took part in the draw.
    pub fn new(bytes: usize, counted: usize, interval: u64) -> Self {
        let probability = match interval {
            0 | 1 => 1.0,
            // 1 - exp(-x), without the loss of digits for a small x.
            _ => -f64::exp_m1(-(counted as f64) / interval as f64),
        };
        let weight = bytes as f64 / probability;
        Sum {
            bytes: weight,
            blocks: 1.0 / probability,
            variance: weight * weight * (1.0 - probability),
        }
    }

    /// Of bytes that are no block of their own.
    pub fn without_block(self) -> Self {
        Sum {
            blocks: 0.0,
            ..self
        }
    }

    /// Of a share of the bytes of the same blocks.
    pub fn scaled(self, share: f64) -> Self {
        Sum {
            bytes: self.bytes * share,
            variance: self.variance * share * share,
            ..self
        }
    }

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
    pub(crate) fn times(self, factor: f64) -> Sum {
        Sum {
            blocks: self.blocks * factor,
            ..self.scaled(factor)
        }
    }
}

/// An account, a call stack and a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    pub(crate) number: u32,
    pub account: u8,
}

/// The sums of a site at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtMoment {
    pub live: Sum,
    /// All that was allocated until then.
    pub allocated: Sum,
}

impl AtMoment {
    /// What is live, less what was live `before`.
    ///
    /// The samples of both moments are no error of the difference. What was allocated and what was freed since is one, but
    /// for what came and went; nor can the error be larger than that of two sums that have nothing in common.
    pub fn grown_since(self, before: AtMoment) -> Sum {
        let came = self.allocated.variance - before.allocated.variance;
        let went = came - (self.live.variance - before.live.variance);
        Sum {
            variance: (came + went).min(self.live.variance + before.live.variance),
            ..self.live - before.live
        }
    }
}

/// Live bytes of all accounts, and of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heights {
    /// Of all that are part of the total.
    pub total: i64,
    /// Of the account of the sample.
    pub account: i64,
}

/// How high something was, and how many times it was higher than ever before.
#[derive(Clone, Copy, Default)]
pub struct Highest {
    bytes: Option<i64>,
    /// The number of the highest moment.
    pub times: u32,
}

impl Highest {
    pub fn look(&mut self, bytes: i64) {
        if Some(bytes) > self.bytes {
            self.begin(bytes);
        }
    }

    /// Makes this moment the highest.
    pub fn begin(&mut self, bytes: i64) {
        self.bytes = Some(bytes);
        self.times = self.times.wrapping_add(1);
    }
}
