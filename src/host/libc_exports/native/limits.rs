//! `setrlimit` and `prlimit`, as the executable exports them: the heaps follow a limit from when it is set on. The two limits of a
//! call may be one.

#![allow(unsafe_code, reason = "exports symbols")]

use super::{Mode, mode};
use crate::heap::address_limit;
use pyhost_os::calls::{self, Limit, Resource};
use std::{cell::Cell, ffi::c_int};

/// Sets a limit and reads the one of before, if they are given.
fn exchange(
    process: libc::pid_t,
    resource: Resource,
    new: Option<&Cell<Limit>>,
    old: Option<&Cell<Limit>>,
) -> c_int {
    let result = calls::exchange_limits(process, resource, new, old);
    if result == 0 && new.is_some() && mode() != Mode::Off {
        address_limit::look();
    }
    result
}

/// Exports the two functions by these names.
macro_rules! export {
    ($setrlimit:ident, $prlimit:ident) => {
        #[unsafe(no_mangle)]
        extern "C" fn $setrlimit(resource: Resource, new: Option<&Cell<Limit>>) -> c_int {
            exchange(0, resource, new, None)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $prlimit(
            process: libc::pid_t,
            resource: Resource,
            new: Option<&Cell<Limit>>,
            old: Option<&Cell<Limit>>,
        ) -> c_int {
            exchange(process, resource, new, old)
        }
    };
}

// With 32 bits these take numbers of 32 bits, and CPython calls the others.
#[cfg(target_pointer_width = "64")]
export!(setrlimit, prlimit);
#[cfg(target_env = "gnu")]
export!(setrlimit64, prlimit64);
