//! How long live bytes have been there.

/// Ticks of a second. A birth of 32 bits reaches 497 days.
const TICKS: u64 = 100;
/// Nanoseconds of a tick.
const NANOSECONDS: u64 = 1_000_000_000 / TICKS;

/// The time of a process's samples, by `CLOCK_MONOTONIC`, which all processes of a machine read alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// When the samples began, in nanoseconds.
    pub start: u64,
    /// The latest moment that is known, and the end if they have ended.
    pub now: u64,
}

impl Time {
    pub fn tick(&self, moment: u64) -> u32 {
        let ticks = moment.saturating_sub(self.start) / NANOSECONDS;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

/// The births of live bytes. The sums are whole numbers, so that what comes and goes leaves no rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Births {
    bytes: u64,
    /// Bytes times ticks.
    sum: u128,
}

impl Births {
    /// Adds bytes that were born at a tick.
    pub fn add(&mut self, bytes: f64, tick: u32) {
        let bytes = bytes.round() as u64;
        self.bytes = self.bytes.wrapping_add(bytes);
        self.sum = self.sum.wrapping_add(product(bytes, tick));
    }

    pub fn remove(&mut self, bytes: f64, tick: u32) {
        let bytes = bytes.round() as u64;
        self.bytes = self.bytes.wrapping_sub(bytes);
        self.sum = self.sum.wrapping_sub(product(bytes, tick));
    }

    /// The mean age of the bytes in seconds. None without bytes.
    pub fn age_seconds(&self, time: Time) -> Option<f64> {
        if self.bytes == 0 {
            return None;
        }
        let birth = self.sum as f64 / self.bytes as f64;
        let now = f64::from(time.tick(time.now));
        Some((now - birth).max(0.0) / TICKS as f64)
    }

    pub fn words(&self) -> [u64; 3] {
        [self.bytes, self.sum as u64, (self.sum >> 64) as u64]
    }

    /// The inverse of [`Self::words`].
    pub fn of_words([bytes, low, high]: [u64; 3]) -> Self {
        let sum = u128::from(high) << 64 | u128::from(low);
        Births { bytes, sum }
    }
}

fn product(bytes: u64, tick: u32) -> u128 {
    u128::from(bytes) * u128::from(tick)
}
