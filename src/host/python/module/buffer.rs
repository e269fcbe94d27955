//! `pyhost.buffer`: C memory of a chosen account, shared through the buffer protocol (PEP 3118)
//! with NumPy, `memoryview` and `ctypes`, and freed with its last user.
//!
//! The memory comes from the account's own public functions (`PyMem_RawCalloc` and so on, the data handler for
//! `numpy`), so that booking, debug hooks and tracemalloc treat it as theirs. A heap type, one an interpreter.

#![allow(unsafe_code)]

use super::arguments;
use crate::cpython::attributes;
use crate::cpython::functions::{
    Arguments, Attribute, Class, Signature, Slot, Table, This, add_class,
};
use crate::cpython::objects::{Gil, Kind, Object, Returned};
use crate::{ledger::Account, python::numpy};
use pyo3::ffi::{self, PyObject};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

const DOC: &CStr = c"buffer(nbytes, *, align=64, account='numpy')
--

A zeroed, writable C buffer of nbytes bytes, aligned to align, from an account's allocator.

It is shared without a copy by whoever takes its memory through the buffer protocol, such as
numpy.frombuffer(b), memoryview(b) and ctypes' from_buffer(b), and freed with the last of them.

align is a power of two up to 1048576; account is 'raw', 'mem', 'obj', 'numpy' or 'native'. Raises
ValueError for other values and MemoryError where there is no memory.";

/// The largest alignment, in bytes.
const MAX_ALIGNMENT: i64 = 1 << 20;

/// The alignment of every account's allocator.
const NATURAL_ALIGNMENT: usize = 16;

/// A block of an account's allocator.
struct Block {
    account: Account,
    pointer: NonNull<u8>,
}

impl Block {
    /// Zeroed memory; None without. The GIL is for `mem` and `obj`.
    fn new(_gil: Gil<'_>, account: Account, size: usize) -> Option<Self> {
        // SAFETY: attached.
        let pointer = unsafe {
            match account {
                Account::Raw => ffi::PyMem_RawCalloc(1, size).cast(),
                Account::Mem => ffi::PyMem_Calloc(1, size).cast(),
                Account::Obj => ffi::PyObject_Calloc(1, size).cast(),
                Account::Numpy => {
                    let table = numpy::functions()?;
                    (table.calloc)(table.ctx, 1, size).cast()
                }
                _ => libc::calloc(1, size).cast(),
            }
        };
        NonNull::new(pointer).map(|pointer| Block { account, pointer })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let block = self.pointer.as_ptr();
        // SAFETY: `new` made it of that allocator. It is dropped with its instance, thus with the GIL, or by `new`.
        unsafe {
            match self.account {
                Account::Raw => ffi::PyMem_RawFree(block.cast()),
                Account::Mem => ffi::PyMem_Free(block.cast()),
                Account::Obj => ffi::PyObject_Free(block.cast()),
                Account::Numpy => {
                    if let Some(table) = numpy::functions() {
                        (table.free)(table.ctx, block.cast(), 0);
                    }
                }
                _ => libc::free(block.cast()),
            }
        }
    }
}

struct Buffer {
    block: Block,
    /// The aligned start within it.
    start: *mut u8,
    length: i64,
    alignment: i64,
}

fn new<'a>(class: Class<'a, Buffer>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<3> =
        Signature::new(c"O|$OU:buffer", [c"nbytes", c"align", c"account"]);
    let gil = class.gil();
    let [length, alignment, name] = arguments.parse(&SIGNATURE)?;
    let length = length.map_or(Ok(0), Object::number)?;
    let alignment = alignment.map_or(Ok(64), Object::number)?;
    if length < 0 {
        let text = format!("buffer: nbytes must not be negative, but is {length}");
        return Err(gil.raise(Kind::Value, &text));
    }
    if !(1..=MAX_ALIGNMENT).contains(&alignment) || alignment & (alignment - 1) != 0 {
        let text = format!(
            "buffer: align must be a power of two up to {MAX_ALIGNMENT}, but is {alignment}"
        );
        return Err(gil.raise(Kind::Value, &text));
    }
    let account = match name {
        Some(name) => arguments::account("buffer", "", name)?,
        None => Account::Numpy,
    };
    let natural = match account {
        Account::Numpy => numpy::alignment(),
        _ => NATURAL_ALIGNMENT,
    };
    let room = match alignment as usize {
        more if more > natural => more,
        _ => 0,
    };
    let size = (length as usize).max(1).checked_add(room);
    let block = size.and_then(|size| Block::new(gil, account, size));
    let block = block.ok_or_else(|| gil.no_memory())?;
    let start = block.pointer.as_ptr();
    class.instance(Buffer {
        // The block is long enough for it.
        start: start.wrapping_add(start.align_offset(alignment as usize)),
        block,
        length,
        alignment,
    })
}

unsafe extern "C" fn share(
    object: *mut PyObject,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> c_int {
    // SAFETY: called by Python with an instance; the view keeps the object, and so the memory.
    unsafe {
        let buffer = This::<Buffer>::of(object);
        let (start, length) = (buffer.start.cast(), buffer.length as isize);
        ffi::PyBuffer_FillInfo(view, object, start, length, 0, flags)
    }
}

fn repr(buffer: This<'_, Buffer>) -> Returned<'_> {
    let (length, start, alignment) = (buffer.length, buffer.start, buffer.alignment);
    let account = buffer.block.account.name();
    buffer.gil().text(&format!(
        "<pyhost.buffer of {length} bytes at {start:p}, aligned to {alignment}, account '{account}'>"
    ))
}

static ATTRIBUTES: Table<Attribute<Buffer>, 4> = attributes! { Buffer:
    c"nbytes", |buffer| buffer.gil().int(buffer.length), c"Its length in bytes.";
    c"align", |buffer| buffer.gil().int(buffer.alignment), c"The alignment that was asked for, in bytes.";
    c"address", |buffer| buffer.gil().unsigned(buffer.start.addr() as u64),
        c"Where it starts, as an integer.";
    c"account", |buffer| buffer.gil().text(buffer.block.account.name()), c"The name of its account.";
};

pub fn add<'a>(module: &Object<'a>) -> Returned<'a, ()> {
    let slots = [
        Slot::new(new),
        Slot::repr(repr),
        Slot::<Buffer>::length(|buffer| buffer.length as isize),
        Slot::attributes(&ATTRIBUTES),
        // SAFETY: the function has the slot's type.
        unsafe { Slot::raw(ffi::Py_bf_getbuffer, share as *mut c_void) },
    ];
    add_class(module, c"pyhost.buffer", DOC, slots)
}
