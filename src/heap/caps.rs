//! The heap's side of the caps: the test that each slow path makes, and the functions of the layer above
//! that decide where there is a ceiling.
//!
//! The layer above registers its functions with [`register`], before it sets the first ceiling. To read
//! them takes an atomic load and no lock. Everything here runs inside the allocator, on any thread, and
//! inside the gate.

use crate::ledger::{Account, Gils, LEDGER, Slot};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// A request for a block, as the caps see it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The account.
    pub account: Account,
    /// Booked bytes: the usable bytes if the block exists already.
    pub bytes: usize,
    /// Requested bytes.
    pub asked: usize,
    /// Gives back the block that was made, which is refused: before the refusal is reported, so that
    /// the block is not taken for live.
    pub undo: &'a dyn Fn(),
}

/// The decisions of the layer above. Its functions neither allocate, lock nor panic.
pub struct Caps {
    /// Whether a request for so many bytes may be tried, beneath a ceiling.
    pub admits: fn(&Slot, Account, usize) -> bool,
    /// Books a block that was made, beneath a ceiling. Returns false if a cap refuses the block: then
    /// nothing was booked, and the block was given back.
    pub book: fn(&Slot, &Request, &Gils) -> bool,
    /// Acts if live bytes have fallen or risen enough to matter.
    pub look: fn(),
    /// Records a request that the region of so many bytes has no room for, with its account and size,
    /// and whether the region had room before.
    pub region_is_full: fn(u64, Account, usize, bool),
}

static CAPS: OnceLock<Caps> = OnceLock::new();

/// Whether [`Caps::look`] has anything to look at.
static ATTENTION: AtomicBool = AtomicBool::new(false);

/// Registers the functions that decide. Once, before the first ceiling is set.
pub fn register(caps: Caps) {
    let _ = CAPS.set(caps);
}

/// Chooses whether the slow paths call [`Caps::look`].
pub fn attend(attention: bool) {
    ATTENTION.store(attention, Relaxed);
}

/// Whether a request for `bytes` may be met, before anything is allocated for it. [`book`] decides
/// finally.
#[inline]
pub(super) fn admits(slot: &Slot, account: Account, bytes: usize) -> bool {
    !LEDGER.is_capped() || admits_beneath(slot, account, bytes)
}

#[cold]
fn admits_beneath(slot: &Slot, account: Account, bytes: usize) -> bool {
    CAPS.get()
        .is_none_or(|caps| (caps.admits)(slot, account, bytes))
}

/// Books a block that was made, by the slow path. Returns false if a cap refuses the block: then nothing
/// was booked, and the block was given back.
#[inline]
pub(super) fn book(slot: &Slot, request: &Request, gils: &Gils) -> bool {
    if LEDGER.is_capped()
        && let Some(caps) = CAPS.get()
    {
        return (caps.book)(slot, request, gils);
    }
    LEDGER.book_anyway(slot, request.account, request.bytes, gils);
    look_if_asked();
    true
}

/// Has the layer above look at live bytes, if it asked for that.
#[inline]
pub fn look_if_asked() {
    if ATTENTION.load(Relaxed) {
        look();
    }
}

#[cold]
fn look() {
    if let Some(caps) = CAPS.get() {
        (caps.look)();
    }
}

/// Records a request that the region of `size` bytes has no room for.
#[cold]
pub(super) fn region_is_full(size: u64, account: Account, asked: usize, is_first: bool) {
    if let Some(caps) = CAPS.get() {
        (caps.region_is_full)(size, account, asked, is_first);
    }
}
