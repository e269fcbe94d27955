//! Anonymous mappings that a library has made itself, such as the work space of a BLAS. They are recognised
//! by the library's own data, which holds their address.
//!
//! A mapping counts as a library's if a word of some library's writable data points to its first
//! memory page. Mappings that only the heap or a stack points to are not found.

use crate::process::maps::Memory;
use pyhost_os::mmap_vec::Array;
use std::ops::Range;

/// Mappings with less than this are not asked about.
pub const LEAST: u64 = 64 * 1024;

/// Bytes of a library's data that are read at most.
const MOST_READ: usize = 16 << 20;

/// A part of a mapping that nobody is known to own.
#[derive(Clone, Copy, Debug)]
pub struct Unclaimed {
    pub start: usize,
    pub resident: u64,
    /// Some library points to it.
    pub is_claimed: bool,
}

/// The resident bytes of the mappings that the data in `ranges` points to. Reads the data through `buffer`.
pub fn claimed(
    unclaimed: &mut [Unclaimed],
    ranges: &[Range<usize>],
    buffer: &mut [u8],
    page: usize,
) -> u64 {
    if unclaimed.is_empty() {
        return 0;
    }
    let Some(memory) = Memory::open() else {
        return 0;
    };
    unclaimed.sort_unstable_by_key(|mapping| mapping.start);
    for range in ranges {
        let mut address = range.start;
        let end = range.end.min(range.start + MOST_READ);
        while address < end {
            let wanted = buffer.len().min(end - address);
            let read = memory.read(address, &mut buffer[..wanted]);
            if read == 0 {
                break; // the library is gone
            }
            for word in buffer[..read].chunks_exact(size_of::<usize>()) {
                let word = usize::from_ne_bytes(word.try_into().unwrap_or_default());
                claim(unclaimed, word, page);
            }
            address += read;
        }
    }
    let claimed = unclaimed.iter().filter(|mapping| mapping.is_claimed);
    claimed.map(|mapping| mapping.resident).sum()
}

fn claim(unclaimed: &mut [Unclaimed], word: usize, page: usize) {
    let next = unclaimed.partition_point(|mapping| mapping.start <= word);
    if let Some(mapping) = next.checked_sub(1).and_then(|last| unclaimed.get_mut(last))
        && word - mapping.start < page
    {
        mapping.is_claimed = true;
    }
}

/// Notes a part that nobody is known to own.
pub fn note(unclaimed: &mut Array<'_, Unclaimed>, start: usize, resident: u64) {
    if resident >= LEAST {
        unclaimed.push(Unclaimed {
            start,
            resident,
            is_claimed: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_to_the_first_page_claims_a_mapping() {
        static POINTER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        POINTER.store(0x7000_0010, std::sync::atomic::Ordering::Relaxed);
        let unclaimed = |start| Unclaimed {
            start,
            resident: 100,
            is_claimed: false,
        };
        let mut all = [unclaimed(0x7100_0000), unclaimed(0x7000_0000)];
        let address = (&raw const POINTER).addr();
        let mut buffer = [0; 64];
        let range = address..address + 8;
        assert_eq!(claimed(&mut all, &[range], &mut buffer, 4096), 100);
        let mut far = [unclaimed(0x6fff_0000)];
        let range = address..address + 8;
        assert_eq!(claimed(&mut far, &[range], &mut buffer, 4096), 0);
    }
}
