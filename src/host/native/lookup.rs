//! The executable's own `dlsym`: a `malloc`, `free` or `mmap` that a library finds in libc itself is
//! the exported one.
//!
//! Without it `ctypes.CDLL("libc.so.6").free(strdup(...))` aborts: libc's `strdup` allocates by
//! the exported `malloc`, and the `free` found in libc's own table does not know the block.
//! `RTLD_NEXT` depends on the caller's address, so it goes to libc's `dlsym` by a jump.

#![allow(unsafe_code)]

use super::mode::is_off_from_the_start;
use super::next::{self, call};
use super::{family, glibc};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

unsafe extern "C" {
    // The exported functions (`mapped/calls.c`), for their addresses alone.
    fn pyhost_exported_mmap();
    fn pyhost_exported_mmap64();
    fn pyhost_exported_munmap();
    fn pyhost_exported_mremap();
    fn pyhost_exported_mprotect();
    fn pyhost_exported_madvise();
}

/// The family: the name, libc's own address, the host's.
struct Twin {
    name: &'static CStr,
    in_libc: AtomicPtr<c_void>,
    exported: fn() -> *mut c_void,
}

macro_rules! twins {
    ($($function:path: $name:literal),* $(,)?) => {
        static TWINS: [Twin; 20] = [$(Twin {
            name: $name,
            in_libc: AtomicPtr::new(null_mut()),
            exported: || $function as *const c_void as *mut c_void,
        }),*];
    };
}

twins! {
    family::malloc: c"malloc",
    family::calloc: c"calloc",
    family::realloc: c"realloc",
    family::reallocarray: c"reallocarray",
    family::free: c"free",
    family::posix_memalign: c"posix_memalign",
    family::aligned_alloc: c"aligned_alloc",
    family::memalign: c"memalign",
    family::valloc: c"valloc",
    glibc::pvalloc: c"pvalloc",
    family::malloc_usable_size: c"malloc_usable_size",
    glibc::malloc_trim: c"malloc_trim",
    glibc::mallinfo: c"mallinfo",
    glibc::mallinfo2: c"mallinfo2",
    pyhost_exported_mmap: c"mmap",
    pyhost_exported_mmap64: c"mmap64",
    pyhost_exported_munmap: c"munmap",
    pyhost_exported_mremap: c"mremap",
    pyhost_exported_mprotect: c"mprotect",
    pyhost_exported_madvise: c"madvise",
}

/// Finds libc's own family. Once, at the start of `main`.
pub fn learn_libc() {
    next::resolve();
    // SAFETY: RTLD_NOLOAD only finds what is there; libc is never unloaded. The names end in a zero byte.
    unsafe {
        let libc = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if libc.is_null() {
            return;
        }
        for twin in &TWINS {
            let address = call!(DLSYM(libc, twin.name.as_ptr()), null_mut());
            twin.in_libc.store(address, Relaxed);
        }
    }
}

/// `dlsym(3)` for every handle but `RTLD_NEXT`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    next::resolve();
    // SAFETY: the caller's duties are those of `dlsym`.
    let found = unsafe { call!(DLSYM(handle, name), null_mut()) };
    if found.is_null() || is_off_from_the_start() {
        return found;
    }
    TWINS
        .iter()
        .find(|twin| twin.in_libc.load(Relaxed) == found)
        .map_or(found, |twin| (twin.exported)())
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
compile_error!("dlsym is written for x86-64, aarch64 and arm");

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.dlsym, \"ax\"",
    ".globl dlsym",
    ".type dlsym,@function",
    "dlsym:",
    "cmp rdi, -1", // RTLD_NEXT
    "jne {ours}",
    "mov rax, qword ptr [rip + {real}]",
    "test rax, rax",
    "je {ours}",
    "jmp rax",
    ".size dlsym, .-dlsym",
    ".popsection",
    ours = sym pyhost_dlsym,
    real = sym next::DLSYM,
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.dlsym, \"ax\"",
    ".globl dlsym",
    ".type dlsym,@function",
    "dlsym:",
    "cmn x0, #1", // RTLD_NEXT
    "b.ne 1f",
    "adrp x16, {real}",
    "ldr x16, [x16, :lo12:{real}]",
    "cbz x16, 1f",
    "br x16",
    "1: b {ours}", // a conditional branch reaches 1 MiB
    ".size dlsym, .-dlsym",
    ".popsection",
    ours = sym pyhost_dlsym,
    real = sym next::DLSYM,
);

#[cfg(target_arch = "arm")]
std::arch::global_asm!(
    ".globl dlsym",
    ".type dlsym,%function",
    ".arm",
    "dlsym:",
    "cmn r0, #1", // RTLD_NEXT
    "bne {ours}",
    "ldr r12, 2f",
    "1: add r12, pc, r12",
    "ldr r12, [r12]",
    "cmp r12, #0",
    "beq {ours}",
    "bx r12",
    "2: .word {real} - (1b + 8)",
    ".size dlsym, .-dlsym",
    ours = sym pyhost_dlsym,
    real = sym next::DLSYM,
);
