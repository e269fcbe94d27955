//! Reading the kernel's small files without allocating: any thread, from inside an allocation or a signal handler too.

use crate::file::{self, Fd};
use std::{ffi::CStr, os::fd::AsRawFd, str::FromStr};

/// Opens a file, reads its first bytes and closes it.
pub fn read_once<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    read(&open(path)?, buffer)
}

pub fn open(path: &CStr) -> Option<Fd> {
    Fd::open(path, libc::O_RDONLY).ok()
}

/// Reads from the file's start, which has the kernel write these files anew.
pub fn read<'a>(file: &impl AsRawFd, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let length = file::read_at(file, buffer, 0).ok()?;
    buffer.get(..length)
}

/// The number in a field of such a file.
pub fn number<T: FromStr>(field: &[u8]) -> Option<T> {
    str::from_utf8(field.trim_ascii()).ok()?.parse().ok()
}

/// The bytes of a value such as `     112 kB`.
pub fn kilobytes(value: &[u8]) -> Option<u64> {
    number::<u64>(value.strip_suffix(b" kB")?)?.checked_mul(1024)
}
