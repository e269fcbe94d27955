//! What this process has of the cap of its tree (`--cap tree=SIZE`): its entry in the page that the tree shares, and the height up to
//! which its live bytes and the maps of libraries may go. A forked child pays for what it has beyond what lived at the fork.

use super::shares::{Shares, UNIT};
use crate::bytes::Bytes;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// What each process keeps below its height to handle an error.
pub(super) const RESERVE: u64 = 2 << 20;
/// The part of the cap that is left to forked children, so that each of them can begin, and its most.
const KEPT: (u64, u64) = (32, 64 << 20);
/// A share grows and falls by this part of the cap, and by so many bytes at most.
const CHUNK: (u64, u64) = (512, 4 << 20);

const NONE: u64 = u64::MAX;

pyhost_os::state! {
    /// The process's part in its tree.
    pub(super) static STATE: Tree {
        shares: OnceLock<Shares<'static>> = OnceLock::new(),
        /// Its entry; 0 if it has none, as a forked child at first.
        entry: AtomicUsize = AtomicUsize::new(0),
        height: AtomicU64 = AtomicU64::new(NONE),
        /// Of the height, what its parent pays for.
        inherited: AtomicU64 = AtomicU64::new(0),
        /// This process by [`Shares::owner`] if it has claimed [`super::claims::LEAST_PART`] for the child that it forks next, else 0.
        pub(super) for_child: AtomicU64 = AtomicU64::new(0),
        /// It is a forked child that has nothing but that claim.
        pub(super) is_new: AtomicBool = AtomicBool::new(false),
        /// When to look again which processes have ended, in nanoseconds of the monotonic clock.
        pub(super) next_look: AtomicU64 = AtomicU64::new(0),
    }
}

/// What the process keeps below its height: of a share that is small, as a forked child's at first, half.
pub(super) fn reserve() -> u64 {
    let own = (height().unwrap_or(NONE)).saturating_sub(STATE.inherited.load(Relaxed));
    RESERVE.min(own / 2)
}

pub(super) fn shares() -> Option<&'static Shares<'static>> {
    STATE.shares.get()
}

/// Makes the process one of a tree, with an entry and its share.
pub(super) fn begin(shares: Shares<'static>, entry: usize, share: u64) {
    let _ = STATE.shares.set(shares);
    STATE.entry.store(entry, Relaxed);
    STATE.height.store(share, SeqCst);
}

/// In a forked child, which has no entry yet: what it has now is its parent's.
pub(super) fn begin_child(inherited: u64) {
    STATE.entry.store(0, Relaxed);
    STATE.for_child.store(0, Relaxed);
    STATE.is_new.store(false, Relaxed);
    STATE.inherited.store(inherited, Relaxed);
    STATE.height.store(inherited, SeqCst);
}

pub(super) fn entry() -> usize {
    STATE.entry.load(SeqCst)
}

/// Gives the process its entry in the place of `former`, 0 if it had none. Returns whether no other thread has done so.
pub(super) fn set_entry(former: usize, entry: usize) -> bool {
    (STATE.entry.compare_exchange(former, entry, SeqCst, SeqCst)).is_ok()
}

/// How high live bytes and maps may go; `None` without a tree.
pub(super) fn height() -> Option<u64> {
    let height = STATE.height.load(SeqCst);
    (height != NONE).then_some(height)
}

/// Moves the height by bytes that were granted, or up again by those of [`lower`].
pub(super) fn raise(bytes: u64) {
    STATE.height.fetch_add(bytes, SeqCst);
}

/// Lowers the height by `bytes`, as far as they are the process's own, in whole chunks. Returns by how many.
pub(super) fn lower(bytes: u64) -> u64 {
    let mut lowered = 0;
    let _ = STATE.height.fetch_update(SeqCst, SeqCst, |height| {
        let own = height.saturating_sub(STATE.inherited.load(Relaxed));
        lowered = bytes.min(own) / chunk() * chunk();
        Some(height - lowered)
    });
    lowered
}

/// Lowers the height by what the process had at its fork and has freed, so that this makes no room: the parent may have it still. `live` is
/// what it has now. Returns by how much; [`inherit`] takes that back.
pub(super) fn disinherit(live: u64) -> u64 {
    let mut freed = 0;
    let _ = STATE.inherited.fetch_update(SeqCst, SeqCst, |inherited| {
        freed = inherited.saturating_sub(live) / chunk() * chunk();
        (freed > 0).then(|| inherited - freed)
    });
    STATE.height.fetch_sub(freed, SeqCst);
    freed
}

/// Takes [`disinherit`] back.
pub(super) fn inherit(bytes: u64) {
    STATE.inherited.fetch_add(bytes, SeqCst);
    STATE.height.fetch_add(bytes, SeqCst);
}

pub(super) fn size() -> Option<u64> {
    shares().map(Shares::size)
}

/// Whether the cap follows the charges of a control group (`--cap tree=auto`).
pub(super) fn follows() -> bool {
    shares().is_some_and(Shares::follows)
}

/// By how many bytes a share grows and falls: whole units.
pub(super) fn chunk() -> u64 {
    size().map_or(UNIT, |cap| (cap / CHUNK.0).min(CHUNK.1) / UNIT * UNIT)
}

/// How far claims may go together, but for the first of a forked child.
pub(super) fn limit(shares: &Shares<'_>) -> u64 {
    (shares.cap()).saturating_sub((shares.size() / KEPT.0).min(KEPT.1))
}

/// Bytes of the cap that no process has.
pub(super) fn free() -> u64 {
    shares().map_or(0, |shares| limit(shares).saturating_sub(shares.sum()))
}

/// What other processes of the tree have.
pub(super) fn others() -> Option<Others> {
    let (bytes, processes) = shares()?.others(entry());
    Some(Others(bytes, processes))
}

/// The bytes of a tree's cap that other processes have, and how many they are. Displays as a sentence.
#[derive(Clone, Copy)]
pub struct Others(u64, u32);

impl fmt::Display for Others {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, processes) = (Bytes(self.0), self.1);
        match processes {
            0 => out.write_str("no other process has any of it"),
            1 => write!(out, "another process has {bytes} of it"),
            _ => write!(out, "{processes} other processes have {bytes} of it"),
        }
    }
}
