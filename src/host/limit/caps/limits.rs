//! The caps in force: one a scope that options and the script set, and the limits of blocks of
//! code that are open. The lowest of them is the ledger's ceiling.
//!
//! A cap is a ceiling for good, its reserve inside it. A limit caps the growth of a scope since
//! its block was entered; the room in which Python handles the error is above it, and below the
//! cap. Both count the maps of libraries beside the total's live bytes, unless it is to count what the accounts own alone.
//! All functions but [`binding`] and those on maps are for callers that hold the GIL.

use super::{shortages, tree};
use crate::heap::{source_line::SourceLine, thread_number};
use crate::ledger::{Account, LEDGER, Scope, Slot};
use pyhost_os::cell::Latest;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

/// How many limits may be open at a time.
const LIMITS: usize = 64;
/// The least and the most of a cap of Python's own accounts that is its reserve.
const RESERVE: (u64, u64) = (2 << 20, 4 << 20);

#[derive(Clone, Copy, Debug)]
pub struct CodeBlockLimit {
    /// The growth that it allows, in bytes.
    pub bytes: u64,
    /// The scope's live bytes when the block was entered, with the maps that it counts.
    pub base: u64,
    /// The line of the `with` statement.
    pub source: SourceLine,
}

impl CodeBlockLimit {
    /// A limit of so many bytes of growth, for the block of the calling thread's line.
    pub fn here(bytes: u64) -> Self {
        let source = SourceLine::of_caller();
        CodeBlockLimit {
            bytes,
            base: 0,
            source,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitError {
    /// The scope has so many bytes live, and with its reserve needs so many.
    Low {
        /// Live bytes of the moment, with the maps that it counts.
        live: u64,
        least: u64,
    },
    /// The total's cap may be so many bytes at most.
    High(u64),
    /// Too many limits are open.
    Full,
}

#[derive(Clone, Copy)]
struct Open {
    scope: Scope,
    with_maps: bool,
    /// Where the growth that the block was granted ends.
    hold: u64,
    /// How many were opened before it, and by which thread it was.
    number: usize,
    thread: usize,
}

struct Table {
    caps: [Option<u64>; Scope::COUNT],
    /// Whether the total's cap counts maps.
    with_maps: bool,
    limits: [Option<Open>; LIMITS],
    opened: usize,
}

/// The lowest of the caps and limits of a scope: its height, where its reserve begins, and 1 + the index of the limit
/// that it is; 0 for a cap.
type Fixed = [AtomicU64; 3];

/// The place of those heights of the total that count maps.
const WITH_MAPS: usize = Scope::COUNT;

pyhost_os::state! {
    pub(super) static STATE: CapTable {
        table: Mutex<Table> = Mutex::new(Table {
            caps: [None; Scope::COUNT],
            with_maps: false,
            limits: [None; LIMITS],
            opened: 0,
        }),
        /// For each scope 1 + the index of the limit that is its ceiling; 0 if its cap is.
        binding: [AtomicUsize; Scope::COUNT] = [const { AtomicUsize::new(0) }; Scope::COUNT],
        /// What caps and limits say of each scope, without [`CapTable::followed`]; last the total's that count maps.
        fixed: [Fixed; WITH_MAPS + 1] = [const { [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX), AtomicU64::new(0)] }; WITH_MAPS + 1],
        /// The resident bytes of libraries' maps, when they were measured last.
        maps: AtomicU64 = AtomicU64::new(0),
        /// What maps leave for live bytes at least: those of the moment when maps had taken half of the reserve. So there is a
        /// reserve, in which the error is handled and memory given back, when maps have passed the cap. 0 if they leave enough.
        least: AtomicU64 = AtomicU64::new(0),
        /// The largest total that the charges of a control group allow.
        followed: AtomicU64 = AtomicU64::new(u64::MAX),
        /// The most of it that is its reserve.
        pub(super) followed_reserve: AtomicU64 = AtomicU64::new(u64::MAX),
        /// Bytes of the chunks of all threads' data stacks, and those that the reserves were last made for.
        stacks: AtomicI64 = AtomicI64::new(0),
        stacks_seen: AtomicI64 = AtomicI64::new(0),
        /// How many threads are in [`combine`].
        combining: AtomicU32 = AtomicU32::new(0),
        /// The highest cap that the total may get.
        pub(super) most: AtomicU64 = AtomicU64::new(u64::MAX),
    }
}

// Large and all zeros: not beside what begins with another value, which the file has.
static LABELS: [Latest<CodeBlockLimit>; LIMITS] = [const { Latest::new() }; LIMITS];

/// Bytes of data stacks that need no more than the reserve that there always is, and how far they may
/// move before the reserves follow.
const SHALLOW: i64 = 1 << 20;
const STACK_STEP: i64 = 256 << 10;

/// The part of a cap that is kept for handling its errors.
fn reserve(scope: Scope, cap: u64) -> u64 {
    match scope {
        Scope::Total | Scope::Account(Account::Obj | Account::Mem) => {
            (cap / 8).clamp(RESERVE.0, RESERVE.1)
        }
        Scope::Account(Account::Raw | Account::Arena) => (cap / 8).clamp(64 << 10, 1 << 20),
        Scope::Account(_) => (cap / 16).min(1 << 20),
    }
}

fn locked<T>(work: impl FnOnce(&mut Table) -> T) -> T {
    work(&mut STATE.table.lock().unwrap_or_else(PoisonError::into_inner))
}

pub fn live(scope: Scope) -> u64 {
    let snapshot = LEDGER.snapshot();
    match scope {
        Scope::Account(account) => snapshot.account(account).live_bytes,
        Scope::Total => snapshot.total_live_bytes,
    }
}

impl Table {
    fn close(&mut self, slot: &Slot, ends: impl Fn(&Open) -> bool) {
        for index in 0..LIMITS {
            if let Some(open) = self.limits[index].take_if(|open| ends(open)) {
                self.apply(open.scope, slot);
            }
        }
    }

    /// Makes the lowest of what stands over a scope the ledger's ceiling.
    fn apply(&self, scope: Scope, slot: &Slot) {
        self.fix(scope, false);
        if scope == Scope::Total {
            self.fix(scope, true);
            STATE.least.store(0, Relaxed);
        }
        combine(scope);
        if LEDGER.cap(scope).is_some() {
            LEDGER.close_windows(slot);
        }
        shortages::of(scope).end();
    }

    /// Finds the lowest of what stands over a scope, of that which counts maps, or not.
    fn fix(&self, scope: Scope, with_maps: bool) {
        let counts_maps = self.with_maps && scope == Scope::Total;
        let base = self.caps[scope.index()].filter(|_| counts_maps == with_maps);
        let cap = base.unwrap_or(u64::MAX);
        let mut hold = base.map_or(u64::MAX, |cap| cap.saturating_sub(reserve(scope, cap)));
        let mut height = cap;
        let mut binding = 0;
        for (index, limit) in self.limits.iter().enumerate() {
            if let Some(open) = limit
                && (open.scope, open.with_maps) == (scope, with_maps)
                && open.hold < hold
            {
                hold = open.hold;
                let granted = LABELS[index].get().map_or(0, |limit| limit.bytes);
                height = cap.min(hold.saturating_add((granted / 8).max(RESERVE.1)));
                binding = index + 1;
            }
        }
        let place = if with_maps { WITH_MAPS } else { scope.index() };
        let figures = [height, hold, binding as u64];
        for (place, figure) in STATE.fixed[place].iter().zip(figures) {
            place.store(figure, Relaxed);
        }
    }
}

/// What stands for the number of a limit if the tree's cap is the ceiling.
const TREE: u64 = 1 + LIMITS as u64;

/// The height, the hold and the binding limit at a place of [`CapTable::fixed`]; with what the process has of its tree's cap, and
/// `more` of it.
fn fixed(place: usize, more: u64) -> [u64; 3] {
    let [cap, hold, limit] = [0, 1, 2].map(|part| STATE.fixed[place][part].load(Relaxed));
    match tree::height().filter(|_| place == WITH_MAPS) {
        None => [cap, hold, limit],
        Some(height) => {
            let begins = height.saturating_sub(tree::reserve()) + more;
            let limit = if begins < hold { TREE } else { limit };
            [cap.min(height + more), hold.min(begins), limit]
        }
    }
}

/// Whether the tree's cap is the total's ceiling. Any thread, also inside the allocator.
pub(super) fn is_trees() -> bool {
    STATE.binding[Scope::Total.index()].load(Relaxed) as u64 == TREE
}

/// By how much `more` bytes beside live bytes and maps would pass the begin of the reserve of what the process has of its
/// tree's cap; below 0 if they would not.
pub(super) fn lacks_of_tree(more: u64) -> i64 {
    let need = live_of_tree() + for_unwinding() + tree::reserve();
    need.saturating_add(more).min(i64::MAX as u64) as i64 - tree::height().unwrap_or(0) as i64
}

/// What counts for the cap of a tree: live bytes and the maps of libraries.
pub(super) fn live_of_tree() -> u64 {
    LEDGER.bound(Scope::Total).max(0) as u64 + maps()
}

/// Whether a thread may be about to set a ceiling from what was true before.
pub(super) fn is_combining() -> bool {
    STATE.combining.load(SeqCst) != 0
}

/// In a forked child: no other thread is in [`combine`], and the blocks of others do not run in it. A thread that C code forked without the
/// GIL may have left the table locked.
pub(super) fn forked(slot: &Slot) {
    STATE.combining.store(0, SeqCst);
    combine(Scope::Total);
    if let Ok(mut table) = STATE.table.try_lock() {
        table.close(slot, |open| open.thread != thread_number());
    }
}

/// What maps count against beside live bytes: the size of the cap or limit, and the sum from which on maps are refused, so
/// that the reserve stays. Returns `None` if nothing that stands over the total counts them.
pub(super) fn with_maps() -> Option<(u64, u64)> {
    let [cap, hold, binding] = fixed(WITH_MAPS, tree::free());
    match (binding as usize).checked_sub(1) {
        _ if hold == u64::MAX => None,
        _ if binding == TREE => Some((tree::size()?, hold)),
        None => Some((cap, hold)),
        Some(index) => Some((LABELS[index].get()?.bytes, hold)),
    }
}

/// The resident bytes of libraries' maps, when they were measured last; 0 if nothing counts them.
pub(super) fn maps() -> u64 {
    STATE.maps.load(Relaxed)
}

/// Notes the resident bytes of libraries' maps: the ceilings that count them are lower by so much. Any thread, also inside the
/// allocator.
pub(super) fn set_maps(bytes: u64) {
    let before = STATE.maps.swap(bytes, Relaxed);
    let [height, begins, _] = fixed(WITH_MAPS, 0);
    let live = LEDGER.bound(Scope::Total).max(0) as u64;
    let half = begins.saturating_add((height - begins) / 2);
    if live + bytes <= begins {
        STATE.least.store(0, Relaxed);
    } else if live + bytes > half && live + before <= half {
        STATE.least.store(live, Relaxed);
    }
    if before != bytes {
        combine(Scope::Total);
    }
    // As in `follow`.
    if before + RESERVE.0 / 2 < bytes {
        shortages::of(Scope::Total).end();
    }
}

/// The cap of a scope, and the bytes of libraries' maps that it counts.
pub(super) fn cap_and_maps(scope: Scope) -> (u64, u64) {
    let ([cap, hold, _], maps) = (fixed(WITH_MAPS, 0), maps());
    let is_lower = |other: u64| hold != u64::MAX && hold.saturating_sub(maps) <= other;
    match scope {
        Scope::Total if is_lower(fixed(scope.index(), 0)[1]) => (cap, maps),
        _ => (LEDGER.cap(scope).unwrap_or(0), 0),
    }
}

/// The lowest of the fixed heights and of what is followed, if the process had `more` of its tree's cap: the height, where its
/// reserve begins, and the binding limit.
fn lowest(scope: Scope, more: u64) -> [u64; 3] {
    let [mut cap, mut hold, mut binding] = fixed(scope.index(), more);
    let followed = STATE.followed.load(Relaxed);
    if let (Scope::Total, [height, begins, limit]) = (scope, fixed(WITH_MAPS, more))
        && begins != u64::MAX
    {
        let for_live = begins.saturating_sub(maps()).max(STATE.least.load(Relaxed));
        cap = cap.min(for_live + (height - begins));
        cap = cap.min(tree::height().map_or(cap, |height| height + more));
        if for_live < hold {
            (hold, binding) = (for_live, limit);
        }
    }
    if let Scope::Total | Scope::Account(Account::Obj) = scope
        && hold != u64::MAX
    {
        hold = hold.saturating_sub(for_unwinding());
    }
    if scope == Scope::Total && followed != u64::MAX {
        cap = cap.min(followed);
        let own = STATE.followed_reserve.load(Relaxed);
        let reserve = reserve(scope, followed).min(own) + for_unwinding();
        hold = hold.min(followed.saturating_sub(reserve));
    }
    [cap, hold, binding]
}

/// Makes the lowest of what stands over a scope the ledger's ceiling.
pub(super) fn combine(scope: Scope) {
    STATE.combining.fetch_add(1, SeqCst);
    let [cap, hold, binding] = lowest(scope, 0);
    STATE.binding[scope.index()].store(binding as usize, Relaxed);
    let ceiling = (hold != u64::MAX).then_some(cap);
    LEDGER.set_ceiling(scope, ceiling, cap - hold.min(cap));
    STATE.combining.fetch_sub(1, SeqCst);
}

/// Whether what is followed is the total's ceiling: no cap and no limit is lower.
pub(super) fn is_followed() -> bool {
    LEDGER.cap(Scope::Total) == Some(STATE.followed.load(Relaxed))
}

/// Bytes that an error needs beside the usual reserve when it leaves all calls on the data stacks. Since
/// CPython 3.11 each call then gets a line of the traceback and a frame object, which is as large as its
/// frame on the stack and half as much again. The chunks of the stack are freed on the way.
fn for_unwinding() -> u64 {
    let deep = STATE.stacks.load(Relaxed) - SHALLOW;
    (deep.max(0) / 2 * 3) as u64
}

/// A thread's data stack has grown by so many bytes, or fallen. Any thread, also inside the
/// allocator.
pub fn stack_moved(bytes: i64) {
    let stacks = STATE.stacks.fetch_add(bytes, Relaxed) + bytes;
    let seen = STATE.stacks_seen.load(Relaxed);
    if LEDGER.is_capped() && (stacks - seen).abs() >= STACK_STEP && stacks.max(seen) > SHALLOW {
        STATE.stacks_seen.store(stacks, Relaxed);
        combine(Scope::Total);
        combine(Scope::Account(Account::Obj));
    }
}

/// Lets the total be no more than `cap`, beside what caps and limits say. Any thread, also inside
/// the allocator.
pub(super) fn follow(cap: u64) {
    let before = STATE.followed.swap(cap, Relaxed);
    combine(Scope::Total);
    // Errors of before were raised for a higher cap: each thread is due for one again.
    if before != u64::MAX && cap.saturating_add(reserve(Scope::Total, cap) / 2) < before {
        shortages::of(Scope::Total).end();
    }
}

/// Sets the cap of a scope, or takes it away. Changes nothing if the cap is below what is live and its reserve, or above what
/// may be. It counts `maps`, the resident bytes of libraries' maps, if there are any to count. `slot` is the calling thread's.
pub(super) fn set(
    scope: Scope,
    cap: Option<u64>,
    maps: Option<u64>,
    slot: &Slot,
) -> Result<(), LimitError> {
    let most = STATE.most.load(Relaxed);
    if scope == Scope::Total && cap.unwrap_or(u64::MAX) > most {
        return Err(LimitError::High(most));
    }
    if let Some(cap) = cap {
        let live = live(scope) + maps.unwrap_or(0);
        let least = live + reserve(scope, cap);
        if cap < least {
            return Err(LimitError::Low { live, least });
        }
    }
    locked(|table| {
        table.caps[scope.index()] = cap;
        if scope == Scope::Total {
            table.with_maps = maps.is_some();
        }
        table.apply(scope, slot);
    });
    Ok(())
}

/// The cap of a scope that options or the script set; else the total's is the tree's.
pub(super) fn get(scope: Scope) -> Option<u64> {
    let own = locked(|table| table.caps[scope.index()]);
    own.or_else(|| tree::size().filter(|_| scope == Scope::Total))
}

/// Opens a limit over a scope, with `maps` as in [`set`]; its number, for [`leave`].
pub(super) fn enter(
    scope: Scope,
    limit: CodeBlockLimit,
    maps: Option<u64>,
    slot: &Slot,
) -> Result<usize, LimitError> {
    let base = live(scope) + maps.unwrap_or(0);
    locked(|table| {
        let free = table.limits.iter().position(Option::is_none);
        let index = free.ok_or(LimitError::Full)?;
        LABELS[index].set(&CodeBlockLimit { base, ..limit });
        let number = table.opened;
        table.opened += 1;
        table.limits[index] = Some(Open {
            scope,
            with_maps: maps.is_some(),
            hold: base.saturating_add(limit.bytes),
            number,
            thread: thread_number(),
        });
        table.apply(scope, slot);
        Ok(number)
    })
}

pub(super) fn leave(number: usize, slot: &Slot) {
    locked(|table| table.close(slot, |open| open.number == number));
}

/// The largest sum of the calling thread's open windows.
const WINDOWS: i64 = 64 << 10;

/// Bytes that may still be booked to a scope before its reserve, by the bytes that all threads have
/// published. Returns `None` if the scope has no ceiling. `slot` is the calling thread's.
pub(super) fn headroom(scope: Scope, slot: &Slot) -> Option<u64> {
    LEDGER.hold(scope)?;
    LEDGER.close_windows(slot);
    let [cap, hold, _] = lowest(scope, tree::free());
    let hold = hold.min(cap) as i64;
    Some((hold - LEDGER.bound(scope) - WINDOWS).max(0) as u64)
}

/// The limit of a block of code that is a scope's ceiling; None if its cap is, or if it has no ceiling. Any
/// thread, also inside the allocator.
pub fn binding(scope: Scope) -> Option<CodeBlockLimit> {
    let index = STATE.binding[scope.index()].load(Relaxed).checked_sub(1)?;
    LABELS.get(index)?.get()
}
