//! Pads around array data, under `--debug-hooks`: a store over another one that sees at `free` and
//! `realloc` what was written outside.
//!
//! CPython's debug hooks (`PyMem_SetupDebugHooks`) reach the three domains alone. The bytes are
//! theirs: 0xFD around the data, 0xCD in fresh data, 0xDD in freed data. In front of the leading
//! pad lies a record of the size and of where the array was made: the innermost line of Python
//! that is not NumPy's own. Damage ends the process as CPython's hooks do, with both.

#![allow(unsafe_code)]

use super::stores::{Free, Reallocate, Store};
use crate::heap::call_site::native_stacks;
use crate::heap::fill_bytes::{DEAD, FORBIDDEN, FRESH};
use crate::heap::{array_blocks, checked_blocks};
use crate::{cpython::frames, descriptor::Descriptor};
use pyhost_os::terminal_text::Plain;
use pyo3::ffi;
use std::{fmt::Write, marker::PhantomData};

const PAD: usize = 16;
/// Bytes in front of the data if the alignment is not larger.
const LEAD: usize = 256;
/// Marks a record of a live block.
const LIVE: u64 = u64::from_le_bytes(*b"pyhost[]");

#[repr(C)]
struct Record {
    mark: u64,
    size: usize,
    line: i32,
    file_length: u32,
    file: [u8; LEAD - PAD - 24],
}

pub struct Padded<S>(PhantomData<S>);

/// Bytes in front of the data.
pub(super) fn lead() -> usize {
    array_blocks::alignment().max(LEAD)
}

/// Bytes of a block around `size` bytes of data.
fn whole(size: usize) -> Option<usize> {
    size.checked_add(lead() + PAD)
}

/// The record of a block of [`Padded`]: it begins the block.
fn record(pointer: *mut u8) -> *mut Record {
    pointer.wrapping_sub(lead()).cast()
}

/// Lays the pads around `size` bytes at `pointer`.
///
/// # Safety
/// A block that long, with its record.
unsafe fn lay(pointer: *mut u8, size: usize) {
    // SAFETY: the caller's duty.
    unsafe {
        let front = lead() - size_of::<Record>();
        pointer.sub(front).write_bytes(FORBIDDEN, front);
        pointer.add(size).write_bytes(FORBIDDEN, PAD);
        (*record(pointer)).mark = LIVE;
        (*record(pointer)).size = size;
    }
}

/// The record of a block. Ends the process if something was written outside the data.
///
/// # Safety
/// `pointer` was made by [`Padded`], and nobody else uses the block.
unsafe fn check<'a>(pointer: *mut u8) -> &'a mut Record {
    // SAFETY: the caller's duty: a block with its record and pads, unless they were overwritten,
    // which is what is looked for.
    unsafe {
        let record = &mut *record(pointer);
        if record.mark != LIVE {
            checked_blocks::refuse_if_freed(pointer, "free()");
            let why = "freed before, or its record overwritten";
            fail(pointer, record, why, None);
        }
        let front = lead() - size_of::<Record>();
        let damaged = |start: *mut u8, length: usize| {
            (0..length).find_map(|index| {
                let byte = *start.add(index);
                (byte != FORBIDDEN).then_some((index as isize, byte))
            })
        };
        if let Some(damage) = damaged(pointer.add(record.size), PAD) {
            fail(pointer, record, "written past its end", Some(damage));
        }
        if let Some((index, byte)) = damaged(pointer.sub(front), front) {
            let damage = Some((index - front as isize, byte));
            fail(pointer, record, "written before its start", damage);
        }
        record
    }
}

/// Ends the process; the record may hold anything.
#[cold]
fn fail(pointer: *mut u8, record: &Record, what: &str, damage: Option<(isize, u8)>) -> ! {
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    let _ = write!(out, "pyhost: array data at {pointer:p}");
    if record.mark == LIVE {
        let length = (record.file_length as usize).min(record.file.len());
        let file = Plain(std::str::from_utf8(&record.file[..length]).unwrap_or("?"));
        let _ = write!(out, ", {} bytes, allocated at ", record.size);
        let _ = match length {
            0 => write!(out, "no line of Python"),
            _ => write!(out, "{file}:{}", record.line),
        };
    }
    let _ = write!(out, ": {what}");
    if let Some((index, byte)) = damage {
        let from = if index < 0 { "its start" } else { "its end" };
        let _ = write!(
            out,
            " (at {index:+} from {from}: 0x{byte:02x}, expected 0x{FORBIDDEN:02x})"
        );
    }
    let _ = writeln!(out);
    out.flush();
    // SAFETY: what NumPy gave back; the block begins with the record.
    native_stacks::report(unsafe { checked_blocks::calls_of(pointer.sub(lead())) }, 0);
    // SAFETY: a text that ends in a zero byte.
    unsafe { ffi::Py_FatalError(c"pyhost: array data was damaged".as_ptr()) }
}

impl<S: Store> Store for Padded<S> {
    const REALLOCATE: Reallocate = reallocate::<S>;
    const FREE: Free = free::<S>;

    fn allocate<const ZERO: bool>(size: usize) -> *mut u8 {
        let Some(whole) = whole(size) else {
            return S::allocate::<ZERO>(usize::MAX); // fails, and is counted
        };
        let block = S::allocate::<ZERO>(whole);
        if block.is_null() {
            return block;
        }
        // SAFETY: a fresh block of that size.
        unsafe {
            let pointer = block.add(lead());
            let record = record(pointer);
            let (length, line) = frames::line(&mut (*record).file);
            (*record).file_length = length as u32;
            (*record).line = line;
            if !ZERO {
                pointer.write_bytes(FRESH, size);
            }
            lay(pointer, size);
            pointer
        }
    }
}

unsafe fn reallocate<S: Store>(pointer: *mut u8, size: usize) -> *mut u8 {
    if pointer.is_null() {
        return Padded::<S>::allocate::<false>(size);
    }
    let Some(whole) = whole(size) else {
        return S::allocate::<false>(usize::MAX);
    };
    // SAFETY: a live block of this store; the record moves with it.
    unsafe {
        let before = check(pointer).size;
        let moved = S::REALLOCATE(pointer.sub(lead()), whole);
        if moved.is_null() {
            return moved;
        }
        let pointer = moved.add(lead());
        if size > before {
            pointer.add(before).write_bytes(FRESH, size - before);
        }
        lay(pointer, size);
        pointer
    }
}

unsafe fn free<S: Store>(pointer: *mut u8) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: a live block of this store.
    unsafe {
        let record = check(pointer);
        pointer.write_bytes(DEAD, record.size);
        record.mark = 0;
        S::FREE(pointer.sub(lead()));
    }
}
