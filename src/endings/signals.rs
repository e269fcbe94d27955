//! Handlers for the signals that end a process: write the report, then let the signal do what
//! it would have done.
//!
//! Installed after Python has initialised, so that `signal.getsignal` tells what it tells without
//! the host, and not where the signal is ignored. What was there before comes next: the default,
//! or faulthandler where `-X faulthandler` asked for it. A script that sets its own handler takes
//! the place of ours; so does faulthandler, which gives it back and raises the signal again.

#![allow(unsafe_code)]

use super::finish;
use crate::descriptor::notice;
use crate::heap::guards;
use crate::report::Ending;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, zeroed};
use std::ptr::null_mut;

/// The signals whose default is to end the process, but for SIGINT (Python's own), SIGPIPE and
/// SIGXFSZ (ignored by Python), SIGTRAP (debuggers') and SIGKILL.
pub const FATAL: [c_int; 15] = [
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGSEGV,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGSYS,
];

/// Enough for the handler, whose largest frames are two paths.
const STACK: usize = 64 * 1024;

/// A disposition that ours replaced; written while the process has one thread.
struct Before(UnsafeCell<MaybeUninit<libc::sigaction>>);
// SAFETY: written by `install` before the handler that reads it is in place.
unsafe impl Sync for Before {}
static BEFORE: [Before; FATAL.len()] =
    [const { Before(UnsafeCell::new(MaybeUninit::zeroed())) }; FATAL.len()];

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: errno is the thread's own; it is put back as a handler must. What was there before
    // was stored by `install`; all zero is the default.
    unsafe {
        let errno = *libc::__errno_location();
        if signal == libc::SIGSEGV && guards::are_on() {
            tell_guard(info, context.cast());
        }
        finish(Ending::Signal(signal), true);
        // Blocked until the handler returns; then what was there before takes its course. A
        // fault comes again by itself.
        if let Some(index) = FATAL.iter().position(|&fatal| fatal == signal) {
            libc::sigaction(signal, BEFORE[index].0.get().cast(), null_mut());
        }
        libc::raise(signal);
        *libc::__errno_location() = errno;
    }
}

/// Says what the access was where it hit a guard page.
///
/// # Safety
/// What the system gave to a handler of SIGSEGV.
unsafe fn tell_guard(info: *const libc::siginfo_t, context: *const libc::ucontext_t) {
    // SAFETY: the caller's duty.
    let (address, is_write) = unsafe { access(&*info, &*context) };
    if let Some(fault) = guards::fault_at(address, is_write) {
        notice(format_args!("{fault}"));
    }
}

/// The address of the thread's last access that failed, and whether it was a write.
///
/// The processor's registers are asked, not `si_addr`: faulthandler, where a script has enabled it
/// after us, writes its traceback first and then raises the signal again, without an address.
#[cfg(target_arch = "x86_64")]
fn access(_info: &libc::siginfo_t, context: &libc::ucontext_t) -> (usize, Option<bool>) {
    // Bit 1 of a page fault's error code, which the system hands on.
    const WRITE: i64 = 1 << 1;
    let registers = &context.uc_mcontext.gregs;
    let is_write = registers[libc::REG_ERR as usize] & WRITE != 0;
    (registers[libc::REG_CR2 as usize] as usize, Some(is_write))
}

#[cfg(not(target_arch = "x86_64"))]
fn access(info: &libc::siginfo_t, _context: &libc::ucontext_t) -> (usize, Option<bool>) {
    // SAFETY: a signal that was raised has no address but a process id in that place, which is
    // the address of no guarded block.
    (unsafe { info.si_addr() }.addr(), None)
}

/// Installs the handlers of `signals`, some of [`FATAL`], with a stack of their own for the
/// calling thread.
pub fn install(signals: &[c_int]) {
    // SAFETY: structures that the calls read or fill; the stack is never freed.
    unsafe {
        let mut current: libc::stack_t = zeroed();
        libc::sigaltstack(null_mut(), &mut current);
        // faulthandler's own, where -X asked for it, is too small.
        if current.ss_flags & libc::SS_DISABLE != 0 || current.ss_size < STACK {
            let memory = libc::mmap(
                null_mut(),
                STACK,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            if memory != libc::MAP_FAILED {
                let stack = libc::stack_t {
                    ss_sp: memory,
                    ss_flags: 0,
                    ss_size: STACK,
                };
                libc::sigaltstack(&stack, null_mut());
            }
        }
        for (signal, before) in FATAL.iter().zip(&BEFORE) {
            let before: *mut libc::sigaction = before.0.get().cast();
            if signals.contains(signal)
                && libc::sigaction(*signal, std::ptr::null(), before) == 0
                && (*before).sa_sigaction != libc::SIG_IGN
            {
                let mut action: libc::sigaction = zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
                libc::sigaction(*signal, &action, null_mut());
            }
        }
    }
}
