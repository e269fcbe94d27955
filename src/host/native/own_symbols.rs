//! `dlopen` and `dlsym` of a static executable. It loads no library, and finds what it exports itself: `ctypes.pythonapi`
//! and `ctypes.CDLL(None)` look there.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

/// Nothing looks up libc's own family: there is one.
pub fn learn_libc() {}

unsafe extern "C" {
    /// musl's: what `dlerror(3)` will say.
    fn __dl_seterr(format: *const c_char, ...);
    // Of the linker.
    static __ehdr_start: u8;
    static _DYNAMIC: Entry;
}

/// `Elf64_Dyn`.
#[repr(C)]
struct Entry {
    tag: i64,
    value: usize,
}

/// A table of the executable: its address for a tag of elf.h.
fn table<T>(tag: i64) -> Option<*const T> {
    const DT_NULL: i64 = 0;
    let base = (&raw const __ehdr_start).addr();
    let mut entry = &raw const _DYNAMIC;
    loop {
        // SAFETY: the linker's list, which ends with a null.
        let found = unsafe { &*entry };
        match found.tag {
            DT_NULL => return None,
            _ if found.tag == tag => {
                return Some(std::ptr::with_exposed_provenance(base + found.value));
            }
            // SAFETY: it is not the end.
            _ => entry = unsafe { entry.add(1) },
        }
    }
}

/// The hash of the table DT_HASH, of the System V ABI.
fn hash_of(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash: u32, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ high >> 24) & !high
    })
}

/// The address of a symbol that the executable exports.
fn find(name: &CStr) -> Option<*mut c_void> {
    const DT_HASH: i64 = 4;
    const DT_STRTAB: i64 = 5;
    const DT_SYMTAB: i64 = 6;
    let (hash, names, symbols) = (
        table::<u32>(DT_HASH)?,
        table::<c_char>(DT_STRTAB)?,
        table::<libc::Elf64_Sym>(DT_SYMTAB)?,
    );
    // SAFETY: the linker's tables: the numbers of buckets and of symbols, the first symbol of each bucket, the next symbol
    // of each symbol. Symbol 0 ends a list. Names lie in the table of texts.
    unsafe {
        let buckets = *hash as usize;
        let mut index = *hash.add(2 + hash_of(name.to_bytes()) as usize % buckets) as usize;
        while index != 0 {
            let symbol = &*symbols.add(index);
            let is_it = CStr::from_ptr(names.add(symbol.st_name as usize)) == name;
            if is_it && symbol.st_shndx != 0 {
                let base = (&raw const __ehdr_start).addr();
                return Some(std::ptr::with_exposed_provenance_mut(
                    base + symbol.st_value as usize,
                ));
            }
            index = *hash.add(2 + buckets + index) as usize;
        }
    }
    None
}

/// `dlopen(3)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(path: *const c_char, _mode: c_int) -> *mut c_void {
    if path.is_null() {
        return (&raw const _DYNAMIC).cast_mut().cast();
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
