//! The values that the build fixed: `PYHOST_BAKED_CAP`, `PYHOST_BAKED_REGION` and
//! `PYHOST_BAKED_RETAIN`, which `build.rs` checks and hands on as numbers and a name.
//!
//! Options and variables may lower what was baked in, never raise it.

use super::kinds::Named;
use crate::bytes::{Bytes, Exact};
use crate::error::{Error, Result};
use crate::heap::retention::Retention;

/// The ceiling of the total's live bytes.
pub fn cap() -> Option<u64> {
    option_env!("PYHOST_BAKED_CAP_BYTES")?.parse().ok()
}

pub fn region() -> Option<u64> {
    option_env!("PYHOST_BAKED_REGION_BYTES")?.parse().ok()
}

pub fn retain() -> Option<Retention> {
    Retention::of_name(option_env!("PYHOST_BAKED_RETAIN_NAME")?)
}

/// The value asked for by `name`, an option or a variable, else the one baked in. `shown` says what both are, and the
/// highest one that may be asked for.
fn lower<T: Copy + PartialOrd>(
    name: &str,
    asked: Option<T>,
    baked: Option<T>,
    shown: impl Fn(T, T) -> [String; 2],
) -> Result<Option<T>> {
    let (Some(high), Some(most)) = (asked, baked.filter(|&baked| asked > Some(baked))) else {
        return Ok(asked.or(baked));
    };
    let [high, expected] = shown(high, most);
    Err(Error::option(format!(
        "{name}: bad value '{high}'; expected {expected}, which this build is limited to"
    )))
}

pub fn lower_bytes(name: &str, asked: Option<u64>, baked: Option<u64>) -> Result<Option<u64>> {
    lower(name, asked, baked, |asked, most| {
        [Exact(asked).to_string(), format!("at most {}", Exact(most))]
    })
}

/// The choice that holds.
pub fn lower_retain(
    name: &str,
    asked: Option<Retention>,
    baked: Option<Retention>,
) -> Result<Option<Retention>> {
    lower(name, asked, baked, |asked, most| {
        let fitting = Retention::NAMES.iter().filter(|(_, value)| *value <= most);
        let names: Vec<&str> = fitting.map(|(name, _)| *name).collect();
        [asked.name().to_owned(), names.join(" or ")]
    })
}

/// The values that the build fixed, as text to be added to the host's version; or empty.
pub fn summary() -> String {
    let bytes = |name: &str, bytes: Option<u64>| Some(format!("{name} {}", Bytes(bytes?)));
    let retain = retain().map(|retention| format!("retain {}", retention.name()));
    let parts = [bytes("cap", cap()), bytes("region", region()), retain];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("baked in: {}\n", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Retention::{Balanced, Small, Speed};

    #[test]
    fn what_was_baked_in_can_be_lowered_only() {
        let lower = |asked, baked| lower_bytes("--region", asked, baked);
        for (asked, baked, holds) in [
            (None, None, None),
            (Some(5), None, Some(5)),
            (None, Some(5), Some(5)),
            (Some(5), Some(5), Some(5)),
            (Some(4), Some(5), Some(4)),
        ] {
            assert_eq!(lower(asked, baked).ok(), Some(holds));
        }
        let expected =
            "--region: bad value '64 MiB'; expected at most 24 MiB, which this build is limited to";
        let error = lower(Some(64 << 20), Some(24 << 20)).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let lower = |asked, baked| lower_retain("--retain", Some(asked), Some(baked));
        assert_eq!(lower(Small, Balanced).ok(), Some(Some(Small)));
        assert_eq!(lower(Balanced, Speed).ok(), Some(Some(Balanced)));
        let expected = "--retain: bad value 'speed'; expected balanced or small, which this build is limited to";
        assert_eq!(lower(Speed, Balanced).unwrap_err().to_string(), expected);
    }
}
