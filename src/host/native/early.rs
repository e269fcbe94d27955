//! The decisions that must be made before any library's constructor runs.
//!
//! A function of the executable's `.preinit_array` runs once the loader has relocated
//! everything, and before the constructors of preloaded libraries. There the functions behind
//! the exported ones are found, and the family is left to a preloaded memory tool: a sanitizer's
//! constructor allocates while the pthread functions that it intercepts do not work yet, and every tool
//! is to see the blocks of the constructors.

#![allow(unsafe_code)]

use super::{Mode, checkers, next, set_mode};
use std::ffi::{CStr, c_char, c_int};

type Strings = *const *const c_char;

#[used]
#[unsafe(link_section = ".preinit_array")]
static EARLY: unsafe extern "C" fn(c_int, Strings, Strings) = early;

/// Runs before every constructor; allocates nothing.
unsafe extern "C" fn early(_argc: c_int, _argv: Strings, environment: Strings) {
    next::resolve();
    // SAFETY: the loader passes an array of strings that ends with null.
    let preloaded = unsafe { find(environment, b"LD_PRELOAD=") };
    if preloaded.is_some_and(checkers::is_named_in) {
        set_mode(Mode::Off);
    }
}

/// The value of the variable that starts with `prefix`.
///
/// # Safety
/// `environment` is null or an array of strings that ends with null.
unsafe fn find<'a>(mut environment: Strings, prefix: &[u8]) -> Option<&'a [u8]> {
    // SAFETY: the caller's duties.
    unsafe {
        while !environment.is_null() && !(*environment).is_null() {
            let entry = CStr::from_ptr(*environment).to_bytes();
            if let Some(value) = entry.strip_prefix(prefix) {
                return Some(value);
            }
            environment = environment.add(1);
        }
    }
    None
}
