//! What glibc's malloc offers beyond the family of [`super::family`]: musl has none of it.

#![allow(unsafe_code)]

use super::family::{self, aligned, or_no_memory};
use super::next::{self, call};
use super::{Mode, mode};
use crate::descriptor::Descriptor;
use crate::heap::{self, big_blocks};
use crate::ledger::{Account, LEDGER, index::NATIVE};
use pyhost_os::mapping::{FromZeros, page_size};
use std::{ffi::c_int, fmt::Write, ptr::null_mut};

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

/// The accounts that stock Python has from malloc, but for Python's objects of more than 512 bytes.
const OF_MALLOC: [Account; 3] = [Account::Raw, Account::Numpy, Account::Native];

/// `mallinfo2(3)`: `hblkhd` are the blocks of a mebibyte and more, and `uordblks` what else is live of [`OF_MALLOC`];
/// `usmblks` is the total's peak.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> libc::mallinfo2 {
    let mut info = libc::mallinfo2::zeroed();
    if mode() == Mode::Off {
        return call!(MALLINFO2(), info);
    }
    let snapshot = LEDGER.snapshot();
    let live = OF_MALLOC.map(|account| snapshot.account(account).live_bytes as usize);
    let mut big_and_booked = 0;
    big_blocks::each(|block| {
        if OF_MALLOC.contains(&block.account) {
            info.hblks += 1;
            info.hblkhd += block.bytes as usize;
            if mode() != Mode::Plain || block.account != Account::Native {
                big_and_booked += block.bytes as usize;
            }
        }
    });
    info.uordblks = live.iter().sum::<usize>().saturating_sub(big_and_booked);
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
    info.hblks = wide.hblks as c_int;
    info.hblkhd = wide.hblkhd as c_int;
    info
}

/// `malloc_stats(3)`: the figures of [`mallinfo2`] in glibc's form, on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    if mode() == Mode::Off {
        return call!(STATS(), ());
    }
    let info = mallinfo2();
    let all = info.uordblks + info.hblkhd;
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    for (heading, bytes) in [("Arena 0", info.uordblks), ("Total (incl. mmap)", all)] {
        let _ = write!(
            out,
            "{heading}:\nsystem bytes     = {bytes:>10}\nin use bytes     = {bytes:>10}\n"
        );
    }
    let (regions, bytes) = (info.hblks, info.hblkhd);
    let _ = write!(
        out,
        "max mmap regions = {regions:>10}\nmax mmap bytes   = {bytes:>10}\n"
    );
    out.flush();
}

/// `malloc_info(3)`: the same in glibc's XML.
///
/// # Safety
/// As the manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    // SAFETY: the caller's stream; the text takes six sizes.
    unsafe {
        if mode() == Mode::Off {
            return call!(INFO(options, stream), libc::EINVAL);
        }
        if options != 0 {
            return libc::EINVAL;
        }
        let info = mallinfo2();
        let (small, all) = (info.uordblks, info.uordblks + info.hblkhd);
        let text = c"<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n</sizes>\n\
            <system type=\"current\" size=\"%zu\"/>\n<aspace type=\"total\" size=\"%zu\"/>\n</heap>\n\
            <total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n<system type=\"current\" size=\"%zu\"/>\n\
            <system type=\"max\" size=\"%zu\"/>\n<aspace type=\"total\" size=\"%zu\"/>\n</malloc>\n";
        let (text, blocks, big, max) = (text.as_ptr(), info.hblks, info.hblkhd, info.usmblks);
        libc::fprintf(stream, text, small, small, blocks, big, all, max, all);
    }
    0
}

/// Functions of the family by the names that libc has for them, too. What the host does not serve goes to the next function of
/// that name: a preloaded `malloc` that is the next of its name may call `__libc_malloc`, as without the host.
macro_rules! by_other_names {
    ($($name:ident = $function:path, $next:ident: ($($argument:ident: usize),*);)*) => {$(
        #[doc = concat!("As `", stringify!($function), "`.")]
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: usize),*) -> *mut u8 {
            match mode() {
                Mode::Off => call!($next($($argument),*), null_mut()),
                _ => $function($($argument),*),
            }
        }
    )*};
}

by_other_names! {
    __libc_malloc = family::malloc, LIBC_MALLOC: (size: usize);
    __libc_calloc = family::calloc, LIBC_CALLOC: (count: usize, size: usize);
    __libc_memalign = family::memalign, LIBC_MEMALIGN: (alignment: usize, size: usize);
    __libc_valloc = family::valloc, LIBC_VALLOC: (size: usize);
    __libc_pvalloc = pvalloc, LIBC_PVALLOC: (size: usize);
}

/// As `free`, see [`by_other_names`].
#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_free(pointer: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe {
        if !family::free_own(pointer) {
            next::free_by::<NATIVE>(&next::LIBC_FREE, pointer);
        }
    }
}

/// As [`__libc_free`], by its name of old.
#[unsafe(no_mangle)]
unsafe extern "C" fn cfree(pointer: *mut u8) {
    // SAFETY: the caller's duties.
    unsafe { __libc_free(pointer) }
}

/// As `realloc`, see [`by_other_names`].
#[unsafe(no_mangle)]
unsafe extern "C" fn __libc_realloc(pointer: *mut u8, size: usize) -> *mut u8 {
    let is_ours = match pointer.is_null() {
        true => mode() != Mode::Off,
        false => heap::owns(pointer),
    };
    // SAFETY: the caller's duties.
    unsafe {
        match is_ours {
            true => family::realloc(pointer, size),
            false => next::realloc_by(&next::LIBC_REALLOC, pointer, size),
        }
    }
}
