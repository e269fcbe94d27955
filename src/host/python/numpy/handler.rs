//! The functions that NumPy is given: NEP 49's allocator, over a [`Store`].
//!
//! NumPy calls them from any thread, `realloc` without the GIL too, and after Python's `atexit`
//! functions; it frees null, and passes `free` a size that is not the one it asked for, which is
//! ignored. NumPy itself reports to tracemalloc around them. Failure is null, and NumPy raises.

#![allow(unsafe_code)]

use super::capi::{DataMemAllocator, DataMemHandler};
use super::stores::Store;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// The handler's name, as `get_handler_name` returns it.
pub const NAME: &str = "pyhost";

extern "C" fn malloc<S: Store>(_ctx: *mut c_void, size: usize) -> *mut c_void {
    S::allocate::<false>(size).cast()
}

extern "C" fn calloc<S: Store>(_ctx: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(bytes) => S::allocate::<true>(bytes).cast(),
        None => null_mut(),
    }
}

extern "C" fn realloc<S: Store>(
    _ctx: *mut c_void,
    pointer: *mut c_void,
    size: usize,
) -> *mut c_void {
    // SAFETY: NumPy passes a live block of this handler, or null.
    unsafe { S::REALLOCATE(pointer.cast(), size).cast() }
}

extern "C" fn free<S: Store>(_ctx: *mut c_void, pointer: *mut c_void, _guess: usize) {
    // SAFETY: NumPy passes a live block of this handler, or null.
    unsafe { S::FREE(pointer.cast()) };
}

/// The handler over `S`. `ctx` says to a reader of the table whose it is.
pub fn over<S: Store>(ctx: *mut c_void) -> DataMemHandler {
    let mut name = [0; 127];
    for (to, from) in name.iter_mut().zip(NAME.bytes()) {
        *to = from as c_char;
    }
    DataMemHandler {
        name,
        version: 1,
        allocator: DataMemAllocator {
            ctx,
            malloc: malloc::<S>,
            calloc: calloc::<S>,
            realloc: realloc::<S>,
            free: free::<S>,
        },
    }
}
