//! Functions of libc that set a signal's handler, which the executable exports in its own form: a signal that the host
//! watches keeps the host's handler. See [`dispositions`].

#![allow(unsafe_code)]

use crate::libc_exports::native::next;
use crate::observe::exit_report::dispositions::{self, set_handler};
use libc::sigaction as Action;
use std::ffi::c_int;

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the caller's duties.
    unsafe { dispositions::set_action(signal, new, old) }
}

/// `sigaction(2)` by its other name.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: the caller's duties.
    unsafe { sigaction(signal, new, old) }
}

/// Exports functions that set a handler as libc's `$function` does.
macro_rules! setters {
    ($($name:ident: $function:ident;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "(3)`.")]
            #[unsafe(no_mangle)]
            extern "C" fn $name(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
                next::resolve();
                set_handler(next::$function.get(), signal, handler)
            }
        )*
    };
}

setters! {
    signal: SIGNAL;
    bsd_signal: SIGNAL;
    ssignal: SIGNAL;
    sysv_signal: SYSV_SIGNAL;
    __sysv_signal: SYSV_SIGNAL;
}
