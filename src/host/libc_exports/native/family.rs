//! The exported malloc family. Its functions may be called from any thread at any moment,
//! before `main` and after `exit`, and never panic.
//!
//! `free` and `realloc` take any pointer of the process. Errors are those of glibc: null and
//! `ENOMEM`; `realloc(p, 0)` frees and returns null, as programs on Linux expect.

#![allow(unsafe_code)]

use super::next::{self, call};
use super::{Mode, mode};
use crate::heap::{self, Reallocated, checked_requests};
use crate::ledger::{Account, index::NATIVE};
use crate::{check::faults, errno::Errno};
use pyhost_os::mapping::page_size;
use std::ffi::{c_int, c_void};
use std::{mem::MaybeUninit, ptr::null_mut};

#[inline(always)]
pub(super) fn or_no_memory(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        no_memory();
    }
    pointer
}

#[cold]
fn no_memory() {
    Errno(libc::ENOMEM).set();
}

#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
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
        Mode::Off => call!(MALLOC(size), null_mut()),
        _ if may_not(size) => or_no_memory(null_mut()),
        _ => or_no_memory(checked_requests::allocate::<NATIVE, false>(size, 1)),
    }
}

/// Whether a forced failure is due; asked once a request.
fn may_not(size: usize) -> bool {
    mode() == Mode::Faulty && faults::fails(Account::Native, size)
}

/// Returns an aligned block, or null if there is no memory or a forced failure is due.
pub(super) fn aligned(size: usize, alignment: usize) -> *mut u8 {
    match may_not(size) {
        true => null_mut(),
        false if checked_requests::is_on() => {
            checked_requests::allocate::<NATIVE, false>(size, alignment)
        }
        false => heap::allocate_aligned(Account::Native, size, alignment),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
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

#[cold]
#[inline(never)]
fn calloc_otherwise(count: usize, size: usize) -> *mut u8 {
    if mode() == Mode::Off {
        return call!(CALLOC(count, size), null_mut());
    }
    match count.checked_mul(size) {
        Some(bytes) if !may_not(bytes) => {
            or_no_memory(checked_requests::allocate::<NATIVE, true>(bytes, 1))
        }
        _ => or_no_memory(null_mut()),
    }
}

/// `free(3)`, of any pointer of the process.
///
/// # Safety
/// As the manual says, for a pointer from any allocator, like all functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(pointer: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe {
        if !free_own(pointer) {
            next::free::<NATIVE>(pointer);
        }
    }
}

/// Frees a block of the heaps; returns false if it is none.
#[inline(always)]
pub(super) unsafe fn free_own(pointer: *mut u8) -> bool {
    // SAFETY: the caller's duties.
    unsafe {
        if mode() == Mode::Plain {
            heap::free::<NATIVE, false>(pointer)
        } else {
            heap::free::<NATIVE, true>(pointer)
        }
    }
}

/// `realloc(3)`, of any pointer of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(pointer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's duties.
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

/// As [`malloc_otherwise`]; None if the request is served as in the other modes. The next malloc takes over
/// a block of a heap of the host's, which is from before the mode changed: what watches it is to see the block.
#[cold]
#[inline(never)]
unsafe fn realloc_otherwise(pointer: *mut u8, size: usize) -> Option<*mut u8> {
    if size == 0 && !pointer.is_null() {
        return None;
    }
    if mode() != Mode::Off {
        if may_not(size) {
            return Some(or_no_memory(null_mut()));
        }
        // SAFETY: the caller's duties.
        return match checked_requests::is_on()
            .then(|| unsafe { heap::reallocate_checked::<NATIVE>(pointer, size) })
        {
            Some(Reallocated::Block(block)) => Some(or_no_memory(block)),
            Some(Reallocated::Foreign) | None => None,
        };
    }
    // SAFETY: the caller's duties; both blocks live and are at least that long.
    unsafe {
        if !heap::owns(pointer) {
            return Some(call!(REALLOC(pointer, size), null_mut()));
        }
        let before = heap::usable_size(pointer).unwrap_or_default();
        let moved = call!(MALLOC(size), null_mut());
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(pointer, moved, before.min(size));
            free(pointer);
        }
        Some(moved)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(pointer: *mut u8, count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        // SAFETY: the caller's duties.
        Some(bytes) => unsafe { realloc(pointer, bytes) },
        None => or_no_memory(null_mut()),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn posix_memalign(
    out: &mut MaybeUninit<*mut u8>,
    alignment: usize,
    size: usize,
) -> c_int {
    if mode() == Mode::Off {
        return call!(POSIX_MEMALIGN(out, alignment, size), libc::ENOMEM);
    }
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let block = aligned(size, alignment);
    if block.is_null() {
        return libc::ENOMEM;
    }
    out.write(block);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: usize, size: usize) -> *mut u8 {
    if mode() == Mode::Off {
        return call!(MEMALIGN(alignment, size), null_mut());
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
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut u8 {
    match mode() {
        Mode::Off => call!(ALIGNED_ALLOC(alignment, size), null_mut()),
        _ => memalign(alignment, size),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut u8 {
    match mode() {
        Mode::Off => call!(VALLOC(size), null_mut()),
        _ => or_no_memory(aligned(size, page_size() as usize)),
    }
}

/// `malloc_usable_size(3)`, of any pointer of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(pointer: *mut u8) -> usize {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: the caller's duties.
    unsafe { heap::usable_size(pointer).unwrap_or_else(|| next::usable_size(pointer)) }
}
