//! What glibc's malloc offers beyond the family of [`super::family`]: musl has none of it.

#![allow(unsafe_code)]

use super::family::{aligned, or_no_memory};
use super::next::call;
use super::{Mode, mode};
use crate::heap;
use crate::ledger::LEDGER;
use pyhost_os::mapping::{FromZeros, page_size};
use std::ffi::c_int;
use std::ptr::null_mut;

/// `pvalloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut u8 {
    if mode() == Mode::Off {
        return call!(PVALLOC(size), null_mut());
    }
    let page = page_size() as usize;
    match size.checked_next_multiple_of(page) {
        Some(rounded) => or_no_memory(aligned(rounded, page)),
        None => or_no_memory(null_mut()),
    }
}

/// `malloc_trim(3)`: gives back what the calling thread's heaps keep.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(pad: usize) -> c_int {
    if mode() == Mode::Off {
        return call!(TRIM(pad), 0);
    }
    heap::collect();
    1
}

/// `mallinfo2(3)`: `uordblks` is the total's live bytes, `usmblks` its peak.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let mut info = libc::mallinfo2::zeroed();
    if mode() == Mode::Off {
        return call!(MALLINFO2(), info);
    }
    let snapshot = LEDGER.snapshot();
    info.uordblks = snapshot.total_live_bytes as usize;
    info.usmblks = snapshot.total_peak_bytes as usize;
    info.arena = info.uordblks;
    info
}

/// `mallinfo(3)`: as [`mallinfo2`], cut to `int`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> libc::mallinfo {
    let mut info = libc::mallinfo::zeroed();
    if mode() == Mode::Off {
        return call!(MALLINFO(), info);
    }
    let wide = mallinfo2();
    info.uordblks = wide.uordblks as c_int;
    info.usmblks = wide.usmblks as c_int;
    info.arena = wide.arena as c_int;
    info
}
