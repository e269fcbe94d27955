//! Booking when a slot's own cell does not suffice: the slow paths.
//!
//! Two policies:
//!
//! *Windowed* (all but `mem` and `obj`, and these once several GILs run; `arena` and `mapped` with a window of 0): a cell
//! publishes a bound above its live bytes, half a window for small blocks, and may move freely within the window
//! below it. The account's `bound` is the sum of what its cells published, so it is never below
//! the sum of their live bytes; the peak is the highest value that the bound ever had.
//!
//! *Exact* (`mem` and `obj` under one GIL): one cell, the owner's, is open, and what the other cells hold does not
//! change meanwhile. The owner keeps its own highest live bytes (`top`); with the others' added it is the account's
//! peak, to the byte. A thread that finds its cell closed takes the ownership over: it records the owner's top and
//! closes its cell, whose thread cannot be booking since the caller holds the GIL.
//!
//! A release never raises a bound: what is live falls, and a bound that rose above a ceiling would be
//! taken for a peak that the ceiling did not allow.
//!
//! A peak is that of a *segment*, which begins at the start or when [`super::segment`] ended the one
//! before; the highest of the ended ones is kept beside it.

use super::ceiling::{Reach, Scope, grant};
use super::shared::{CHANGING, EXACT, Ledger, WINDOWED};
use super::{account::Account, slot::Slot};
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Functions that the ledger calls when another thread takes over an exact account.
pub struct Gils {
    /// Whether threads of other interpreters may be booking at this moment.
    pub several: fn() -> bool,
    /// Returns once every running thread has passed a full memory barrier.
    pub barrier: fn(),
}

/// In a precise span a window is this part of what the account has grown. What is published is too high by one at most.
const PRECISION: i64 = 32;
/// Until a ceiling is set, or a segment has ended, a window is this part of what its cell holds, if that is more than the least, and no
/// wider than [`WIDEST`].
const PART: i64 = 128;
pub(super) const WIDEST: i64 = 64 << 10;

/// How high a booking may take the account's bound and the total's.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Heights {
    account: i64,
    total: i64,
}

impl Heights {
    const NONE: Heights = Heights {
        account: i64::MAX,
        total: i64::MAX,
    };
}

impl Ledger {
    /// Books a block if [`Slot::book`] could not.
    ///
    /// `slot` is the caller's own or the overflow slot. The error is the scope whose live bytes would go past `reach`; then nothing
    /// was booked.
    pub fn book_slow(
        &self,
        slot: &Slot,
        account: Account,
        bytes: usize,
        gils: &Gils,
        reach: Reach,
    ) -> Result<(), Scope> {
        let heights = self.heights(account, reach);
        self.adjust(slot, account, bytes as i64, gils, heights)?;
        self.count_block(slot, account);
        Ok(())
    }

    /// Books a block that is there already, whatever the ceilings are.
    pub fn book_anyway(&self, slot: &Slot, account: Account, bytes: usize, gils: &Gils) {
        // Without a height nothing is refused.
        let _ = self.adjust(slot, account, bytes as i64, gils, Heights::NONE);
        self.count_block(slot, account);
    }

    /// Calls `book` again as long as the total refuses it and `makes_room` makes some, which other threads may take first. `booked` is
    /// what it has returned.
    pub fn book_making_room(
        mut booked: Result<(), Scope>,
        book: impl Fn() -> Result<(), Scope>,
        makes_room: impl Fn() -> bool,
    ) -> Result<(), Scope> {
        for _ in 0..64 {
            if booked != Err(Scope::Total) || !makes_room() {
                break;
            }
            booked = book();
        }
        booked
    }

    /// Books a block that is `delta` bytes longer than it was, or shorter if below 0. The error is that of [`Ledger::book_slow`].
    pub fn rebook(
        &self,
        slot: &Slot,
        account: Account,
        delta: i64,
        gils: &Gils,
        reach: Reach,
    ) -> Result<(), Scope> {
        let grows = delta > 0;
        let heights = grows.then(|| self.heights(account, reach));
        self.adjust(slot, account, delta, gils, heights.unwrap_or(Heights::NONE))
    }

    fn count_block(&self, slot: &Slot, account: Account) {
        if self.is_overflow(slot) {
            slot.cell(account).total_blocks.fetch_add(1, Relaxed);
        } else {
            slot.cell(account).count_block();
        }
    }

    /// Releases a block if [`Slot::release`] could not; the counterpart of `book_slow`.
    pub fn release_slow(&self, slot: &Slot, account: Account, bytes: usize, gils: &Gils) {
        // Without a height nothing is refused.
        let _ = self.adjust(slot, account, -(bytes as i64), gils, Heights::NONE);
        if self.is_overflow(slot) {
            slot.cell(account).freed_blocks.fetch_add(1, Relaxed);
        } else {
            slot.cell(account).count_release();
        }
    }

    /// Releases a block of an account whose GIL the caller may not hold.
    pub fn release_foreign(&self, account: Account, bytes: usize) {
        let shared = self.shared(account);
        shared.foreign_live.fetch_sub(bytes as i64, Relaxed);
        shared.foreign_freed.fetch_add(1, Relaxed);
    }

    /// Moves the live bytes of `slot` by `delta`, up to the heights.
    fn adjust(
        &self,
        slot: &Slot,
        account: Account,
        delta: i64,
        gils: &Gils,
        heights: Heights,
    ) -> Result<(), Scope> {
        let shared = self.shared(account);
        loop {
            match shared.policy.load(Acquire) {
                WINDOWED => return self.adjust_windowed(slot, account, delta, heights),
                CHANGING => std::hint::spin_loop(),
                _ if !self.owns(slot, account) && (gils.several)() => {
                    self.make_windowed(account, gils);
                }
                _ => {
                    // `make_windowed` runs a barrier between its store of the policy and its
                    // load of `entered`, so one of the two sides sees the other.
                    shared.entered.store(1, Relaxed);
                    let exact = shared.policy.load(Relaxed) == EXACT;
                    let mut adjusted = Ok(());
                    if exact {
                        adjusted = self.adjust_exact(slot, account, delta, heights);
                    }
                    shared.entered.store(0, Release);
                    if exact {
                        return adjusted;
                    }
                }
            }
        }
    }

    /// How far a cell may go down and up without the slow path, once `delta` has taken it to `own` and the account to about `live`.
    fn window(&self, account: Account, delta: i64, own: i64, live: i64) -> (i64, i64) {
        let least = account.window();
        let whole = match self.precise_spans.load(Relaxed) {
            0 if least == 0 || self.is_capped() || self.has_ended_segments() => least,
            0 => (own / PART).clamp(least, WIDEST),
            _ => {
                let start = self.precise_starts[account as usize].load(Relaxed);
                ((live - start) / PRECISION).clamp(0, least)
            }
        };
        // A block that is freed and made again, time after time, stays within the window if it can.
        let back = match delta.abs() {
            bytes if bytes > whole - whole / 8 => whole / 2,
            bytes => bytes.max(whole / 2),
        };
        match delta > 0 {
            true => (back, whole - back),
            false => (whole - back, back),
        }
    }

    fn has_ended_segments(&self) -> bool {
        self.earlier_total_peak.load(Relaxed) != 0
    }

    /// The heights that hold for a booking.
    fn heights(&self, account: Account, reach: Reach) -> Heights {
        if account == Account::Pooled {
            return Heights::NONE; // it is inside an arena, which was booked
        }
        Heights {
            account: self.shared(account).ceiling.height(reach),
            total: self.total_ceiling.height(reach),
        }
    }

    /// Windowed policy: publishes a bound half a window above the new live bytes.
    #[inline(always)]
    fn adjust_windowed(
        &self,
        slot: &Slot,
        account: Account,
        delta: i64,
        heights: Heights,
    ) -> Result<(), Scope> {
        let cell = slot.cell(account);
        if self.is_overflow(slot) {
            // Shared by several threads: no window, locked instructions.
            let moved = if account == Account::Pooled {
                -delta
            } else {
                delta
            };
            if delta > 0 {
                self.publish(account, (delta, delta), (moved, moved), heights)?;
            }
            cell.live.fetch_add(delta, Relaxed);
            if delta < 0 {
                self.publish(account, (delta, delta), (moved, moved), heights)?;
            }
            return Ok(());
        }
        let live = cell.live.load(Relaxed) + delta;
        let bound = &self.shared(account).bound;
        let (below, above) = self.window(account, delta, live, bound.load(Relaxed));
        let published = cell.published.load(Relaxed);
        let low = live - below;
        // Published before it is booked: the bound is never below what is live.
        let published = if account == Account::Pooled {
            let before = cell.share_of_total(account);
            let moved = -low - before;
            let own = live + above - published;
            self.publish(account, (own, own), (moved, moved), heights)?;
            live + above
        } else {
            let room = live + above - published;
            // A cell without a window, of a new thread or a closed one, gets none by a release.
            let want = if delta < 0 { room.min(0) } else { room };
            let step = (live - published, want);
            published + self.publish(account, step, step, heights)?
        };
        cell.published.store(published, Relaxed);
        cell.live.store(live, Relaxed);
        cell.high.store(published, Relaxed);
        cell.low.store(low, Relaxed);
        Ok(())
    }

    /// Exact policy: the caller holds the GIL, so nobody else books to this account.
    #[inline(always)]
    fn adjust_exact(
        &self,
        slot: &Slot,
        account: Account,
        delta: i64,
        heights: Heights,
    ) -> Result<(), Scope> {
        let shared = self.shared(account);
        let cell = slot.cell(account);
        self.take_ownership(slot, account);
        let others = shared.others.load(Relaxed);
        let own = cell.live.load(Relaxed) + delta;
        let live = own + others;
        let (below, above) = self.window(account, delta, own, live);
        let bound = shared.bound.load(Relaxed);
        if delta > 0 && live > heights.account && live > bound {
            return Err(Scope::Account(account));
        }
        if live > bound || live < shared.window_low.load(Relaxed) {
            let mut high = (live + above).min(heights.account.max(live));
            if delta < 0 {
                high = high.min(bound);
            }
            let (moved, _) = grant(&self.total_bound, heights.total, live - bound, high - bound)
                .ok_or(Scope::Total)?;
            shared.bound.store(bound + moved, Relaxed);
            shared.window_low.store(live - below, Relaxed);
            raise(&self.total_peak, self.total_bound.load(Relaxed));
        }
        let top = cell.top.load(Relaxed).max(own);
        raise_alone(&shared.peak, top + others);
        cell.live.store(own, Relaxed);
        cell.top.store(own, Relaxed);
        if self.is_overflow(slot) {
            return Ok(()); // stays closed: the next thread that uses it may be another
        }
        let bound = shared.bound.load(Relaxed);
        cell.high.store(bound - others, Relaxed);
        cell.low
            .store(shared.window_low.load(Relaxed) - others, Relaxed);
        Ok(())
    }

    pub(super) fn owns(&self, slot: &Slot, account: Account) -> bool {
        let owner = self.shared(account).owner.load(Relaxed);
        owner == self.index_of(slot) as u32 + 1
    }

    /// Makes `slot` the one open cell of an exact account.
    fn take_ownership(&self, slot: &Slot, account: Account) {
        if self.owns(slot, account) {
            return;
        }
        let shared = self.shared(account);
        let mut others = shared.others.load(Relaxed) - slot.cell(account).live.load(Relaxed);
        if let Some(previous) = self.slot_of(shared.owner.load(Relaxed)) {
            let cell = previous.cell(account);
            cell.close();
            let top = cell.top.load(Relaxed) + shared.others.load(Relaxed);
            raise_alone(&shared.peak, top);
            others += cell.live.load(Relaxed);
        }
        shared.others.store(others, Relaxed);
        let own = slot.cell(account);
        own.top.store(own.live.load(Relaxed), Relaxed);
        shared.owner.store(self.index_of(slot) as u32 + 1, Relaxed);
    }

    /// Turns an exact account into a windowed one, until the process ends.
    ///
    /// The caller belongs to another interpreter than the owner, which may be booking right now.
    /// Every other cell is closed, and threads that come to the slow path wait.
    pub(super) fn make_windowed(&self, account: Account, gils: &Gils) {
        let shared = self.shared(account);
        if shared
            .policy
            .compare_exchange(EXACT, CHANGING, AcqRel, Relaxed)
            .is_err()
        {
            return; // another thread is at it
        }
        let owner = self.slot_of(shared.owner.load(Relaxed));
        if let Some(owner) = owner {
            owner.cell(account).close();
        }
        (gils.barrier)();
        while shared.entered.load(Acquire) != 0 {
            std::hint::spin_loop();
        }
        if let Some(owner) = owner {
            owner.cell(account).close(); // it may have been opened again meanwhile
        }
        (gils.barrier)();
        // The account's bound stays; each cell takes over the part of it that it holds.
        raise(&shared.peak, self.peak_of_owner(account));
        let others = shared.others.load(Relaxed);
        for slot in self.slots() {
            let cell = slot.cell(account);
            let part = match owner {
                Some(owner) if std::ptr::eq(owner, slot) => shared.bound.load(Relaxed) - others,
                _ => cell.live.load(Relaxed),
            };
            cell.published.store(part, Relaxed);
        }
        shared.policy.store(WINDOWED, Release);
    }

    /// Exact policy: the highest live bytes of the account in the owner's time.
    fn peak_of_owner(&self, account: Account) -> i64 {
        let shared = self.shared(account);
        match self.slot_of(shared.owner.load(Relaxed)) {
            Some(owner) => {
                let top = owner.cell(account).top.load(Relaxed);
                top.wrapping_add(shared.others.load(Relaxed))
            }
            None => 0,
        }
    }

    /// The highest live bytes of an account in this segment.
    pub(super) fn segment_peak_of(&self, account: Account) -> i64 {
        let peak = self.shared(account).peak.load(Relaxed);
        if self.is_windowed(account) {
            peak
        } else {
            peak.max(self.peak_of_owner(account))
        }
    }

    /// Moves the bounds of an account and of the total by what is wanted, or as far as there is
    /// room, at least by what is needed (the first of each pair): how far the account's moved.
    #[inline(always)]
    fn publish(
        &self,
        account: Account,
        (need, want): (i64, i64),
        (total_need, total_want): (i64, i64),
        heights: Heights,
    ) -> Result<i64, Scope> {
        let shared = self.shared(account);
        if heights == Heights::NONE {
            let bound = shared.bound.fetch_add(want, Relaxed) + want;
            raise(&shared.peak, bound);
            let mut total = self.total_bound.fetch_add(total_want, Relaxed) + total_want;
            if account == Account::Pooled {
                // The block that goes leaves its account, too, whose bound may fall later: what is
                // live in all is below the cap, as every booking was.
                total = total.min(self.total_ceiling.height(Reach::Cap));
            }
            raise(&self.total_peak, total);
            return Ok(want);
        }
        let (moved, bound) =
            grant(&shared.bound, heights.account, need, want).ok_or(Scope::Account(account))?;
        let unwanted = want - moved;
        let granted = grant(
            &self.total_bound,
            heights.total,
            total_need,
            total_want - unwanted,
        );
        let Some((total_moved, total_bound)) = granted else {
            shared.bound.fetch_sub(moved, Relaxed);
            return Err(Scope::Total);
        };
        // If the total had less room, the account's window shrinks to that.
        let surplus = (total_want - unwanted) - total_moved;
        if surplus > 0 {
            shared.bound.fetch_sub(surplus, Relaxed);
        }
        raise(&shared.peak, bound - surplus);
        raise(&self.total_peak, total_bound);
        Ok(moved - surplus)
    }
}

/// Raises a maximum that no other thread raises meanwhile.
fn raise_alone(peak: &AtomicI64, value: i64) {
    if value > peak.load(Relaxed) {
        peak.store(value, Relaxed);
    }
}

/// Raises a maximum; a locked instruction only if it is new.
pub(super) fn raise(peak: &AtomicI64, value: i64) {
    if value > peak.load(Relaxed) {
        peak.fetch_max(value, Relaxed);
    }
}
