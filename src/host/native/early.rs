//! The decisions that must be made before any library's constructor runs.
//!
//! A function of the executable's `.preinit_array` runs once the loader has relocated
//! everything, and before the constructors of preloaded libraries. There the functions behind
//! the exported ones are found, and the family is left to a preloaded memory tool: a sanitizer's
//! constructor allocates while the pthread functions that it intercepts do not work yet, and every tool
//! is to see the blocks of the constructors.

#![allow(unsafe_code)]

use super::{Mode, checkers, next, set_mode};
use pyhost_os::strings::Strings;
use std::ffi::c_int;

#[used]
#[unsafe(link_section = ".preinit_array")]
static EARLY: extern "C" fn(c_int, Strings<'_>, Strings<'_>) = early;

/// Runs before every constructor; allocates nothing.
extern "C" fn early(_argc: c_int, _argv: Strings<'_>, environment: Strings<'_>) {
    next::resolve();
    let preloaded = (environment.iter()).find_map(|entry| entry.strip_prefix(b"LD_PRELOAD="));
    if preloaded.is_some_and(checkers::is_named_in) {
        set_mode(Mode::Off);
    }
}
