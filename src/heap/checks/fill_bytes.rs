//! The bytes of CPython's debug hooks (`Objects/obmalloc.c`), which the host's pads and fills have, too.

/// Around a block.
pub const FORBIDDEN: u8 = 0xfd;
/// In a new block.
pub const FRESH: u8 = 0xcd;
/// In a freed one.
pub const DEAD: u8 = 0xdd;

/// Whether all bytes of a piece of a block are `value`, which another thread may write to. By words, since the quarantine is
/// long.
pub fn is_filled(bytes: *const [u8], value: u8) -> bool {
    let (start, length) = (bytes.cast::<u8>(), bytes.len());
    let word = u64::from_ne_bytes([value; 8]);
    // SAFETY: bytes of a block.
    unsafe {
        let is_word = |at: usize| start.add(at).cast::<u64>().read_unaligned() == word;
        let words = length / 8 * 8;
        (0..words).step_by(8).all(is_word)
            && (words..length).all(|at| start.add(at).read_volatile() == value)
    }
}
