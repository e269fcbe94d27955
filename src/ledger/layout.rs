//! The unit of the stored layout, which card and ledger share.

/// A page of any machine is a multiple of it, in bytes.
pub const UNIT: usize = 4096;
