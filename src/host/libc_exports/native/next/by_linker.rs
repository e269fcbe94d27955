//! The functions behind the host's own in a static executable, which has no loader: libc's by the names that the build
//! gives them (`link_c_library` in build.rs).

use super::{Lookup, Symbol};

/// Declares functions, at the addresses that the linker writes.
macro_rules! symbols {
    ($($(#[$attribute:meta])* $identifier:ident = $name:literal: $type:ty;)*) => {
        $($(#[$attribute])* pub static $identifier: Symbol<$type> = {
            // SAFETY: only the address is used, as the type in the list.
            unsafe extern "C" {
                #[link_name = concat!("__next_", $name)]
                fn next();
            }
            Symbol::at(next as *const std::ffi::c_void)
        };)*
    };
}
pub(super) use symbols;

/// A library that is not there has no names either.
pub static DLSYM: Symbol<Lookup> = Symbol::at(std::ptr::null());

/// The linker has found them.
pub(super) fn find() {}
