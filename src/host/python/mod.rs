//! CPython: its allocators, its start and end, and the module `pyhost`.

pub mod domains;
pub mod dump;
mod executable;
pub mod extensions;
pub mod freelists;
mod gil;
pub mod handover;
pub mod imports;
pub mod interpreter;
pub mod interpreters;
pub mod module;
pub mod place;
mod pools;
pub mod surface;
pub mod text;
pub mod threads;
mod wrapped;

pub use gil::several as several_gils;
