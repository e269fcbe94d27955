//! The values that the build fixed: `PYHOST_BAKED_CAP`, `PYHOST_BAKED_REGION` and
//! `PYHOST_BAKED_RETAIN`, which `build.rs` checks and hands on as numbers and a name.
//!
//! Options and variables may lower what was baked in, never raise it.

use crate::bytes::{Bytes, Exact};
use crate::error::Error;
use crate::heap::retention::Retention;
use std::fmt::Write;

const CAP: Option<u64> = number(option_env!("PYHOST_BAKED_CAP_BYTES"));
const REGION: Option<u64> = number(option_env!("PYHOST_BAKED_REGION_BYTES"));
const RETAIN: Option<Retention> = retention_named(option_env!("PYHOST_BAKED_RETAIN_NAME"));

const fn number(text: Option<&str>) -> Option<u64> {
    match text {
        None => None,
        Some(text) => match u64::from_str_radix(text, 10) {
            Ok(number) => Some(number),
            Err(_) => panic!("build.rs hands over a number of bytes"),
        },
    }
}

const fn retention_named(name: Option<&str>) -> Option<Retention> {
    match name {
        None => None,
        Some(name) => match name.as_bytes() {
            b"balanced" => Some(Retention::Balanced),
            b"speed" => Some(Retention::Speed),
            b"small" => Some(Retention::Small),
            _ => panic!("build.rs hands over the value of --retain"),
        },
    }
}

/// The ceiling of the total's live bytes.
pub fn cap() -> Option<u64> {
    CAP
}

/// The size of the region.
pub fn region() -> Option<u64> {
    REGION
}

/// The value of `--retain`.
pub fn retain() -> Option<Retention> {
    RETAIN
}

/// The bytes that hold: those asked for by `name`, an option or a variable, else those baked in.
///
/// # Errors
/// More is asked for than was baked in.
pub fn lower(name: &str, asked: Option<u64>, baked: Option<u64>) -> Result<Option<u64>, Error> {
    match (asked, baked) {
        (Some(asked), Some(baked)) if asked > baked => Err(Error::option(format!(
            "{name}: bad value '{}'; expected at most {}, which this build is limited to",
            Exact(asked),
            Exact(baked)
        ))),
        (Some(asked), _) => Ok(Some(asked)),
        (None, baked) => Ok(baked),
    }
}

/// The choice that holds: the one asked for by `name`, else the one baked in.
///
/// # Errors
/// The one asked for keeps more memory than the one that was baked in.
pub fn lower_retain(
    name: &str,
    asked: Option<Retention>,
    baked: Option<Retention>,
) -> Result<Option<Retention>, Error> {
    match (asked, baked) {
        (Some(asked), Some(baked)) if keeps(asked) > keeps(baked) => {
            let names: Vec<&str> = [Retention::Balanced, Retention::Speed, Retention::Small]
                .into_iter()
                .filter(|&other| keeps(other) <= keeps(baked))
                .map(Retention::name)
                .collect();
            Err(Error::option(format!(
                "{name}: bad value '{}'; expected {}, which this build is limited to",
                asked.name(),
                names.join(" or ")
            )))
        }
        (asked, baked) => Ok(asked.or(baked)),
    }
}

/// The choices by how much of freed memory they keep.
fn keeps(retention: Retention) -> u8 {
    match retention {
        Retention::Small => 0,
        Retention::Balanced => 1,
        Retention::Speed => 2,
    }
}

/// The values that the build fixed, as text to be added to the host's version; or empty.
pub fn summary() -> String {
    let mut text = String::new();
    let mut add = |name: &str, value: String| {
        let separator = if text.is_empty() { "baked in: " } else { ", " };
        let _ = write!(text, "{separator}{name} {value}");
    };
    for (name, bytes) in [("cap", cap()), ("region", region())] {
        if let Some(bytes) = bytes {
            add(name, Bytes(bytes).to_string());
        }
    }
    if let Some(retention) = retain() {
        add("retain", retention.name().to_owned());
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_baked_in_can_be_lowered_only() {
        let lower = |asked, baked| lower("--region", asked, baked).ok();
        assert_eq!(lower(None, None), Some(None));
        assert_eq!(lower(Some(5), None), Some(Some(5)));
        assert_eq!(lower(None, Some(5)), Some(Some(5)));
        assert_eq!(lower(Some(5), Some(5)), Some(Some(5)));
        assert_eq!(lower(Some(4), Some(5)), Some(Some(4)));
        assert_eq!(lower(Some(6), Some(5)), None);
        let error = super::lower("--region", Some(64 << 20), Some(24 << 20)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--region: bad value '64 MiB'; expected at most 24 MiB, which this build is limited to"
        );
    }

    #[test]
    fn a_choice_that_keeps_more_is_refused() {
        use Retention::{Balanced, Small, Speed};
        let lower = |asked, baked| lower_retain("--retain", Some(asked), Some(baked)).ok();
        assert_eq!(lower(Small, Balanced), Some(Some(Small)));
        assert_eq!(lower(Balanced, Speed), Some(Some(Balanced)));
        assert_eq!(lower(Speed, Balanced), None);
        let error = lower_retain("--retain", Some(Speed), Some(Balanced)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--retain: bad value 'speed'; expected balanced or small, which this build is limited \
             to"
        );
    }

    #[test]
    fn names_and_numbers_are_read_as_build_rs_writes_them() {
        assert_eq!(number(Some("25165824")), Some(24 << 20));
        assert_eq!(number(None), None);
        assert_eq!(retention_named(Some("small")), Some(Retention::Small));
    }
}
