//! CPython and NumPy under the host: hooks, start and end, `import pyhost`.

pub mod hooks;
pub mod interpreter;
pub mod memray;
pub mod module;
pub mod numpy;
