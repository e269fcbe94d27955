//! Reading the kernel's small files without allocating: any thread, from inside an allocation or a signal
//! handler too.

#![allow(unsafe_code)]

use crate::descriptor::errno;
use std::ffi::{CStr, c_int};

/// Opens a file, reads its first bytes and closes it.
pub fn read_once<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let descriptor = open(path)?;
    let text = read(descriptor, buffer);
    // SAFETY: a descriptor of ours.
    unsafe { libc::close(descriptor) };
    text
}

/// Opens a file for reading.
pub fn open(path: &CStr) -> Option<c_int> {
    // SAFETY: a path that ends with a zero.
    let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    (descriptor >= 0).then_some(descriptor)
}

/// Reads from the file's start, which has the kernel write these files anew.
pub fn read(descriptor: c_int, buffer: &mut [u8]) -> Option<&[u8]> {
    loop {
        // SAFETY: a buffer of the caller's and its length.
        let length =
            unsafe { libc::pread(descriptor, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        match usize::try_from(length) {
            Ok(length) => return buffer.get(..length),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return None,
        }
    }
}

/// Reads on from where the last such read ended; 0 at the end.
pub fn read_on(descriptor: c_int, buffer: &mut [u8]) -> Option<usize> {
    loop {
        // SAFETY: a buffer of the caller's and its length.
        let length = unsafe { libc::read(descriptor, buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(length) {
            Ok(length) => return Some(length),
            Err(_) if errno() == libc::EINTR => {}
            Err(_) => return None,
        }
    }
}
