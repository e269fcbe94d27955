//! Where heaps lie under `--leak-check`: at addresses that data seldom looks like.
//!
//! The check takes a word that leads into a block for a pointer. mimalloc asks for addresses from 2 to 6 TiB, so
//! the upper half of a pointer is a number from 512 to 1535, and the lower half is small too if the block lies
//! just above a multiple of 4 GiB. Two such numbers stand side by side in tables of libraries (libbz2 has one of
//! 512), and a lost block that they lead to counted as reached. The addresses here have a larger upper half and
//! keep off the multiples of 4 GiB.
//!
//! Of all upper halves those from 0x7b00 to 0x7cff were the rarest in the data of CPython with its extension
//! modules: no word but 10 with a small lower half, while 0x1100 to 0x12ff have 283. The letters of ASCII are
//! common as the highest byte, and above 0x7e00 lies what the kernel maps, with old pointers to it.
//!
//! The addresses are wishes: if the kernel has no such (39 bits on ARM64) or they are taken, heaps lie where
//! they would without the check.

use pyhost_os::system_call::fill_with_random;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The addresses that share an upper half.
const SPAN: u64 = 4 << 30;
/// Bytes left out at both ends of each span: lower halves that are small numbers, signed or unsigned.
const EDGE: u64 = 512 << 20;
const UPPER: std::ops::Range<u64> = 0x7b00..0x7d00;
/// The addresses that mimalloc asks for (`MI_HINT_BASE`, `MI_HINT_MAX`).
const WISHES: std::ops::Range<u64> = 2 << 40..31 << 40;
/// The alignment of the addresses that mimalloc asks for, and the gap between two (`MI_HINT_ALIGN`).
const ALIGNMENT: u64 = 4 << 20;

/// The next address; 0 if heaps lie where mimalloc wants them.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Places the heaps from here on. Before mimalloc's first request; allocates nothing.
pub fn start() {
    let mut random = [0u8; 2];
    fill_with_random(&mut random); // without, the first addresses do
    // The other half is for those that follow.
    let half = (UPPER.end - UPPER.start) / 2;
    let upper = UPPER.start + u64::from(u16::from_ne_bytes(random)) % half;
    NEXT.store(upper * SPAN + EDGE, Relaxed);
}

/// The first address from `next` on for `size` bytes.
fn fit(next: u64, size: u64) -> Option<u64> {
    let low = next % SPAN;
    if size > SPAN - 2 * EDGE {
        return None;
    }
    let start = match low + size <= SPAN - EDGE {
        true => next,
        false => next - low + SPAN + EDGE,
    };
    (start / SPAN < UPPER.end).then_some(start)
}

/// An address to ask the kernel for `size` bytes at; None if heaps lie anywhere, as with addresses of 32 bits.
pub fn wish(size: usize) -> Option<usize> {
    let size = size as u64;
    let place = |next| match next {
        0 => None,
        _ => fit(next, size),
    };
    let taken = NEXT.fetch_update(Relaxed, Relaxed, |next| {
        Some(place(next)? + size.next_multiple_of(ALIGNMENT) + ALIGNMENT)
    });
    usize::try_from(taken.ok().and_then(place)?).ok()
}

/// Whether mimalloc asks for an arena at this address.
pub(crate) fn is_wish(start: usize) -> bool {
    WISHES.contains(&(start as u64))
}

/// Whether an address is one at which the kernel maps nothing unless it is asked to, so that it needs no map to be kept: one
/// of the wishes, if the kernel's own lie above them, as its stacks do.
pub(crate) fn is_kept(start: *mut u8) -> bool {
    let here = 0u8;
    let start = start.addr() as u64;
    let is_apart = (UPPER.start * SPAN..UPPER.end * SPAN).contains(&start);
    (is_apart || WISHES.contains(&start)) && (&raw const here).addr() as u64 > UPPER.end * SPAN
}

/// The address to ask the kernel for when an object of the executable asks for `start`.
pub fn place(start: usize, size: usize, flags: c_int) -> usize {
    let is_fixed = flags & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    match !is_fixed && WISHES.contains(&(start as u64)) {
        true => wish(size).unwrap_or(start),
        false => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heaps_keep_off_the_multiples_of_4_gib() {
        let mut next = UPPER.start * SPAN + EDGE;
        for size in [64 << 20, 1 << 30, 2 << 30, 3 << 30, 4096, 64 << 20] {
            let start = fit(next, size).unwrap();
            assert!(start >= next && start.is_multiple_of(ALIGNMENT));
            assert!(start % SPAN >= EDGE && start % SPAN + size <= SPAN - EDGE);
            next = start + size.next_multiple_of(ALIGNMENT) + ALIGNMENT;
        }
        assert_eq!(fit(next, (3 << 30) + 1), None);
        assert_eq!(fit(UPPER.end * SPAN, 4096), None);
    }
}
