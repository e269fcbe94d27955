//! The unit of the stored layout, which header and ledger share.

/// A page of any machine is a multiple of it, in bytes.
pub const UNIT: usize = 4096;
