//! The mmap family of the process: exported by the executable, so that memory that libraries map
//! past malloc is seen when it is mapped, asked for beneath a limit, and booked to `mapped`.
//!
//! Counted is private anonymous memory that may be written, by whole memory pages, from the
//! moment that it is mapped or made writable until it is unmapped, replaced, or no longer writable.
//! `madvise` changes nothing of that: the addresses are still the library's.
//!
//! Not seen: system calls without libc's functions, and libc's own (threads' stacks, loaded files).
//! The host's own calls and mimalloc's do not come here (`src/heap/system_memory/wrapped_calls.rs`); they are in other accounts. They are
//! what is called here, too, before the functions behind the exported ones are found.
//!
//! Any thread at any moment, also in signal handlers and before `main`. Nothing here allocates.

#![allow(unsafe_code)]

mod followed;
mod lock;
mod table;

pub use lock::{RANGES, after_fork, before_fork, each_resident, memory, resident_of};
pub use table::{COUNTED, Range};

use super::mode::{Mode, mode};
use super::next::{self, Offset, call};
use crate::heap::{address_limit, peak_watch};
use crate::ledger::{Account, LEDGER};
use crate::{check::faults, errno::Errno, limit::caps};
use followed::Followed;
use lock::with_table;
use pyhost_os::mapping::{is_mapped, page_size};
use pyhost_os::{process::loaded, process::symbol_file::function_ending_in};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::{os::unix::ffi::OsStrExt, path::PathBuf, ptr::null_mut, sync::Mutex, sync::OnceLock};
use table::{Sums, Table};

/// Calls a function behind the exported one, or libc's before it is found.
macro_rules! real {
    ($symbol:ident / $libcs:ident($($argument:expr),*)) => {
        call!($symbol($($argument),*), libc::$libcs($($argument),*))
    };
}

/// Whether what libraries map is booked.
fn counts() -> bool {
    matches!(mode(), Mode::Count | Mode::Faulty)
}

/// Whether a call may concern the table.
fn concerns(size: usize) -> bool {
    lock::is_used() && (counts() || cfg!(Py_GIL_DISABLED)) && size > 0
}

fn whole_pages(size: usize) -> usize {
    let page = page_size() as usize;
    size.checked_next_multiple_of(page).unwrap_or(usize::MAX)
}

fn end_of(start: *mut c_void, size: usize) -> usize {
    start.addr().saturating_add(whole_pages(size))
}

pyhost_os::state! {
    /// Where libpython's code lies, if its maps are of blocks that the ledger has: of its own mimalloc.
    static STATE: CodeOfObjects {
        code: OnceLock<std::ops::Range<usize>> = OnceLock::new(),
    }
}

/// Leaves out what libpython maps, on a free-threaded Python: its blocks are in the ledger. With one thread.
pub fn leave_out_objects() {
    let function = pyo3::ffi::PyMem_GetAllocator as *const () as usize;
    loaded::each(|object| {
        let mut parts = object.segments().map(|segment| segment.addresses);
        let code = parts.find(|part| part.contains(&function));
        code.map(|code| STATE.code.set(code));
    });
}

/// Whether what is mapped by a call is left out.
fn is_left_out(caller: usize) -> bool {
    cfg!(Py_GIL_DISABLED) && STATE.code.get().is_some_and(|code| code.contains(&caller))
}

/// Ranges that are left out.
pub const LEFT_OUT: fn(&Range) -> bool = |range| is_left_out(range.caller);

/// Whether a library may map `bytes` more, or is made to fail.
fn may_grow(bytes: usize) -> bool {
    let fails = mode() == Mode::Faulty && faults::fails(Account::Mapped, bytes);
    !fails && caps::admits_map(bytes)
}

/// Changes the table, if it can be had, by `work`, which returns whether the system did what it was asked; what that changes
/// of the sums is booked.
fn change(grown: bool, work: impl FnOnce(&mut Table<'static>) -> bool) {
    let changed = with_table(|table| {
        let before = table.sums;
        let done = work(table);
        (before, table.sums, done)
    });
    if let Some((before, after, true)) = changed
        && (grown || before != after)
    {
        book(before, after, grown);
    }
}

/// As [`change`], where samples have parts in `places`: they are taken out before another thread can be given the addresses.
fn change_followed(
    places: [std::ops::Range<usize>; 2],
    grown: bool,
    work: impl FnOnce(&mut Table<'static>) -> bool,
) {
    let mut samples = Followed::within(places);
    change(grown, |table| {
        let done = work(table);
        samples.look(table);
        done
    });
    samples.put_back();
}

/// Books the difference of two sums; a call that mapped anything is one allocation.
fn book(before: Sums, after: Sums, grown: bool) {
    if after.bytes < before.bytes {
        caps::look_at_charges();
    }
    let ranges = after.ranges as i64 - before.ranges as i64;
    let own = i64::from(grown);
    let made = own + (ranges - own).max(0);
    let bytes = after.bytes as i64 - before.bytes as i64;
    LEDGER.adjust_mapped(bytes, made as u64, (made - ranges) as u64);
}

/// `mmap(2)` of libraries. `caller` is the address that the call returns to.
///
/// # Safety
/// As the manual says, like all functions below.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_mmap(
    start: *mut c_void,
    size: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: Offset,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the caller's duties.
    let map_at_once = || unsafe { real!(MMAP / mmap64(start, size, access, flags, file, offset)) };
    let map = || match mode() {
        Mode::Off => map_at_once(),
        _ => address_limit::in_room(size, map_at_once),
    };
    let is_private = flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
    let is_ours =
        is_private && flags & libc::MAP_ANONYMOUS != 0 && flags & libc::MAP_GROWSDOWN == 0;
    let replaces = flags & libc::MAP_FIXED != 0 && flags & libc::MAP_FIXED_NOREPLACE == 0;
    if replaces {
        peak_watch::before_release(size);
    }
    if !(counts() || is_left_out(caller)) || size == 0 || !(is_ours || replaces && concerns(size)) {
        return map();
    }
    let writable = is_ours && access & libc::PROT_WRITE != 0 && !is_left_out(caller);
    if writable && !may_grow(whole_pages(size)) {
        Errno(libc::ENOMEM).set();
        return libc::MAP_FAILED;
    }
    let enter = |table: &mut Table<'static>, start: *mut c_void| {
        let end = end_of(start, size);
        match is_ours {
            true => drop(table.put(Range {
                start: start.addr(),
                end,
                caller,
                sample: 0,
                writable,
            })),
            false => table.remove(start.addr(), end),
        }
    };
    if !replaces {
        let mapped = map();
        if mapped != libc::MAP_FAILED {
            change(writable, |table| {
                enter(table, mapped);
                true
            });
            if writable {
                followed::begin(mapped.addr()..end_of(mapped, size), whole_pages(size));
            }
        }
        return mapped;
    }
    let places = [start.addr()..end_of(start, size), 0..0];
    // Nobody may come between: what is replaced is in the table.
    let mut mapped = None;
    change_followed(places, writable, |table| {
        // Not in room: a thread that forks waits for the lock, and would be waited for here.
        let place = *mapped.insert(map_at_once());
        let done = place != libc::MAP_FAILED;
        if done {
            enter(table, place);
        }
        done
    });
    if writable && mapped.is_some_and(|place| place != libc::MAP_FAILED) {
        followed::begin(start.addr()..end_of(start, size), whole_pages(size));
    }
    mapped.unwrap_or_else(map)
}

/// `munmap(2)` of libraries.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_munmap(start: *mut c_void, size: usize) -> c_int {
    // SAFETY: the caller's duties.
    let unmap = || unsafe { real!(MUNMAP / munmap(start, size)) };
    peak_watch::before_release(size);
    if !concerns(size) {
        return unmap();
    }
    let end = end_of(start, size);
    let mut status = None;
    // Not before the table knows may another thread be given the addresses.
    change_followed([start.addr()..end, 0..0], false, |table| {
        if table.first_within(start.addr(), end).is_none() {
            return false;
        }
        let done = *status.insert(unmap()) == 0;
        if done {
            table.remove(start.addr(), end);
        }
        done
    });
    let known = status.is_some();
    let status = status.unwrap_or_else(unmap);
    if status == 0 && known {
        caps::look_at_charges();
    }
    status
}

/// `mremap(2)` of libraries.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_mremap(
    start: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    target: *mut c_void,
    caller: usize,
) -> *mut c_void {
    // SAFETY: the caller's duties.
    let remap = || unsafe { real!(MREMAP / mremap(start, old, new, flags, target)) };
    peak_watch::before_release(old.saturating_sub(new));
    if !concerns(new) {
        return remap();
    }
    let old_end = end_of(start, old.max(1));
    let known = with_table(|table| table.first_within(start.addr(), old_end));
    let known = known.flatten().filter(|_| old > 0);
    let keeps_old = flags & libc::MREMAP_DONTUNMAP != 0;
    let growth = match keeps_old {
        true => whole_pages(new),
        false => whole_pages(new).saturating_sub(whole_pages(old)),
    };
    let grows = growth > 0 && known.is_some_and(|range| range.writable);
    if grows && !may_grow(growth) {
        Errno(libc::ENOMEM).set();
        return libc::MAP_FAILED;
    }
    if known.is_none() && flags & libc::MREMAP_FIXED == 0 {
        return remap();
    }
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    let target = if is_fixed { target.addr() } else { 0 };
    let target_end = match is_fixed {
        true => target.saturating_add(whole_pages(new)),
        false => 0,
    };
    let places = [start.addr()..old_end, target..target_end];
    // What is in no sample yet.
    let (mut unsampled, mut writable) = (0..0, 0);
    let mut mapped = None;
    change_followed(places, false, |table| {
        let place = *mapped.insert(remap());
        if place == libc::MAP_FAILED {
            // The target may be gone all the same: the kernel unmaps it before its last checks.
            let first = table.first_within(target, target_end);
            let is_lost = first.is_some_and(|range| !is_mapped(range.start.max(target)));
            if is_lost {
                table.remove(target, target_end);
            }
            return is_lost;
        }
        let end = end_of(place, new);
        let kept = whole_pages(old).min(whole_pages(new));
        let last = table.first_within(old_end - 1, old_end);
        if place != start {
            table.remove(place.addr(), end);
            table.copy(start.addr(), start.addr() + kept, place.addr(), keeps_old);
        }
        if place == start {
            table.remove(start.addr() + kept, old_end);
        } else if !keeps_old {
            table.remove(start.addr(), old_end);
        }
        // A sample grows with its map; a copy is a map of its own.
        if let Some(range) = last.filter(|_| place.addr() + kept < end) {
            let grown = Range {
                start: place.addr() + kept,
                end,
                caller,
                sample: if keeps_old { 0 } else { range.sample },
                ..range
            };
            table.put(grown);
            if grown.sample == 0 {
                unsampled = grown.start..end;
            }
        }
        if keeps_old {
            unsampled = place.addr()..end;
        }
        writable = table.bytes_within(unsampled.start, unsampled.end).0;
        true
    });
    if writable > 0 {
        followed::begin(unsampled, writable);
    }
    mapped.unwrap_or_else(remap)
}

/// `mprotect(2)` of libraries.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_mprotect(start: *mut c_void, size: usize, access: c_int) -> c_int {
    // SAFETY: the caller's duties.
    let protect = || unsafe { real!(MPROTECT / mprotect(start, size, access)) };
    if !concerns(size) {
        return protect();
    }
    let end = end_of(start, size);
    let bytes = with_table(|table| {
        let first = table.first_within(start.addr(), end)?;
        (!is_left_out(first.caller)).then(|| table.bytes_within(start.addr(), end))
    });
    let (writable, other) = bytes.flatten().unwrap_or_default();
    let becomes_writable = access & libc::PROT_WRITE != 0;
    let changed = if becomes_writable { other } else { writable };
    if changed == 0 {
        return protect();
    }
    if becomes_writable && !may_grow(other) {
        Errno(libc::ENOMEM).set();
        return -1;
    }
    let mut status = None;
    // Where no sample begins.
    let mut first = 0;
    change_followed([start.addr()..end, 0..0], becomes_writable, |table| {
        let done = *status.insert(protect()) == 0;
        if done {
            first = table.protect(start.addr(), end, becomes_writable);
        }
        done
    });
    if becomes_writable && first != 0 {
        followed::begin(first..end, other);
    }
    status.unwrap_or_else(protect)
}

/// `madvise(2)` of libraries: what is given back is looked for at once if a limit is followed.
#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_madvise(start: *mut c_void, size: usize, advice: c_int) -> c_int {
    let releases = matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE);
    if releases {
        peak_watch::before_release(size);
    }
    // SAFETY: the caller's duties.
    let status = unsafe { real!(MADVISE / madvise(start, size, advice)) };
    if status == 0 && releases && concerns(size) {
        caps::look_at_charges();
    }
    status
}

/// `sbrk(2)` of libraries: where jemalloc goes if it is refused a map. Nothing there is seen, so it does not grow where maps count.
#[unsafe(no_mangle)]
unsafe extern "C" fn sbrk(more: isize) -> *mut c_void {
    next::resolve();
    if more > 0 && counts() && caps::counts_maps() {
        Errno(libc::ENOMEM).set();
        return libc::MAP_FAILED;
    }
    // SAFETY: the caller's duties.
    unsafe { call!(SBRK(more), libc::MAP_FAILED) }
}

/// As secure_getenv(3), by which jemalloc asks for its options. Where maps count it gives addresses back, so that it asks for what it
/// needs and can be refused, and soon after they are free: by its own rule it keeps more addresses than a cap leaves, and touches
/// them unseen. Polars sets the variable itself; a value that says `retain` is the user's.
#[cfg(not(target_feature = "crt-static"))]
#[unsafe(no_mangle)]
unsafe extern "C" fn secure_getenv(name: *const c_char) -> *const c_char {
    next::resolve();
    // SAFETY: the caller's duties.
    let value = unsafe { call!(SECURE_GETENV(name), std::ptr::null()) };
    // SAFETY: texts, as above.
    let text = |it| unsafe { CStr::from_ptr(it) }.to_string_lossy();
    if !(text(name).ends_with("MALLOC_CONF") && counts() && caps::counts_maps()) {
        return value;
    }
    let options = c"retain:false,dirty_decay_ms:100,muzzy_decay_ms:0";
    if value.is_null() {
        return options.as_ptr();
    }
    let before = text(value);
    if before.contains("retain:") {
        return value;
    }
    let all = CString::new(format!("{before},{}", text(options.as_ptr())));
    // jemalloc keeps the address.
    all.map_or(value, |it| it.into_raw().cast_const())
}

/// jemalloc's `mallctl`.
type Control =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// Has the libraries that have mapped memory by a jemalloc of their own give back what they keep free. Reads their files when it sees them first.
/// Not inside an allocator.
pub fn purge() {
    /// Where libraries are loaded, and their function.
    static KNOWN: Mutex<Vec<(usize, Option<Control>)>> = Mutex::new(Vec::new());
    // Another thread is at it, or was when this process was forked.
    let Ok(mut known) = KNOWN.try_lock() else {
        return;
    };
    let (mut callers, mut count) = ([0; 16], 0);
    each(|range| {
        if count < callers.len() && !callers[..count].contains(&range.caller) {
            callers[count] = range.caller;
            count += 1;
        }
    });
    let mut new = Vec::new();
    loaded::each(|object| {
        let is_new = !known.iter().any(|(base, _)| *base == object.base);
        if is_new && callers[..count].iter().any(|&it| object.holds(it)) {
            new.push((object.base, PathBuf::from(OsStr::from_bytes(object.path))));
        }
    });
    for (base, path) in new {
        let found = function_ending_in(&path, b"mallctl").ok().flatten();
        // SAFETY: no other function of a name like this is known.
        let control = found.map(|address| unsafe {
            std::mem::transmute::<usize, Control>(base + address as usize)
        });
        known.push((base, control));
    }
    for control in known.iter().filter_map(|(_, control)| *control) {
        // SAFETY: of all arenas (MALLCTL_ARENAS_ALL); the call takes and gives nothing. A library that allocates is not unloaded.
        unsafe {
            let purge = c"arena.4096.purge".as_ptr();
            control(purge, null_mut(), null_mut(), null_mut(), 0)
        };
    }
}

/// Takes everything off the account again: nothing is counted in this process.
pub fn forget() {
    if lock::is_used() {
        change(false, |table| {
            table.remove(0, usize::MAX);
            true
        });
    }
}

/// Visits every range that libraries have mapped, by address, while nobody maps anything. `visit`
/// must not map memory nor take a lock.
pub fn each(mut visit: impl FnMut(&Range)) {
    if lock::is_used() {
        with_table(|table| table.ranges().iter().for_each(&mut visit));
    }
}
