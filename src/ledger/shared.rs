//! The block of a ledger: its stored layout, and the owner of each slot.
//!
//! A thread beyond the last slot, and one that is past its destructors, books into the overflow
//! slot with locked instructions, which is slower.

use super::account::{ACCOUNTS, Account};
use super::ceiling::Ceiling;
use super::slot::Slot;
use crate::layout::{UNIT, stored};
use std::mem::offset_of;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// How many threads have a slot of their own at a time.
pub const SLOTS: usize = 127;

/// First word of the stored layout: `pyhost3\0`, little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"pyhost3\0");

/// One thread at a time books, in turn; the peak is exact.
pub(super) const EXACT: u32 = 0;
/// On the way from exact to windowed: threads that come wait.
pub(super) const CHANGING: u32 = 1;
/// Threads book at once, each within its window.
pub(super) const WINDOWED: u32 = 2;

stored! {
    #[repr(C, align(64))]
    pub(super) struct Shared {
        /// Never below the account's live bytes; what the peak is taken from.
        pub(super) bound: AtomicI64,
        /// The highest of this segment; [`Ledger::segment_peak_of`] knows of the owner's, too.
        pub(super) peak: AtomicI64,
        /// Exact policy: live bytes of every cell but the owner's.
        pub(super) others: AtomicI64,
        /// Exact policy: below this the published bound is lowered.
        pub(super) window_low: AtomicI64,
        /// Exact policy: 1 + the index of the owner's slot; 0 before the first booking.
        pub(super) owner: AtomicU32,
        /// [`EXACT`], [`CHANGING`] or [`WINDOWED`].
        pub(super) policy: AtomicU32,
        /// The owner is inside the exact slow path.
        pub(super) entered: AtomicU32,
        /// Bytes released by threads that do not hold this account's GIL (negative).
        pub(super) foreign_live: AtomicI64,
        pub(super) foreign_freed: AtomicU64,
        pub(super) refused: AtomicU64,
        pub(super) failed: AtomicU64,
        pub(super) ceiling: Ceiling,
        pub(super) injected: AtomicU64,
        /// The highest peak of the segments that have ended.
        pub(super) earlier_peak: AtomicI64,
    }
}

stored! {
    /// All accounts of a process. One block of fixed layout; see the module's text.
    #[repr(C, align(4096))] // `UNIT`
    pub struct Ledger {
        magic: AtomicU64,
        /// Bound, and peak in this segment, of the sum of all accounts.
        pub(super) total_bound: AtomicI64,
        pub(super) total_peak: AtomicI64,
        /// One past the last slot that a thread has ever owned.
        used_slots: AtomicU32,
        /// 1 while there is a ceiling.
        pub(super) capped: AtomicU32,
        pub(super) total_ceiling: Ceiling,
        /// The highest peak of the total in the segments that have ended.
        pub(super) earlier_total_peak: AtomicI64,
        pub(super) accounts: [Shared; ACCOUNTS],
        pub(super) slots: [Slot; SLOTS],
        overflow: Slot,
        /// While it is not 0 windows are narrow; see [`Ledger::begin_precise`].
        pub(super) precise_spans: AtomicU32,
        /// The live bytes of each account when the latest of these spans began.
        pub(super) precise_starts: [AtomicI64; ACCOUNTS],
    }
}

// The stored layout: readers in other processes rely on these.
const _: () = {
    assert!(size_of::<Shared>() == 128);
    assert!(size_of::<Slot>() == 512);
    assert!(offset_of!(Ledger, accounts) == 64);
    assert!(offset_of!(Ledger, slots) == 64 + ACCOUNTS * 128);
    assert!(size_of::<Ledger>() == 17 * UNIT && align_of::<Ledger>() == UNIT);
};

/// Index of the overflow slot among all slots.
const OVERFLOW: usize = SLOTS;

impl Ledger {
    /// Makes zeros an empty ledger: there are no ceilings, and every booking to the overflow slot takes the slow path.
    /// Once, before the first ceiling and the first slot, by the only thread.
    pub fn open(&self) {
        self.total_ceiling.open();
        for account in Account::ALL {
            let shared = self.shared(account);
            shared.ceiling.open();
            let policy = match account.is_under_gil() {
                true => EXACT,
                false => WINDOWED,
            };
            shared.policy.store(policy, Relaxed);
        }
        self.overflow.close();
        self.magic.store(MAGIC, Release);
    }

    #[inline(always)]
    pub(super) fn shared(&self, account: Account) -> &Shared {
        &self.accounts[account as usize]
    }

    /// Where, in the bytes of a ledger, the upper bounds of all cells lie whose slots have an owner. Whoever stores
    /// [`super::slot::CLOSED`] there, in this process or another, has the owner's next booking take the slow path, and look for
    /// requests.
    pub fn cells_to_close(&self) -> impl Iterator<Item = usize> {
        let is_claimed = |index: &usize| self.slots[*index].claimed.load(Relaxed) == 1;
        let slots = (0..SLOTS).filter(is_claimed);
        slots.flat_map(|slot| {
            let cells = offset_of!(Ledger, slots) + slot * size_of::<Slot>();
            (0..ACCOUNTS).map(move |account| cells + Slot::offset_of_bound(account))
        })
    }

    /// Makes every thread's next booking take the slow path.
    pub fn close_cells(&self) {
        // The pages of slots that nobody has claimed stay untouched.
        let slots = self.slots.iter();
        let claimed = slots.filter(|slot| slot.claimed.load(Relaxed) == 1);
        claimed.for_each(Slot::close_bounds);
    }

    /// Whether this is a ledger of this layout: one that was read from a file may be anything.
    pub fn has_magic(&self) -> bool {
        self.magic.load(Relaxed) == MAGIC
    }

    /// A free slot, now the caller's; the overflow slot if all are taken. Any thread.
    pub fn claim(&self) -> &Slot {
        for (index, slot) in self.slots.iter().enumerate() {
            let claimed = &slot.claimed;
            if claimed.load(Relaxed) == 0 && claimed.compare_exchange(0, 1, AcqRel, Relaxed).is_ok()
            {
                self.used_slots.fetch_max(index as u32 + 1, Relaxed);
                slot.at_claim.store(slot.live(), Relaxed);
                return slot;
            }
        }
        &self.overflow
    }

    /// The slot of threads that may not claim one.
    pub fn overflow(&self) -> &Slot {
        &self.overflow
    }

    /// Whether `slot` is shared by several threads.
    pub fn is_overflow(&self, slot: &Slot) -> bool {
        std::ptr::eq(slot, &self.overflow)
    }

    /// Gives a slot back for the next thread, which goes on counting where this one stopped.
    ///
    /// The window is closed, so that a dead thread adds nothing to the imprecision of a peak.
    /// The caller owns the slot, or is the only thread (a forked child).
    pub fn yield_slot(&self, slot: &Slot) {
        if self.is_overflow(slot) {
            return;
        }
        for account in Account::ALL {
            if self.is_windowed(account) {
                self.close_window(slot, account);
            }
        }
        slot.busy.store(0, Relaxed);
        slot.claimed.store(0, Release);
    }

    /// Takes a windowed account's published bytes of a slot down to what is live.
    pub(super) fn close_window(&self, slot: &Slot, account: Account) {
        let cell = slot.cell(account);
        let live = cell.live.load(Relaxed);
        let before = cell.share_of_total(account);
        let moved = live - cell.published.load(Relaxed);
        cell.published.store(live, Relaxed);
        cell.high.store(live, Relaxed);
        cell.low.store(live, Relaxed);
        self.shared(account).bound.fetch_add(moved, Relaxed);
        let after = cell.share_of_total(account);
        self.total_bound.fetch_add(after - before, Relaxed);
    }

    /// Takes what is published down to what is live: of the caller's own slot and, if one GIL
    /// serialises an account, of all. The caller holds the GIL and owns the slot.
    pub fn close_windows(&self, slot: &Slot) {
        for account in Account::ALL {
            let shared = self.shared(account);
            if self.is_windowed(account) {
                if !self.is_overflow(slot) {
                    self.close_window(slot, account);
                }
            } else if let Some(owner) = self.slot_of(shared.owner.load(Relaxed)) {
                let cell = owner.cell(account);
                let live = cell.live.load(Relaxed) + shared.others.load(Relaxed);
                cell.high.store(cell.live.load(Relaxed), Relaxed);
                let moved = live - shared.bound.swap(live, Relaxed);
                self.total_bound.fetch_add(moved, Relaxed);
            }
        }
    }

    /// Every slot that a thread may own, the overflow slot included.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().chain(std::iter::once(&self.overflow))
    }

    /// The slots that threads have used so far: always in the same order, to which later ones are added. Those of a ledger that was
    /// read from a file, too.
    pub(super) fn used_slots(&self) -> impl Iterator<Item = &Slot> {
        // The pages of the others stay untouched.
        let used = (self.used_slots.load(Relaxed) as usize).min(SLOTS);
        std::iter::once(&self.overflow).chain(&self.slots[..used])
    }

    /// The live bytes of the slot that has most.
    pub fn most_of_a_slot(&self) -> i64 {
        let own = self.used_slots().skip(1);
        own.map(Slot::live).max().unwrap_or(0)
    }

    /// After a fork, in the child: gives back the slots of the threads that are gone.
    pub fn keep_only(&self, own: &Slot) {
        for slot in &self.slots {
            if slot.claimed.load(Relaxed) == 1 && !std::ptr::eq(slot, own) {
                self.yield_slot(slot);
            }
        }
        self.overflow.busy.store(0, Relaxed);
    }

    /// Says of a copy of a ledger that no thread is inside the heap, and that each slot has an owner: what the copy knows of
    /// that is out of date. Threads that start later share a slot.
    pub fn leave_all(&self) {
        self.slots().for_each(|slot| slot.busy.store(0, Relaxed));
        for slot in &self.slots {
            slot.claimed.store(1, Relaxed);
        }
        self.used_slots.store(SLOTS as u32, Relaxed);
    }

    /// Counts a request that the heap could not meet.
    pub fn count_failure(&self, account: Account) {
        self.shared(account).failed.fetch_add(1, Relaxed);
    }

    /// Counts a request that was made to fail.
    pub fn count_injection(&self, account: Account) {
        self.shared(account).injected.fetch_add(1, Relaxed);
    }

    /// Lets several threads book to the accounts of the GIL at once, from the start: for a
    /// build of CPython without a GIL. Before any booking.
    pub fn without_gil(&self) {
        for account in [Account::Mem, Account::Obj] {
            self.shared(account).policy.store(WINDOWED, Relaxed);
        }
    }

    /// Sum of all cells of an account, without what foreign threads released.
    pub(super) fn live_of(&self, account: Account) -> i64 {
        self.used_slots()
            .map(|slot| slot.cell(account).live.load(Relaxed))
            .sum()
    }

    pub(super) fn is_windowed(&self, account: Account) -> bool {
        self.shared(account).policy.load(Relaxed) == WINDOWED
    }

    pub(super) fn index_of(&self, slot: &Slot) -> usize {
        if self.is_overflow(slot) {
            return OVERFLOW;
        }
        let start = self.slots.as_ptr() as usize;
        (slot as *const Slot as usize - start) / size_of::<Slot>()
    }

    pub(super) fn slot_of(&self, owner: u32) -> Option<&Slot> {
        match (owner as usize).checked_sub(1)? {
            OVERFLOW => Some(&self.overflow),
            index => self.slots.get(index),
        }
    }
}
