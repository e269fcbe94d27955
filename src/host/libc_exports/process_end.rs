//! Functions of libc that the executable exports in its own form: those that end the process or replace it write the
//! report, then each does what libc's does. The raw system call is in [`super::child_processes`].
//!
//! So do those that set a signal's handler: a signal that the host watches keeps the host's handler, see [`dispositions`].
//!
//! libpython and extension modules reach them through the dynamic symbol table; libc's own
//! internal calls do not, which is why signals are watched as well.

#![allow(unsafe_code)]

use crate::libc_exports::native::next::{self, call};
use crate::libc_exports::preload::{self, Program};
use crate::observe::exit_report::dispositions::{self, set_handler};
use crate::observe::{exit_report, live, report::Ending};
use libc::sigaction as Action;
use pyhost_os::strings::Strings;
use std::ffi::{c_char, c_int};

/// `quick_exit(3)`: the status, which the functions of `at_quick_exit` do not get.
#[unsafe(no_mangle)]
extern "C" fn quick_exit(status: c_int) -> ! {
    exit_report::begin_quick_exit(status);
    next::resolve();
    call!(QUICK_EXIT(status), ());
    exit_report::end_now(status)
}

#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    exit_report::end_now(status)
}

#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    exit_report::end_now(status)
}

/// `kill(2)`: a process that kills itself reports before.
#[unsafe(no_mangle)]
extern "C" fn kill(pid: libc::pid_t, signal: c_int) -> c_int {
    exit_report::before_kill(pid, signal);
    next::kill(pid, signal)
}

/// Writes the report before `$symbol` replaces the process; a later ending rewrites it if
/// the call fails. Unsafe as the symbol.
macro_rules! exec {
    ($symbol:ident($($argument:expr),*)) => {{
        exit_report::finish(Ending::Exec, false);
        next::resolve();
        // SAFETY: the caller's duties.
        let result = unsafe { call!($symbol($($argument),*), -1) };
        live::resume();
        result
    }};
}

/// Exports the two functions that replace the process by a file, which `Program::$found` finds as libc does: with an environment, and
/// with that of the process.
macro_rules! exec_file {
    ($name:ident = $symbol:ident, $found:ident; $with_own:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            file: *const c_char,
            argv: Strings<'_>,
            envp: Strings<'_>,
        ) -> c_int {
            // SAFETY: the caller's duty.
            let (file, text) = unsafe { (preload::stand_in(file), preload::text(file)) };
            preload::with_library(Program::$found(text), envp, |envp| {
                exec!($symbol(file, argv, envp))
            })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $with_own(file: *const c_char, argv: Strings<'_>) -> c_int {
            // SAFETY: the caller's duties.
            unsafe { $name(file, argv, Strings::environment()) }
        }
    };
}

exec_file!(execve = EXECVE, At; execv);
exec_file!(execvpe = EXECVPE, Named; execvp);

#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(file: c_int, argv: Strings<'_>, envp: Strings<'_>) -> c_int {
    preload::with_library(Program::Open(file), envp, |envp| {
        exec!(FEXECVE(file, argv, envp))
    })
}

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
