//! `pyhost`: runs Python programs as `python` does, with every allocation of the process on
//! mimalloc and booked to an account.
//!
//! There is no Rust `main`: the standard library's would reopen closed descriptors and install
//! signal handlers, which the script would see.

#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(dead_code))]

mod allocator;
mod balance;
mod caps;
mod cli;
mod descriptor;
mod device;
mod endings;
mod error;
mod faults;
mod heap;
mod hooks;
mod leaks;
mod live;
mod native;
mod numpy;
mod options;
mod peak;
mod process;
mod python;
mod report;
mod run;
mod timeline;

use pyhost_shared::{bytes, card, errno, ledger, output, template};

/// The C entry point.
#[cfg(not(test))]
mod entry {
    #![allow(unsafe_code)]

    use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
    use std::os::unix::ffi::OsStrExt;

    /// Parse, run, exit.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
        let words = (0..argc as usize)
            // SAFETY: the system passes `argc` strings.
            .map(|index| unsafe { CStr::from_ptr(*argv.add(index)) })
            .map(|word| OsString::from(OsStr::from_bytes(word.to_bytes())))
            .collect();
        match crate::run::run(words) {
            Ok(status) => status,
            Err(error) => {
                crate::descriptor::notice(format_args!("{error}"));
                error.exit_status()
            }
        }
    }
}
