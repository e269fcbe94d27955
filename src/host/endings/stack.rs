//! A stack for an ending that comes on one that is too small.
//!
//! faulthandler, where a script enables it after the host, gives the main thread a signal stack of 16 KiB
//! (`SIGSTKSZ` twice), on which a report does not fit.

#![allow(unsafe_code)]

use super::signals::STACK;
use pyhost_os::cell::Exclusive;
use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::null_mut;

#[repr(C, align(64))]
struct Memory([u8; STACK]);

static MEMORY: Exclusive<Memory> = Exclusive::new(Memory([0; STACK]));

/// Runs `work`, which must not unwind: on a stack of its own where the calling thread is on a small signal stack,
/// and no other thread has that stack. All signals are blocked there: a handler would begin at the
/// signal stack's top, over the frames that are to be returned to.
pub fn with_room(mut work: impl FnMut()) {
    // SAFETY: the call fills the structure, of which zeros are a value.
    let current = unsafe {
        let mut current: libc::stack_t = zeroed();
        libc::sigaltstack(null_mut(), &mut current);
        current
    };
    let is_small = current.ss_flags & libc::SS_ONSTACK != 0 && current.ss_size < STACK;
    let Some(mut memory) = is_small.then(|| MEMORY.try_hold()).flatten() else {
        return work();
    };
    // SAFETY: the calls read and fill sets of this function's own. The stack is this thread's while it holds it, is
    // aligned to 64 bytes at its end too, and as large as one for signals.
    unsafe {
        let mut all: libc::sigset_t = zeroed();
        let mut before: libc::sigset_t = zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        call_on(memory.0.as_mut_ptr_range().end, &mut work);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
    }
}

unsafe extern "C" fn call<F: FnMut()>(work: *mut c_void) {
    // SAFETY: `call_on` passes its own argument, which it borrows meanwhile.
    unsafe { (*work.cast::<F>())() };
}

/// Calls `work` with the stack that ends at `top`.
///
/// # Safety
/// `top` is aligned to 16 bytes, the memory beneath is enough and nobody else's, and `work` does not unwind.
unsafe fn call_on<F: FnMut()>(top: *mut u8, work: &mut F) {
    let work: *mut c_void = (&raw mut *work).cast();
    // SAFETY: the stack pointer is kept in a register that the callee preserves, and put back; the call is one by
    // C's rules on an aligned stack.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {function}",
            "mov rsp, r12",
            top = in(reg) top,
            function = in(reg) call::<F> as *const (),
            in("rdi") work,
            out("r12") _,
            clobber_abi("C"),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {function}",
            "mov sp, x20",
            top = in(reg) top,
            function = in(reg) call::<F> as *const (),
            in("x0") work,
            out("x20") _,
            clobber_abi("C"),
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    unsafe {
        let _ = top;
        // SAFETY: a borrowed closure; the stack stays as it is.
        call::<F>(work);
    }
}
