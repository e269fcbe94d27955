//! `on_exit(3)`. musl does not have it: there the host exports `exit`, which keeps the status for the functions.

#![allow(unsafe_code)]

use std::ffi::c_int;

/// Gets the status, and may return another one.
type AtExit = fn(c_int) -> Option<c_int>;

/// Registers a function that `exit` calls, after those that are registered later.
#[cfg(target_env = "gnu")]
pub fn on_exit(function: AtExit) {
    use std::{ffi::c_void, mem::transmute};
    extern "C" fn at_exit(status: c_int, function: *mut c_void) {
        // SAFETY: the function below.
        call(
            unsafe { transmute::<*mut c_void, AtExit>(function) },
            status,
        );
    }
    pyhost_os::calls::on_exit(at_exit, function as *mut _);
}

/// Calls a function that `exit` calls. libc goes on with the functions that remain, and ends with its status (exit(3)).
fn call(function: AtExit, status: c_int) {
    if let Some(other) = function(status) {
        // SAFETY: the calling thread is the one that ends the process.
        unsafe { libc::exit(other) };
    }
}

#[cfg(target_env = "musl")]
pub use kept::on_exit;

#[cfg(target_env = "musl")]
mod kept {
    use super::{AtExit, call};
    use crate::libc_exports::native::next;
    use crate::process;
    use pyhost_os::calls;
    use std::ffi::c_int;
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
        functions.for_each(|&function| call(function, EXIT.status.load(Relaxed)));
    }

    /// `exit(3)`, which `main` ends with, too.
    #[unsafe(no_mangle)]
    extern "C" fn exit(status: c_int) -> ! {
        EXIT.status.store(status, Relaxed);
        next::call!(EXIT(status), ());
        process::end_now(status)
    }
}
