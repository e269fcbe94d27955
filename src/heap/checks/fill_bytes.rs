//! The bytes of CPython's debug hooks (`Objects/obmalloc.c`), which the host's pads and fills have, too.

/// Around a block.
pub const FORBIDDEN: u8 = 0xfd;
/// In a new block.
pub const FRESH: u8 = 0xcd;
/// In a freed one.
pub const DEAD: u8 = 0xdd;
