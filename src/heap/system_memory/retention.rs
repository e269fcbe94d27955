//! `--retain`: how much free memory the heaps keep.
//!
//! Each value sets options of mimalloc (`mi_option_t` of `mimalloc.h`); the figures behind the
//! choices are in `docs/results/performance.md`. A `MIMALLOC_*` variable wins.

use crate::ledger::{LEDGER, Scope};
use crate::mimalloc::ffi;
use crate::mimalloc::gate::{self, Inside};
use crate::mimalloc::pages::{self, Arena, Emptied};
use crate::system_memory::{address_limit, leak_check_addresses, small_pages};
use crate::threads::thread_state::{state, thread_id};
use pyhost_os::clock::monotonic_coarse;
use pyhost_os::mapping::{Mapping, advise_huge_pages};
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicIsize, AtomicUsize, Ordering::Relaxed};

/// A trade of memory against time: the choice that keeps least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retention {
    /// Gives memory back at once.
    Small,
    /// Gives back what is more than a share of the rest, and what is left a second after it was freed.
    #[default]
    Balanced,
    /// Keeps what was freed for ten seconds, and asks for huge pages.
    Speed,
}

pyhost_os::named!(Retention: "balanced" Balanced, "speed" Speed, "small" Small);

/// KiB of address space that mimalloc reserves at a time, to begin with; more as a program grows.
///
/// mimalloc's own default is 1 GiB, whose bitmaps take 224 KiB for each heap from its first page
/// on; those of 64 MiB take 28.
const ARENA_RESERVE: c_long = 64 * 1024;

/// Sets what must be set before mimalloc's first allocation, whatever is chosen.
pub(crate) fn prepare() {
    ffi::mi_option_set_default(ffi::PYHOST_ARENA_RESERVE, ARENA_RESERVE);
    address_limit::look();
}

/// Puts the choice in force. At the start of `main`, while the process has one thread.
pub fn apply(retention: Retention) {
    small_pages::learn();
    match retention {
        Retention::Balanced => {
            ffi::mi_option_set_default(ffi::PYHOST_PURGE_DELAY, BALANCED_DELAY as c_long);
            if delay() == BALANCED_DELAY {
                STATE.debt.store(0, Relaxed);
            }
        }
        Retention::Speed => {
            ffi::mi_option_set_default(ffi::PYHOST_PURGE_DELAY, 10_000);
            small_pages::stop();
            pages::each_arena(|Arena { start, end, .. }| {
                advise_huge_pages(std::ptr::without_provenance_mut(start), end - start, true);
            });
            if !address_limit::is_on() {
                reserve_huge_pages();
            }
        }
        Retention::Small => {
            ffi::mi_option_set_default(ffi::PYHOST_PURGE_DELAY, 0);
            ffi::mi_option_set_default(ffi::PYHOST_PAGE_FULL_RETAIN, 0);
        }
    }
}

/// Milliseconds for which `balanced` keeps what was freed, if it is little.
const BALANCED_DELAY: i64 = 1000;

/// Bytes of pages that have become empty between two looks at how much is free.
const STEP: usize = 1 << 20;
/// Bytes that may stay free: an eighth of what is in use, and no less than this.
const LEAST_KEPT: usize = 4 << 20;
/// Bytes that may wait beside what is in use when both are more than was ever in use: or a 64th of that, if it is more.
const ABOVE_HIGHEST: usize = 5 << 19;
/// The most that may stay free because the program takes it again time after time.
const MOST_KEPT: usize = 128 << 20;

pyhost_os::state! {
    /// What was freed and waits, and what became of what was given back.
    static STATE: FreedMemory {
        /// Bytes of pages that became empty since the last look; far below zero if none is made.
        debt: AtomicIsize = AtomicIsize::new(NEVER),
        /// Whether a page has become empty since a wait gave all back.
        has_empty: AtomicBool = AtomicBool::new(false),
        /// Bytes that may stay free, by what the program did with what was given back.
        kept: AtomicUsize = AtomicUsize::new(LEAST_KEPT),
        /// What was given back since the last judgement, see [`judge`]; 0 if nothing.
        given: AtomicUsize = AtomicUsize::new(0),
        /// When memory was given back last, by [`now`].
        given_at: AtomicI64 = AtomicI64::new(0),
        /// Bytes that were in use when the first of it was given back, and bytes of pages that became empty since.
        used: AtomicUsize = AtomicUsize::new(0),
        emptied: AtomicUsize = AtomicUsize::new(0),
        /// The most that was in use, as far as [`took`] has seen.
        highest: AtomicUsize = AtomicUsize::new(0),
        /// Bytes of big blocks that were made since [`took`] has counted: that takes time by what is in use.
        taken: AtomicUsize = AtomicUsize::new(0),
        /// When to look next, by [`now`].
        next_look: AtomicI64 = AtomicI64::new(0),
    }
}
const NEVER: isize = isize::MIN / 2;

/// A page has become empty, or a block has become shorter. Now and then gives back what is free, if it is more than a share
/// of what is in use: whether the program goes on or sleeps.
///
/// Of threads that look at a time each may see the other's figures; then more or less is given back.
#[inline(always)]
pub(crate) fn came_free(Emptied { bytes, is_kept }: Emptied, inside: &Inside) {
    let bytes = bytes as isize;
    if bytes > 0 {
        STATE.has_empty.store(true, Relaxed);
    }
    if bytes > 0 && !is_kept && STATE.debt.fetch_add(bytes, Relaxed) + bytes >= STEP as isize {
        give_back_what_is_much(inside);
    }
}

#[cold]
fn give_back_what_is_much(_inside: &Inside) {
    let emptied = STATE.debt.swap(0, Relaxed).max(0) as usize;
    STATE.emptied.fetch_add(emptied, Relaxed);
    let (used, free) = ffi::count_bytes();
    let is_much = || free > STATE.kept.load(Relaxed).max(used / 8);
    if !is_much() {
        return;
    }
    judge(used);
    if !is_much() {
        return;
    }
    if STATE.given.fetch_add(free, Relaxed) == 0 {
        STATE.used.store(used, Relaxed);
        STATE.emptied.store(0, Relaxed);
    }
    STATE.given_at.store(now(), Relaxed);
    ffi::pyhost_purge(usize::MAX);
}

/// A big block of so many bytes was made. If it took other memory than what waits, and both together are more than was ever in use, but
/// for a little, as much of what waits is given back before the block is written to: else a program whose blocks of some MiB are each of
/// another size would be resident with all that it freed lately, at its peak too. It is looked at when a mebibyte and a thousandth were taken.
pub(crate) fn took(bytes: usize) {
    let taken = STATE.taken.fetch_add(bytes, Relaxed) + bytes;
    if STATE.debt.load(Relaxed) < 0 || taken < STEP.max(STATE.highest.load(Relaxed) / 1024) {
        return;
    }
    STATE.taken.store(0, Relaxed);
    let (used, free) = ffi::count_bytes();
    let highest = STATE.highest.fetch_max(used, Relaxed).max(used);
    let excess = (used + free).saturating_sub(highest);
    if excess > ABOVE_HIGHEST.max(highest / 64) {
        ffi::pyhost_purge(excess);
    }
}

/// Once the program has taken half as much as was given back: if that was soon, it was given back in vain, and as much
/// more may stay free from now on; else half as much. To give a mebibyte back and have it again costs some 0.25 ms; soon
/// is within twenty times that.
fn judge(used: usize) {
    let given = STATE.given.load(Relaxed);
    let taken = (used + STATE.emptied.load(Relaxed)).saturating_sub(STATE.used.load(Relaxed));
    if given == 0 || taken < given / 2 {
        return;
    }
    let kept = STATE.kept.load(Relaxed);
    let soon = now() - STATE.given_at.load(Relaxed) <= (given >> 20) as i64 * 5;
    let kept = match soon {
        true => (kept + given).min(MOST_KEPT),
        false => (kept / 2).max(LEAST_KEPT),
    };
    STATE.kept.store(kept, Relaxed);
    STATE.given.store(0, Relaxed);
}

/// A wait of the calling thread, in a process that gives back what is free when nothing goes on: under `balanced`.
/// Neither allocates nor locks, so for signal handlers, too.
pub struct Wait {
    debt: isize,
    /// The bound of all live bytes: it moves with each window of bytes that a thread takes.
    bound: i64,
}

impl Wait {
    /// `None` if no page has become empty since all that was free was given back, or the choice, or the end of the
    /// process, leaves nothing to give back.
    #[inline]
    pub fn begins() -> Option<Wait> {
        let debt = STATE.debt.load(Relaxed);
        (debt >= 0 && STATE.has_empty.load(Relaxed)).then(|| Wait {
            debt,
            bound: LEDGER.bound(Scope::Total),
        })
    }

    /// Gives back all that is free, unless pages became empty since the wait began, or memory was taken: then another
    /// thread is at work, and will need them.
    #[cold]
    pub fn is_long(self) {
        if STATE.debt.load(Relaxed) == self.debt && LEDGER.bound(Scope::Total) == self.bound {
            let _inside = gate::enter(state().slot(), thread_id());
            STATE.has_empty.store(false, Relaxed);
            ffi::pyhost_purge(usize::MAX);
        }
    }
}

/// Milliseconds between two looks for memory whose delay has passed.
const LOOK: i64 = 500;

/// Milliseconds for which memory that was freed is kept; below 0 for ever.
pub(crate) fn delay() -> i64 {
    ffi::mi_option_get(ffi::PYHOST_PURGE_DELAY) as i64
}

/// Milliseconds of a clock that is cheap to read.
pub(crate) fn now() -> i64 {
    (monotonic_coarse() / 1_000_000) as i64
}

/// Whether what was freed longer ago than the delay of `--retain` is to be given back now: at most twice a second.
///
/// mimalloc itself looks only when a page is taken or freed: what a program frees in bulk would
/// stay for as long as its small requests are met by the pages that it has.
pub(crate) fn is_look_due() -> bool {
    let now = now();
    let is_due = now >= STATE.next_look.load(Relaxed);
    if is_due {
        STATE.next_look.store(now + LOOK, Relaxed);
    }
    is_due
}

/// Gives nothing back any more: the process is about to end, and all its memory with it. Any thread.
pub fn keep_everything() {
    ffi::mi_option_set(ffi::PYHOST_PURGE_DELAY, -1);
    STATE.debt.store(NEVER, Relaxed);
}

/// Gives mimalloc a gibibyte of address space for which huge pages are asked, to be used first; 64 MiB if addresses have
/// 32 bits. If the system refuses, nothing changes.
fn reserve_huge_pages() {
    const SIZE: usize = if ffi::IS_64_BIT { 1 << 30 } else { 64 << 20 };
    /// mimalloc's arenas begin on such a multiple (`MI_ARENA_SLICE_ALIGN`), huge pages on one of 2 MiB.
    const ALIGNMENT: usize = 1 << 21;
    let wish = leak_check_addresses::wish(SIZE + ALIGNMENT).unwrap_or(0);
    if let Some(memory) = Mapping::reserve_at(wish, SIZE + ALIGNMENT, true) {
        let start = memory.start().as_ptr();
        let first = start.wrapping_add(start.align_offset(ALIGNMENT));
        advise_huge_pages(first, SIZE, true);
        ffi::manage(memory, ALIGNMENT, SIZE);
    }
}
