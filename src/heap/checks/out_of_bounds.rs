//! Bytes outside of those that a program has asked for, and the pads that CPython's debug hooks lay there.

use crate::{checks::fill_bytes::FORBIDDEN, ledger::Account};
use derive_more::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::Release};

/// Whether CPython's debug hooks lie over the blocks of its domains.
static HOOKS_ON: AtomicBool = AtomicBool::new(false);

/// They do from here on. Before Python is initialised.
pub fn put_hooks_on() {
    HOOKS_ON.store(true, Release);
}

/// Whether they do.
pub(crate) fn hooks_are_on() -> bool {
    HOOKS_ON.load(Relaxed)
}

/// Whether a function of CPython's allocates the blocks of an account.
pub(crate) fn is_domain(account: Account) -> bool {
    matches!(account, Account::Raw | Account::Mem | Account::Obj)
}

/// Bytes of the hooks in front of the program's own in a block of an account, and all of theirs.
pub(crate) fn hooks_of(account: Account) -> (usize, usize) {
    match hooks_are_on() && is_domain(account) {
        true => (HOOK, HOOKS),
        false => (0, 0),
    }
}

/// The bytes that a program has asked for, of a block of an account that has `size` bytes with those of the hooks.
pub fn asked_of(account: Account, size: usize) -> usize {
    size.saturating_sub(hooks_of(account).1)
}

/// Bytes that CPython's debug hooks have in front of a block and behind it (`_PyMem_DebugRawAlloc`, without serial numbers).
pub const HOOK: usize = 2 * HOOK_TAIL;
const HOOK_TAIL: usize = size_of::<usize>();
/// Both.
pub const HOOKS: usize = HOOK + HOOK_TAIL;

/// Bytes that were written where nobody may: how many, counted from the bytes that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
pub enum OutOfBounds {
    /// So many before the start.
    #[display("{_0} byte{} before the start of", if *_0 == 1 { "" } else { "s" })]
    Before(usize),
    /// So many past the end.
    #[display("{_0} byte{} past the end of", if *_0 == 1 { "" } else { "s" })]
    Past(usize),
}

impl OutOfBounds {
    /// The same, counted from the program's bytes. `self` counts from those of the hooks, which are as [`hooks_of`] says.
    #[must_use]
    pub(crate) fn around(self, (front, all): (usize, usize)) -> Self {
        match self {
            OutOfBounds::Before(count) => OutOfBounds::Before(count + front),
            OutOfBounds::Past(count) => OutOfBounds::Past(count + all - front),
        }
    }
}

/// Bytes that were overwritten in the pads of CPython's debug hooks, which begin a block of `size` bytes and end it.
/// `byte` reads a byte of the block. `are_laid`: the hooks themselves have the block, to free or resize it. Otherwise
/// the block may have no pads: a table beneath the hooks was called, or the hooks have just begun. Then a block of
/// which size or letter is wrong counts only if the rest of its head is whole.
pub fn damage_of_hooks(
    size: usize,
    are_laid: bool,
    byte: impl Fn(usize) -> u8,
) -> Option<OutOfBounds> {
    let asked = size.checked_sub(HOOKS)?;
    let size_bytes = asked.to_be_bytes();
    let size_at = (0..HOOK_TAIL).find(|&at| byte(at) != size_bytes[at]);
    let has_name = matches!(byte(HOOK_TAIL), b'r' | b'm' | b'o');
    let pad = (HOOK_TAIL + 1..HOOK).find(|&at| byte(at) != FORBIDDEN);
    if !are_laid && pad.is_some() && !(size_at.is_none() && has_name) {
        return None;
    }
    // The first byte that is damaged.
    let name_at = (!has_name).then_some(HOOK_TAIL);
    let first = size_at.or(name_at).or(pad);
    if let Some(first) = first {
        return Some(OutOfBounds::Before(HOOK - first));
    }
    let end = HOOK + asked;
    let past = (end..end + HOOK_TAIL)
        .rev()
        .find(|&at| byte(at) != FORBIDDEN);
    past.map(|last| OutOfBounds::Past(last + 1 - end))
}
