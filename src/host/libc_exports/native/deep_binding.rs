//! The executable's own `dlopen`.
//!
//! A library that is loaded with glibc's `RTLD_DEEPBIND` finds libc before the executable. So `dlopen` leaves that flag out: the
//! library's names come after those of the program and of what the program needs, as without the flag.

#![allow(unsafe_code)]

use super::next;
use crate::libc_exports::assembly::{begin, by_processor, end, go_on, if_arm};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// The flags of `dlopen` that are passed on. Read by assembly.
static PASSED_ON: AtomicI32 = AtomicI32::new(!libc::RTLD_DEEPBIND);

/// Whether libraries may be loaded with `RTLD_DEEPBIND`: in a process that leaves malloc alone from the start.
pub fn allow(is_allowed: bool) {
    let left_out = if is_allowed { 0 } else { libc::RTLD_DEEPBIND };
    PASSED_ON.store(!left_out, Relaxed);
}

/// Stands in for libc's `dlopen` if it was not found.
#[unsafe(no_mangle)]
extern "C" fn pyhost_no_dlopen() -> *mut c_void {
    null_mut()
}

// Leaves out of the flags, the second argument, what is not passed on.
by_processor! { leave_out:
    x86_64 "and esi, dword ptr [rip + {passed_on}]",
    aarch64
        "adrp x16, {passed_on}
        ldr w16, [x16, :lo12:{passed_on}]
        and w1, w1, w16",
    arm
        "ldr r12, 4f
        1: add r12, pc, r12
        ldr r12, [r12]
        and r1, r1, r12"
}

// dlopen(3) looks where the caller's object says, so it is jumped to.
std::arch::global_asm!(
    begin!("dlopen"),
    leave_out!(),
    go_on!(),
    if_arm!("4: .word {passed_on} - (1b + 8)"),
    end!("dlopen"),
    passed_on = sym PASSED_ON,
    real = sym next::DLOPEN,
    missing = sym pyhost_no_dlopen,
);
