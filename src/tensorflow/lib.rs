//! TensorFlow's allocators as plain data, without a heap: [`bfc`], best fit with coalescing, and [`pool`], which keeps freed
//! blocks.

pub mod bfc;
pub mod pool;
