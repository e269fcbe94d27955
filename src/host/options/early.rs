//! The options that must be known before anything is allocated: `--region`; `--native`, since what
//! is booked before it is known stays booked; and `--leak-check`, since heaps never move.
//!
//! A function of the executable's `.preinit_array`, so before the constructors of all libraries,
//! looks for them in the arguments and the environment as [`super::read`] will, and has the region
//! reserved. What it takes for the region's size is checked against what `read` finds: see
//! [`check`]. It allocates nothing and says nothing.

#![allow(unsafe_code)]

use super::arguments::{host_options, is_python_name};
use super::baked;
use super::table::ROWS;
use crate::bytes::{self, Exact};
use crate::error::Error;
use crate::heap;
use crate::native::{self, Mode};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

type Strings = *const *const c_char;

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".preinit_array"))]
static EARLY: unsafe extern "C" fn(c_int, Strings, Strings) = early;

/// Runs before every constructor; allocates nothing.
unsafe extern "C" fn early(_argc: c_int, arguments: Strings, environment: Strings) {
    if crate::process::is_privileged_start() {
        // SAFETY: the process's own array, which nobody else reads yet.
        unsafe { forget_mimalloc(environment.cast_mut()) };
    }
    // SAFETY: the loader passes arrays of strings that end with null.
    let value = |option| unsafe { given(option, strings(arguments), strings(environment)) };
    let check = value("--leak-check");
    if check.is_some_and(|scope| scope != b"off") {
        heap::apart::start();
    }
    // SAFETY: as above.
    let size = unsafe { asked(strings(arguments), strings(environment)) };
    if let Some(size) = size.filter(|&size| size >= heap::bound::LEAST) {
        heap::reserve_region(size);
    }
    match value("--native") {
        Some(b"plain") => native::set_mode(Mode::Plain),
        Some(b"off") => native::set_mode(Mode::Off),
        _ => {} // the default, or a value that will be refused
    }
}

/// Takes mimalloc's variables out of the environment: it reads them itself, at its first request, and a
/// program with more rights than its caller must not obey them.
///
/// # Safety
/// `environment` is null or an array of strings that ends with null, which may be written to.
unsafe fn forget_mimalloc(environment: *mut *const c_char) {
    const PREFIX: &[u8] = b"MIMALLOC_";
    if environment.is_null() {
        return;
    }
    // SAFETY: the caller's duties; the end is not passed.
    unsafe {
        let (mut from, mut to) = (environment, environment);
        while !(*from).is_null() {
            let entry = CStr::from_ptr(*from).to_bytes();
            // mimalloc takes them in any case of letters.
            let is_its = entry
                .get(..PREFIX.len())
                .is_some_and(|name| name.eq_ignore_ascii_case(PREFIX));
            if !is_its {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = std::ptr::null();
    }
}

/// The strings of an array of the loader's.
///
/// # Safety
/// `array` is null or an array of strings that ends with null, and never changes.
unsafe fn strings(mut array: Strings) -> impl Iterator<Item = &'static [u8]> + Clone {
    std::iter::from_fn(move || {
        // SAFETY: the caller's duties; the end is not passed.
        unsafe {
            if array.is_null() || (*array).is_null() {
                return None;
            }
            let text = CStr::from_ptr(*array).to_bytes();
            array = array.add(1);
            Some(text)
        }
    })
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
        let variable = ROWS.iter().find(|row| row.option == option)?.variable;
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
    #[allow(unsafe_code)]
    fn the_environment_loses_mimallocs_variables_alone() {
        let entries = [
            c"MIMALLOC_VERBOSE=1",
            c"HOME=/",
            c"mimalloc_show_stats=1",
            c"MIMALLO=1",
            c"MIMALLOC_",
        ];
        let mut array: Vec<*const c_char> = entries.iter().map(|entry| entry.as_ptr()).collect();
        array.push(std::ptr::null());
        // SAFETY: an array of strings that ends with null.
        let left: Vec<&[u8]> = unsafe {
            forget_mimalloc(array.as_mut_ptr());
            strings(array.as_ptr()).collect()
        };
        assert_eq!(left, [b"HOME=/".as_slice(), b"MIMALLO=1"]);
    }

    #[test]
    fn the_region_is_found_where_the_hosts_options_are() {
        assert_eq!(value(&["--region", "24M", "s.py"]), Some("24M"));
        assert_eq!(value(&["--region=24M", "s.py"]), Some("24M"));
        assert_eq!(value(&["--region-lock", "--region=1M"]), Some("1M"));
        assert_eq!(value(&["--profile", "small", "--region=1M"]), Some("1M"));
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
