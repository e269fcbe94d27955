//! The memory that the heaps take from the system: at which addresses, how much, and when it goes back.

pub mod address_limit;
pub mod leak_check_addresses;
pub mod mremap_grow;
pub mod retention;
pub mod small_pages;
pub mod wrapped_calls;
