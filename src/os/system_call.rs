//! System calls without libc: no preloaded library, and no function that the executable exports, stands between. And a call on
//! another stack.

#![allow(unsafe_code)]

use crate::errno::Errno;
use std::arch::asm;
use std::ffi::{c_int, c_long, c_void};

/// Makes a system call; -1 with `errno` if the kernel gives an error, as syscall(2).
///
/// # Safety
/// As the manual says of this call.
pub unsafe fn system_call<const N: usize>(number: c_long, arguments: [usize; N]) -> c_long {
    // SAFETY: the caller's promise.
    match unsafe { silent_system_call(number, arguments) } {
        error @ -4095..=-1 => {
            Errno(-error as i32).set();
            -1
        }
        result => result as c_long,
    }
}

/// Makes a system call; an error is its number below 0. Writes no memory but what the call does, not even `errno`.
///
/// # Safety
/// As [`system_call`].
#[inline(always)]
pub unsafe fn silent_system_call<const N: usize>(number: c_long, arguments: [usize; N]) -> isize {
    const { assert!(N <= 6) };
    let [a, b, c, d, e, f] = std::array::from_fn(|it| if it < N { arguments[it] } else { 0 });
    #[cfg(debug_assertions)]
    if let Some(kernel) = stand_in::kernel() {
        // SAFETY: the caller's promise.
        return unsafe { kernel(number, a, b, c, d, e, f) };
    }
    let result: isize;
    // SAFETY: the caller's promise. Each instruction and what it overwrites is the kernel's interface as syscall(2) has it.
    #[cfg(not(miri))]
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
        // r7 has the call's number, and is kept: a compiler may take it for the frame.
        #[cfg(target_arch = "arm")]
        asm!("mov {kept}, r7", "mov r7, {number}", "svc 0", "mov r7, {kept}", kept = out(reg) _,
            number = in(reg) number, inlateout("r0") a => result, in("r1") b, in("r2") c, in("r3") d,
            in("r4") e, in("r5") f, options(nostack));
    }
    // SAFETY: as above; Miri knows libc's function alone.
    #[cfg(miri)]
    unsafe {
        result = libc::syscall(number, a, b, c, d, e, f) as isize;
    }
    result
}

/// Ends the process at once, by the system call.
pub fn end_now(status: c_int) -> ! {
    loop {
        // SAFETY: the call touches no memory, and does not return.
        unsafe { system_call(libc::SYS_exit_group, [status as usize]) };
    }
}

/// Copies this process by `clone(2)`. The system sends it `signal` at the end of the copy, or none for 0. Returns the copy's id, 0 in
/// the copy, and `None` if the system refuses.
///
/// # Safety
/// The copy has one thread and copies of locks that others may hold: it does only what a signal handler may, and does not
/// return to the code of the caller.
pub unsafe fn copy_process(signal: c_int) -> Option<libc::pid_t> {
    // SAFETY: the caller's duties; without flags the call copies all memory, and returns twice.
    let copy = unsafe { system_call(libc::SYS_clone, [signal as usize]) };
    (copy >= 0).then_some(copy as libc::pid_t)
}

/// Runs `run` in a copy of this process, as [`copy_process`], which ends with it. `run` does only what a signal handler may: if
/// another thread holds a lock, nobody gives it back in the copy.
pub fn run_in_copy(signal: c_int, run: impl FnOnce()) -> Option<libc::pid_t> {
    // SAFETY: the copy ends below. What a lock protects stays closed to it, and the memory is its own.
    let copy = unsafe { copy_process(signal) };
    if copy == Some(0) {
        run();
        end_now(0);
    }
    copy
}

/// Fills bytes with random ones, as far as the system has some (getrandom(2)).
pub fn fill_with_random(bytes: &mut [u8]) {
    const NOT_WAITING: usize = 1;
    // SAFETY: the bytes and their number.
    unsafe {
        let start = bytes.as_mut_ptr().expose_provenance();
        silent_system_call(libc::SYS_getrandom, [start, bytes.len(), NOT_WAITING])
    };
}

/// Calls membarrier(2) without flags; false if the system refuses.
pub fn membarrier(command: c_int) -> bool {
    // SAFETY: the call takes numbers and touches no memory of the process.
    unsafe { system_call(libc::SYS_membarrier, [command as usize, 0, 0]) == 0 }
}

/// Gives the calling thread another mask of blocked signals, as the kernel has it; returns the one before.
pub fn change_signal_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let how = libc::SIG_SETMASK as usize;
    let set = (&raw const mask).expose_provenance();
    let old = (&raw mut before).expose_provenance();
    // SAFETY: two sets of the kernel's size.
    unsafe { system_call(libc::SYS_rt_sigprocmask, [how, set, old, size_of::<u64>()]) };
    before
}

/// Whether a word may be read at an address. Leaves `errno`.
pub fn is_readable(address: usize) -> bool {
    const NO_WAY: usize = !0;
    // SAFETY: the kernel checks the address and changes nothing, as there is no such way to change a mask.
    let result = unsafe { silent_system_call(libc::SYS_rt_sigprocmask, [NO_WAY, address, 0, 8]) };
    result == -libc::EINVAL as isize
}

/// Memory for a stack.
#[repr(C, align(64))]
pub struct Stack<const N: usize>(pub [u8; N]);

/// Calls `work` with `memory` for its stack. `work` fits there, and does not unwind.
pub fn call_on<const N: usize, F: FnMut()>(memory: &mut Stack<N>, work: &mut F) {
    const { assert!(N >= 64 << 10 && N.is_multiple_of(64)) };
    unsafe extern "C" fn call<F: FnMut()>(work: *mut c_void) {
        // SAFETY: `call_on` passes its own argument, which it borrows meanwhile.
        unsafe { (*work.cast::<F>())() };
    }
    let top = memory.0.as_mut_ptr_range().end;
    let work: *mut c_void = (&raw mut *work).cast();
    macro_rules! call {
        ($call:tt, $stack:tt, $preserved:tt, $first:tt) => {
            asm!(
                concat!("mov ", $preserved, ", ", $stack),
                concat!("mov ", $stack, ", {top}"),
                concat!($call, " {function}"),
                concat!("mov ", $stack, ", ", $preserved),
                top = in(reg) top,
                function = in(reg) call::<F> as *const (),
                in($first) work,
                out($preserved) _,
                clobber_abi("C"),
            )
        };
    }
    // SAFETY: nobody else uses the memory, which is aligned to 64 bytes at its end too, and as large as a stack for
    // signals. The stack pointer is kept in a register that the callee preserves, and put back; the call is one by C's
    // rules on an aligned stack, and does not unwind.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        call!("call", "rsp", "r12", "rdi");
        #[cfg(target_arch = "aarch64")]
        call!("blr", "sp", "x20", "x0");
        #[cfg(target_arch = "arm")]
        call!("blx", "sp", "r4", "r0");
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
        compile_error!("a call on another stack is written for x86-64, aarch64 and arm");
    }
}

/// A library in the kernel's place, in builds for tests alone: `embed-tests/c/large_pages.c`.
#[cfg(debug_assertions)]
pub(crate) mod stand_in {
    use std::ffi::{CStr, c_long, c_void};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

    /// Its file.
    pub const FILE: &CStr = c"large_pages.so";

    type Kernel = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> isize;

    /// A process has one kernel.
    static KERNEL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

    pub fn kernel() -> Option<Kernel> {
        let function = KERNEL.load(Relaxed);
        // SAFETY: what `set` was given.
        (!function.is_null()).then(|| unsafe { std::mem::transmute(function) })
    }

    /// # Safety
    /// A function of the type [`Kernel`], for good.
    pub unsafe fn set(function: *mut c_void) {
        KERNEL.store(function, Relaxed);
    }
}
