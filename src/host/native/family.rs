//! The exported malloc family. Its functions may be called from any thread at any moment,
//! before `main` and after `exit`, and never panic.
//!
//! `free` and `realloc` take any pointer of the process. Errors are those of glibc: null and
//! `ENOMEM`; `realloc(p, 0)` frees and returns null, as programs on Linux expect.

#![allow(unsafe_code)]

use super::next::{self, call};
use super::{Mode, mode};
use crate::errno::Errno;
use crate::faults;
use crate::heap::{self, Reallocated};
use crate::ledger::{Account, LEDGER};
use crate::process::page_size;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

const NATIVE: usize = Account::Native as usize;

#[inline(always)]
fn or_no_memory(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        no_memory();
    }
    pointer
}

#[cold]
fn no_memory() {
    Errno(libc::ENOMEM).set();
}

/// `malloc(3)`.
///
/// # Safety
/// None beyond the C standard's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc(size: usize) -> *mut u8 {
    // Not a `match`: the first comparison that is made should be the usual one.
    if mode() == Mode::Count {
        return or_no_memory(heap::allocate::<NATIVE, false, true>(size));
    }
    if mode() == Mode::Plain {
        return or_no_memory(heap::allocate::<NATIVE, false, false>(size));
    }
    malloc_otherwise(size)
}

/// The modes that are not served at once: the next malloc, or one that may be made to fail.
#[cold]
#[inline(never)]
fn malloc_otherwise(size: usize) -> *mut u8 {
    match mode() {
        // SAFETY: the next function has this type.
        Mode::Off => unsafe { call!(next::MALLOC, fn(usize) -> *mut u8, (size), null_mut()) },
        _ if may_not(size) => or_no_memory(null_mut()),
        _ => or_no_memory(heap::allocate::<NATIVE, false, true>(size)),
    }
}

/// Whether a forced failure is due; asked once a request.
fn may_not(size: usize) -> bool {
    mode() == Mode::Faulty && faults::fails(Account::Native, size)
}

/// Returns an aligned block, or null if there is no memory or a forced failure is due.
fn aligned(size: usize, alignment: usize) -> *mut u8 {
    match may_not(size) {
        true => null_mut(),
        false => heap::allocate_aligned(Account::Native, size, alignment),
    }
}

/// `calloc(3)`.
///
/// # Safety
/// None beyond the C standard's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    if matches!(mode(), Mode::Off | Mode::Faulty) {
        return calloc_otherwise(count, size);
    }
    let Some(bytes) = count.checked_mul(size) else {
        return or_no_memory(null_mut());
    };
    if mode() == Mode::Count {
        or_no_memory(heap::allocate::<NATIVE, true, true>(bytes))
    } else {
        or_no_memory(heap::allocate::<NATIVE, true, false>(bytes))
    }
}

/// As [`malloc_otherwise`].
#[cold]
#[inline(never)]
fn calloc_otherwise(count: usize, size: usize) -> *mut u8 {
    if mode() == Mode::Off {
        // SAFETY: the next function has this type.
        return unsafe {
            call!(
                next::CALLOC,
                fn(usize, usize) -> *mut u8,
                (count, size),
                null_mut()
            )
        };
    }
    match count.checked_mul(size) {
        Some(bytes) if !may_not(bytes) => or_no_memory(heap::allocate::<NATIVE, true, true>(bytes)),
        _ => or_no_memory(null_mut()),
    }
}

/// `free(3)`, of any pointer of the process.
///
/// # Safety
/// As the C standard says, for a pointer from any allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(pointer: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe {
        let freed = if mode() == Mode::Plain {
            heap::free::<NATIVE, false>(pointer)
        } else {
            heap::free::<NATIVE, true>(pointer)
        };
        if !freed {
            next::free::<NATIVE>(pointer);
        }
    }
}

/// `realloc(3)`, of any pointer of the process.
///
/// # Safety
/// As the C standard says, for a pointer from any allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(pointer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's duties; the next function has this type.
    unsafe {
        if matches!(mode(), Mode::Off | Mode::Faulty)
            && let Some(answer) = realloc_otherwise(pointer, size)
        {
            return answer;
        }
        if size == 0 && !pointer.is_null() {
            free(pointer);
            return null_mut();
        }
        let moved = match mode() {
            Mode::Plain => heap::reallocate::<NATIVE, false>(pointer, size),
            _ => heap::reallocate::<NATIVE, true>(pointer, size),
        };
        match moved {
            Reallocated::Block(block) => or_no_memory(block),
            Reallocated::Foreign => next::realloc(pointer, size),
        }
    }
}

/// As [`malloc_otherwise`]; None where the request is served as in the other modes.
///
/// # Safety
/// As [`realloc`].
#[cold]
#[inline(never)]
unsafe fn realloc_otherwise(pointer: *mut u8, size: usize) -> Option<*mut u8> {
    let frees = size == 0 && !pointer.is_null();
    if mode() == Mode::Off && !frees {
        // SAFETY: the caller's duties.
        return Some(unsafe { realloc_behind(pointer, size) });
    }
    (!frees && may_not(size)).then(|| or_no_memory(null_mut()))
}

/// Resizes with the next malloc. A block of a heap of the host's, which is from before the mode changed, moves
/// there: what watches the next malloc is to see it.
///
/// # Safety
/// As [`realloc`].
unsafe fn realloc_behind(pointer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's duties; the next functions have these types; both blocks live and are at least
    // that long.
    unsafe {
        if !heap::owns(pointer) {
            return call!(
                next::REALLOC,
                fn(*mut u8, usize) -> *mut u8,
                (pointer, size),
                null_mut()
            );
        }
        let before = heap::usable_size(pointer).unwrap_or_default();
        let moved = call!(next::MALLOC, fn(usize) -> *mut u8, (size), null_mut());
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(pointer, moved, before.min(size));
            free(pointer);
        }
        moved
    }
}

/// `reallocarray(3)`.
///
/// # Safety
/// As [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(pointer: *mut u8, count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        // SAFETY: the caller's duties.
        Some(bytes) => unsafe { realloc(pointer, bytes) },
        None => or_no_memory(null_mut()),
    }
}

/// `posix_memalign(3)`.
///
/// # Safety
/// `out` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut *mut u8, alignment: usize, size: usize) -> c_int {
    // SAFETY: the caller's duties; the next function has this type.
    unsafe {
        if mode() == Mode::Off {
            return call!(
                next::POSIX_MEMALIGN,
                fn(*mut *mut u8, usize, usize) -> c_int,
                (out, alignment, size),
                libc::ENOMEM
            );
        }
        if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
            return libc::EINVAL;
        }
        let block = aligned(size, alignment);
        if block.is_null() {
            return libc::ENOMEM;
        }
        *out = block;
        0
    }
}

/// `memalign(3)`.
///
/// # Safety
/// None beyond the manual's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut u8 {
    if mode() == Mode::Off {
        // SAFETY: the next function has this type.
        return unsafe {
            call!(
                next::MEMALIGN,
                fn(usize, usize) -> *mut u8,
                (alignment, size),
                null_mut()
            )
        };
    }
    // As glibc: an alignment that is no power of two is rounded up to one.
    match alignment.max(1).checked_next_power_of_two() {
        Some(alignment) => or_no_memory(aligned(size, alignment)),
        None => {
            Errno(libc::EINVAL).set();
            null_mut()
        }
    }
}

/// `aligned_alloc(3)`, as lenient about the size as glibc's.
///
/// # Safety
/// None beyond the C standard's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut u8 {
    if mode() == Mode::Off {
        // SAFETY: the next function has this type.
        return unsafe {
            call!(
                next::ALIGNED_ALLOC,
                fn(usize, usize) -> *mut u8,
                (alignment, size),
                null_mut()
            )
        };
    }
    // SAFETY: no duties.
    unsafe { memalign(alignment, size) }
}

/// `valloc(3)`.
///
/// # Safety
/// None beyond the manual's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn valloc(size: usize) -> *mut u8 {
    if mode() == Mode::Off {
        // SAFETY: the next function has this type.
        return unsafe { call!(next::VALLOC, fn(usize) -> *mut u8, (size), null_mut()) };
    }
    or_no_memory(aligned(size, page_size() as usize))
}

/// `pvalloc(3)`.
///
/// # Safety
/// None beyond the manual's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvalloc(size: usize) -> *mut u8 {
    if mode() == Mode::Off {
        // SAFETY: the next function has this type.
        return unsafe { call!(next::PVALLOC, fn(usize) -> *mut u8, (size), null_mut()) };
    }
    let page = page_size() as usize;
    match size.checked_next_multiple_of(page) {
        Some(rounded) => or_no_memory(aligned(rounded, page)),
        None => or_no_memory(null_mut()),
    }
}

/// `malloc_usable_size(3)`, of any pointer of the process.
///
/// # Safety
/// As the manual says, for a pointer from any allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(pointer: *mut u8) -> usize {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: the caller's duties.
    unsafe { heap::usable_size(pointer).unwrap_or_else(|| next::usable_size(pointer)) }
}

/// `malloc_trim(3)`: gives back what the calling thread's heaps keep.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_trim(pad: usize) -> c_int {
    if mode() == Mode::Off {
        // SAFETY: the next function has this type.
        return unsafe { call!(next::TRIM, fn(usize) -> c_int, (pad), 0) };
    }
    heap::collect();
    1
}

/// `mallinfo2(3)`: `uordblks` is the total's live bytes, `usmblks` its peak.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallinfo2() -> libc::mallinfo2 {
    // SAFETY: a structure of integers; the next function has this type.
    unsafe {
        let mut info: libc::mallinfo2 = std::mem::zeroed();
        if mode() == Mode::Off {
            return call!(next::MALLINFO2, fn() -> libc::mallinfo2, (), info);
        }
        let snapshot = LEDGER.snapshot();
        info.uordblks = snapshot.total_live_bytes as usize;
        info.usmblks = snapshot.total_peak_bytes as usize;
        info.arena = info.uordblks;
        info
    }
}

/// `mallinfo(3)`: as [`mallinfo2`], cut to `int`.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mallinfo() -> libc::mallinfo {
    // SAFETY: a structure of integers; the next function has this type.
    unsafe {
        let mut info: libc::mallinfo = std::mem::zeroed();
        if mode() == Mode::Off {
            return call!(next::MALLINFO, fn() -> libc::mallinfo, (), info);
        }
        let wide = mallinfo2();
        info.uordblks = wide.uordblks as c_int;
        info.usmblks = wide.usmblks as c_int;
        info.arena = wide.arena as c_int;
        info
    }
}
