//! How high live bytes were, and at which moment.

/// How high something was, and how many times it was higher than ever before.
#[derive(Clone, Copy)]
pub struct Highest {
    bytes: i64,
    /// The number of the highest moment.
    pub times: u32,
}

impl Highest {
    pub const NONE: Highest = Highest {
        bytes: i64::MIN,
        times: 0,
    };

    pub fn look(&mut self, bytes: i64) {
        if bytes > self.bytes {
            self.begin(bytes);
        }
    }

    /// Makes this moment the highest.
    pub fn begin(&mut self, bytes: i64) {
        self.bytes = bytes;
        self.times = self.times.wrapping_add(1);
    }
}
