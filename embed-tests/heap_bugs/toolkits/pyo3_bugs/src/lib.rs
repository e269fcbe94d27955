//! Heap bugs of a module in Rust that PyO3 binds. Most of its unsafe code breaks the rules on purpose: that is the bug.

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyByteArrayMethods, PyList};
use std::hint::black_box;

/// Writes a byte in or beside a block.
fn write_at<T>(block: *mut T, offset: isize) {
    // SAFETY: none; beside the block it is a bug.
    unsafe { block.cast::<u8>().offset(offset).write_volatile(b'X') }
}

fn read_at<T>(block: *mut T, offset: isize) -> u8 {
    // SAFETY: none, as above.
    unsafe { block.cast::<u8>().offset(offset).read_volatile() }
}

/// Drops a block of [`boxed`], the first time rightly.
fn drop_box<const SIZE: usize>(block: *mut [u8; SIZE]) {
    // SAFETY: a block of `boxed`; the second time it is a bug.
    drop(unsafe { Box::from_raw(block) });
}

/// A block of the global allocator that the compiler knows nothing of.
fn boxed<const SIZE: usize>() -> *mut [u8; SIZE] {
    black_box(Box::into_raw(Box::new([0; SIZE])))
}

fn over_box() {
    let block = boxed::<40>();
    write_at(block, 40);
    drop_box(block);
}

fn over_vec() {
    let mut numbers: Vec<u32> = black_box(Vec::with_capacity(10));
    write_at(numbers.as_mut_ptr(), 40);
}

fn over_vec_8000() {
    let mut bytes: Vec<u8> = black_box(vec![0; 8000]);
    write_at(bytes.as_mut_ptr(), 8000);
}

fn over_string() {
    let mut text = black_box("x".repeat(100));
    write_at(text.as_mut_ptr(), text.capacity() as isize);
}

fn over_bytearray(py: Python<'_>) {
    let bytes = PyByteArray::new(py, &[0; 2000]);
    write_at(bytes.data(), 2001);
}

fn under_box() {
    let block = boxed::<40>();
    write_at(block, -1);
    drop_box(block);
}

fn read_vec() {
    let mut bytes: Vec<u8> = black_box(vec![0; 8000]);
    read_at(bytes.as_mut_ptr(), 8000);
}

fn write_dropped() {
    let block = boxed::<40>();
    drop_box(block);
    write_at(block, 20);
}

fn read_dropped() {
    let block = boxed::<4000>();
    drop_box(block);
    read_at(block, 20);
}

fn write_moved() {
    let mut numbers: Vec<u8> = black_box(vec![0; 40]);
    let stale = black_box(numbers.as_mut_ptr());
    numbers.reserve_exact(4000);
    write_at(stale, 20);
    drop(black_box(numbers));
}

fn twice() {
    let block = boxed::<40>();
    let again = black_box(block);
    drop_box(block);
    drop_box(again);
}

fn vec_of_two_owners() {
    let mut bytes: Vec<u8> = black_box(vec![0; 8000]);
    let (start, length) = (black_box(bytes.as_mut_ptr()), bytes.len());
    drop(bytes);
    // SAFETY: none: the block was freed.
    drop(unsafe { Vec::from_raw_parts(start, length, length) });
}

fn pymem_dropped() {
    // SAFETY: called with the GIL.
    let block = black_box(unsafe { pyo3::ffi::PyMem_Malloc(40) });
    // SAFETY: none: the block is CPython's.
    drop(unsafe { Vec::from_raw_parts(block.cast::<u8>(), 40, 40) });
}

fn box_freed_as_pymem() {
    // SAFETY: none: the block is the global allocator's.
    unsafe { pyo3::ffi::PyMem_Free(boxed::<40>().cast()) }
}

fn inside() {
    let block = boxed::<400>().cast::<u8>();
    // SAFETY: none: no block starts there.
    unsafe { libc::free(block.add(16).cast()) }
}

fn lost_box() {
    boxed::<40>();
}

fn forgotten() {
    std::mem::forget(black_box(vec![0_u64; 100]));
}

fn lost_text() {
    black_box(
        std::ffi::CString::new("some text that is lost")
            .unwrap()
            .into_raw(),
    );
}

fn lost_object(py: Python<'_>) {
    black_box(PyList::empty(py).into_ptr());
}

/// The list of bugs: name, row of the table, function.
macro_rules! bugs {
    ($($name:literal $row:literal $make:expr,)*) => {
        const BUGS: &[(&str, &str, fn(Python<'_>))] = &[$(($name, $row, $make),)*];
    };
}

bugs! {
    "over-box" "overflow write" |_| over_box(),
    "over-vec" "overflow write" |_| over_vec(),
    "over-vec-8000" "overflow write" |_| over_vec_8000(),
    "over-string" "overflow write" |_| over_string(),
    "over-bytearray" "overflow write" over_bytearray,
    "under-box" "underflow" |_| under_box(),
    "read-vec" "read past the end" |_| read_vec(),
    "write-dropped" "use after free" |_| write_dropped(),
    "read-dropped" "use after free" |_| read_dropped(),
    "write-moved" "use after free" |_| write_moved(),
    "twice" "double free" |_| twice(),
    "vec-of-two-owners" "double free" |_| vec_of_two_owners(),
    "pymem-dropped" "wrong family" |_| pymem_dropped(),
    "box-freed-as-pymem" "wrong family" |_| box_freed_as_pymem(),
    "inside" "free inside a block" |_| inside(),
    "lost-box" "leak" |_| lost_box(),
    "forgotten" "leak" |_| forgotten(),
    "lost-text" "leak" |_| lost_text(),
    "lost-object" "leak" lost_object,
}

#[pymodule]
mod pyo3_bugs {
    use super::*;

    #[pyfunction]
    fn make(py: Python<'_>, name: &str) -> PyResult<()> {
        let found = BUGS.iter().find(|bug| bug.0 == name);
        let bug = found.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        (bug.2)(py);
        Ok(())
    }

    #[pyfunction]
    fn names() -> Vec<(&'static str, &'static str)> {
        BUGS.iter().map(|bug| (bug.0, bug.1)).collect()
    }
}
