//! Blocks that were written to where or when nobody may (`--debug-hooks`), as they are found at the end of the process.

#![allow(unsafe_code)]

use crate::descriptor::notice;
use crate::heap::checked;

/// Lines that are written at most.
const MOST: usize = 10;

/// Looks at every checked block that lives or waits to be used again. Ends the process if one is damaged, as a `free` of it
/// would, with a line for each. In the process that the report is of, after Python's end or not.
pub fn look(is_finalized: bool) {
    let mut count = 0;
    checked::each_damaged(is_finalized, |damage| {
        count += 1;
        if count <= MOST {
            notice(format_args!("at the end: {damage}"));
        }
    });
    if count > MOST {
        notice(format_args!("at the end: {} more", count - MOST));
    }
    if count > 0 {
        // SAFETY: writes what the program's own streams hold; null stands for all.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        std::process::abort();
    }
}
