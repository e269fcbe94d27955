//! The values that the build fixed: `PYHOST_BAKED_CAP`, `PYHOST_BAKED_REGION` and
//! `PYHOST_BAKED_PROFILE`, which `build.rs` checks and hands on as numbers and a name.
//!
//! Options and variables may lower what was baked in, never raise it.

use crate::bytes::{Bytes, Exact};
use crate::error::Error;
use crate::heap::profile::Profile;
use std::fmt::Write;

const CAP: Option<u64> = number(option_env!("PYHOST_BAKED_CAP_BYTES"));
const REGION: Option<u64> = number(option_env!("PYHOST_BAKED_REGION_BYTES"));
const PROFILE: Option<Profile> = profile_named(option_env!("PYHOST_BAKED_PROFILE_NAME"));

const fn number(text: Option<&str>) -> Option<u64> {
    match text {
        None => None,
        Some(text) => match u64::from_str_radix(text, 10) {
            Ok(number) => Some(number),
            Err(_) => panic!("build.rs hands over a number of bytes"),
        },
    }
}

const fn profile_named(name: Option<&str>) -> Option<Profile> {
    match name {
        None => None,
        Some(name) => match name.as_bytes() {
            b"balanced" => Some(Profile::Balanced),
            b"speed" => Some(Profile::Speed),
            b"small" => Some(Profile::Small),
            _ => panic!("build.rs hands over the name of a profile"),
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

/// The profile.
pub fn profile() -> Option<Profile> {
    PROFILE
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

/// The profile that holds: the one asked for by `name`, else the one baked in.
///
/// # Errors
/// The one asked for keeps more memory than the one that was baked in.
pub fn lower_profile(
    name: &str,
    asked: Option<Profile>,
    baked: Option<Profile>,
) -> Result<Option<Profile>, Error> {
    match (asked, baked) {
        (Some(asked), Some(baked)) if keeps(asked) > keeps(baked) => {
            let names: Vec<&str> = [Profile::Balanced, Profile::Speed, Profile::Small]
                .into_iter()
                .filter(|&profile| keeps(profile) <= keeps(baked))
                .map(Profile::name)
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

/// Profiles by how much of freed memory they keep.
fn keeps(profile: Profile) -> u8 {
    match profile {
        Profile::Small => 0,
        Profile::Balanced => 1,
        Profile::Speed => 2,
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
    if let Some(profile) = profile() {
        add("profile", profile.name().to_owned());
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
    fn a_profile_that_keeps_more_is_refused() {
        use Profile::{Balanced, Small, Speed};
        let lower = |asked, baked| lower_profile("--profile", Some(asked), Some(baked)).ok();
        assert_eq!(lower(Small, Balanced), Some(Some(Small)));
        assert_eq!(lower(Balanced, Speed), Some(Some(Balanced)));
        assert_eq!(lower(Speed, Balanced), None);
        let error = lower_profile("--profile", Some(Speed), Some(Balanced)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--profile: bad value 'speed'; expected balanced or small, which this build is limited \
             to"
        );
    }

    #[test]
    fn names_and_numbers_are_read_as_build_rs_writes_them() {
        assert_eq!(number(Some("25165824")), Some(24 << 20));
        assert_eq!(number(None), None);
        assert_eq!(profile_named(Some("small")), Some(Profile::Small));
    }
}
