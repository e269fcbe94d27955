//! A frozen ledger: plain figures, ready for a report. Taken without allocating or locking, so
//! that a signal handler may do it.

use super::account::{Account, REPORTED};
use super::shared::Ledger;
use std::sync::atomic::Ordering::Relaxed;

/// One account's figures. Bytes are usable bytes: what the blocks really take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountFigures {
    /// Bytes allocated and not yet freed.
    pub live_bytes: u64,
    /// The highest live bytes so far.
    pub peak_bytes: u64,
    /// Blocks allocated and not yet freed.
    pub live_blocks: u64,
    /// Blocks allocated so far.
    pub total_blocks: u64,
    /// Requests that a cap refused.
    pub refused: u64,
    /// Requests that the heap could not meet.
    pub failed: u64,
    /// Requests that `--fail` made fail.
    pub injected: u64,
}

/// The ledger at one moment; by default nothing is booked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    accounts: [AccountFigures; REPORTED.len()],
    /// Live bytes of all accounts of the total together.
    pub total_live_bytes: u64,
    /// The highest sum of live bytes so far.
    pub total_peak_bytes: u64,
}

impl Snapshot {
    pub fn account(&self, account: Account) -> &AccountFigures {
        &self.accounts[account as usize]
    }

    /// This snapshot with the live bytes and blocks of an earlier one.
    pub fn with_live_of(mut self, earlier: &Snapshot) -> Snapshot {
        for (figures, earlier) in self.accounts.iter_mut().zip(&earlier.accounts) {
            figures.live_bytes = earlier.live_bytes;
            figures.live_blocks = earlier.live_blocks;
        }
        self.total_live_bytes = earlier.total_live_bytes;
        self
    }

    /// Requests that a cap refused, over all accounts.
    pub fn refused(&self) -> u64 {
        let all = self.accounts.iter().map(|figures| figures.refused);
        all.fold(0, u64::wrapping_add)
    }

    /// Every reported account with its figures, in the report's order.
    pub fn accounts(&self) -> impl Iterator<Item = (Account, &AccountFigures)> {
        REPORTED
            .iter()
            .map(|&account| (account, self.account(account)))
    }
}

impl Ledger {
    /// The figures of this moment: exact if no thread is booking, else close. Sums wrap, since a
    /// ledger that was read from a file may hold anything.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        let mut total = 0i64;
        for &account in REPORTED {
            let (live, figures) = self.figures(account);
            snapshot.accounts[account as usize] = figures;
            if account.is_in_total() {
                total = total.wrapping_add(live);
            }
        }
        let (pooled, _) = self.figures(Account::Pooled);
        snapshot.total_live_bytes = total.wrapping_sub(pooled).max(0) as u64;
        let peak = self.total_peak.load(Relaxed);
        let peak = peak.max(self.earlier_total_peak.load(Relaxed)).max(0) as u64;
        snapshot.total_peak_bytes = peak.max(snapshot.total_live_bytes);
        snapshot
    }

    fn figures(&self, account: Account) -> (i64, AccountFigures) {
        let shared = self.shared(account);
        let mut live = shared.foreign_live.load(Relaxed);
        let mut freed = shared.foreign_freed.load(Relaxed);
        let mut total = 0u64;
        for slot in self.used_slots() {
            let cell = slot.cell(account);
            live = live.wrapping_add(cell.live.load(Relaxed));
            freed = freed.wrapping_add(cell.freed_blocks.load(Relaxed));
            total = total.wrapping_add(cell.total_blocks.load(Relaxed));
        }
        let live_bytes = live.max(0) as u64;
        let peak = self.segment_peak_of(account);
        let peak = peak.max(shared.earlier_peak.load(Relaxed)).max(0) as u64;
        let figures = AccountFigures {
            live_bytes,
            peak_bytes: peak.max(live_bytes),
            live_blocks: total.saturating_sub(freed),
            total_blocks: total,
            refused: shared.refused.load(Relaxed),
            failed: shared.failed.load(Relaxed),
            injected: shared.injected.load(Relaxed),
        };
        (live, figures)
    }
}
