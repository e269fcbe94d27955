//! What is used of NumPy's C API: the structures of NEP 49 and a few slots of its table.
//!
//! `numpy/ndarraytypes.h` and `numpy/__multiarray_api.h`; the slots are the same from 1.22 to
//! 2.5. The `numpy` crate leaves them out, and imports NumPy itself.

#![allow(unsafe_code)]

use pyo3::ffi::{self, PyObject};
use std::ffi::{CStr, c_char, c_uint, c_void};

/// `PyDataMemAllocator`. The `size` that `free` gets is NumPy's guess.
#[repr(C)]
pub struct DataMemAllocator {
    pub ctx: *mut c_void,
    pub malloc: extern "C" fn(*mut c_void, usize) -> *mut c_void,
    pub calloc: extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    pub realloc: extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    pub free: extern "C" fn(*mut c_void, *mut c_void, usize),
}

/// `PyDataMem_Handler`.
#[repr(C)]
pub struct DataMemHandler {
    pub name: [c_char; 127],
    pub version: u8,
    pub allocator: DataMemAllocator,
}

/// The name of every capsule that holds a handler.
pub const HANDLER_CAPSULE: &CStr = c"mem_handler";

/// ABI versions whose table is known: 1.x and 2.x.
pub const KNOWN_ABIS: [c_uint; 2] = [0x0100_0009, 0x0200_0000];

/// The API's version in NumPy 1.22, the first with handlers.
pub const FIRST_FEATURE: c_uint = 0x0f;

/// NumPy's table of functions (`_ARRAY_API`).
#[derive(Clone, Copy)]
pub struct Table(*const *mut c_void);

impl Table {
    /// The table of an extension module `_multiarray_umath`; None, without an exception, where it
    /// offers none. With the GIL.
    ///
    /// # Safety
    /// `extension` is a live object.
    pub unsafe fn of(extension: *mut PyObject) -> Option<Self> {
        // SAFETY: the GIL is held; the capsule has no name, as `import_array` expects too.
        unsafe {
            let capsule = ffi::PyObject_GetAttrString(extension, c"_ARRAY_API".as_ptr());
            let pointer = match capsule.is_null() {
                true => std::ptr::null_mut(),
                false => ffi::PyCapsule_GetPointer(capsule, std::ptr::null()),
            };
            ffi::PyErr_Clear();
            ffi::Py_XDECREF(capsule);
            (!pointer.is_null()).then_some(Table(pointer.cast()))
        }
    }

    /// # Safety
    /// A slot that the table has.
    unsafe fn slot(self, number: usize) -> *mut c_void {
        // SAFETY: the caller's duty.
        unsafe { *self.0.add(number) }
    }

    /// # Safety
    /// A slot that holds a function without arguments.
    unsafe fn number(self, slot: usize) -> c_uint {
        // SAFETY: the caller's duty.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_uint>(self.slot(slot))() }
    }

    /// `PyArray_GetNDArrayCVersion`.
    pub fn abi(self) -> c_uint {
        // SAFETY: slot 0 of every NumPy since 1.0; so every importer checks it.
        unsafe { self.number(0) }
    }

    /// `PyArray_GetNDArrayCFeatureVersion`; only where [`Table::abi`] is a known one.
    pub fn feature(self) -> c_uint {
        // SAFETY: slot 211 since NumPy 1.4.
        unsafe { self.number(211) }
    }

    /// `PyDataMem_SetHandler`: sets the handler of the current context and returns a new reference
    /// to the one before, or null with an exception. Only from [`FIRST_FEATURE`] on. With the GIL.
    ///
    /// # Safety
    /// A capsule of [`HANDLER_CAPSULE`].
    pub unsafe fn set_handler(self, capsule: *mut PyObject) -> *mut PyObject {
        type Set = extern "C" fn(*mut PyObject) -> *mut PyObject;
        // SAFETY: slot 304 since NumPy 1.22.
        unsafe { std::mem::transmute::<*mut c_void, Set>(self.slot(304))(capsule) }
    }

    /// Where NumPy keeps the default handler's capsule. Only from [`FIRST_FEATURE`] on.
    pub fn default_handler(self) -> *mut *mut PyObject {
        // SAFETY: slot 306 since NumPy 1.22.
        unsafe { self.slot(306).cast() }
    }
}
