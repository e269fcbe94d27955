//! Guard pages: sampled blocks that end at a page that cannot be touched, so that a write
//! past the end dies at once (`--guard`).
//!
//! All guarded blocks lie in one range of addresses that is reserved at the start and cannot be accessed, so that "is
//! it one of them" is a comparison. The range is cut into slots of one size a class ([`slots`]); a block takes the last
//! pages of its slot, ends at their end, but for the bytes that its alignment leaves, and a page that is never opened
//! follows. A freed block's pages are closed again at once. The slots of a class are taken in turn, so that a freed one
//! rests until all others were in use: that is the quarantine in which a use after `free` dies too.
//!
//! Bytes that no page can protect, behind the end by alignment and in front of the start up to the
//! page, hold a pattern that `free` looks at.
//!
//! Called from the slow paths alone, from any thread, inside the [`gate`]; nothing is locked, so
//! that neither a fork nor a signal handler can find a lock held. If the range, the system's
//! mappings or the class are exhausted, null is given and the heap serves the request.

mod fault;
mod settings;
mod slots;

pub use fault::{Fault, fault_at};
pub use settings::GuardSettings;

use crate::call_site::{CallSite, native_stacks};
use crate::checks::double_free::{refuse, refuse_block};
use crate::checks::families::Family;
use crate::checks::fill_bytes::{FORBIDDEN, is_filled};
use crate::checks::out_of_bounds::{self, OutOfBounds};
use crate::hot::booking::{book_beneath_caps, release_block};
use crate::mimalloc::{ffi::SMALL_SIZE_MAX, gate};
use crate::threads::thread_state::{state, thread_id};
use crate::{errno::Errno, host::Request};
use crate::{ledger::Account, sampling};
pub(crate) use slots::Record;
use slots::{FREED, GuardRange, LIVE, Miss, RANGE, TAKEN};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::{ops::Range, ptr::null_mut, ptr::slice_from_raw_parts};

/// `malloc`'s own alignment.
const ALIGNMENT: usize = 16;
/// That of CPython's domains but `obj`. Other processors than x86-64 have instructions that fail on words in odd places.
const OF_DOMAINS: usize = if cfg!(target_arch = "x86_64") { 1 } else { 8 };

/// Facts about the process, which the host finds out.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Whether requests of [`SMALL_SIZE_MAX`] bytes and less can come here.
    pub serves_small: bool,
    /// Bytes that live blocks may take if their pages are closed by marks.
    pub memory: usize,
}

pyhost_os::state! {
    /// Which blocks are guarded, and how many were.
    static STATE: GuardPages {
        /// Requests of this size and more are sampled; nobody asks for as much while guards are off.
        from: AtomicUsize = AtomicUsize::new(usize::MAX),
        /// What [`GuardPages::from`] is from the script's start on, if that is less than the inlined path serves; 0 for nothing.
        from_of_small: AtomicUsize = AtomicUsize::new(0),
        /// One of how many of them is guarded.
        every: AtomicU64 = AtomicU64::new(1),
        /// The least alignment of a block of `native`, and of others; its own is as large as its size allows.
        aligns: [AtomicUsize; 2] = [const { AtomicUsize::new(ALIGNMENT) }; 2],
        /// That of a block of `native` that the library asks for, beside those of other code; 0 for none of its own.
        align_of_library: AtomicUsize = AtomicUsize::new(0),
        /// Whether [`lie_over_hooks`] was called.
        lie_over_hooks: AtomicBool = AtomicBool::new(false),
        /// Whether requests of one library alone are guarded.
        of_library: AtomicBool = AtomicBool::new(false),
        /// Requests that could have been guarded.
        seen: AtomicU64 = AtomicU64::new(0),
        /// Blocks that were guarded.
        guarded: AtomicU64 = AtomicU64::new(0),
        /// Blocks that should have been guarded and were not.
        missed: AtomicU64 = AtomicU64::new(0),
        /// Those of them that found too many live.
        crowded_out: AtomicU64 = AtomicU64::new(0),
    }
}

/// The figures of guard pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardFigures {
    /// The least size that is sampled.
    pub min_bytes: u64,
    /// One of how many is guarded.
    pub every: u64,
    /// Blocks that were guarded.
    pub guarded_blocks: u64,
    /// Those of them that are live.
    pub live_blocks: u64,
    /// Blocks that were to be guarded and found no room.
    pub missed_blocks: u64,
    /// Those of them that found too many live.
    pub crowded_out_blocks: u64,
    /// Whether code of one library alone has its blocks guarded.
    pub is_of_library: bool,
}

/// Reserves the range and begins to sample. Once, while the process has one thread. Blocks of [`SMALL_SIZE_MAX`] and less are
/// sampled from [`script_begins`] on: what Python's own start leaves would take the room.
///
/// # Errors
/// The system gives no such range; nothing is guarded.
pub fn start(settings: GuardSettings, process: Process) -> Result<(), Errno> {
    let GuardSettings::Sample {
        min,
        every,
        align,
        is_beside_all,
        library,
    } = settings
    else {
        return Ok(());
    };
    let range = GuardRange::reserve(process.memory).ok_or_else(Errno::last)?;
    if RANGE.set(range).is_ok() {
        STATE.every.store(every.max(1), Relaxed);
        (STATE.of_library).store(library.is_some() && !is_beside_all, Relaxed);
        let min = min as usize;
        let of_all = align.filter(|_| !is_beside_all);
        for (place, default) in STATE.aligns.iter().zip([ALIGNMENT, OF_DOMAINS]) {
            place.store(of_all.map_or(default, |align| align as usize), Relaxed);
        }
        let of_library = align.filter(|_| is_beside_all).unwrap_or(0);
        (STATE.align_of_library).store(of_library as usize, Relaxed);
        if process.serves_small && min < SMALL_SIZE_MAX {
            STATE.from_of_small.store(min, Relaxed);
        }
        STATE.from.store(min.max(SMALL_SIZE_MAX + 1), Relaxed);
    }
    Ok(())
}

/// Whether blocks of [`SMALL_SIZE_MAX`] bytes and less are guarded, or will be.
pub fn are_small() -> bool {
    STATE.from_of_small.load(Relaxed) > 0
}

/// Begins to sample small blocks, too. Once.
pub fn script_begins() {
    if are_small() {
        STATE.from.store(STATE.from_of_small.load(Relaxed), Relaxed);
    }
}

/// Whether a request of `size` bytes is to be guarded; counts it if it is one to choose from.
#[inline]
pub fn wants(size: usize) -> bool {
    wants_some(size) && is_sampled()
}

/// Whether some requests of `size` bytes are to be guarded.
#[inline]
pub fn wants_some(size: usize) -> bool {
    size >= STATE.from.load(Relaxed)
}

/// As [`allocate`], for a request that is to be guarded; None for any other, and for one that CPython's debug hooks have passed on
/// if blocks are guarded over them.
#[inline]
pub(crate) fn allocate_if_wanted(
    account: Account,
    size: usize,
    alignment: usize,
) -> Option<*mut u8> {
    let was_seen = do_lie_over_hooks() && out_of_bounds::is_domain(account);
    let is_wanted = !was_seen && wants(size);
    is_wanted.then(|| allocate(account, size, alignment))?
}

#[cold]
fn is_sampled() -> bool {
    if STATE.of_library.load(Relaxed) && !native_stacks::is_of_library() {
        return false;
    }
    let seen = STATE.seen.fetch_add(1, Relaxed);
    seen.is_multiple_of(STATE.every.load(Relaxed))
}

/// The alignment of `malloc`'s blocks, of the library's or of all, if it is less than code may count on.
pub fn alignment_below_mallocs() -> Option<usize> {
    let of_library = &STATE.align_of_library;
    let least = match of_library.load(Relaxed) {
        0 => STATE.aligns[0].load(Relaxed),
        of_library => of_library,
    };
    (least < ALIGNMENT).then_some(least)
}

/// Whether guards are in force.
pub fn are_on() -> bool {
    RANGE.get().is_some()
}

/// The figures of guard pages; `None` if guards are off. A signal handler may call this.
pub fn figures() -> Option<GuardFigures> {
    let range = RANGE.get()?;
    Some(GuardFigures {
        min_bytes: STATE.from.load(Relaxed) as u64,
        every: STATE.every.load(Relaxed),
        guarded_blocks: STATE.guarded.load(Relaxed),
        live_blocks: range.live.load(Relaxed) as u64,
        missed_blocks: STATE.missed.load(Relaxed),
        crowded_out_blocks: STATE.crowded_out.load(Relaxed),
        is_of_library: STATE.of_library.load(Relaxed),
    })
}

/// A guarded block of `size` bytes that read as zeros, aligned to `alignment`, a power of two,
/// booked to `account`, or null if a cap refuses it; None if there is no room.
#[cold]
pub fn allocate(account: Account, size: usize, alignment: usize) -> Option<*mut u8> {
    let slot = state().slot();
    let inside = gate::enter(slot, thread_id());
    let range = RANGE.get()?;
    let alignment = alignment.max(own_alignment(account, size));
    let (record, slot_end) = match range.take(size, alignment) {
        Ok(taken) => taken,
        Err(miss) => {
            STATE.missed.fetch_add(1, Relaxed);
            let crowded_out = u64::from(miss == Miss::Crowded);
            STATE.crowded_out.fetch_add(crowded_out, Relaxed);
            return None;
        }
    };
    let number = STATE.guarded.fetch_add(1, Relaxed) + 1;
    let (block, mapped) = (record.start(), record.charged());
    // SAFETY: the slot's last `mapped` bytes were just opened, and are the caller's alone.
    unsafe {
        let first = (slot_end - mapped) as *mut u8;
        first.write_bytes(FORBIDDEN, block.addr() - first.addr());
        let end = block.add(size);
        end.write_bytes(FORBIDDEN, slot_end - end.addr());
    }
    record.account.store(account as u32, Relaxed);
    // 0 is older than any mark.
    let number = if state().is_before() { 0 } else { number };
    record.number.store(number, Relaxed);
    record.made.set(CallSite::of_caller());
    record.set_family(Family::Malloc);
    // That of the block that was here before: another thread may look before this one's free is noted.
    record.freed.set(CallSite::default());
    record.state.store(LIVE, Release);
    let request = Request {
        account,
        bytes: mapped,
        asked: size,
        undo: &|| {
            record.state.store(TAKEN, Relaxed);
            put_away(range, record, slot_end);
        },
    };
    if !book_beneath_caps(slot, block, &request) {
        return Some(null_mut());
    }
    if sampling::is_on() {
        sampling::booked_inside(account, block, mapped, &inside);
    }
    Some(block)
}

/// As [`allocate`], each byte `fill` if that is given.
pub fn allocate_filled(
    account: Account,
    size: usize,
    alignment: usize,
    fill: Option<u8>,
) -> Option<*mut u8> {
    let block = allocate(account, size, alignment)?;
    if let Some(fill) = fill.filter(|_| !block.is_null()) {
        // SAFETY: a block that nobody else has yet.
        unsafe { block.write_bytes(fill, size) };
    }
    Some(block)
}

/// The alignment of a block that a program asks for without naming one.
fn own_alignment(account: Account, size: usize) -> usize {
    let least = STATE.aligns[usize::from(account != Account::Native)].load(Relaxed);
    let of_library = STATE.align_of_library.load(Relaxed);
    let is_apart = of_library > 0 && account == Account::Native && !size.is_multiple_of(ALIGNMENT);
    let least = match is_apart && native_stacks::is_of_library() {
        true => of_library,
        false => least,
    };
    let least = match account {
        // ctypes has objects with members of 16 bytes in blocks of no multiple of that.
        Account::Obj => ALIGNMENT,
        // Nothing that is larger than a block is in it.
        _ => least.min(1 << size.max(1).ilog2()),
    };
    let of_size = 1 << size.max(1).trailing_zeros().min(ALIGNMENT.trailing_zeros());
    least.max(of_size)
}

/// Closes the memory of a block that is not live any more.
fn put_away(range: &GuardRange, record: &Record, slot_end: usize) {
    let state = range.close(slot_end, record.charged());
    record.state.store(state, Release);
}

/// Whether `pointer` lies in the range of guarded blocks.
pub fn owns(pointer: *mut u8) -> bool {
    RANGE.get().is_some_and(|range| range.holds(pointer.addr()))
}

fn record_of(pointer: *mut u8) -> Option<&'static Record> {
    Some(RANGE.get()?.slot_at(pointer.addr())?.record)
}

/// The record of the live guarded block in whose slot an address lies.
fn live_around(address: usize) -> Option<&'static Record> {
    record_of(address as *mut u8).filter(|record| record.state.load(Acquire) == LIVE)
}

/// The record of the live guarded block that starts at an address.
pub(crate) fn live_at(start: usize) -> Option<&'static Record> {
    live_around(start).filter(|record| record.start().addr() == start)
}

/// The size that was asked for of a live guarded block; None for any other pointer.
pub fn size(pointer: *mut u8) -> Option<usize> {
    live_at(pointer.addr()).map(Record::size)
}

impl Record {
    fn family(&self) -> Family {
        Family::at(self.made.rest.load(Relaxed))
    }

    pub(crate) fn set_family(&self, family: Family) {
        self.made.rest.store(family as u16, Relaxed);
    }

    /// Bytes that CPython's debug hooks have in front of the program's own, and all of theirs.
    pub(crate) fn hooks(&self) -> (usize, usize) {
        match do_lie_over_hooks() {
            true => (0, 0),
            false => out_of_bounds::hooks_of(self.account()),
        }
    }

    /// As [`Self::refuse_if_of_another`], for CPython's domains, if no hooks of CPython's would look.
    fn refuse_if_of_another_domain(&self, caller: Account, pointer: *mut u8, function: &str) {
        let account = self.account();
        let of_domain = out_of_bounds::is_domain(account) || out_of_bounds::is_domain(caller);
        if of_domain && account != caller && do_lie_over_hooks() {
            refuse_wrong(self, pointer, function, Wrong::Family);
        }
    }

    /// Ends the process for a block of another family than that of `function`, which got `pointer`.
    pub(crate) fn refuse_if_of_another(&self, family: Family, pointer: *mut u8, function: &str) {
        if self.family() != family {
            refuse_wrong(self, pointer, function, Wrong::Family);
        }
    }
}

/// Blocks of CPython's domains are guarded over its debug hooks from here on, so that they have no pads: what the hooks look for is
/// found by the pages and by [`free_by`]. Before Python is initialised.
pub fn lie_over_hooks() {
    STATE.lie_over_hooks.store(true, Relaxed);
}

/// Whether they are.
pub fn do_lie_over_hooks() -> bool {
    STATE.lie_over_hooks.load(Relaxed)
}

/// As [`free_by`], for `free`.
pub fn free(pointer: *mut u8, caller: Account) -> bool {
    free_by(pointer, caller, "free()")
}

/// Frees a guarded block, which `function` of the account `caller` was given. Returns false for a pointer outside the range, and
/// does nothing then. Ends the process if no block begins there, or it was freed before, or was written around, or is another
/// family's.
pub fn free_by(pointer: *mut u8, caller: Account, function: &str) -> bool {
    let Some(range) = RANGE.get().filter(|range| range.holds(pointer.addr())) else {
        return false;
    };
    let inside = gate::enter(state().slot(), thread_id());
    let Some(slot) = range.slot_at(pointer.addr()) else {
        refuse(format_args!(
            "{function}: invalid pointer {pointer:p}, between guarded blocks"
        ));
    };
    let record = slot.record;
    let account = record.account();
    let is_start = record.start() == pointer;
    let take = || (record.state).compare_exchange(LIVE, TAKEN, AcqRel, Relaxed);
    if is_start && record.state.load(Acquire) == LIVE {
        record.refuse_if_of_another(Family::Malloc, pointer, function);
        record.refuse_if_of_another_domain(caller, pointer, function);
    }
    if !is_start || take().is_err() {
        let what = match is_start {
            true => Wrong::Freed,
            false => Wrong::of_live(record, pointer),
        };
        refuse_wrong(record, pointer, function, what);
    }
    check_around(slot.end, record, function);
    record.freed.set(CallSite::of_caller());
    if sampling::is_on() {
        sampling::unbooked_inside(account, pointer, &inside);
    }
    release_block(account, pointer, record.charged(), caller);
    put_away(range, record, slot.end);
    true
}

/// Ends the process, with a line, if `pointer`, which `function` of the account `caller` got to resize, leads into a guarded block
/// that was freed, or into one that is live, or to the start of one that is another family's.
pub fn refuse_if_wrong(pointer: *mut u8, caller: Account, function: &str) {
    let Some(record) = record_of(pointer) else {
        return;
    };
    match record.state.load(Acquire) {
        FREED => refuse_wrong(record, pointer, function, Wrong::Freed),
        LIVE if record.start() != pointer => {
            refuse_wrong(record, pointer, function, Wrong::of_live(record, pointer))
        }
        LIVE => {
            record.refuse_if_of_another(Family::Malloc, pointer, function);
            record.refuse_if_of_another_domain(caller, pointer, function);
        }
        _ => {}
    }
}

/// What is wrong with a pointer to a guarded block.
enum Wrong {
    /// The block was freed before.
    Freed,
    /// It leads into the block.
    Inside,
    /// The block was made by a function of another family.
    Family,
}

impl Wrong {
    /// What is wrong with a pointer that does not lead to the start of a live block.
    fn of_live(record: &Record, pointer: *mut u8) -> Self {
        let (hook, _) = record.hooks();
        match hook > 0 && record.start().addr() + hook == pointer.addr() {
            true => Wrong::Family,
            false => Wrong::Inside,
        }
    }
}

/// Ends the process for a pointer to a guarded block that cannot be freed.
fn refuse_wrong(record: &Record, pointer: *mut u8, function: &str, wrong: Wrong) -> ! {
    let (freed, [what, maker]) = match wrong {
        Wrong::Freed => (record.freed.get(), ["freed before", ""]),
        Wrong::Inside => (CallSite::default(), ["which does not start there", ""]),
        Wrong::Family => (CallSite::default(), ["made by ", record.family().other()]),
    };
    let at = freed.after("at");
    let what = format_args!("{function}: invalid pointer {pointer:p}: {record}, {what}{maker}{at}");
    refuse_block(what, record.made.get(), freed)
}

/// Bytes outside of those that were asked for that were overwritten. The block is open, and ends in the slot that ends there.
fn overwritten(slot_end: usize, record: &Record) -> Option<OutOfBounds> {
    let start = record.start().addr();
    let end = start + record.size();
    let first = slot_end - record.charged();
    // SAFETY: the pages of a block that is still open.
    let damaged = |address: &usize| unsafe { (*address as *const u8).read_volatile() != FORBIDDEN };
    let found = match (end..slot_end).rev().find(damaged) {
        Some(past) => Some(OutOfBounds::Past(past + 1 - end)),
        None if is_filled(
            slice_from_raw_parts(first as *const u8, start - first),
            FORBIDDEN,
        ) =>
        {
            None
        }
        None => (first..start)
            .find(damaged)
            .map(|before| OutOfBounds::Before(start - before)),
    };
    found.map(|found| found.around(record.hooks()))
}

/// Ends the process if the pattern around a block is damaged.
fn check_around(slot_end: usize, record: &Record, function: &str) {
    if let Some(outside) = overwritten(slot_end, record) {
        let what = format_args!("{function}: {outside} {record}, overwritten");
        refuse_block(what, record.made.get(), CallSite::default());
    }
}

/// Calls `visit` for each live block with overwritten bytes outside of it. While no other thread allocates or frees.
pub(crate) fn each_overwritten(mut visit: impl FnMut(&Record, OutOfBounds)) {
    let Some(range) = RANGE.get() else { return };
    range.each_live(|record| {
        let slot = range.slot_at(record.start().addr());
        let around = slot.and_then(|slot| overwritten(slot.end, record));
        if let Some(outside) = around {
            visit(record, outside);
        }
    });
}

/// Whether a live guarded block holds `address`.
pub fn is_live(address: usize) -> bool {
    live_around(address).is_some_and(|record| record.distance(address) == 0)
}

/// The account of the live guarded block in whose slot `address` lies, if there is one, and the address behind the slot; `None`
/// outside of the range.
pub fn part_at(address: usize) -> Option<(Option<Account>, usize)> {
    let range = RANGE.get().filter(|range| range.holds(address))?;
    Some((
        live_around(address).map(Record::account),
        range.behind_slot(address),
    ))
}

/// The allocation of the live guarded block that starts at an address.
pub fn call_site_of(start: usize) -> Option<CallSite> {
    live_at(start).map(|record| record.made.get())
}

/// The memory of the records of guarded blocks; None if there are none.
pub fn table() -> Option<Range<usize>> {
    RANGE.get().map(GuardRange::table)
}

/// Tells of each live guarded block. While no other thread allocates.
pub(crate) fn visit(visitor: impl FnMut(&'static Record)) {
    if let Some(range) = RANGE.get() {
        range.each_live(visitor);
    }
}

/// The number of the latest guarded block.
pub fn latest_number() -> u64 {
    STATE.guarded.load(Relaxed)
}
