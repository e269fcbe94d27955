//! Which lines of Python allocated (`--lines`): starts the samples of the heap.

mod settings;

pub use settings::LineSettings;

use crate::heap::sampling;
use crate::native::Mode;
use pyhost_os::{moment, process};

/// Begins to sample. Once, after the heaps were made, while the process has one thread. Returns the reason if it
/// cannot: nothing is sampled.
pub fn start(settings: LineSettings, native: Mode) -> Result<(), &'static str> {
    let LineSettings::Every { interval, seed } = settings else {
        return Ok(());
    };
    if native == Mode::Off {
        return Err("malloc is left to another allocator");
    }
    let seed = seed.unwrap_or_else(|| moment::monotonic() ^ (process::id() as u64) << 40);
    match sampling::start(interval, seed) {
        true => Ok(()),
        false => Err("mimalloc gives no heap"),
    }
}
