//! The files that hosts write for other programs, and their readers: a [`Record`] and its file, the
//! directory of such files, the parts of a report that need only the ledger, metrics, checks of output
//! paths, whose code a file of Python is, and what a thread does.
//!
//! The host and `pyhostctl` share it. It depends on neither Python nor mimalloc nor options.

pub mod archive;
pub mod describe;
pub mod directory;
mod file;
pub mod json;
pub mod lines;
pub mod metrics;
pub mod origin;
pub mod output;
pub mod rows;
pub mod sampled;
pub mod table;
pub mod threads;

pub use file::{
    Cap, Killed, Record, SIZE, Unreadable, begins, blank, open, open_regular, read_regular,
    start_in_file, was_killed,
};
