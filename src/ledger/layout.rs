//! The stored layout, which header and ledger share: its unit, and structures of atomics that begin as zeros.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

/// A page of any machine is a multiple of it, in bytes.
pub const UNIT: usize = 4096;

/// A type of atomics alone.
#[allow(
    clippy::declare_interior_mutable_const,
    reason = "each use is a new value"
)]
pub trait Zeros {
    /// The value whose bytes are all zero.
    const ZEROS: Self;
}

macro_rules! zeros {
    ($($type:ty),*) => {
        $(impl Zeros for $type {
            const ZEROS: Self = <$type>::new(0);
        })*
    };
}

zeros!(AtomicI32, AtomicI64, AtomicU32, AtomicU64);

impl<T: Zeros, const N: usize> Zeros for [T; N] {
    const ZEROS: Self = [T::ZEROS; N];
}

/// Declares a structure of such types.
macro_rules! stored {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$of_field:meta])* $field_vis:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $name { $($(#[$of_field])* $field_vis $field: $type,)* }

        impl $crate::layout::Zeros for $name {
            const ZEROS: Self = $name { $($field: <$type as $crate::layout::Zeros>::ZEROS,)* };
        }
    };
}
pub(crate) use stored;
