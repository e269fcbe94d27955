//! Bytes outside of those that a block was asked for, and the pads that CPython's debug hooks lay there.

#![allow(unsafe_code)]

use crate::fills::FORBIDDEN;
use std::fmt;

/// Bytes that CPython's debug hooks have in front of a block and behind it (`_PyMem_DebugRawAlloc`, without serial numbers).
pub const HOOK: usize = 2 * HOOK_TAIL;
const HOOK_TAIL: usize = size_of::<usize>();
/// Both.
pub const HOOKS: usize = HOOK + HOOK_TAIL;

/// Bytes that were written where nobody may: how many, counted from the caller's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// So many before the start.
    Before(usize),
    /// So many past the end.
    Past(usize),
}

impl fmt::Display for Outside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, side) = match *self {
            Outside::Before(count) => (count, "before the start of"),
            Outside::Past(count) => (count, "past the end of"),
        };
        let plural = if count == 1 { "" } else { "s" };
        write!(out, "{count} byte{plural} {side}")
    }
}

/// The bytes that were asked for, of a block of `size` bytes that begins with the head of CPython's debug hooks.
///
/// # Safety
/// So many bytes from `start` on are readable.
pub unsafe fn asked_of_hooks(start: *const u8, size: usize) -> Option<usize> {
    let asked = size.checked_sub(HOOKS)?;
    // SAFETY: bytes of the block, which another thread may write to.
    let head: [u8; HOOK_TAIL + 1] =
        std::array::from_fn(|at| unsafe { start.add(at).read_volatile() });
    let (number, name) = head.split_first_chunk()?;
    let is_head = usize::from_be_bytes(*number) == asked && matches!(name, b"r" | b"m" | b"o");
    is_head.then_some(asked)
}

/// Bytes that were overwritten in the pads of CPython's debug hooks, which begin a block of `size` bytes and end it.
///
/// # Safety
/// So many bytes from `start` on are readable.
pub unsafe fn damage_of_hooks(start: *const u8, size: usize) -> Option<Outside> {
    if size < HOOKS {
        return None;
    }
    // SAFETY: the caller's promise; bytes of the block, which another thread may write to.
    let byte = |index| unsafe { start.add(index).read_volatile() };
    // SAFETY: as above.
    let asked = unsafe { asked_of_hooks(start, size) };
    let before = (HOOK_TAIL + 1..HOOK).find(|&at| byte(at) != FORBIDDEN);
    match (asked, before) {
        // A table beneath the hooks was called, or they have just begun to lay their pads.
        (None, Some(_)) => None,
        (None, None) => Some(Outside::Before(HOOK)),
        (Some(_), Some(first)) => Some(Outside::Before(HOOK - first)),
        (Some(asked), None) => {
            let end = HOOK + asked;
            let past = (end..end + HOOK_TAIL)
                .rev()
                .find(|&at| byte(at) != FORBIDDEN);
            past.map(|last| Outside::Past(last + 1 - end))
        }
    }
}
