//! The functions that the executable has in place of libc's.

pub mod native;
pub mod preload;
pub mod waits;
