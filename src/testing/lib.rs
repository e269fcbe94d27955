//! Test helpers that several crates share. Only their tests depend on this crate.

/// A generator of pseudo-random numbers (xorshift64*). The seed repeats a failure; it must not be zero.
pub struct Random(pub u64);

impl Random {
    /// The next number, of any size.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number from 0 to `limit - 1`; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }

    /// One of `choices`.
    pub fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_gives_the_same_numbers_each_time_and_no_two_of_them_alike() {
        let numbers = |seed| {
            let mut random = Random(seed);
            let mut numbers: Vec<u64> = (0..1000).map(|_| random.number()).collect();
            assert!(numbers.iter().all(|_| random.below(7) < 7));
            numbers.sort();
            numbers.dedup();
            numbers
        };
        assert_eq!(numbers(1).len(), 1000);
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }
}
