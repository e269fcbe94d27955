//! System calls as the executable's own objects make them, mimalloc among them: by the linker's `--wrap` (`src/host/build.rs`)
//! they call these functions, and no preloaded library's. See `pyhost_os::process::libc_itself`. `mprotect` is in
//! [`crate::bounded_heap`].

#![allow(unsafe_code)]

use crate::peak_watch;
use crate::system_memory::{address_limit, leak_check_addresses, small_pages};
use pyhost_os::system_call::system_call;
use std::ffi::{c_int, c_long, c_void};
use std::ptr::with_exposed_provenance_mut;

/// The system call that maps, and the unit of its offset.
#[cfg(target_pointer_width = "64")]
const MAP: (c_long, i64) = (libc::SYS_mmap, 1);
#[cfg(target_pointer_width = "32")]
const MAP: (c_long, i64) = (libc::SYS_mmap2, 4096);

/// `mmap(2)` by the system call.
///
/// # Safety
/// As the manual says, like all functions below.
unsafe fn map(
    start: *mut c_void,
    size: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: impl Into<i64>,
) -> *mut c_void {
    let place = start.with_addr(leak_check_addresses::place(start.addr(), size, flags));
    if address_limit::needs_no_map(start.addr(), place.cast(), size, access) {
        return place;
    }
    let (number, unit) = MAP;
    let arguments = [
        place.expose_provenance(),
        size,
        access as usize,
        flags as usize,
        file as usize,
        (offset.into() / unit) as usize,
    ];
    let found = address_limit::in_room(size, || {
        // SAFETY: the caller's duties.
        with_exposed_provenance_mut::<c_void>(unsafe { system_call(number, arguments) } as usize)
    });
    small_pages::was_mapped(found.cast(), size, access, flags);
    found
}

/// The functions of C that map, by the types of their offsets.
macro_rules! wrap_map {
    ($($name:ident: $offset:ty),*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            start: *mut c_void,
            size: usize,
            access: c_int,
            flags: c_int,
            file: c_int,
            offset: $offset,
        ) -> *mut c_void {
            // SAFETY: the caller's duties.
            unsafe { map(start, size, access, flags, file, offset) }
        }
    )*};
}
wrap_map!(__wrap_mmap: c_long, __wrap_mmap64: i64);

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_munmap(start: *mut c_void, size: usize) -> c_int {
    peak_watch::before_release(size);
    // SAFETY: the caller's duties.
    unsafe { system_call(libc::SYS_munmap, [start.addr(), size]) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_mremap(
    start: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    let target = target.expose_provenance();
    let arguments = [start.addr(), old, new, flags as usize, target];
    // SAFETY: the caller's duties.
    with_exposed_provenance_mut(unsafe { system_call(libc::SYS_mremap, arguments) } as usize)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_madvise(start: *mut c_void, size: usize, advice: c_int) -> c_int {
    if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE) {
        peak_watch::before_release(size);
    }
    // SAFETY: the caller's duties.
    unsafe { system_call(libc::SYS_madvise, [start.addr(), size, advice as usize]) as c_int }
}

/// mimalloc opens and reads the system's files by it.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's duties.
    unsafe { system_call(number, [a, b, c, d, e, f]) }
}
