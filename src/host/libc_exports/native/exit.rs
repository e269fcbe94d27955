//! `on_exit(3)`. musl does not have it: there the host exports `exit`, which keeps the status for the functions.

use pyhost_os::calls;
use std::{ffi::c_int, sync::OnceLock};

/// Gets the status, and may return another one.
type AtExit = fn(c_int) -> Option<c_int>;

struct AtExits {
    /// The functions that `exit` calls: as many as the host has.
    functions: [OnceLock<AtExit>; 2],
    /// The status for them.
    #[cfg(target_env = "musl")]
    status: std::sync::atomic::AtomicI32,
}

static STATE: AtExits = AtExits {
    functions: [const { OnceLock::new() }; 2],
    #[cfg(target_env = "musl")]
    status: std::sync::atomic::AtomicI32::new(0),
};

/// Registers a function that `exit` calls, after those that are registered later; in musl, after those that `atexit` registers
/// later. At the start, by the only thread.
pub fn on_exit(function: AtExit) {
    let mut places = STATE.functions.iter();
    let number = places.position(|place| place.set(function).is_ok());
    debug_assert!(number.is_some());
    if let Some(number) = number {
        register(number);
    }
}

/// Calls a function that `exit` calls. libc goes on with the functions that remain, and ends with its status (exit(3)).
fn call(number: usize, status: c_int) {
    let function = STATE.functions.get(number).and_then(OnceLock::get);
    if let Some(other) = function.and_then(|function| function(status)) {
        calls::exit(other);
    }
}

#[cfg(target_env = "gnu")]
fn register(number: usize) {
    extern "C" fn at_exit(status: c_int, number: *mut std::ffi::c_void) {
        call(number.addr(), status);
    }
    calls::on_exit(at_exit, std::ptr::without_provenance_mut(number));
}

#[cfg(target_env = "musl")]
use kept::register;

#[cfg(target_env = "musl")]
#[allow(unsafe_code, reason = "exports a symbol")]
mod kept {
    use super::{STATE, call};
    use crate::{libc_exports::native::next, process};
    use pyhost_os::calls;
    use std::ffi::c_int;
    use std::sync::atomic::Ordering::Relaxed;

    pub fn register(number: usize) {
        if number == 0 {
            calls::atexit(at_exit);
        }
    }

    extern "C" fn at_exit() {
        let numbers = (0..STATE.functions.len()).rev();
        numbers.for_each(|number| call(number, STATE.status.load(Relaxed)));
    }

    /// `exit(3)`, which `main` ends with, too.
    #[unsafe(no_mangle)]
    extern "C" fn exit(status: c_int) -> ! {
        STATE.status.store(status, Relaxed);
        next::call!(EXIT(status), ());
        process::end_now(status)
    }
}
