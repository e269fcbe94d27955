//! A thread's own page of the ledger: what the hot path reads and writes.

use super::account::{ACCOUNTS, Account};
use super::layout::{Zeros, stored};
use std::mem::offset_of;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

stored! {
    /// One thread's share of one account.
    ///
    /// Only the thread that claimed the slot writes `live`, `total_blocks` and `freed_blocks`; any
    /// thread may read them. `live` is negative if the thread frees what others allocated.
    #[repr(C)]
    pub struct Cell {
        pub(super) live: AtomicI64,
        /// A booking that would take `live` above this goes the slow path.
        pub(super) high: AtomicI64,
        /// A release that would take `live` below this goes the slow path.
        pub(super) low: AtomicI64,
        /// Bytes that this cell has added to the account's bound.
        pub(super) published: AtomicI64,
        /// Accounts of the GIL: the highest `live` since the slow path last looked.
        pub(super) top: AtomicI64,
        pub(super) total_blocks: AtomicU64,
        pub(super) freed_blocks: AtomicU64,
    }
}

impl Cell {
    /// Bytes that the cell of `account` adds to the bound of the total. The blocks of `pooled` lie inside
    /// those of `arena`, so its lower bound is subtracted.
    pub(super) fn share_of_total(&self, account: Account) -> i64 {
        match account {
            Account::Mapped => 0,
            Account::Pooled => -self.low.load(Relaxed),
            _ => self.published.load(Relaxed),
        }
    }

    /// Sends every further booking to the slow path.
    pub(super) fn close(&self) {
        self.high.store(CLOSED, Relaxed);
        self.low.store(i64::MAX, Relaxed);
    }

    /// Counts one block more; the caller owns the slot.
    pub(super) fn count_block(&self) {
        self.total_blocks
            .store(self.total_blocks.load(Relaxed) + 1, Relaxed);
    }

    /// Counts one block less; the caller owns the slot.
    pub(super) fn count_release(&self) {
        self.freed_blocks
            .store(self.freed_blocks.load(Relaxed) + 1, Relaxed);
    }
}

stored! {
    /// A thread's cells, one an account.
    #[repr(C, align(64))]
    pub struct Slot {
        /// 1 while a thread owns the slot.
        pub(super) claimed: AtomicU32,
        /// How deep the owner is inside the heap's slow paths; see `heap::mimalloc::gate`.
        pub busy: AtomicU32,
        pub(super) cells: [Cell; ACCOUNTS],
        /// The live bytes of the slot when its owner claimed it: what threads before it left.
        pub(super) at_claim: AtomicI64,
    }
}

/// The upper bound of a closed cell: no booking stays below it.
pub const CLOSED: i64 = i64::MIN;

/// The slot of threads that have none: it sends every booking to the slow path and is never written.
pub static UNCLAIMED: Slot = Slot {
    claimed: AtomicU32::new(1),
    cells: [const {
        Cell {
            high: AtomicI64::new(CLOSED),
            low: AtomicI64::new(i64::MAX),
            ..Cell::ZEROS
        }
    }; ACCOUNTS],
    ..Slot::ZEROS
};

impl Slot {
    /// Makes it nobody's for good: every booking takes the slow path.
    pub(super) fn close(&self) {
        self.claimed.store(1, Relaxed);
        self.cells.iter().for_each(Cell::close);
    }

    /// Books an allocated block of `bytes` to account `A`, or returns false, having changed
    /// nothing, if the slow path must do it.
    ///
    /// A load, an add, a compare and a store for the bytes, one increment for the block; for an
    /// account of the GIL one compare more, with the cell's highest so far. The caller must own the slot, and hold the
    /// GIL if `A` is an account of the GIL.
    #[inline(always)]
    pub fn book<const A: usize>(&self, bytes: usize) -> bool {
        self.book_to(const { Account::ALL[A] }, bytes)
    }

    /// Takes a freed block of `bytes` off account `A`; the counterpart of [`Slot::book`].
    #[inline(always)]
    pub fn release<const A: usize>(&self, bytes: usize) -> bool {
        self.release_from(const { Account::ALL[A] }, bytes)
    }

    /// [`Slot::book`] for an account that is known only when it runs.
    #[inline(always)]
    pub fn book_to(&self, account: Account, bytes: usize) -> bool {
        let cell = self.cell(account);
        let live = cell.live.load(Relaxed).wrapping_add(bytes as i64);
        if live > cell.high.load(Relaxed) {
            return false;
        }
        cell.live.store(live, Relaxed);
        if account.is_under_gil() && live > cell.top.load(Relaxed) {
            cell.top.store(live, Relaxed);
        }
        cell.count_block();
        true
    }

    /// [`Slot::release`] for an account that is known only when it runs.
    #[inline(always)]
    pub fn release_from(&self, account: Account, bytes: usize) -> bool {
        let cell = self.cell(account);
        let live = cell.live.load(Relaxed).wrapping_sub(bytes as i64);
        if live < cell.low.load(Relaxed) {
            return false;
        }
        cell.live.store(live, Relaxed);
        cell.count_release();
        true
    }

    /// The live bytes of this slot over all accounts of the total: negative if its threads freed what others allocated.
    pub fn live(&self) -> i64 {
        let live = |account: &Account| self.cell(*account).live.load(Relaxed);
        let in_total = Account::ALL.iter().filter(|it| it.is_in_total());
        in_total.map(live).sum::<i64>() - 2 * live(&Account::Pooled)
    }

    /// Of [`Slot::live`], what the thread that owns the slot has added.
    pub fn live_of_owner(&self) -> i64 {
        self.live() - self.at_claim.load(Relaxed)
    }

    /// Blocks allocated in this slot so far, over all accounts.
    pub fn blocks(&self) -> u64 {
        let blocks = self.cells.iter().map(|cell| &cell.total_blocks);
        blocks.map(|count| count.load(Relaxed)).sum()
    }

    /// Sends the next booking to each account to the slow path, which opens the cell again. Any thread.
    pub(super) fn close_bounds(&self) {
        for cell in &self.cells {
            cell.high.store(CLOSED, Relaxed);
        }
    }

    /// Where the upper bound of an account lies in the bytes of a slot.
    pub(super) const fn offset_of_bound(account: usize) -> usize {
        offset_of!(Slot, cells) + account * size_of::<Cell>() + offset_of!(Cell, high)
    }

    pub(super) fn cell(&self, account: Account) -> &Cell {
        &self.cells[account as usize]
    }
}
