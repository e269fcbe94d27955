//! `pyhost`: runs Python programs as `python` does, with every allocation of the process on
//! mimalloc and booked to an account.
//!
//! There is no Rust `main`: the standard library's would reopen closed descriptors and install
//! signal handlers, which the script would see.

#![no_main]
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
    pyhost_host::main(words)
}
