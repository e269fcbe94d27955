//! The functions behind the host's own, as the loader finds them: the definition that follows the executable.

use super::super::mode::{self, Mode, mode};
use super::{Lookup, MALLOC, Symbol, USABLE_SIZE, resolve_all};
use pyhost_os::process::libc_itself;
use std::{ffi::c_void, ptr::null_mut, sync::atomic::Ordering::Relaxed};

/// Declares functions, and the one that finds all of them.
macro_rules! symbols {
    ($(#[$of:meta] { $($identifier:ident = $name:literal: $type:ty;)* })*) => {
        $($(#[$of] pub static $identifier: Symbol<$type> =
            Symbol::new(pyhost_os::strings::c_text(concat!($name, "\0")));)*)*
        /// Finds every function of the list. Once, before `main` or at its start.
        fn resolve_all() {
            $($(#[$of] $identifier.resolve();)*)*
        }
    };
}
pub(super) use symbols;

impl<F: Copy> Symbol<F> {
    /// Finds the definition that follows the host in lookup order. After [`super::resolve`], which does so for the list.
    pub fn resolve(&self) {
        self.address.store(super::find_next(self.name), Relaxed);
    }
}

/// The `dlsym` behind the executable's own.
pub static DLSYM: Symbol<Lookup> = Symbol::new(c"dlsym");

pub(super) fn find() {
    // A look-up of glibc before 2.34 allocates, as every one that fails does. It may not be the first request of the
    // heaps: the region is not reserved yet. Until libc's own malloc is found it gets null, which it can do with.
    let chosen = mode();
    mode::set(Mode::Off);
    DLSYM.address.store(libc_itself::find(DLSYM.name), Relaxed);
    DLSYM.resolve(); // a preloaded library's
    resolve_all();
    mode::set(chosen);
    let is_libcs = |function: *mut c_void, name| function == libc_itself::find(name);
    let are_both = is_libcs(MALLOC.address(), MALLOC.name)
        == is_libcs(USABLE_SIZE.address(), USABLE_SIZE.name);
    if !are_both {
        // Another allocator's: it would read before the block whatever it takes for its own header.
        USABLE_SIZE.address.store(null_mut(), Relaxed);
    }
}
