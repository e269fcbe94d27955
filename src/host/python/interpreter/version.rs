//! Whether the interpreter of this process is the one that the host was built for. An executable is linked with its
//! own libpython; the library that is preloaded meets any program.

#![allow(unsafe_code)]

use crate::error::Error;
use crate::libc_exports::native::next::call;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

/// The minor version of the build, such as 3.11.
const BUILT_FOR: &str = env!("PYHOST_PYTHON_VERSION");

/// Checks the interpreter. Nothing else of the C API may be called before.
///
/// # Errors
/// It is no CPython, one of another minor version, or of a build with other objects.
pub fn check() -> Result<(), Error> {
    let function = find(c"Py_GetVersion");
    if function.is_null() {
        return Err(Error::start(
            "this program is no CPython; expected a python that exports the C API",
        ));
    }
    // SAFETY: the function of this name has this type, and may be called before initialisation. It returns a string that
    // stays.
    let version = unsafe {
        let function: extern "C" fn() -> *const c_char = std::mem::transmute(function);
        CStr::from_ptr(function()).to_string_lossy()
    };
    let refused = match refusal(&version, !find(c"_Py_NegativeRefcount").is_null()) {
        None => return Ok(()),
        Some(refused) => refused,
    };
    Err(Error::start(format!(
        "this python is {refused}; expected CPython {BUILT_FOR}"
    )))
}

/// What a Python of this version is, if it is not one that the host was built for.
fn refusal(version: &str, counts_references: bool) -> Option<String> {
    let number = version.split([' ', '+']).next().unwrap_or_default();
    let minor = number.strip_prefix(BUILT_FOR);
    if minor.is_none_or(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit())) {
        return Some(format!("CPython {number}"));
    }
    if version.contains("free-threading") != crate::cpython::IS_FREE_THREADED {
        return Some(match crate::cpython::IS_FREE_THREADED {
            true => format!("CPython {number} with a global interpreter lock"),
            false => format!("a free-threaded CPython {number}"),
        });
    }
    counts_references.then(|| format!("a debug build of CPython {number}"))
}

/// Why caps are not safe with a Python of this version, such as 3.15.1, and what to do.
pub fn unsafe_caps(version: &str, is_free_threaded: bool) -> Option<&'static str> {
    let bugfix = version.strip_prefix("3.15.").map(|rest| {
        let end = rest.find(|digit: char| !digit.is_ascii_digit());
        &rest[..end.unwrap_or(rest.len())]
    });
    if is_free_threaded {
        Some(
            "a free-threaded Python may crash when a request is refused, and its objects are counted without their bytes; \
             expected one with a global interpreter lock",
        )
    } else if matches!(bugfix, Some("0" | "1")) {
        Some(
            "CPython 3.15.0 and 3.15.1 may crash when a list is refused room for another item; expected 3.15.2 or newer",
        )
    } else {
        None
    }
}

/// The address of a function of the process; null for none.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: a string that ends with a zero byte.
    unsafe { call!(DLSYM(libc::RTLD_DEFAULT, name.as_ptr()), null_mut()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_are_unsafe_with_two_versions_and_without_a_lock() {
        for version in ["3.15.0", "3.15.0rc1", "3.15.1", "3.15.1+"] {
            assert!(unsafe_caps(version, false).unwrap().contains("3.15.2"));
        }
        for version in ["3.15.2", "3.15.10", "3.14.0", "3.1.15"] {
            assert_eq!(unsafe_caps(version, false), None);
        }
        assert!(
            unsafe_caps("3.13.0", true)
                .unwrap()
                .contains("free-threaded")
        );
    }

    #[test]
    fn only_the_minor_version_of_the_build_is_served() {
        let version = |rest: &str| format!("{BUILT_FOR}{rest}");
        assert_eq!(refusal(&version(".99 (main) [GCC 1]"), false), None);
        assert_eq!(refusal(&version(".0rc1+ (main)"), false), None);
        assert_eq!(
            refusal(&version(".0+"), true).unwrap(),
            format!("a debug build of CPython {BUILT_FOR}.0")
        );
        assert_eq!(
            refusal(&version("0.1 (x)"), false).unwrap(),
            format!("CPython {BUILT_FOR}0.1")
        );
        assert_eq!(refusal("2.7.18 (x)", false).unwrap(), "CPython 2.7.18");
        let free = version(".1 free-threading build (main)");
        assert_eq!(
            refusal(&free, false).unwrap(),
            format!("a free-threaded CPython {BUILT_FOR}.1")
        );
    }
}
