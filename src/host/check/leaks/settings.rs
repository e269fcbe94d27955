//! The value of `--leak-check`.

/// Which accounts are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    /// None.
    #[default]
    Off = 0,
    /// CPython's three domains and NumPy's array data.
    Python = 1,
    /// Those and the process's malloc.
    Native = 2,
}

/// The exit status of a leak if none is chosen.
pub const DEFAULT_STATUS: u8 = 23;
