//! Counts the processes that this one starts: functions of libc that the executable exports in its own
//! form, since no fork handler sees them. Each counts, then does what libc's does.
//!
//! Counted is every process: `fork` and what libc makes of it (`daemon`, `forkpty`) by the fork handlers
//! of `src/host/forks.rs`; `vfork`, `_Fork`, `clone` without a thread, `posix_spawn`, `system` and `popen` here;
//! and `syscall(2)` of `fork`, `vfork`, `clone` and `clone3`. Not seen: a library's own instruction
//! for a system call, and `wordexp`. `vfork`, `clone` and `syscall` return twice or in another frame, so
//! they are jumped to and count before they are known to succeed.
//!
//! `syscall` is also one more way to end: `exit_group`.

#![allow(unsafe_code)]

use crate::libc_exports::assembly::{begin, by_processor, count, end, go_on, if_arm, words};
use crate::libc_exports::native::next::{self, call};
use crate::libc_exports::preload::{self, Program};
use crate::{errno::Errno, ledger::HEADER, observe::exit_report, observe::report::Ending};
use pyhost_os::strings::Strings;
use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Processes started so far; in the header, for who looks at the process from outside.
static COUNT: &AtomicU64 = &HEADER.forks;

/// Counts a process that libc's `$symbol` starts of a file, which `Program::$found` finds as libc does.
macro_rules! spawn {
    ($name:ident, $symbol:ident, $found:ident) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            pid: *mut libc::pid_t,
            file: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            argv: Strings<'_>,
            environment: Strings<'_>,
        ) -> c_int {
            // SAFETY: the caller's duty.
            let (file, program) = unsafe {
                (
                    preload::stand_in(file),
                    Program::$found(preload::text(file)),
                )
            };
            preload::with_library(program, environment, |environment| {
                next::resolve();
                // SAFETY: the caller's duties.
                let result = unsafe {
                    call!(
                        $symbol(pid, file, actions, attributes, argv, environment),
                        libc::ENOSYS
                    )
                };
                if result == 0 {
                    COUNT.fetch_add(1, Relaxed);
                }
                result
            })
        }
    };
}

spawn!(posix_spawn, POSIX_SPAWN, At);
spawn!(posix_spawnp, POSIX_SPAWNP, Named);

/// Counts a process that a function of libc has started, unless a fork handler has: `system` and
/// `popen` of glibc before 2.29 call `fork`.
fn count_since(before: u64) {
    let _ = COUNT.compare_exchange(before, before + 1, Relaxed, Relaxed);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn system(command: *const c_char) -> c_int {
    next::resolve();
    let before = COUNT.load(Relaxed);
    // SAFETY: the caller's duties.
    let status = unsafe { call!(SYSTEM(command), -1) };
    if status != -1 {
        count_since(before);
    }
    status
}

#[unsafe(no_mangle)]
unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
    next::resolve();
    let before = COUNT.load(Relaxed);
    // SAFETY: the caller's duties.
    let stream = unsafe { call!(POPEN(command, mode), null_mut()) };
    if !stream.is_null() {
        count_since(before);
    }
    stream
}

/// `_Fork(3)`: runs no fork handlers.
#[unsafe(no_mangle)]
unsafe extern "C" fn _Fork() -> libc::pid_t {
    next::resolve();
    // SAFETY: the caller's duties. glibc before 2.34 has no such function: a plain fork is counted by its handler.
    let pid = unsafe { call!(FORK_ALONE(), return libc::fork()) };
    if pid > 0 {
        COUNT.fetch_add(1, Relaxed);
    }
    pid
}

/// Takes note of a system call that starts a process or ends this one, before it is made.
///
/// # Safety
/// The arguments of `syscall(2)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_note_syscall(number: c_long, first: c_long, second: c_long) {
    next::resolve();
    let makes_process = match number {
        libc::SYS_exit_group => {
            exit_report::finish(Ending::QuickExit(first as c_int), false);
            false
        }
        libc::SYS_clone => first & c_long::from(libc::CLONE_THREAD) == 0,
        libc::SYS_clone3 => {
            // The first of the structure's fields are the flags; a null asks whether there is the call.
            let flags = first as *const u64;
            // SAFETY: the caller's duty, as the size says.
            let is_process = || unsafe { flags.read_unaligned() } & libc::CLONE_THREAD as u64 == 0;
            first != 0 && second >= 64 && is_process()
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "arm"))]
        libc::SYS_fork | libc::SYS_vfork => true,
        _ => false,
    };
    if makes_process {
        COUNT.fetch_add(1, Relaxed);
    }
}

/// Where the exported `vfork` and `clone` count.
#[unsafe(no_mangle)]
static PYHOST_COUNT: &AtomicU64 = COUNT;

/// Stands in for libc's `vfork` if it was not found: a plain fork is allowed by POSIX.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_fork() -> *mut c_void {
    // SAFETY: no arguments.
    unsafe { libc::fork() as usize as *mut c_void }
}

/// Stands in for libc's `clone` and `syscall` if they were not found.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_no_such_call() -> c_long {
    Errno(libc::ENOSYS).set();
    -1
}

// vfork(2) returns twice through the same frame, so it can only be jumped to.
std::arch::global_asm!(
    begin!("vfork"),
    count!(),
    go_on!(),
    words!(),
    end!("vfork"),
    forks = sym PYHOST_COUNT,
    real = sym next::VFORK,
    missing = sym pyhost_fork,
);

// Goes to 2 if the flags of `clone`, the third argument, ask for a thread.
by_processor! { unless_process:
    x86_64
        "test edx, {thread}
        jne 2f",
    aarch64
        "tst w2, #{thread}
        b.ne 2f",
    arm
        "tst r2, #{thread}
        bne 2f"
}

// clone(2): the child begins on its own stack.
std::arch::global_asm!(
    begin!("clone"),
    unless_process!(),
    count!(),
    "2:",
    go_on!(),
    words!(),
    end!("clone"),
    thread = const libc::CLONE_THREAD,
    forks = sym PYHOST_COUNT,
    real = sym next::CLONE,
    missing = sym pyhost_no_such_call,
);

// Calls `{note}`, which reads the arguments, and keeps them.
by_processor! { note:
    x86_64
        "push rdi
        push rsi
        push rdx
        push rcx
        push r8
        push r9
        sub rsp, 8
        call {note}
        add rsp, 8
        pop r9
        pop r8
        pop rcx
        pop rdx
        pop rsi
        pop rdi",
    aarch64
        "stp x29, x30, [sp, #-80]!
        mov x29, sp
        stp x0, x1, [sp, #16]
        stp x2, x3, [sp, #32]
        stp x4, x5, [sp, #48]
        str x6, [sp, #64]
        bl {note}
        ldp x0, x1, [sp, #16]
        ldp x2, x3, [sp, #32]
        ldp x4, x5, [sp, #48]
        ldr x6, [sp, #64]
        ldp x29, x30, [sp], #80",
    arm
        "push {{r0, r1, r2, r3, r12, lr}}
        bl {note}
        pop {{r0, r1, r2, r3, r12, lr}}"
}

// syscall(2): the calls that start or end a process are noted, then all are libc's. A fork returns twice,
// so it is jumped to.
std::arch::global_asm!(
    begin!("syscall"),
    note!(),
    go_on!(),
    end!("syscall"),
    real = sym next::SYSCALL,
    note = sym pyhost_note_syscall,
    missing = sym pyhost_no_such_call,
);
