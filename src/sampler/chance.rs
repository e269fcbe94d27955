//! Draws and probabilities.

use crate::index::hash;

/// A generator of pseudo-random numbers (xorshift64*) that draws distances.
pub struct Chance {
    state: u64,
}

impl Chance {
    /// A generator that repeats itself for each seed.
    pub const fn new(seed: u64) -> Self {
        // No state is zero.
        Chance {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    /// Makes later draws depend on a number.
    pub fn stir(&mut self, number: u64) {
        self.state = hash(self.state ^ hash(number.wrapping_add(1))) | 1;
    }

    fn number(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Whether an event of that probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability >= 1.0 || ((self.number() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// Bytes to the next point: exponential, with a mean of `interval`. 0 if every allocation is a sample.
    pub fn distance(&mut self, interval: u64) -> i64 {
        if interval <= 1 {
            return 0;
        }
        // From 2^-53 to 1, so that the logarithm is finite.
        let uniform = ((self.number() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        (-(interval as f64) * uniform.ln()) as i64
    }
}
