//! Functions of libc that the executable exports in its own form: those that end the process or
//! replace it write the report, those that make a process that no fork handler sees count it;
//! then each does what libc's does.
//!
//! libpython and extension modules reach them through the dynamic symbol table; libc's own
//! internal calls do not, which is why signals are watched as well.

#![allow(unsafe_code)]

use super::{FINALIZED, FORKS, finish};
use crate::live;
use crate::native::next::{self, call};
use crate::process;
use crate::report::Ending;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type Strings = *const *const c_char;

fn quick_exit(status: c_int) -> ! {
    finish(Ending::QuickExit(status), false);
    loop {
        // SAFETY: ends the process; no memory of ours is involved.
        unsafe { libc::syscall(libc::SYS_exit_group, status as c_long) };
    }
}

/// `_exit(2)`.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: c_int) -> ! {
    quick_exit(status)
}

/// `_Exit(2)`.
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: c_int) -> ! {
    quick_exit(status)
}

/// `kill(2)`: a process that kills itself can report before, where no handler will.
///
/// Python dies of Ctrl-C this way, after it has finalised.
#[unsafe(no_mangle)]
unsafe extern "C" fn kill(pid: libc::pid_t, signal: c_int) -> c_int {
    let by_interrupt = signal == libc::SIGINT && FINALIZED.load(Relaxed);
    if (signal == libc::SIGKILL || by_interrupt) && pid == process::id() {
        finish(Ending::Signal(signal), false);
    }
    // SAFETY: the caller's duties.
    unsafe { next::kill(pid, signal) }
}

/// Writes the report before `$symbol` replaces the process; a later ending rewrites it where
/// the call fails.
macro_rules! exec {
    ($symbol:ident, fn($($type:ty),*), ($($argument:expr),*)) => {{
        finish(Ending::Exec, false);
        next::resolve();
        let result = call!(next::$symbol, fn($($type),*) -> c_int, ($($argument),*), -1);
        live::resume();
        result
    }};
}

/// `execv(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the caller's duties; the next function has this type.
    unsafe { exec!(EXECV, fn(*const c_char, Strings), (path, argv)) }
}

/// `execve(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn execve(path: *const c_char, argv: Strings, environment: Strings) -> c_int {
    // SAFETY: as in `execv`.
    unsafe {
        exec!(
            EXECVE,
            fn(*const c_char, Strings, Strings),
            (path, argv, environment)
        )
    }
}

/// `execvp(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: as in `execv`.
    unsafe { exec!(EXECVP, fn(*const c_char, Strings), (file, argv)) }
}

/// `execvpe(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn execvpe(file: *const c_char, argv: Strings, environment: Strings) -> c_int {
    // SAFETY: as in `execv`.
    unsafe {
        exec!(
            EXECVPE,
            fn(*const c_char, Strings, Strings),
            (file, argv, environment)
        )
    }
}

/// `fexecve(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(file: c_int, argv: Strings, environment: Strings) -> c_int {
    // SAFETY: as in `execv`.
    unsafe {
        exec!(
            FEXECVE,
            fn(c_int, Strings, Strings),
            (file, argv, environment)
        )
    }
}

/// Counts a process that `$symbol` starts.
macro_rules! spawn {
    ($symbol:ident, ($($argument:expr),*)) => {{
        next::resolve();
        let result = call!(
            next::$symbol,
            fn(*mut libc::pid_t, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int,
            ($($argument),*),
            libc::ENOSYS
        );
        if result == 0 {
            FORKS.fetch_add(1, Relaxed);
        }
        result
    }};
}

/// `posix_spawn(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller's duties; the next function has this type.
    unsafe {
        spawn!(
            POSIX_SPAWN,
            (pid, path, actions, attributes, argv, environment)
        )
    }
}

/// `posix_spawnp(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the caller's duties; the next function has this type.
    unsafe {
        spawn!(
            POSIX_SPAWNP,
            (pid, file, actions, attributes, argv, environment)
        )
    }
}

/// Where the exported `vfork` counts.
#[unsafe(no_mangle)]
static PYHOST_FORKS: &AtomicU64 = &FORKS;

/// Stands in for libc's `vfork` where it was not found: a plain fork is allowed by POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_fork() -> *mut c_void {
    // SAFETY: no arguments.
    unsafe { libc::fork() as usize as *mut c_void }
}

// vfork(2) returns twice through the same frame, so it can only be jumped to.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl vfork",
    ".type vfork,@function",
    "vfork:",
    "mov rax, qword ptr [rip + {forks}]",
    "lock inc qword ptr [rax]",
    "mov rax, qword ptr [rip + {real}]",
    "test rax, rax",
    "je {fork}",
    "jmp rax",
    ".size vfork, .-vfork",
    forks = sym PYHOST_FORKS,
    real = sym next::PYHOST_REAL_VFORK,
    fork = sym pyhost_fork,
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl vfork",
    ".type vfork,@function",
    "vfork:",
    "adrp x16, {forks}",
    "ldr x16, [x16, :lo12:{forks}]",
    "1: ldxr x17, [x16]",
    "add x17, x17, #1",
    "stxr w15, x17, [x16]",
    "cbnz w15, 1b",
    "adrp x16, {real}",
    "ldr x16, [x16, :lo12:{real}]",
    "cbz x16, {fork}",
    "br x16",
    ".size vfork, .-vfork",
    forks = sym PYHOST_FORKS,
    real = sym next::PYHOST_REAL_VFORK,
    fork = sym pyhost_fork,
);
