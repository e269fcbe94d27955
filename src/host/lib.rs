//! The host: runs Python programs as `python` does, with every allocation of the process on
//! mimalloc and booked to an account.
//!
//! A library, of which an executable is made by a `main` that calls [`main`]. It must be linked with
//! the arguments that its build script hands over.

#![cfg_attr(test, allow(dead_code))]

mod allocator;
mod check;
mod error;
mod forks;
mod libc_exports;
mod limit;
mod observe;
mod options;
mod python;
mod run;

use error::Error;
use pyhost_cpython as cpython;
use pyhost_heap as heap;
use pyhost_ledger::{self as ledger, header, resident};
use pyhost_os::{bytes, descriptor, errno, file, path_template, process};
use pyhost_record::output;

pub use libc_exports::native::next::Symbol;
pub use libc_exports::native::stand_aside;
pub use libc_exports::preload;
pub use options::{Help, command, early::is_mimallocs};
pub use pyhost_os::strings::{ProcessArguments, Strings};
use std::ffi::CStr;

/// Makes the host's own calls of libc lead past preloaded libraries. Before everything else. With a static libpython they stay:
/// CPython's would go past, too.
pub fn bind_own_calls() {
    #[cfg(not(any(target_feature = "crt-static", shares_calls)))]
    process::libc_itself::bind_own_calls();
}

/// Decides what must be known before anything is allocated: `--region`, `--malloc`, `--leak-check`.
///
/// The program calls it with its arguments and environment before the constructors of all libraries: an
/// executable from its `.preinit_array`. It allocates nothing and prints nothing.
///
/// Nobody else reads or writes them meanwhile. [`bind_own_calls`] comes before it. `called` is the name that the host was
/// called by, if it is not the first of the arguments.
pub fn early(arguments: Strings<'_>, called: Option<&CStr>, environment: Strings<'_>) {
    heap::begin();
    libc_exports::native::decide(&environment);
    options::early::read(options::words(&arguments, called), environment);
}

/// Whether this process runs a file, a device and an inode, with no more rights than its caller. Allocates nothing.
pub fn runs_program(program: (u64, u64)) -> bool {
    const OWN: &CStr = c"/proc/self/exe";
    let is_it = |path: &CStr| {
        let found = file::status_of(path, 0);
        found.is_ok_and(|found| (found.st_dev, found.st_ino) == program)
    };
    // Valgrind answers for the program that it runs when the link is read, and not when it is followed.
    let named = || {
        let mut room = [0; 4096];
        let path = path_template::PathBuffer::of(file::read_link(OWN, &mut room).ok()?)?;
        Some(is_it(path.as_c_str()))
    };
    !process::is_privileged_start() && (is_it(OWN) || named() == Some(true))
}

/// Runs the host with the process's arguments; the exit status.
///
/// The main thread calls it once, before any other thread exists.
pub fn main(arguments: ProcessArguments<'_>) -> i32 {
    ended(run::run(arguments, None))
}

/// As [`main`], in an interpreter that the host was not linked with. `called` is as for [`early`].
pub fn main_inside(arguments: ProcessArguments<'_>, called: Option<&CStr>) -> i32 {
    ended(python::interpreter::version::check().and_then(|()| run::run(arguments, called)))
}

fn ended(result: Result<i32, Error>) -> i32 {
    result.unwrap_or_else(|error| {
        descriptor::notice(format_args!("{error}"));
        error.exit_status()
    })
}
