//! `dlopen` and `dlsym` of a static executable. It loads no library, and finds what it exports itself: `ctypes.pythonapi`
//! and `ctypes.CDLL(None)` look there.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

/// Nothing looks up libc's own family: there is one.
pub fn learn_libc() {}

/// Nothing has a malloc of its own.
pub fn refused_by_libc() -> Option<&'static str> {
    None
}

/// There are no libraries.
pub fn bind_deeply(_is_allowed: bool) {}

unsafe extern "C" {
    /// musl's: what `dlerror(3)` will say.
    fn __dl_seterr(format: *const c_char, ...);
    // The table that the build makes (build.rs), in the order of the names' bytes.
    static pyhost_symbols: [Entry; 0];
    static pyhost_symbol_count: usize;
}

/// A function or variable of the executable.
#[repr(C)]
struct Entry {
    name: *const c_char,
    address: *mut c_void,
}

/// The address of a symbol of the executable's.
fn find(name: &CStr) -> Option<*mut c_void> {
    let first = (&raw const pyhost_symbols).cast::<Entry>();
    // SAFETY: the build makes that many entries, which nothing writes.
    let table = unsafe { std::slice::from_raw_parts(first, pyhost_symbol_count) };
    // SAFETY: the build makes each name a text that ends with a null.
    let found = table.binary_search_by(|entry| unsafe { CStr::from_ptr(entry.name) }.cmp(name));
    Some(table[found.ok()?].address)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(path: *const c_char, _mode: c_int) -> *mut c_void {
    if path.is_null() {
        return (&raw const pyhost_symbols).cast_mut().cast();
    }
    // SAFETY: the caller gives a text.
    unsafe { __dl_seterr(c"%s: a static executable loads no library".as_ptr(), path) };
    null_mut()
}

/// `dlsym(3)`. Every handle is the executable's.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(_handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller gives a text.
    find(unsafe { CStr::from_ptr(name) }).unwrap_or_else(|| {
        // SAFETY: as above.
        unsafe { __dl_seterr(c"Symbol not found: %s".as_ptr(), name) };
        null_mut()
    })
}
