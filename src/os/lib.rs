//! The system for the host and `pyhostctl`, and how they write text: nothing here knows of
//! accounts, Python, mimalloc or options.
//!
//! If a function allocates, its comment says so; every other one may be called from inside an
//! allocation or a signal handler.

pub mod array;
pub mod bytes;
pub mod calls;
pub mod cell;
pub mod clock;
pub mod descriptor;
pub mod duration;
pub mod errno;
pub mod file;
pub mod mapping;
pub mod mmap_vec;
pub mod path_template;
pub mod process;
pub mod reserve;
pub mod sanitizers;
pub mod semicolon_list;
pub mod signals;
pub mod socket;
pub mod strings;
pub mod system_call;
pub mod terminal_text;
