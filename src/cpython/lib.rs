//! CPython, as far as the host must know its insides: objects and functions without macros, frames, free lists, threads.
//!
//! Depends on `pyo3`'s ffi alone. What may be called without the GIL, or inside the allocator, says so.

pub mod contexts;
pub mod dump;
pub mod frames;
pub mod freelists;
pub mod functions;
pub mod imports;
pub mod layout;
pub mod native_calls;
pub mod objects;
pub mod pools;
pub mod threads;
pub mod waiting;

use pyhost_heap as heap;
pub use threads::several_gils;

/// Whether this Python has no global interpreter lock (PEP 703).
pub const IS_FREE_THREADED: bool = cfg!(Py_GIL_DISABLED);
