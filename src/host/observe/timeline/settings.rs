//! The settings of the sampler: its files and its interval.

use super::pages::Renderer;
use crate::bytes::Expected;
use pyhost_os::duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_secs(3600);

/// The time between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

impl Default for Interval {
    fn default() -> Self {
        Interval(Duration::from_millis(10))
    }
}

impl FromStr for Interval {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        const EXPECTED: Expected = Expected("a time from 1ms to 1h, such as 10ms, 0.5s or 1m");
        let found = duration::parse(text, None, LEAST..=MOST);
        found.map(Interval).ok_or(EXPECTED)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}s", self.0.as_secs_f64())
    }
}

/// The settings of the sampler. It does not run without a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelineSettings {
    /// The file of the timeline: an absolute path, in which `%p` stands for the process id.
    pub timeline: Option<Vec<u8>>,
    /// The time between two samples.
    pub interval: Interval,
    /// The file of `--brief`, likewise.
    pub brief: Option<Vec<u8>>,
    pub renderer: Option<Renderer>,
}

impl TimelineSettings {
    pub fn is_on(&self) -> bool {
        self.timeline.is_some() || self.brief.is_some() || self.renderer.is_some()
    }
}
