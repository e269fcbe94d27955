//! `on_exit(3)`. musl does not have it: there the host exports `exit`, which keeps the status for the functions.

use std::ffi::{c_int, c_void};

/// Gets the status, and null.
type AtExit = extern "C" fn(c_int, *mut c_void);

/// Registers a function that `exit` calls, after those that are registered later.
#[cfg(target_env = "gnu")]
pub fn on_exit(function: AtExit) {
    pyhost_os::calls::on_exit(function, std::ptr::null_mut());
}

#[cfg(target_env = "musl")]
pub use kept::on_exit;

#[cfg(target_env = "musl")]
#[allow(unsafe_code)]
mod kept {
    use super::AtExit;
    use crate::libc_exports::native::next::call;
    use crate::process;
    use pyhost_os::calls;
    use std::ffi::c_int;
    use std::ptr::null_mut;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

    /// What is called at the exit, and with which status.
    struct Exit {
        status: AtomicI32,
        /// As many as the host has.
        functions: [OnceLock<AtExit>; 2],
    }

    static EXIT: Exit = Exit {
        status: AtomicI32::new(0),
        functions: [const { OnceLock::new() }; 2],
    };

    /// Registers a function that `exit` calls, after those that `atexit` registers later. At the start, by the only thread.
    pub fn on_exit(function: AtExit) {
        let place = EXIT
            .functions
            .iter()
            .position(|place| place.set(function).is_ok());
        match place {
            Some(0) => _ = calls::atexit(at_exit),
            place => debug_assert!(place.is_some()),
        }
    }

    extern "C" fn at_exit() {
        let functions = EXIT.functions.iter().rev().filter_map(OnceLock::get);
        functions.for_each(|function| function(EXIT.status.load(Relaxed), null_mut()));
    }

    /// `exit(3)`, which `main` ends with, too.
    #[unsafe(no_mangle)]
    extern "C" fn exit(status: c_int) -> ! {
        EXIT.status.store(status, Relaxed);
        call!(EXIT(status), ());
        process::end_now(status)
    }
}
