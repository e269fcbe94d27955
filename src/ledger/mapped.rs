//! The account `mapped`: booked with locked instructions alone, by any thread at any moment, also in
//! a signal handler and past a thread's destructors. A booking is as rare as a system call, so it
//! needs no cell of the thread's own: live bytes and peak are exact.

use super::{account::Account, booking::raise, shared::Ledger};
use std::sync::atomic::Ordering::Relaxed;

impl Ledger {
    /// Books what libraries have mapped and given back: the bytes by which it has grown, and blocks
    /// that were made and that are gone.
    pub fn adjust_mapped(&self, bytes: i64, made: u64, gone: u64) {
        let shared = &self.accounts[Account::Mapped as usize];
        let cell = self.overflow().cell(Account::Mapped);
        let bound = shared.bound.fetch_add(bytes, Relaxed) + bytes;
        raise(&shared.peak, bound);
        cell.live.fetch_add(bytes, Relaxed);
        cell.total_blocks.fetch_add(made, Relaxed);
        cell.freed_blocks.fetch_add(gone, Relaxed);
    }
}
