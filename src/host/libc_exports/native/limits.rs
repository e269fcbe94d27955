//! `setrlimit` and `prlimit`, as the executable exports them: the heaps follow a limit from when it is set on.

#![allow(unsafe_code)]

use super::{Mode, mode};
use crate::heap::address_limit;
use pyhost_os::calls::{Limit, Resource};
use std::ffi::c_int;
use std::ptr::null_mut;

/// Sets a limit and reads the one of before, if they are not null.
unsafe fn exchange(
    process: libc::pid_t,
    resource: Resource,
    new: *const Limit,
    old: *mut Limit,
) -> c_int {
    // SAFETY: the caller's duties of prlimit(2).
    let result = unsafe { libc::syscall(libc::SYS_prlimit64, process, resource, new, old) };
    if result == 0 && !new.is_null() && mode() != Mode::Off {
        address_limit::look();
    }
    result as c_int
}

/// Exports the two functions by these names.
macro_rules! export {
    ($setrlimit:ident, $prlimit:ident) => {
        /// `setrlimit(2)`.
        ///
        /// # Safety
        /// As the manual says.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $setrlimit(resource: Resource, new: *const Limit) -> c_int {
            // SAFETY: the caller's duties.
            unsafe { exchange(0, resource, new, null_mut()) }
        }

        /// `prlimit(2)`.
        ///
        /// # Safety
        /// As the manual says.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $prlimit(
            process: libc::pid_t,
            resource: Resource,
            new: *const Limit,
            old: *mut Limit,
        ) -> c_int {
            // SAFETY: the caller's duties.
            unsafe { exchange(process, resource, new, old) }
        }
    };
}

// With 32 bits these take numbers of 32 bits, and CPython calls the others.
#[cfg(target_pointer_width = "64")]
export!(setrlimit, prlimit);
#[cfg(target_env = "gnu")]
export!(setrlimit64, prlimit64);
