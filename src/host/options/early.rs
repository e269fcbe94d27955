//! The options that must be known before anything is allocated: `--region`; `--malloc`, since what
//! is booked before it is known stays booked; and `--leak-check`, since heaps never move.
//!
//! [`read`] runs before the constructors of all libraries: see [`crate::early`]. It looks for them in the
//! arguments and the environment as [`super::read`] will, and has the region reserved. What it takes for the
//! region's size is checked against what `super::read` finds: see [`check`]. It allocates nothing and says nothing.

use super::arguments::{host_options, is_python_name};
use super::baked;
use super::table::row_of;
use crate::bytes::{self, Exact};
use crate::error::Error;
use crate::heap;
use crate::libc_exports::native::{self, Mode};
use pyhost_os::strings::Strings;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Runs before every constructor; allocates nothing.
pub fn read<'a>(words: impl Iterator<Item = &'a [u8]> + Clone, mut environment: Strings<'a>) {
    if crate::process::is_privileged_start() {
        environment.retain(|entry| !is_mimallocs(entry));
    }
    let value = |option| given(option, words.clone(), environment.iter());
    let check = value("--leak-check");
    if check.is_some_and(|scope| scope != b"off") {
        heap::apart::start();
    }
    let size = asked(words.clone(), environment.iter());
    if let Some(size) = size.filter(|&size| size >= heap::bound::LEAST) {
        heap::reserve_region(size);
    }
    match value("--malloc") {
        Some(b"plain") => native::set_mode(Mode::Plain),
        Some(b"off") => native::set_mode(Mode::Off),
        _ => {} // the default, or a value that will be refused
    }
}

/// Whether an entry of the environment is one of mimalloc's variables: it reads them itself, at its first request, and
/// a program with more rights than its caller must not obey them.
pub fn is_mimallocs(entry: &[u8]) -> bool {
    const PREFIX: &[u8] = b"MIMALLOC_";
    // mimalloc takes them in any case of letters.
    entry
        .get(..PREFIX.len())
        .is_some_and(|name| name.eq_ignore_ascii_case(PREFIX))
}

/// The size of the region that the arguments, else the environment, else the build asks for.
fn asked<'a>(
    arguments: impl Iterator<Item = &'a [u8]> + Clone,
    environment: impl Iterator<Item = &'a [u8]>,
) -> Option<u64> {
    let read = |value: &[u8]| std::str::from_utf8(value).ok().and_then(bytes::parse);
    match given("--region", arguments, environment) {
        Some(value) => read(value),
        None => baked::region(),
    }
}

/// The value that the arguments, else the environment, give an option; empty where the option has none.
fn given<'a>(
    option: &str,
    mut arguments: impl Iterator<Item = &'a [u8]> + Clone,
    mut environment: impl Iterator<Item = &'a [u8]>,
) -> Option<&'a [u8]> {
    let as_python = arguments
        .next()
        .is_some_and(|name| is_python_name(OsStr::from_bytes(name)));
    let in_arguments = match as_python {
        true => None,
        false => in_arguments(option, arguments),
    };
    in_arguments.or_else(|| {
        if crate::process::is_privileged_start() {
            return None;
        }
        let variable = row_of(option.as_bytes())?.variable;
        let name_and_value = |entry: &'a [u8]| entry.strip_prefix(variable.as_bytes());
        let value = environment.find_map(|entry| name_and_value(entry)?.strip_prefix(b"="));
        value.filter(|value| !value.is_empty())
    })
}

/// The value of an option in the host's part of the arguments; the last one counts.
fn in_arguments<'a>(
    option: &str,
    arguments: impl Iterator<Item = &'a [u8]> + Clone,
) -> Option<&'a [u8]> {
    let same = host_options(arguments).filter(|found| found.name == option.as_bytes());
    same.last().map(|found| found.value.unwrap_or_default())
}

/// Checks that the region is the one that was asked for.
///
/// # Errors
/// The system gave no such range of addresses, or something was allocated before it could.
pub fn check(wanted: Option<u64>) -> Result<(), Error> {
    match (wanted, heap::bound::size()) {
        (wanted, found) if wanted == found => Ok(()),
        (Some(size), _) => Err(Error::option(format!(
            "--region: the system reserves no addresses for {} before all else is allocated; \
             expected a size that it can reserve",
            Exact(size)
        ))),
        (None, _) => Err(Error::start("a region was reserved without --region")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(arguments: &[&'a str]) -> Option<&'a str> {
        let arguments = arguments.iter().map(|argument| argument.as_bytes());
        let found = in_arguments("--region", arguments);
        found.map(|bytes| std::str::from_utf8(bytes).unwrap())
    }

    #[test]
    fn the_environment_loses_mimallocs_variables_alone() {
        for (entry, is_its) in [
            ("MIMALLOC_VERBOSE=1", true),
            ("HOME=/", false),
            ("mimalloc_show_stats=1", true),
            ("MIMALLO=1", false),
            ("MIMALLOC_", true),
        ] {
            assert_eq!(is_mimallocs(entry.as_bytes()), is_its, "{entry}");
        }
    }

    #[test]
    fn the_region_is_found_where_the_hosts_options_are() {
        assert_eq!(value(&["--region", "24M", "s.py"]), Some("24M"));
        assert_eq!(value(&["--region=24M", "s.py"]), Some("24M"));
        assert_eq!(value(&["--region-lock", "--region=1M"]), Some("1M"));
        assert_eq!(value(&["--retain", "small", "--region=1M"]), Some("1M"));
        assert_eq!(value(&["--stats=json", "--region", "2M"]), Some("2M"));
        assert_eq!(value(&["--region-lock", "s.py", "--region=1M"]), None);
        assert_eq!(value(&["--stats", "s.py", "--region=1M"]), None);
        assert_eq!(value(&["--timeline=T", "--region=1M"]), Some("1M"));
        assert_eq!(value(&["--timeline", "T", "--region=1M"]), None);
        assert_eq!(value(&["s.py", "--region=1M"]), None);
        assert_eq!(value(&["--", "--region=1M"]), None);
        assert_eq!(value(&["--version", "--region=1M"]), None);
        assert_eq!(value(&["--region"]), Some(""));
        assert_eq!(value(&["--region", "--region-lock"]), Some(""));
        assert_eq!(value(&[]), None);
    }

    #[test]
    fn the_option_wins_over_the_variable_and_a_pythons_name_over_the_option() {
        let ask = |arguments: &[&str], environment: &[&str]| {
            asked(
                arguments.iter().map(|text| text.as_bytes()),
                environment.iter().map(|text| text.as_bytes()),
            )
        };
        let variable = ["HOME=/", "PYHOST_REGION=32M"];
        assert_eq!(ask(&["pyhost"], &variable), Some(32 << 20));
        assert_eq!(ask(&["pyhost", "--region=24M"], &variable), Some(24 << 20));
        assert_eq!(ask(&["python3", "--region=24M"], &variable), Some(32 << 20));
        assert_eq!(ask(&["pyhost", "--region=x"], &variable), None);
        assert_eq!(ask(&["pyhost"], &["PYHOST_REGION="]), baked::region());
    }
}
