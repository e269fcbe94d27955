//! The executable's own `dlopen`, `dlsym` and `dlvsym`: a `malloc`, `free` or `mmap` that a library finds in libc itself is
//! the exported one.
//!
//! Without it `ctypes.CDLL("libc.so.6").free(strdup(...))` aborts: libc's `strdup` allocates by the exported `malloc`,
//! and the `free` found in libc's own table does not know the block. `RTLD_NEXT` depends on the caller's address, so it
//! goes to libc's `dlsym` by a jump, unless a name of the family is asked for and libc's own follows the host.
//!
//! A library that is loaded with `RTLD_DEEPBIND` finds libc before the executable. So `dlopen` leaves that flag out: the
//! library's names come after those of the program and of what the program needs, as without the flag.

#![allow(unsafe_code)]

#[cfg(target_env = "gnu")]
use super::glibc;
use super::next::{self, call};
use super::{family, mode::is_off_from_the_start};
use crate::libc_exports::assembly::{begin, by_processor, end, go_on, if_arm};
use pyhost_os::{process::libc_itself, strings::c_text};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::Relaxed};

/// The family: the name, libc's own address, the host's.
struct Twin {
    name: &'static CStr,
    in_libc: AtomicPtr<c_void>,
    exported: fn() -> *mut c_void,
}

/// The functions of each module, which have their own names; and those of `mapped/calls.c`, for their addresses alone.
macro_rules! twins {
    (in C: $($mapping:ident)*; $(#[$of:meta] $module:ident: $($function:ident)*;)*) => {
        mod in_c {
            unsafe extern "C" {
                $(#[link_name = concat!("pyhost_exported_", stringify!($mapping))] pub fn $mapping();)*
            }
        }
        static TWINS: [Twin; [$($(#[$of] stringify!($function),)*)* $(stringify!($mapping)),*].len()] =
            [$($(#[$of] twins!($module $function),)*)* $(twins!(in_c $mapping)),*];
    };
    ($module:ident $function:ident) => {
        Twin {
            name: c_text(concat!(stringify!($function), "\0")),
            in_libc: AtomicPtr::new(null_mut()),
            exported: || $module::$function as *const c_void as *mut c_void,
        }
    };
}

twins! {
    in C: mmap mmap64 munmap mremap mprotect madvise;
    #[cfg(all())]
    family: malloc calloc realloc reallocarray free posix_memalign aligned_alloc memalign valloc malloc_usable_size;
    #[cfg(target_env = "gnu")]
    glibc: pvalloc malloc_trim mallinfo mallinfo2 malloc_stats malloc_info;
}

/// The flags of `dlopen` that are passed on. Read by assembly.
static PASSED_ON: AtomicI32 = AtomicI32::new(!RTLD_DEEPBIND);

/// glibc's; musl has none.
const RTLD_DEEPBIND: i32 = 8;

/// Finds libc's own family. Once, at the start.
pub fn learn_libc() {
    let find = libc_itself::finder();
    for twin in &TWINS {
        twin.in_libc.store(find(twin.name), Relaxed);
    }
}

/// Whether libraries may be loaded with `RTLD_DEEPBIND`: in a process that leaves malloc alone from the start.
pub fn bind_deeply(is_allowed: bool) {
    let left_out = if is_allowed { 0 } else { RTLD_DEEPBIND };
    PASSED_ON.store(!left_out, Relaxed);
}

/// The exported function in place of one that was found.
fn exported(found: *mut c_void) -> *mut c_void {
    if found.is_null() || is_off_from_the_start() {
        return found;
    }
    let is_found = |twin: &&Twin| twin.in_libc.load(Relaxed) == found;
    let twin = TWINS.iter().find(is_found);
    twin.map_or(found, |twin| (twin.exported)())
}

/// `dlsym(3)` for every handle but `RTLD_NEXT`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    next::resolve();
    // SAFETY: the caller's duties are those of `dlsym`.
    exported(unsafe { call!(DLSYM(handle, name), null_mut()) })
}

/// `dlvsym(3)` for every handle but `RTLD_NEXT`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_dlvsym(
    handle: *mut c_void,
    name: *const c_char,
    version: *const c_char,
) -> *mut c_void {
    next::resolve();
    // SAFETY: the caller's duties are those of `dlvsym`.
    exported(unsafe { call!(DLVSYM(handle, name, version), null_mut()) })
}

/// The exported function of a name that is looked up with `RTLD_NEXT`; null if the name is not of the family, or if not
/// libc's own function follows the host's: a preloaded allocator looks for the one after its own.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_next_of_family(name: *const c_char) -> *mut c_void {
    next::resolve();
    // SAFETY: the caller of `dlsym` gives a text.
    let name = unsafe { CStr::from_ptr(name) };
    let bytes = name.to_bytes();
    let bytes = bytes.strip_prefix(b"__libc_").unwrap_or(bytes);
    let twin = TWINS.iter().find(|twin| twin.name.to_bytes() == bytes);
    let Some(twin) = twin.filter(|_| !is_off_from_the_start()) else {
        return null_mut();
    };
    // SAFETY: the texts of the table; counted from the host.
    let next = unsafe { call!(DLSYM(libc::RTLD_NEXT, twin.name.as_ptr()), null_mut()) };
    match next == twin.in_libc.load(Relaxed) {
        true => (twin.exported)(),
        false => null_mut(),
    }
}

/// libc's last words, if its own `free` or `realloc` ends the process for a block that a library has given to it, and not
/// the host. Any thread, also in a signal handler.
pub fn refused_by_libc() -> Option<&'static str> {
    const OF_MALLOC: [&str; 5] = [
        "free()",
        "realloc()",
        "munmap_chunk()",
        "double free",
        "corrupted",
    ];
    let message = libc_itself::find(c"__abort_msg").cast::<*const c_char>();
    if next::passes_on() || message.is_null() {
        return None;
    }
    // SAFETY: libc's variable leads to the size of a text and the text, or is null before there is one.
    let text = unsafe {
        let message = message.read();
        let length = size_of::<std::ffi::c_uint>();
        (!message.is_null()).then(|| CStr::from_ptr(message.byte_add(length)))?
    };
    let text = text.to_str().ok()?;
    let is_of_malloc = OF_MALLOC.iter().any(|words| text.starts_with(words));
    is_of_malloc.then_some(text)
}

/// Stands in for libc's `dlopen` if it was not found.
#[unsafe(no_mangle)]
extern "C" fn pyhost_no_dlopen() -> *mut c_void {
    null_mut()
}

// Looks the second argument up if the handle is `RTLD_NEXT`, and returns what was found, if anything. Another handle is for
// `{missing}`: only the function behind this one knows what the caller's `RTLD_NEXT` is.
by_processor! { find_next:
    x86_64
        "cmp rdi, -1
        jne {missing}
        push rdi
        push rsi
        push rdx
        mov rdi, rsi
        call {family}
        pop rdx
        pop rsi
        pop rdi
        test rax, rax
        je 2f
        ret
        2:",
    aarch64
        "cmn x0, #1
        b.ne 3f
        stp x29, x30, [sp, #-48]!
        mov x29, sp
        stp x0, x1, [sp, #16]
        str x2, [sp, #32]
        mov x0, x1
        bl {family}
        mov x16, x0
        ldp x0, x1, [sp, #16]
        ldr x2, [sp, #32]
        ldp x29, x30, [sp], #48
        cbz x16, 2f
        mov x0, x16
        ret
        2:",
    arm
        "cmn r0, #1
        bne {missing}
        push {{r0, r1, r2, lr}}
        mov r0, r1
        bl {family}
        mov r12, r0
        pop {{r0, r1, r2, lr}}
        cmp r12, #0
        movne r0, r12
        bxne lr"
}

macro_rules! look_up {
    ($name:literal, $ours:ident, $real:ident) => {
        std::arch::global_asm!(
            begin!($name),
            find_next!(),
            go_on!(),
            end!($name),
            missing = sym $ours,
            family = sym pyhost_next_of_family,
            real = sym next::$real,
        );
    };
}

look_up!("dlsym", pyhost_dlsym, DLSYM);
look_up!("dlvsym", pyhost_dlvsym, DLVSYM);

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
