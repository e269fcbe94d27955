//! What hosts leave for others to read, and how it is read: a [`Record`] from its file, the directory
//! of such files, the parts of a report that the ledger alone makes, metrics, and where output may go.
//!
//! The host and `pyhostctl` share it. Nothing here knows of Python, mimalloc or options.

pub mod describe;
pub mod directory;
mod file;
pub mod json;
pub mod metrics;
pub mod output;

pub use file::{Cap, Record, SIZE, Unreadable, begins, blank, start_in_file};
