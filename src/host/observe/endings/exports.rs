//! Functions of libc that the executable exports in its own form: those that end the process or
//! replace it write the report, then each does what libc's does. The raw system call is in
//! [`super::forks`].
//!
//! libpython and extension modules reach them through the dynamic symbol table; libc's own
//! internal calls do not, which is why signals are watched as well.

#![allow(unsafe_code)]

use super::dispositions::FIRST;
use super::finish;
use crate::libc_exports::native::next::{self, call};
use crate::libc_exports::preload;
use crate::observe::live;
use crate::observe::report::Ending;
use crate::process;
use pyhost_os::strings::Strings;
use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering::Relaxed;

pub(super) fn end_now(status: c_int) -> ! {
    finish(Ending::QuickExit(status), false);
    process::end_now(status)
}

/// The last of the functions that `quick_exit` calls, as the first that was registered.
pub extern "C" fn at_quick_exit() {
    finish(
        Ending::QuickExit(super::STATE.quick_status.load(Relaxed)),
        false,
    );
}

/// `quick_exit(3)`: the status, which the functions of `at_quick_exit` do not get.
#[unsafe(no_mangle)]
extern "C" fn quick_exit(status: c_int) -> ! {
    super::STATE.quick_status.store(status, Relaxed);
    next::resolve();
    call!(QUICK_EXIT(status), ());
    end_now(status)
}

/// `_exit(2)`.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    end_now(status)
}

/// `_Exit(2)`.
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    end_now(status)
}

/// `kill(2)`: a process that kills itself reports before, if no handler of the host will run.
///
/// Python dies of Ctrl-C this way, after it has finalised.
#[unsafe(no_mangle)]
extern "C" fn kill(pid: libc::pid_t, signal: c_int) -> c_int {
    let by_interrupt = signal == libc::SIGINT && super::STATE.finalized.load(Relaxed);
    let is_end = signal == libc::SIGKILL || by_interrupt;
    // The first process of a pid namespace outlives both.
    if is_end && pid == process::id() && pid != FIRST {
        if by_interrupt {
            live::note_stop(true);
        }
        finish(Ending::Signal(signal), false);
    }
    next::kill(pid, signal)
}

/// Writes the report before `$symbol` replaces the process; a later ending rewrites it if
/// the call fails. Unsafe as the symbol.
macro_rules! exec {
    ($symbol:ident($($argument:expr),*)) => {{
        finish(Ending::Exec, false);
        next::resolve();
        // SAFETY: the caller's duties.
        let result = unsafe { call!($symbol($($argument),*), -1) };
        live::resume();
        result
    }};
}

/// `execv(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, argv: Strings<'_>) -> c_int {
    // SAFETY: the caller's duties.
    unsafe { execve(path, argv, Strings::environment()) }
}

/// `execve(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn execve(
    path: *const c_char,
    argv: Strings<'_>,
    environment: Strings<'_>,
) -> c_int {
    // SAFETY: the caller's duty.
    let (path, program) = unsafe { (preload::stand_in(path), preload::Program::at(path)) };
    preload::with_library(program, environment, |environment| {
        exec!(EXECVE(path, argv, environment))
    })
}

/// `execvp(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, argv: Strings<'_>) -> c_int {
    // SAFETY: the caller's duties.
    unsafe { execvpe(file, argv, Strings::environment()) }
}

/// `execvpe(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(
    file: *const c_char,
    argv: Strings<'_>,
    environment: Strings<'_>,
) -> c_int {
    // SAFETY: the caller's duty.
    let (file, program) = unsafe { (preload::stand_in(file), preload::Program::named(file)) };
    preload::with_library(program, environment, |environment| {
        exec!(EXECVPE(file, argv, environment))
    })
}

/// `fexecve(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(file: c_int, argv: Strings<'_>, environment: Strings<'_>) -> c_int {
    preload::with_library(preload::Program::Open(file), environment, |environment| {
        exec!(FEXECVE(file, argv, environment))
    })
}
