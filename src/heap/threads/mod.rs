//! What the heaps keep for each thread, from its first request to its end.

pub mod thread_exit;
pub mod thread_names;
pub mod thread_pointers;
pub mod thread_state;
