//! Segments: the peaks since a moment, without losing those of the process's life.
//!
//! When a segment ends, the caller gets the peak of every account and of the total. The peak is kept among
//! the earlier ones, and the next one starts from the live bytes. The peak of the process's life, which
//! snapshots and readers of a ledger's file see, is the higher of the two words, so it is never low. A caller
//! that measures several overlapping spans adds each ended segment to all of them.
//!
//! A segment also begins with narrow windows: those of the caller, and of the accounts that one GIL
//! serialises, are closed. Windows of other threads stay open. So a segment's peak is as precise as any
//! peak: exact for `mem` and `obj` under one GIL, else never low, and high by the windows at most.
//!
//! The caller is any thread that owns its slot and holds the GIL of its interpreter. Allocates nothing and
//! takes no lock: if two threads end segments at once, each gets a part of the peaks. A caller that needs all
//! of them lets one thread in at a time. Booking does not change.

use super::account::{ACCOUNTS, Account, REPORTED};
use super::booking::{Gils, raise};
use super::shared::{EXACT, Ledger, SLOTS, WINDOWED};
use super::slot::Slot;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The highest live bytes of every reported account, and of their sum, over a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    accounts: [u64; REPORTED.len()],
    /// Of all accounts together.
    pub total: u64,
}

impl Peaks {
    /// One reported account's.
    pub fn account(&self, account: Account) -> u64 {
        self.accounts[account as usize]
    }

    /// Takes a further span in.
    pub fn raise(&mut self, other: &Peaks) {
        for (own, other) in self.accounts.iter_mut().zip(other.accounts) {
            *own = (*own).max(other);
        }
        self.total = self.total.max(other.total);
    }

    fn of(accounts: [i64; ACCOUNTS], total: i64) -> Self {
        let mut peaks = Peaks::default();
        for &account in REPORTED {
            peaks.accounts[account as usize] = accounts[account as usize].max(0) as u64;
        }
        peaks.total = total.max(0) as u64;
        peaks
    }
}

/// How many blocks each slot had allocated at a moment; see [`Ledger::others_since`].
#[derive(Clone, Copy)]
pub struct Marks([u64; SLOTS + 1]);

/// The allocations of all threads but one since a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// How many of them allocated, at least: one that took the slot of one that had ended is not counted again.
    pub threads: u32,
    pub blocks: u64,
}

impl Ledger {
    /// Ends the segment and begins the next; the peaks of the one that ended. `slot` is the caller's.
    pub fn end_segment(&self, slot: &Slot, gils: &Gils) -> Peaks {
        let mut ended = [0; ACCOUNTS];
        for account in Account::ALL {
            ended[account as usize] = self.end_account(slot, account, gils);
        }
        let total = begin_anew(
            &self.total_peak,
            &self.earlier_total_peak,
            &self.total_bound,
            gils,
        );
        Peaks::of(ended, total)
    }

    /// Until [`Ledger::end_precise`], which each caller owes, windows are narrow: a 32nd of what an account has grown since
    /// this call; of calls that overlap, since the one at which most was live. So a segment that begins now has peaks that
    /// are that precise, however little is allocated in it, but for the windows that other threads have. Each booking of an
    /// account that does not grow takes the slow path.
    pub fn begin_precise(&self) {
        let is_only = self.precise_spans.load(Relaxed) == 0;
        for account in Account::ALL {
            let start = &self.precise_starts[account as usize];
            let live = self.live_of(account);
            let highest = match is_only {
                true => live,
                false => live.max(start.load(Relaxed)),
            };
            start.store(highest, Relaxed);
        }
        self.precise_spans.fetch_add(1, Relaxed);
    }

    /// The end of [`Ledger::begin_precise`].
    pub fn end_precise(&self) {
        self.precise_spans.fetch_sub(1, Relaxed);
    }

    /// The peaks of the segment that runs, so far.
    pub fn segment_peaks(&self) -> Peaks {
        let accounts = Account::ALL.map(|account| self.segment_peak_of(account));
        Peaks::of(accounts, self.total_peak.load(Relaxed))
    }

    /// Restarts every peak from the live bytes, also that of the process's life. Returns the peaks of the
    /// segment that ended. `slot` is the caller's.
    pub fn reset_peaks(&self, slot: &Slot, gils: &Gils) -> Peaks {
        let ended = self.end_segment(slot, gils);
        for shared in &self.accounts {
            shared.earlier_peak.store(0, Relaxed);
        }
        self.earlier_total_peak.store(0, Relaxed);
        ended
    }

    fn end_account(&self, slot: &Slot, account: Account, gils: &Gils) -> i64 {
        let shared = self.shared(account);
        loop {
            match shared.policy.load(Acquire) {
                WINDOWED => {
                    if !self.is_overflow(slot) {
                        self.close_window(slot, account);
                    }
                    return begin_anew(&shared.peak, &shared.earlier_peak, &shared.bound, gils);
                }
                // As a booking does, see `adjust`: an account that a thread of another GIL may be booking
                // to is no longer exact, and the thread that changes it waits for `entered`.
                EXACT if !self.owns(slot, account) && (gils.several)() => {
                    self.make_windowed(account, gils);
                }
                EXACT => {
                    shared.entered.store(1, Relaxed);
                    let exact = shared.policy.load(Relaxed) == EXACT;
                    let ended = exact.then(|| self.end_exact(account));
                    shared.entered.store(0, Release);
                    if let Some(ended) = ended {
                        return ended;
                    }
                }
                _ => std::hint::spin_loop(),
            }
        }
    }

    /// Exact policy: nobody books meanwhile.
    fn end_exact(&self, account: Account) -> i64 {
        let shared = self.shared(account);
        let ended = self.segment_peak_of(account);
        raise(&shared.earlier_peak, ended);
        let live = self.live_of(account);
        if let Some(owner) = self.slot_of(shared.owner.load(Relaxed)) {
            let cell = owner.cell(account);
            let own = cell.live.load(Relaxed);
            cell.top.store(own, Relaxed);
            if !self.is_overflow(owner) {
                cell.high.store(own, Relaxed); // the overflow slot's is closed, and stays so
                cell.low.store(own, Relaxed); // what falls is taken off the total's bound at once
            }
        }
        shared.window_low.store(live, Relaxed);
        shared.peak.store(live, Relaxed);
        let moved = live - shared.bound.swap(live, Relaxed);
        self.total_bound.fetch_add(moved, Relaxed);
        ended
    }

    /// How much every thread has allocated so far.
    pub fn marks(&self) -> Marks {
        let mut marks = Marks([0; SLOTS + 1]);
        for (mark, slot) in marks.0.iter_mut().zip(self.used_slots()) {
            *mark = slot.blocks();
        }
        marks
    }

    /// Blocks that all threads but the one of `own` have allocated so far, without maps, which are of no thread.
    pub fn blocks_of_others(&self, own: &Slot) -> u64 {
        let others = self.used_slots().filter(|slot| !std::ptr::eq(*slot, own));
        let mapped = self.overflow().cell(Account::Mapped);
        let maps = mapped.total_blocks.load(Relaxed);
        others.map(Slot::blocks).sum::<u64>().wrapping_sub(maps)
    }

    /// The allocations of all threads but the one of `own` since the marks. Threads beyond the last slot count as one.
    pub fn others_since(&self, marks: &Marks, own: &Slot) -> Others {
        let mut others = Others::default();
        for (mark, slot) in marks.0.iter().zip(self.used_slots()) {
            let blocks = slot.blocks().wrapping_sub(*mark);
            if blocks > 0 && !std::ptr::eq(slot, own) {
                others.threads += 1;
                others.blocks += blocks;
            }
        }
        others
    }
}

/// Takes a peak that other threads may be raising, keeps it among the earlier ones, and restarts it from `bound`.
fn begin_anew(peak: &AtomicI64, earlier: &AtomicI64, bound: &AtomicI64, gils: &Gils) -> i64 {
    // First kept, then taken: a reader of both words finds it in at least one.
    raise(earlier, peak.load(Relaxed));
    let ended = peak.swap(i64::MIN, AcqRel);
    raise(earlier, ended);
    // A booking raises the bound and then compares it with the peak. The peak is taken first and the bound
    // is read after the swap, so either the bound includes the booking or the booking sees the low peak. If
    // the machine may reorder the two steps of the booking, a barrier in its thread keeps their order.
    if cfg!(not(target_arch = "x86_64")) {
        (gils.barrier)();
    }
    peak.fetch_max(bound.load(Acquire), AcqRel);
    ended
}
