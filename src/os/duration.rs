//! Durations in options: a number with a unit.

#![deny(unsafe_code)]

use std::{ops::RangeInclusive, time::Duration};

/// Parses a number with one of the units `us`, `ms`, `s`, `m` or `min`, and `h`. A number alone has the
/// unit `default`, if there is one. Returns `None` for other text and for a duration outside of `bounds`.
pub fn parse(
    text: &str,
    default: Option<&str>,
    bounds: RangeInclusive<Duration>,
) -> Option<Duration> {
    let end = text.find(|letter: char| letter.is_ascii_alphabetic());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = if unit.is_empty() { default? } else { unit };
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number.parse::<f64>().ok()? * scale;
    let duration = Duration::try_from_secs_f64(seconds).ok()?;
    bounds.contains(&duration).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn a_duration_has_a_unit_and_bounds() {
        let bounds = Duration::from_millis(1)..=Duration::from_secs(3600);
        let milliseconds = |text: &str, default| {
            parse(text, default, bounds.clone()).map(|duration| duration.as_millis())
        };
        let durations = "1000us=1 10ms=10 0.5s=500 1m=60000 1min=60000 1h=3600000 61m=none 0.9ms=none \
            99999999999999999999999h=none 10=none =none ms=none -1s=none nans=none 1d=none 10msx=none 1e3=none .=none";
        for duration in durations.split(' ') {
            let (text, expected) = duration.split_once('=').unwrap();
            assert_eq!(milliseconds(text, None), expected.parse().ok(), "{text}");
        }
        assert_eq!(milliseconds("1 s", None), None);
        assert_eq!(milliseconds("1.5", Some("s")), Some(1500));
        assert_eq!(milliseconds("1.5m", Some("s")), Some(90_000));
    }
}
