//! A stack for an ending that comes on one that is too small.
//!
//! faulthandler, if a script enables it after the host, gives the main thread a signal stack of 16 KiB
//! (`SIGSTKSZ` twice), on which a report does not fit.

#![allow(unsafe_code)]

use pyhost_os::cell::Exclusive;
use pyhost_os::signals::{SignalSet, handler_stack};
use std::ffi::c_void;

/// Bytes of a signal stack that are enough for the handler, whose largest frames are two paths.
pub(super) const STACK: usize = 96 * 1024;

#[repr(C, align(64))]
struct Memory([u8; STACK]);

static MEMORY: Exclusive<Memory> = Exclusive::new(Memory([0; STACK]));

/// Runs `work`, which must not unwind: on a stack of its own if the calling thread is on a small signal stack,
/// and no other thread has that stack. All signals are blocked there: a handler would begin at the
/// signal stack's top, over the frames that are to be returned to.
pub fn with_room(mut work: impl FnMut()) {
    let current = handler_stack();
    let is_small = current.ss_flags & libc::SS_ONSTACK != 0 && current.ss_size < STACK;
    let Some(mut memory) = is_small.then(|| MEMORY.try_hold()).flatten() else {
        return work();
    };
    let before = SignalSet::all().make_mask();
    call_on(&mut memory, &mut work);
    before.make_mask();
}

unsafe extern "C" fn call<F: FnMut()>(work: *mut c_void) {
    // SAFETY: `call_on` passes its own argument, which it borrows meanwhile.
    unsafe { (*work.cast::<F>())() };
}

/// Calls `work` with `memory` for its stack.
fn call_on<F: FnMut()>(memory: &mut Memory, work: &mut F) {
    let top = memory.0.as_mut_ptr_range().end;
    let work: *mut c_void = (&raw mut *work).cast();
    // SAFETY: nobody else uses the memory, which is aligned to 64 bytes at its end too, and as large as a stack for
    // signals. The stack pointer is kept in a register that the callee preserves, and put back; the call is one by C's
    // rules on an aligned stack, and does not unwind.
    unsafe {
        #[cfg(target_arch = "x86_64")]
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
        #[cfg(target_arch = "aarch64")]
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
        #[cfg(target_arch = "arm")]
        std::arch::asm!(
            "mov r4, sp",
            "mov sp, {top}",
            "blx {function}",
            "mov sp, r4",
            top = in(reg) top,
            function = in(reg) call::<F> as *const (),
            in("r0") work,
            out("r4") _,
            clobber_abi("C"),
        );
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
        compile_error!("a call on another stack is written for x86-64, aarch64 and arm");
    }
}
