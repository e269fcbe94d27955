//! The record of a checked block, and the pads around the caller's bytes.

#![allow(unsafe_code)]

use crate::call_site::{After, CallSite, CallSiteCell};
use crate::checks::families::Family;
use crate::checks::fill_bytes::{DEAD, FORBIDDEN, is_filled};
use crate::checks::out_of_bounds::{OutOfBounds, asked_of, damage_of_hooks, hooks_of, is_domain};
use crate::{ledger::Account, mimalloc::heaps::is_checked, mimalloc::live_blocks::LiveBlock};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::{cell::Cell, fmt, sync::atomic::AtomicU64};

/// The least pad on each side.
const PAD: usize = 16;
/// The most bytes behind the caller's that are filled and looked at, of what the size class leaves.
const MOST_PAD: usize = 1024;
/// The most bytes that are filled at the start of a block, so that a large one that is hardly used stays so.
const MOST_FILL: usize = 64 << 10;

/// Bytes in front of the caller's, unless the alignment asks for more.
const FRONT: usize = size_of::<Record>() + PAD;

/// Of states: numbers that no program writes by accident to the address that they are combined with.
const LIVE: u64 = 0x7c1e_95d3_4b60_a8f5;
const FREED: u64 = 0x58b3_0fe9_c62d_7a1b;
const GONE: u64 = 0x91d6_2a47_e80c_35f3;

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The caller has it.
    Live,
    /// In the quarantine.
    Freed,
    /// Given back to its heap, and not given out since.
    Gone,
    /// Never given out, or its record was written over.
    Unknown,
}

/// The first bytes of a checked block. No pointer is in them, which the leak check would follow.
#[repr(C)]
pub struct Record {
    /// mimalloc's, of a free block.
    _link: Cell<u64>,
    /// The state, combined with the record's address.
    mark: AtomicU64,
    size: Cell<usize>,
    /// The allocation, and from the block's start to the caller's first byte, in [`PAD`]s.
    made: CallSiteCell,
    /// The free, and the account and the family in a byte each.
    freed: CallSiteCell,
}

const _: () = assert!(size_of::<Record>() == 48);

/// Bytes of a block for `size` bytes of the caller's; `None` if there are no such blocks.
pub fn whole(size: usize, alignment: usize) -> Option<usize> {
    let aligning = if alignment > PAD { alignment } else { 0 };
    size.checked_add(FRONT + PAD)?.checked_add(aligning)
}

/// Fills the caller's bytes, fresh or freed ones.
///
/// # Safety
/// Bytes of a block that nobody else has.
pub unsafe fn fill(start: *mut u8, size: usize, value: u8) {
    // SAFETY: the caller's promise.
    unsafe { start.write_bytes(value, size.min(MOST_FILL)) };
}

impl Record {
    /// The record of the block at `start`.
    ///
    /// # Safety
    /// The start of a block of a page that has checked blocks, which stays while the value is used.
    pub unsafe fn at<'a>(start: *mut u8) -> &'a Record {
        // SAFETY: the caller's promise.
        unsafe { &*start.cast() }
    }

    /// Lays record and pads into a fresh block of `usable` bytes; the caller's first byte.
    ///
    /// # Safety
    /// A block of at least [`whole`] bytes that nobody else has.
    pub unsafe fn lay(
        block: *mut u8,
        usable: usize,
        account: Account,
        size: usize,
        alignment: usize,
    ) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe {
            let record = Record::at(block);
            let start = (block.addr() + FRONT).next_multiple_of(alignment.max(PAD));
            let front = start - block.addr();
            let behind_record = block.add(size_of::<Record>());
            behind_record.write_bytes(FORBIDDEN, front - size_of::<Record>());
            let pad = (usable - front - size).min(MOST_PAD);
            block.add(front + size).write_bytes(FORBIDDEN, pad);
            record.size.set(size);
            record.made.rest.store((front / PAD) as u16, Relaxed);
            record.freed.rest.store(account as u16, Relaxed);
            record.made.set(CallSite::of_caller());
            record.freed.set(CallSite::default());
            record.mark.store(record.key(LIVE), Release);
            block.add(front)
        }
    }

    fn key(&self, state: u64) -> u64 {
        (&raw const *self).addr() as u64 ^ state
    }

    pub fn state(&self) -> State {
        let mark = self.mark.load(Acquire);
        match self.key(mark) {
            LIVE => State::Live,
            FREED => State::Freed,
            GONE => State::Gone,
            _ => State::Unknown,
        }
    }

    /// Makes a live block a freed one, and notes where; false if another thread was faster.
    pub fn begin_free(&self) -> bool {
        let (live, freed) = (self.key(LIVE), self.key(FREED));
        let call_site = CallSite::of_caller();
        let changed = self.mark.compare_exchange(live, freed, AcqRel, Relaxed);
        changed.map(|_| self.freed.set(call_site)).is_ok()
    }

    /// The block leaves the quarantine.
    pub fn end_free(&self) {
        self.mark.store(self.key(GONE), Release);
    }

    pub fn account(&self) -> Account {
        Account::at(usize::from(self.freed.rest.load(Relaxed) & 0xff))
    }

    /// The functions that made it.
    pub fn family(&self) -> Family {
        Family::at(self.freed.rest.load(Relaxed) >> 8)
    }

    /// Changes [`Record::family`].
    pub fn set_family(&self, family: Family) {
        let kept = self.account() as u16 | (family as u16) << 8;
        self.freed.rest.store(kept, Relaxed);
    }

    /// Whether it is of a domain of CPython's.
    pub fn is_of_domain(&self) -> bool {
        is_domain(self.account())
    }

    /// Bytes that were asked for.
    pub fn size(&self) -> usize {
        self.size.get()
    }

    fn front(&self) -> usize {
        usize::from(self.made.rest.load(Relaxed)) * PAD
    }

    /// The caller's first byte.
    pub fn start(&self) -> *mut u8 {
        self.bytes(self.front(), 0).cast::<u8>().cast_mut()
    }

    /// Its allocation.
    pub fn made(&self) -> CallSite {
        self.made.get()
    }

    /// Its free; of a live block none.
    pub fn freed(&self) -> CallSite {
        match self.state() {
            State::Live => CallSite::default(),
            _ => self.freed.get(),
        }
    }

    /// The place where it was freed, in parentheses; nothing if it is not known.
    pub fn freed_at(&self) -> After<'static> {
        self.freed().after("at")
    }

    /// Bytes outside of those that were asked for that were overwritten, in a block of `usable` bytes.
    pub fn damage(&self, usable: usize) -> Option<OutOfBounds> {
        let damage = self.damage_of_pads(usable)?;
        Some(damage.around(hooks_of(self.account())))
    }

    /// Bytes that were overwritten in the host's own pads, counted from the caller's bytes.
    fn damage_of_pads(&self, usable: usize) -> Option<OutOfBounds> {
        let (front, size) = (self.front(), self.size());
        let pad = usable.checked_sub(front + size)?.min(MOST_PAD);
        let is_damaged = |offset: &usize| self.byte(*offset) != FORBIDDEN;
        let before = self.bytes(size_of::<Record>(), front - size_of::<Record>());
        let behind = self.bytes(front + size, pad);
        if is_filled(behind, FORBIDDEN) && is_filled(before, FORBIDDEN) {
            return None;
        }
        let past = (front + size..front + size + pad).rev().find(is_damaged);
        if let Some(last) = past {
            return Some(OutOfBounds::Past(last + 1 - front - size));
        }
        let before = (size_of::<Record>()..front).find(is_damaged);
        before.map(|first| OutOfBounds::Before(front - first))
    }

    /// Bytes that were overwritten in the pads of CPython's debug hooks, which lie within the host's own. With the GIL, or after
    /// Python's end; of `raw`, by the thread that frees or resizes the block: another one may be laying the pads. `are_laid`: the
    /// hooks themselves have the block.
    pub fn damage_of_hooks(&self, are_laid: bool) -> Option<OutOfBounds> {
        let byte = |index| self.byte(self.front() + index);
        let damage = || damage_of_hooks(self.size(), are_laid, byte);
        self.is_of_domain().then(damage)?
    }

    /// The record in a checked block; `None` for any other block.
    pub fn of<'a>(block: &LiveBlock<'a>) -> Option<&'a Record> {
        // SAFETY: a block of a page of checked blocks, which begins with its record.
        is_checked(block.page.heap).then(|| unsafe { Record::at(block.start) })
    }

    /// The start and the number of the program's bytes; `None` for a block that waits in the quarantine.
    pub fn live_bytes(&self) -> Option<(*mut u8, usize)> {
        (self.state() == State::Live).then(|| (self.start(), self.size()))
    }

    fn bytes(&self, offset: usize, length: usize) -> *const [u8] {
        let start = (&raw const *self).cast::<u8>().wrapping_add(offset);
        std::ptr::slice_from_raw_parts(start, length)
    }

    fn byte(&self, offset: usize) -> u8 {
        // SAFETY: a byte of the block, which another thread may write to.
        unsafe { (&raw const *self).cast::<u8>().add(offset).read_volatile() }
    }

    /// The first write to a freed block of `usable` bytes.
    pub fn damage_after_free(&self, usable: usize) -> Option<Written<'_>> {
        let written = |at| Some(Written { record: self, at });
        if self.state() != State::Freed {
            return written(None);
        }
        let (front, size) = (self.front(), self.size());
        let filled = size.min(MOST_FILL);
        if !is_filled(self.bytes(front, filled), DEAD) {
            let at = (front..front + filled).find(|&at| self.byte(at) != DEAD);
            let offset = at.unwrap_or(front) - front;
            return written(Some((offset as isize, self.byte(front + offset))));
        }
        let is_damaged = |at: &usize| self.byte(*at) != FORBIDDEN;
        let first = match self.damage_of_pads(usable)? {
            OutOfBounds::Before(count) => front - count,
            OutOfBounds::Past(count) => (front + size..front + size + count).find(is_damaged)?,
        };
        let offset = first as isize - front as isize;
        written(Some((offset, self.byte(first))))
    }
}

/// A block in words: `a block of 40 bytes of the account native (allocated at x.py:3)`, without what
/// CPython's debug hooks add to its size.
impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let account = self.account();
        let (asked, name) = (asked_of(account, self.size()), account.name());
        let made = self.made().after("allocated at");
        write!(out, "a block of {asked} bytes of the account {name}{made}")
    }
}

/// A write to a freed block, in words.
pub struct Written<'a> {
    record: &'a Record,
    /// Where, and what is there now; `None` if the record itself was written over.
    at: Option<(isize, u8)>,
}

impl Written<'_> {
    /// The block's allocation and free; none of them if its record was written over.
    pub fn call_sites(&self) -> (CallSite, CallSite) {
        match self.at {
            Some(_) => (self.record.made(), self.record.freed()),
            None => Default::default(),
        }
    }
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((offset, value)) = self.at else {
            return out.write_str(
                "a block was written to after it was freed: the record in front of it was overwritten",
            );
        };
        let (front, _) = hooks_of(self.record.account());
        let is_inside = usize::try_from(offset).is_ok_and(|at| at < self.record.size());
        let expected = if is_inside { DEAD } else { FORBIDDEN };
        let (record, at) = (&self.record, offset - front as isize);
        let freed = record.freed_at();
        write!(out, "{record} was written to after it was freed{freed}: ")?;
        write!(out, "byte {at} is 0x{value:02x}, expected 0x{expected:02x}")
    }
}
