//! The interval of `top`: `500ms`, `1s`, `2m`, `0.5`.

use pyhost_os::duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const LEAST: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(3600);

/// The time between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(pub Duration);

impl Default for Interval {
    fn default() -> Self {
        Interval(Duration::from_secs(1))
    }
}

impl FromStr for Interval {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a time between 50ms and 1h, such as 500ms, 1s or 2m";
        let found = duration::parse(text, Some("s"), LEAST..=MOST);
        found.map(Interval).ok_or(EXPECTED)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            short if short % 1000 != 0 => write!(out, "{short} ms"),
            long => write!(out, "{} s", long / 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Interval;

    #[test]
    fn times_have_units_and_bounds() {
        for (text, shown) in [
            ("1s", Some("1 s")),
            ("1", Some("1 s")),
            ("50ms", Some("50 ms")),
            ("1.5s", Some("1500 ms")),
            ("2m", Some("120 s")),
            ("1h", Some("3600 s")),
            ("61m", None),
            ("49ms", None),
            ("0", None),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1 s", None),
            ("1d", None),
            ("1e3", None),
            (".", None),
            ("99999999999999999999999h", None),
        ] {
            let read = text.parse::<Interval>().ok();
            assert_eq!(
                read.map(|time| time.to_string()).as_deref(),
                shown,
                "{text}"
            );
        }
    }
}
