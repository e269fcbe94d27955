//! C++'s operators new and delete, for blocks that are checked: see operators.c.

#![allow(unsafe_code)]

use super::family::{aligned, free};
use crate::descriptor::notice;
use crate::heap::checked_blocks;
use crate::heap::double_free::refuse;
use crate::heap::families::Family;
use pyhost_os::process::libc_itself;
use std::ptr::null_mut;

/// The C++ runtime's.
type New = extern "C" fn(usize) -> *mut u8;

const NAME: &std::ffi::CStr = c"_Znwm";

/// Makes libraries that are loaded from here on find the operators here. Not if a preloaded library has a C++ runtime: what
/// that has bound already would free blocks of theirs. Before Python is initialised.
pub fn start() {
    if cfg!(not(target_pointer_width = "64")) {
        return;
    }
    if !libc_itself::find_beside(NAME).is_null() {
        return notice(format_args!(
            "--debug-hooks, --guard: a preloaded library has a C++ runtime; a block of operator new that is freed by free, \
             or the reverse, is not found"
        ));
    }
    let names = include_str!("../../exports.txt").split_whitespace();
    // The byte after `_Zn`, or after `_Zdl`, is one more than in the right name, and the next one is 33 less.
    for name in names.filter(|name| name.starts_with("_Z")) {
        let changed = if name.starts_with("_Zn") { 3 } else { 4 };
        if !libc_itself::rename_export(name.as_bytes(), changed) {
            return;
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn pyhost_new(size: usize, alignment: usize, family: Family) -> *mut u8 {
    if !alignment.is_power_of_two() {
        return null_mut();
    }
    let block = aligned(size, alignment);
    // SAFETY: a block that nobody else has yet, or null.
    unsafe { checked_blocks::set_family(block, family) };
    block
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pyhost_delete(pointer: *mut u8, family: Family) {
    // SAFETY: the caller's duties, as those of `free`.
    unsafe {
        checked_blocks::begin_delete(pointer, family);
        free(pointer);
    }
}

#[unsafe(no_mangle)]
extern "C" fn pyhost_next_new() -> New {
    let found = libc_itself::find_beside(NAME);
    if found.is_null() {
        refuse(format_args!(
            "operator new: out of memory, and no C++ runtime can throw std::bad_alloc"
        ));
    }
    // SAFETY: that function of every C++ runtime.
    unsafe { std::mem::transmute::<*mut std::ffi::c_void, New>(found) }
}
