//! Whether the interpreter of this process is the one that the host was built for. An executable is linked with its
//! own libpython; the library that is preloaded meets any program.

use super::full_version;
use crate::error::{Error, Result};
use crate::libc_exports::native::next::find;

/// The minor version of the build, such as 3.11.
const BUILT_FOR: &str = env!("PYHOST_PYTHON_VERSION");

/// Checks the interpreter. Nothing else of the C API may be called before.
///
/// # Errors
/// It is no CPython, one of another minor version, or of a build with other objects.
pub fn check() -> Result<()> {
    if find(c"Py_GetVersion").is_null() {
        return Err(Error::start(
            "this program is no CPython; expected a python that exports the C API",
        ));
    }
    let counts_references = !find(c"_Py_NegativeRefcount").is_null();
    let Some(refused) = refusal(full_version(), counts_references) else {
        return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_minor_version_of_the_build_is_served() {
        for (rest, counts_references, refused) in [
            (".99 (main) [GCC 1]", false, None),
            (".0rc1+ (main)", false, None),
            (".0+", true, Some("a debug build of CPython V.0")),
            ("0.1 (x)", false, Some("CPython V0.1")),
            (
                ".1 free-threading build (main)",
                false,
                Some("a free-threaded CPython V.1"),
            ),
        ] {
            let refused = refused.map(|text| text.replace('V', BUILT_FOR));
            let version = format!("{BUILT_FOR}{rest}");
            assert_eq!(refusal(&version, counts_references), refused);
        }
        assert_eq!(refusal("2.7.18 (x)", false).unwrap(), "CPython 2.7.18");
    }
}
