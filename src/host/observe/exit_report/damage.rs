//! Signs of damage: blocks that were written to where or when nobody may (`--debug-hooks`, `--guard`), as they are found at the
//! end of the process; and pointers that are no pointers but bytes of the debug hooks, at a fault.

use crate::check::stacks::{self, Text};
use crate::heap::checked_blocks;
use crate::heap::fill_bytes::{DEAD, FORBIDDEN, FRESH};
use pyhost_os::calls;
use std::fmt::{self, Write};

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
    let Some(mut text) = text else { return };
    if count > MOST {
        let _ = writeln!(text, "pyhost: at the end: {} more", count - MOST);
    }
    text.finish();
    calls::fflush(None); // what the program's own streams hold
    std::process::abort();
}

/// A register that has bytes of the hooks alone, but for a small distance that was added. As an address of 64 bits that is of
/// no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    register: usize,
    fill: u8,
}

/// Members of a structure are this near.
const NEAR: usize = 64 << 10;

impl Filled {
    /// The first such register.
    pub fn among(registers: impl IntoIterator<Item = usize>) -> Option<Self> {
        let of = |register: usize| {
            let is_near = |fill: &u8| {
                let address = usize::from_ne_bytes([*fill; size_of::<usize>()]);
                register.wrapping_sub(address).wrapping_add(NEAR) < 2 * NEAR
            };
            let fill = [DEAD, FRESH, FORBIDDEN].into_iter().find(is_near)?;
            Some(Filled { register, fill })
        };
        registers.into_iter().find_map(of)
    }
}

impl fmt::Display for Filled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, place) = match self.fill {
            DEAD => ("freed memory", "over a freed block"),
            FRESH => ("memory that nobody has written to", "into a new block"),
            _ => ("memory outside a block", "around each block"),
        };
        write!(
            out,
            "access to no memory, probably by a pointer that was read from {source}: a register has {:#x}, and the debug hooks \
             write {:#x} {place}",
            self.register, self.fill
        )
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;

    #[test]
    fn a_register_near_a_fill_is_named_with_what_the_fill_means() {
        for (register, words) in [
            (0xdddd_dddd_dddd_dddd, Some("freed memory")),
            (0xdddd_dddd_dddd_ddf5, Some("freed memory")),
            (0xdddd_dddd_dddd_d000, Some("freed memory")),
            (0xcdcd_cdcd_cdcd_cdcd, Some("nobody has written to")),
            (0xfdfd_fdfd_fdfd_fe25, Some("outside a block")),
            (0xdddd_dddd_dede_dddd, None),
            (0xdddd_dddd, None),
            (0x7fff_ffff_d000, None),
        ] {
            let text = Filled::among([1, register, 2]).map(|filled| filled.to_string());
            match (words, text) {
                (None, text) => assert_eq!(text, None),
                (Some(words), text) => assert!(text.unwrap().contains(words)),
            }
        }
    }
}
