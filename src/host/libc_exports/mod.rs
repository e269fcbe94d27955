//! The functions that the executable has in place of libc's: all of `exports.txt`.

mod assembly;
mod child_processes;
pub mod idle_return;
pub mod native;
pub mod preload;
mod process_end;
