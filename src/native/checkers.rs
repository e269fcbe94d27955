//! Memory checkers: tools that watch the process's memory from inside it and must see every block: Valgrind and
//! the sanitizers' run-time libraries.

#![allow(unsafe_code)]

use super::next;
use std::ffi::CStr;

/// A function that each run-time library defines, and the library's name.
const SANITIZERS: [(&CStr, &str); 4] = [
    (c"__asan_init", "AddressSanitizer"),
    (c"__tsan_init", "ThreadSanitizer"),
    (c"__msan_init", "MemorySanitizer"),
    (c"__hwasan_init", "HWAddressSanitizer"),
];

/// The name of the tool at work, if there is one.
pub fn at_work() -> Option<&'static str> {
    if is_under_valgrind() {
        return Some("Valgrind");
    }
    let loaded = |&&(symbol, _): &&(&CStr, &str)| {
        // SAFETY: looks up a constant name in the whole process.
        unsafe { !next::real_dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()).is_null() }
    };
    SANITIZERS.iter().find(loaded).map(|&(_, name)| name)
}

/// Whether the process runs under Valgrind: the request RUNNING_ON_VALGRIND of `valgrind.h`,
/// four rotations that add up to nothing and an exchange of a register with itself.
fn is_under_valgrind() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const RUNNING_ON_VALGRIND: usize = 0x1001;
        let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
        let mut result = 0usize;
        // SAFETY: without Valgrind the sequence changes nothing but flags; with it, `result` is
        // set from the request that rax points at.
        unsafe {
            std::arch::asm!(
                "rol rdi, 3",
                "rol rdi, 13",
                "rol rdi, 61",
                "rol rdi, 51",
                "xchg rbx, rbx",
                in("rax") request.as_ptr(),
                inout("rdx") result,
                options(nostack),
            );
        }
        result != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
        preloaded.to_string_lossy().contains("vgpreload")
    }
}
