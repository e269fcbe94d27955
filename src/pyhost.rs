//! `pyhost`: runs Python programs as `python` does, with every allocation of the process on
//! mimalloc and booked to an account.
//!
//! There is no Rust `main`: the standard library's would reopen closed descriptors and install
//! signal handlers, which the script would see.

#![no_main]
#![allow(unsafe_code)]

use pyhost_host::{ProcessArguments, Strings};
use std::ffi::c_int;

#[cfg(target_env = "gnu")]
#[used]
#[unsafe(link_section = ".preinit_array")]
static EARLY: extern "C" fn(c_int, Strings<'_>, Strings<'_>) = early;

/// The first of the constructors. musl gives them no arguments.
#[cfg(target_env = "musl")]
#[used]
#[unsafe(link_section = ".init_array.0")]
static EARLY: extern "C" fn() = {
    extern "C" fn first() {
        // SAFETY: nothing has run that could set a variable.
        let environment = unsafe { Strings::environment() };
        // SAFETY: as above.
        early(0, unsafe { environment.arguments() }, environment);
    }
    first
};

/// Runs before the constructors of all libraries.
extern "C" fn early(_argc: c_int, arguments: Strings<'_>, environment: Strings<'_>) {
    pyhost_host::bind_own_calls();
    pyhost_host::early(arguments, None, environment);
}

/// Parse, run, exit.
#[unsafe(no_mangle)]
extern "C" fn main(_argc: c_int, arguments: Strings<'_>) -> c_int {
    // SAFETY: the arguments; what has read them before has copies.
    pyhost_host::main(unsafe { ProcessArguments::of_main(arguments) })
}
