//! What differs by version of CPython. A new version is read and added here, and in `frames.h`, whose structures are read in C.
//!
//! Other code asks for what the version does, by a name of this file, and not for its number.

pub mod mimalloc_pages;
pub mod objects_in_blocks;

use pyo3::ffi::PyModuleDef_Slot;
use std::{ffi::CStr, ptr::null_mut};

const WORD: usize = size_of::<usize>();

/// `POOL_SIZE`: 16 KiB with the radix tree of 3.10 and later, before it 4 KiB, which CPython takes
/// for a page whatever the kernel's is, as in all builds of 32 bits.
pub const POOL_SIZE: usize = if cfg!(all(Py_3_10, target_pointer_width = "64")) {
    16 * 1024
} else {
    4096
};
/// Offset of `szidx` in `struct pool_header`.
pub const SIZE_INDEX_OFFSET: usize = 4 * size_of::<usize>() + 4;
/// `ALIGNMENT`: the step between size classes.
pub const CLASS_STEP: usize = 2 * size_of::<usize>();

/// Flags of types whose objects have two more words before the collector's: `_Py_TPFLAGS_MANAGED_DICT`, and from 3.12 on
/// `Py_TPFLAGS_MANAGED_WEAKREF`.
const PRE_HEADER: u64 = if cfg!(Py_3_12) {
    1 << 4 | 1 << 3
} else if cfg!(Py_3_11) {
    1 << 4
} else {
    0
};

/// Whether objects are immortal (PEP 683), and the interned strings are forgotten at finalisation without being freed.
const KEEPS_IMMORTALS: bool = cfg!(Py_3_12);

/// Whether an interpreter beside the main one may have a GIL of its own (PEP 684).
pub const INTERPRETERS_HAVE_GILS: bool = cfg!(Py_3_12);

/// What Python loads to print an error: from 3.13 on `traceback`, and some 25 modules behind these (3.15: `_colorize` lazily).
pub const MODULES_OF_ERRORS: &[&CStr] = if cfg!(Py_3_13) {
    &[
        c"traceback",
        c"ast",
        c"tokenize",
        c"unicodedata",
        c"_colorize",
    ]
} else {
    &[]
};

/// The end of a module's slots.
pub const END_OF_SLOTS: PyModuleDef_Slot = PyModuleDef_Slot {
    slot: 0,
    value: null_mut(),
};

/// What a version wants to know of a module, each [`END_OF_SLOTS`] if it asks nothing.
pub const MODULE_SLOTS: [PyModuleDef_Slot; 2] = [
    #[cfg(Py_3_12)]
    PyModuleDef_Slot {
        slot: pyo3::ffi::Py_mod_multiple_interpreters,
        value: pyo3::ffi::Py_MOD_PER_INTERPRETER_GIL_SUPPORTED,
    },
    #[cfg(Py_3_13)]
    PyModuleDef_Slot {
        slot: pyo3::ffi::Py_mod_gil,
        value: pyo3::ffi::Py_MOD_GIL_NOT_USED,
    },
    #[cfg(not(Py_3_12))]
    END_OF_SLOTS,
    #[cfg(not(Py_3_13))]
    END_OF_SLOTS,
];

/// Why caps are not safe with a Python of this version, such as 3.15.1, and what to do.
pub fn unsafe_caps(version: &str, is_free_threaded: bool) -> Option<&'static str> {
    let bugfix = version.strip_prefix("3.15.").map(|rest| {
        let end = rest.find(|digit: char| !digit.is_ascii_digit());
        &rest[..end.unwrap_or(rest.len())]
    });
    if is_free_threaded {
        Some(
            "a free-threaded Python may crash when a list is refused its array; expected one with a global interpreter lock",
        )
    } else if matches!(bugfix, Some("0" | "1")) {
        Some(
            "CPython 3.15.0 and 3.15.1 may crash when a list is refused room for another item; expected 3.15.2 or newer",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_are_unsafe_with_two_versions_and_without_a_lock() {
        for version in ["3.15.0", "3.15.0rc1", "3.15.1", "3.15.1+"] {
            assert!(unsafe_caps(version, false).unwrap().contains("3.15.2"));
        }
        for version in ["3.15.2", "3.15.10", "3.14.0", "3.1.15"] {
            assert_eq!(unsafe_caps(version, false), None);
        }
        let of_any = unsafe_caps("3.13.0", true).unwrap();
        assert!(of_any.contains("free-threaded"));
    }
}
