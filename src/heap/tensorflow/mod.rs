//! TensorFlow's allocators on the heap: `--numpy pool` and `--numpy bfc`. The allocators themselves are plain data of
//! [`pyhost_tensorflow`]; here are their locks, their bookings and what they ask of the heap and of the system.
//!
//! A lock is held inside the [`gate`](crate::mimalloc::gate), so that a forked child finds it free, and nothing is allocated under it. Any
//! thread, without the GIL.

pub mod pool;
pub mod region;
