//! The decisions that must be made before any library's constructor runs.
//!
//! [`decide`] runs once the loader has relocated everything, and before the constructors of preloaded libraries:
//! see [`crate::early`]. There the functions behind the exported ones are found, and the family is left to a
//! preloaded memory tool: a sanitizer's constructor allocates while the pthread functions that it intercepts do
//! not work yet, and every tool is to see the blocks of the constructors.

use super::{Mode, checkers, lookup, next, set_mode};
use pyhost_os::strings::Strings;

/// Runs before every constructor; allocates nothing.
pub fn decide(environment: &Strings<'_>) {
    next::resolve();
    lookup::learn_libc();
    let preloaded = environment.value(b"LD_PRELOAD=");
    if preloaded.is_some_and(checkers::is_named_in) {
        set_mode(Mode::Off);
    }
}
