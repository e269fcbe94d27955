//! The names of source files by number, so that a record needs two bytes for one. The table only grows; a name that finds no
//! room has the number of no name.

use crate::call_site::source_line::{FILE, SourceLine};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// The number of a name; 0 of none.
pub type FileNumber = u16;

const ROOM: usize = 4096;
/// Places that are looked at for a name.
const TRIES: usize = 64;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

struct Entry {
    /// [`FREE`], [`TAKEN`] while it is written, or a hash.
    state: AtomicU32,
    length: AtomicU8,
    name: [AtomicU8; FILE],
}

/// A place that was looked up. Racing writers leave an entry whose words do not belong together, which nobody takes for one.
struct Known {
    /// The spot, combined with the value.
    check: AtomicU64,
    /// The file's number and the line; the highest bit is set.
    value: AtomicU64,
}

pyhost_os::state! {
    /// The names, and the places that were looked up lately. All zeros, so the file has none of it.
    static STATE: FileNames {
        names: [Entry; ROOM] = [const {
            Entry {
                state: AtomicU32::new(FREE),
                length: AtomicU8::new(0),
                name: [const { AtomicU8::new(0) }; FILE],
            }
        }; ROOM],
        places: [Known; 1024] = [const {
            Known {
                check: AtomicU64::new(0),
                value: AtomicU64::new(0),
            }
        }; 1024],
    }
}

fn entry_of(spot: u64) -> &'static Known {
    &STATE.places[(spot >> 8) as usize % STATE.places.len()]
}

/// The place of a spot, if [`keep`] was called for it lately.
pub fn known(spot: u64) -> Option<(FileNumber, i32)> {
    let entry = entry_of(spot);
    let value = entry.value.load(Relaxed);
    let is_it = value >> 63 == 1 && entry.check.load(Relaxed) ^ value == spot;
    is_it.then_some(((value >> 32) as FileNumber, value as i32))
}

/// Keeps the place of a spot.
pub fn keep(spot: u64, (file, line): (FileNumber, i32)) {
    let entry = entry_of(spot);
    let value = 1 << 63 | u64::from(file) << 32 | u64::from(line as u32);
    entry.value.store(value, Relaxed);
    entry.check.store(spot ^ value, Relaxed);
}

fn hash(name: &[u8]) -> u32 {
    // FNV-1a (Fowler, Noll, Vo).
    let hash = name.iter().fold(0x811c_9dc5_u32, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(2)
}

/// The number of a name, which is kept if it is new.
pub fn number(name: &[u8]) -> FileNumber {
    if name.is_empty() || name.len() > FILE {
        return 0;
    }
    let hash = hash(name);
    for step in 0..TRIES {
        let index = (hash as usize + step) % ROOM;
        if index == 0 {
            continue;
        }
        let entry = &STATE.names[index];
        let state = entry.state.load(Acquire);
        if state == hash && is_name(entry, name) {
            return index as FileNumber;
        }
        let take = || (entry.state).compare_exchange(FREE, TAKEN, Acquire, Relaxed);
        if state == FREE && take().is_ok() {
            for (to, &from) in entry.name.iter().zip(name) {
                to.store(from, Relaxed);
            }
            entry.length.store(name.len() as u8, Relaxed);
            entry.state.store(hash, Release);
            return index as FileNumber;
        }
    }
    0
}

fn is_name(entry: &Entry, name: &[u8]) -> bool {
    let mut pairs = entry.name.iter().zip(name);
    usize::from(entry.length.load(Relaxed)) == name.len()
        && pairs.all(|(kept, &byte)| kept.load(Relaxed) == byte)
}

/// The line of a file.
pub fn source(number: FileNumber, line: i32) -> SourceLine {
    let mut file = [0; FILE];
    let Some(entry) = STATE.names.get(usize::from(number)).filter(|_| number != 0) else {
        return SourceLine::NONE;
    };
    for (to, from) in file.iter_mut().zip(&entry.name) {
        *to = from.load(Relaxed);
    }
    SourceLine::of_parts(file, usize::from(entry.length.load(Relaxed)), line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_number_and_comes_back_by_it() {
        let first = number(b"/somewhere/a.py");
        assert_ne!(first, 0);
        assert_eq!(number(b"/somewhere/a.py"), first);
        assert_ne!(number(b"/somewhere/b.py"), first);
        assert_eq!(source(first, 7).to_string(), "/somewhere/a.py:7");
        assert_eq!((number(b""), source(0, 7).file()), (0, ""));
    }

    #[test]
    fn a_spot_is_known_until_another_takes_its_place() {
        let (spot, other) = (0x1234_5678, 0x1234_5678 | 1 << 40);
        assert_eq!(known(spot), None);
        keep(spot, (7, -1));
        assert_eq!((known(spot), known(other)), (Some((7, -1)), None));
        keep(other, (8, 3));
        assert_eq!((known(spot), known(other)), (None, Some((8, 3))));
    }
}
