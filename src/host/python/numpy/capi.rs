//! The part of NumPy's C API that is used: the structures of NEP 49, with the functions that NumPy is given, and a few
//! slots of its table.
//!
//! `numpy/ndarraytypes.h` and `numpy/__multiarray_api.h`; the slots are the same from 1.22 to
//! 2.5. The `numpy` crate leaves them out, and imports NumPy itself.

#![allow(unsafe_code)]

use super::stores::Store;
use crate::cpython::functions::Pointer;
use crate::cpython::objects::{Gil, Object, Owned, Returned, or_none};
use derive_more::Display;
use pyo3::ffi::{self, PyObject};
use std::ffi::{CStr, c_char, c_uint};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// `PyDataMemAllocator`. The `size` that `free` gets is NumPy's guess.
#[repr(C)]
pub struct DataMemAllocator {
    pub ctx: Pointer,
    pub malloc: extern "C" fn(Pointer, usize) -> Pointer,
    pub calloc: extern "C" fn(Pointer, usize, usize) -> Pointer,
    pub realloc: unsafe extern "C" fn(Pointer, Pointer, usize) -> Pointer,
    pub free: unsafe extern "C" fn(Pointer, Pointer, usize),
}

#[repr(C)]
pub struct DataMemHandler {
    pub name: [c_char; 127],
    pub version: u8,
    pub allocator: DataMemAllocator,
}

// SAFETY: functions, and a context that threads share; only read.
unsafe impl Send for DataMemHandler {}
// SAFETY: as above.
unsafe impl Sync for DataMemHandler {}

/// The handler's name, as `get_handler_name` returns it.
const NAME: &str = "pyhost";

// NumPy calls these from any thread, `realloc` without the GIL too, and after Python's `atexit` functions. It frees null, and
// passes `free` a size that is not the one it asked for. NumPy itself reports to tracemalloc around them. Failure is null,
// and NumPy raises.

extern "C" fn malloc<S: Store>(_ctx: Pointer, size: usize) -> Pointer {
    S::allocate::<false>(size).cast()
}

extern "C" fn calloc<S: Store>(_ctx: Pointer, count: usize, size: usize) -> Pointer {
    let found = count.checked_mul(size);
    found.map_or(null_mut(), |bytes| S::allocate::<true>(bytes).cast())
}

unsafe extern "C" fn realloc<S: Store>(_ctx: Pointer, pointer: Pointer, size: usize) -> Pointer {
    // SAFETY: NumPy passes a live block of this handler, or null.
    unsafe { S::REALLOCATE(pointer.cast(), size).cast() }
}

unsafe extern "C" fn free<S: Store>(_ctx: Pointer, pointer: Pointer, _guess: usize) {
    // SAFETY: NumPy passes a live block of this handler, or null.
    unsafe { S::FREE(pointer.cast()) };
}

/// The handler over `S`. `ctx` says to a reader of the table whose it is.
pub fn handler_over<S: Store>(ctx: Pointer) -> DataMemHandler {
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

/// The name of every capsule that holds a handler.
pub const HANDLER_CAPSULE: &CStr = c"mem_handler";

/// ABI versions whose table is known: 1.x and 2.x.
const KNOWN_ABIS: [c_uint; 2] = [0x0100_0009, 0x0200_0000];

/// The API's version in NumPy 1.22, the first with handlers.
const FIRST_FEATURE: c_uint = 0x0f;

/// Why a NumPy is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum UnsupportedNumpy {
    /// Before 1.22 there are no handlers.
    #[display("it has no data handlers (NEP 49), as NumPy has from 1.22 on")]
    TooOld,
    /// No table, or one of another ABI.
    #[display("its table of functions is not one that is known")]
    UnknownTable,
    /// The default handler or its context variable is not where it was in 1.22 to 2.5.
    #[display("its default data handler is not where it was up to 2.5")]
    UnknownDefault,
}

/// What is used of NumPy's table of functions (`_ARRAY_API`), with data handlers.
pub struct Table {
    /// `PyDataMem_SetHandler`: returns a new reference, or null with an exception.
    set_handler: SetHandler,
    /// Where NumPy keeps the default handler's capsule, for ever.
    default_handler: &'static AtomicPtr<PyObject>,
}

type SetHandler = extern "C" fn(*mut PyObject) -> *mut PyObject;

impl Table {
    /// The table of an extension module `_multiarray_umath` that has data handlers.
    pub fn of(extension: &Object<'_>) -> Result<Self, UnsupportedNumpy> {
        // It has no name, as `import_array` expects too.
        let capsule = extension.attribute(c"_ARRAY_API");
        let pointer = or_none(capsule.and_then(|capsule| capsule.capsule(None)));
        let table = pointer.ok_or(UnsupportedNumpy::UnknownTable)?;
        let table = table.cast::<Pointer>();
        type Version = extern "C" fn() -> c_uint;
        // SAFETY: `PyArray_GetNDArrayCVersion` is slot 0 of every NumPy since 1.0; so every importer checks it. Of the
        // known ABIs `PyArray_GetNDArrayCFeatureVersion` is slot 211 since NumPy 1.4, and since 1.22 304 is
        // the function that the structure has and 306 the address of a static of NumPy's, or they are null.
        unsafe {
            if !KNOWN_ABIS.contains(&table.cast::<Version>().read()()) {
                return Err(UnsupportedNumpy::UnknownTable);
            }
            if table.add(211).cast::<Version>().read()() < FIRST_FEATURE {
                return Err(UnsupportedNumpy::TooOld);
            }
            let set_handler = table.add(304).cast::<Option<SetHandler>>().read();
            let default_handler = table.add(306).cast::<Option<&AtomicPtr<_>>>().read();
            Ok(Table {
                set_handler: set_handler.ok_or(UnsupportedNumpy::UnknownDefault)?,
                default_handler: default_handler.ok_or(UnsupportedNumpy::UnknownDefault)?,
            })
        }
    }

    /// Sets the handler of the current context and returns the one before. An error if the object is no capsule of
    /// [`HANDLER_CAPSULE`].
    pub fn set_handler<'a>(&self, capsule: &Object<'a>) -> Returned<'a> {
        capsule.capsule(Some(HANDLER_CAPSULE))?;
        // SAFETY: a new reference, or null.
        unsafe { capsule.gil().owned((self.set_handler)(capsule.pointer())) }
    }
    pub fn default_handler<'a>(&self, gil: Gil<'a>) -> Option<&'a Object<'a>> {
        // SAFETY: null, or the capsule that NumPy keeps there.
        unsafe { gil.borrowed(self.default_handler.load(Relaxed)) }
    }

    /// The two places of a default handler's capsule: NumPy's own, and the one word of a context variable that holds it.
    pub fn places(
        &self,
        variable: Owned<'_>,
        default: &Object<'_>,
    ) -> Option<[&'static AtomicPtr<PyObject>; 2]> {
        // The result outlives it.
        let variable = variable.keep().get(default.gil()).pointer();
        // SAFETY: the words of the object, whose size its type has.
        unsafe {
            if ffi::PyContextVar_CheckExact(variable) == 0 {
                return None;
            }
            let words = (*ffi::Py_TYPE(variable)).tp_basicsize as usize / size_of::<usize>();
            let header = size_of::<PyObject>() / size_of::<usize>();
            let mut hits = (header..words)
                .map(|index| &*variable.cast::<AtomicPtr<PyObject>>().add(index))
                .filter(|word| std::ptr::eq(word.load(Relaxed), default.pointer()));
            match (hits.next(), hits.next()) {
                (Some(word), None) => Some([word, self.default_handler]),
                _ => None,
            }
        }
    }
}
