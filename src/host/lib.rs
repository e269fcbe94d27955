//! The host: runs Python programs as `python` does, with every allocation of the process on
//! mimalloc and booked to an account.
//!
//! A library, of which an executable is made by a `main` that calls [`main`]. It must be linked with
//! the arguments that its build script hands over.

#![cfg_attr(test, allow(dead_code))]

mod allocator;
mod balance;
mod caps;
mod device;
mod endings;
mod error;
mod faults;
mod handover;
mod hooks;
mod leaks;
mod live;
mod module;
mod native;
mod numpy;
mod options;
mod peak;
mod python;
mod report;
mod run;
mod timeline;

use pyhost_heap as heap;
use pyhost_ledger::{self as ledger, card, resident};
use pyhost_os::{bytes, descriptor, errno, list, process, template};
use pyhost_record::output;

use std::ffi::OsString;

/// Runs the host with the process's arguments; the exit status.
///
/// The main thread calls it once, before any other thread exists.
pub fn main(words: Vec<OsString>) -> i32 {
    match run::run(words) {
        Ok(status) => status,
        Err(error) => {
            descriptor::notice(format_args!("{error}"));
            error.exit_status()
        }
    }
}
