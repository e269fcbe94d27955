//! Which lines of Python allocated (`--lines`): starts the samples of the heap.

mod settings;

pub use settings::LineSettings;

use crate::heap;
use crate::heap::sampling;
use crate::libc_exports::native::Mode;

/// Begins to sample. Once, after the heaps were made, while the process has one thread. Returns the reason if it
/// cannot: nothing is sampled.
pub fn start(settings: LineSettings, native: Mode) -> Result<(), &'static str> {
    let LineSettings::Every { interval, seed } = settings else {
        return Ok(());
    };
    if native == Mode::Off {
        return Err("malloc is left to another allocator");
    }
    match sampling::start(interval, seed) {
        true => Ok(()),
        false => Err("mimalloc gives no heap"),
    }
}

/// Begins to sample anew, while the script runs; false if malloc is left to another allocator or there is no memory.
pub fn begin(interval: u64) -> bool {
    heap::has_heaps() && sampling::start(interval, None)
}
