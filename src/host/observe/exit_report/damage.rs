//! Blocks that were written to where or when nobody may (`--debug-hooks`, `--guard`), as they are found at the end of the process.

use crate::check::stacks::{self, Text};
use crate::heap::checked_blocks;
use pyhost_os::calls;
use std::fmt::Write;

/// Lines that are written at most.
const MOST: usize = 10;

/// Looks at every checked or guarded block that lives or waits to be used again. Ends the process if one is damaged, as a `free` of it
/// would, with a line for each. In the process that the report is of, after Python's end or not.
pub fn look(is_finalized: bool) {
    let mut count = 0;
    let mut text = None;
    checked_blocks::each_damaged(is_finalized, |damage| {
        let out = text.get_or_insert_with(|| Text::begin(libc::STDERR_FILENO));
        count += 1;
        if count <= MOST {
            let (made, freed) = damage.call_sites();
            let _ = writeln!(out, "pyhost: at the end: {damage}");
            let _ = stacks::write_origins(out, made.calls, freed.calls);
        }
    });
    let Some(mut text) = text else {
        return;
    };
    if count > MOST {
        let _ = writeln!(text, "pyhost: at the end: {} more", count - MOST);
    }
    text.finish();
    calls::fflush(None); // what the program's own streams hold
    std::process::abort();
}
