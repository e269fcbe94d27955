//! What finds errors: of the script's native code (guard pages, checked blocks, double frees), leaks, and errors of the ledger.

pub mod checked_blocks;
pub mod checked_requests;
pub mod double_free;
pub mod families;
pub mod fill_bytes;
pub mod guards;
pub mod heap_walk;
pub mod leak_mark;
pub mod live_objects;
pub mod out_of_bounds;
