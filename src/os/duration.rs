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
        for (text, expected) in [
            ("1000us", Some(1)),
            ("10ms", Some(10)),
            ("0.5s", Some(500)),
            ("1m", Some(60_000)),
            ("1min", Some(60_000)),
            ("1h", Some(3_600_000)),
            ("61m", None),
            ("0.9ms", None),
            ("99999999999999999999999h", None),
            ("10", None),
            ("", None),
            ("ms", None),
            ("-1s", None),
            ("nans", None),
            ("1 s", None),
            ("1d", None),
            ("10msx", None),
            ("1e3", None),
            (".", None),
        ] {
            assert_eq!(milliseconds(text, None), expected, "{text}");
        }
        assert_eq!(milliseconds("1.5", Some("s")), Some(1500));
        assert_eq!(milliseconds("1.5m", Some("s")), Some(90_000));
    }
}
