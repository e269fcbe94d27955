//! CPython: its allocators, its start and end, its frames.

pub mod domains;
pub mod dump;
mod executable;
pub mod extensions;
pub mod freelists;
pub mod functions;
mod gil;
pub mod imports;
pub mod interpreter;
pub mod interpreters;
pub mod native_calls;
pub mod objects;
pub mod place;
mod pools;
pub mod surface;
pub mod threads;
pub mod version;
mod watched;
mod wrapped;

pub use gil::several as several_gils;

/// Whether this Python has no global interpreter lock (PEP 703).
pub const IS_FREE_THREADED: bool = cfg!(Py_GIL_DISABLED);
