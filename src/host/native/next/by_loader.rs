//! The functions behind the host's own, as the loader finds them: the definition that follows the executable.

use super::super::mode::{self, Mode, mode};
use super::{Lookup, MALLOC, Symbol, USABLE_SIZE, call, resolve_all};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

/// Declares functions, and the one that finds all of them.
macro_rules! symbols {
    ($($(#[$attribute:meta])* $identifier:ident = $name:literal: $type:ty;)*) => {
        $($(#[$attribute])* pub static $identifier: Symbol<$type> =
            Symbol::new(found::text(concat!($name, "\0")));)*
        /// Finds every function of the list. Once, before `main` or at its start.
        fn resolve_all() {
            $($(#[$attribute])* $identifier.resolve();)*
        }
    };
}
pub(super) use symbols;

/// A text with its zero byte as C has it.
pub(super) const fn text(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("one zero byte, at the end"),
    }
}

impl<F: Copy> Symbol<F> {
    /// Finds the definition that follows the host in lookup order. After [`super::resolve`], which does so for the list.
    pub fn resolve(&self) {
        // SAFETY: RTLD_NEXT counts from the caller, which is the host.
        let address = unsafe { call!(DLSYM(libc::RTLD_NEXT, self.name.as_ptr()), null_mut()) };
        self.address.store(address, Relaxed);
    }
}

/// libc's `dlsym`, behind the executable's own.
pub static DLSYM: Symbol<Lookup> = Symbol::new(c"dlsym");

/// Versions under which glibc has had `dlsym`, by architecture and age.
const DLSYM_VERSIONS: [&CStr; 4] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17", c"GLIBC_2.4"];

/// Whether two functions are of one library. Here no function but the loader's own may be called: a preloaded sanitizer,
/// which is not ready yet, has a `dl_iterate_phdr` of its own. `dladdr` looks at all names of a library, so it is not
/// asked about functions so close together that no library begins between them, as those of libc.
fn are_of_one_library(left: *mut c_void, right: *mut c_void) -> bool {
    const CLOSE: usize = 64 << 10;
    let object_of = |address| {
        // SAFETY: the call fills the structure, and any address may be asked for.
        unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            match libc::dladdr(address, &mut found) {
                0 => null_mut(),
                _ => found.dli_fbase,
            }
        }
    };
    left.addr().abs_diff(right.addr()) < CLOSE || object_of(left) == object_of(right)
}

/// Finds the functions.
pub(super) fn find() {
    // A look-up of glibc before 2.34 allocates, as every one that fails does. It may not be the first request of the
    // heaps: the region is not reserved yet. Until libc's own malloc is found it gets null, which it can do with.
    let chosen = mode();
    mode::set(Mode::Off);
    for version in DLSYM_VERSIONS {
        let (name, version) = (DLSYM.name.as_ptr(), version.as_ptr());
        // SAFETY: strings that end in a zero byte. `dlvsym` is not exported by the executable.
        let address = unsafe { libc::dlvsym(libc::RTLD_NEXT, name, version) };
        if !address.is_null() {
            DLSYM.address.store(address, Relaxed);
            break;
        }
    }
    resolve_all();
    mode::set(chosen);
    if !are_of_one_library(USABLE_SIZE.address(), MALLOC.address()) {
        // Another allocator's: it would read before the block whatever it takes for its own header.
        USABLE_SIZE.address.store(null_mut(), Relaxed);
    }
}
