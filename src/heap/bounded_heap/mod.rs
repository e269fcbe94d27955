//! The bounded heap of `--region`: one range of addresses in which every page of mimalloc's lies,
//! and a sum of what is committed of it that never passes the region's size.
//!
//! The range is longer than the size, since mimalloc wants whole runs of addresses and takes no arena of less than 32
//! MiB. All of it is without access at first. mimalloc asks [`commit`] before it uses a slice, and gives slices back
//! through it; what is committed is readable and writable, the rest is not, so nothing but what is counted can become
//! resident. A commit that does not fit is refused, and the request that needed it gets null.
//!
//! [`reserve`] comes before mimalloc's first request (see `options/early.rs`), so what libraries
//! allocate before `main` lies in the region like all else. mimalloc is told to take no memory
//! from the system; what it takes all the same is its map from addresses to pages, and, should
//! the range of addresses be used up, the few KiB that it keeps for a new thread.
//!
//! The lock is held by slow paths only, inside the [`gate`], so that a forked child
//! finds it free. Nothing here allocates or panics.

#![allow(unsafe_code)]

mod backing;
mod commits;
mod promises;
mod size;

pub use backing::{RegionError, lock, use_huge_pages};
pub use promises::{NEED as THREAD_NEED, take as take_promise};
pub use size::Size;

use crate::mimalloc::ffi::{ARENA_UNIT, IS_64_BIT, Page};
use crate::mimalloc::{ffi, gate};
use crate::system_memory::{address_limit, leak_check_addresses};
use crate::threads::thread_state::{state, thread_id};
use crate::{bytes::Exact, errno::Errno, host::end_start};
use commits::{BLOCK, Bits, Commits, SLICE};
use promises::Promises;
use pyhost_os::mapping::{Mapping, page_size};
use pyhost_os::system_call::system_call;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{ops::Range, ptr::null_mut, sync::atomic::Ordering::Relaxed};

/// Bytes of a huge page, by which a region with `--region huge-pages` is counted.
pub const HUGE_PAGE: u64 = BLOCK as u64;

/// The least size of a region: no Python starts in less.
pub const LEAST: u64 = 8 << 20;

/// Addresses of one arena at most: those of 16 GiB have more to keep of themselves than mimalloc
/// allows (`mi_arena_initialize`). With 32 bits an arena is the longest range: a process has 2 or 3 GiB of addresses.
const ARENA: usize = if IS_64_BIT { ARENA_UNIT << 8 } else { 1 << 30 };
/// Bytes of the longest range. mimalloc has room for 160 arenas (`MI_MAX_ARENAS`).
const MOST: u64 = ARENA as u64 * if IS_64_BIT { 150 } else { 1 };
/// Bytes of the shortest range, and how many times the size it is. mimalloc keeps runs of 32 MiB apart for pages of one slice, of 8 and
/// of 64; with 32 bits runs of 8 MiB.
const LEAST_RANGE: u64 = if IS_64_BIT { 256 << 20 } else { 128 << 20 };
const TIMES: u64 = if IS_64_BIT { 8 } else { 4 };

/// Bytes that must be left for a thread to get its part of a heap: a page of mimalloc's own blocks.
const THREAD_ROOM: u64 = 2 * SLICE as u64;

/// Bytes of addresses that must be free for a new thread, which takes some runs of 512 KiB for its pages.
const THREAD_ADDRESSES: usize = 8 << 20;

pyhost_os::state! {
    /// The region: its addresses, its size, and what is committed.
    static STATE: BoundedHeap {
        /// First address of the range; 0 without a region.
        base: AtomicUsize = AtomicUsize::new(0),
        /// Bytes of the range.
        range: AtomicUsize = AtomicUsize::new(0),
        /// The region's size: what may be committed.
        size: AtomicU64 = AtomicU64::new(0),
        commits: Mutex<Option<Commits>> = Mutex::new(None),
        /// The table of what is unused of each slice; null without a region.
        unused: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut()),
        /// Taken after [`BoundedHeap::commits`], and only with it.
        promises: Mutex<Promises> = Mutex::new(Promises::none()),
        /// The region was full, and has not had room since.
        was_full: AtomicBool = AtomicBool::new(false),
        /// Copies of the sum for reports, which may not wait for the lock.
        committed: AtomicU64 = AtomicU64::new(0),
        peak: AtomicU64 = AtomicU64::new(0),
        refused: AtomicU64 = AtomicU64::new(0),
        before_main: AtomicU64 = AtomicU64::new(0),
        locked: AtomicBool = AtomicBool::new(false),
        huge_pages: AtomicBool = AtomicBool::new(false),
        /// Python has started. Before, a request that fails ends the process.
        has_python: AtomicBool = AtomicBool::new(false),
    }
}

/// The figures of the region in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionFigures {
    /// Bytes that may be committed.
    pub size: u64,
    /// Bytes of addresses that are reserved.
    pub reserved: u64,
    pub committed: u64,
    /// The most that were.
    pub peak: u64,
    /// Commits that did not fit. mimalloc gives back what it can and asks again, so a request
    /// that is met in the end may count.
    pub refused: u64,
    /// Bytes that were committed when `main` began.
    pub before_main: u64,
    /// Whether what is committed is locked in memory.
    pub locked: bool,
    pub huge_pages: bool,
}

fn locked() -> MutexGuard<'static, Option<Commits>> {
    STATE.commits.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The range of addresses for a region of `size` bytes. Several times the size, since each size
/// of blocks has runs of addresses of its own, of which only a part is committed.
fn range_for(size: u64) -> Option<usize> {
    let range = match size {
        ..=0x4000_0000 => (size * TIMES).max(LEAST_RANGE),
        _ => size.checked_mul(2)?.max(TIMES << 30),
    };
    let range = range.min(MOST);
    let range = usize::try_from(range).ok().filter(|_| size < range)?;
    range.checked_next_multiple_of(ARENA_UNIT)
}

/// Reserves the region and gives it to mimalloc. Before mimalloc's first request; false if the
/// system gives no such range, after which mimalloc is as it is without a region.
pub(crate) fn reserve(size: u64) -> bool {
    let Some(range) = range_for(size) else {
        return false;
    };
    let words = range / BLOCK;
    let slices = range / SLICE;
    let table_bytes = (words * size_of::<Bits>() + slices).next_multiple_of(SLICE);
    let Some(total) = range.checked_add(table_bytes + BLOCK) else {
        return false;
    };
    let wish = leak_check_addresses::wish(total).unwrap_or(0);
    let Some(memory) = Mapping::reserve_at(wish, total, false) else {
        return false;
    };
    let start = memory.start().as_ptr();
    let base: *mut c_void = start.wrapping_add(start.align_offset(BLOCK)).cast();
    // SAFETY: the last part becomes a table of zeros that nobody else has, and stays.
    let (table, unused) = unsafe {
        let table = base.add(range);
        if libc::mprotect(table, table_bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return false;
        }
        let unused = table.add(words * size_of::<Bits>()).cast::<AtomicU8>();
        STATE.unused.store(unused, Relaxed);
        let table = std::slice::from_raw_parts_mut(table.cast::<Bits>(), words);
        (table, std::slice::from_raw_parts(unused, slices))
    };
    memory.leak();
    *locked() = Some(Commits::new(table, unused, size));
    STATE.base.store(base.addr(), Relaxed);
    STATE.range.store(range, Relaxed);
    STATE.size.store(size, Relaxed);
    // SAFETY: the rest of the mapping, which mimalloc owns for good from here on.
    let taken = unsafe { hand_over(base, range) };
    if !taken {
        // The part that mimalloc has taken stays usable, as the counted part of an unbounded heap.
        ffi::mi_option_set(ffi::PYHOST_DISALLOW_OS_ALLOC, 0);
        STATE.size.store(0, Relaxed);
    }
    taken
}

/// Makes mimalloc take all its memory from the range.
///
/// # Safety
/// The range is [`BoundedHeap::base`]'s, and mimalloc has none yet.
unsafe fn hand_over(base: *mut c_void, range: usize) -> bool {
    ffi::mi_option_set(ffi::PYHOST_DISALLOW_OS_ALLOC, 1);
    ffi::mi_option_set(ffi::PYHOST_RESERVE_OS_MEMORY, 0);
    ffi::mi_option_set(ffi::PYHOST_RESERVE_HUGE_OS_PAGES, 0);
    ffi::mi_option_set(ffi::PYHOST_ALLOW_LARGE_OS_PAGES, 0);
    ffi::mi_option_set(ffi::PYHOST_PAGE_COMMIT_ON_DEMAND, 1);
    ffi::mi_option_set(ffi::PYHOST_ARENA_MAX_OBJECT_SIZE, (ARENA / 1024) as _);
    (0..range).step_by(ARENA).all(|offset| {
        // SAFETY: the caller's promise; the function has the type that mimalloc calls.
        unsafe {
            ffi::mi_manage_memory(
                base.add(offset),
                ARENA.min(range - offset),
                false, // committed
                false, // pinned
                true,  // zero
                -1,    // NUMA node
                false, // exclusive
                on_commit,
                null_mut(),
                null_mut(),
            )
        }
    })
}

pub fn size() -> Option<u64> {
    Some(STATE.size.load(Relaxed)).filter(|&size| size != 0)
}

/// The figures of the region; `None` without one. A signal handler may call this.
pub fn figures() -> Option<RegionFigures> {
    Some(RegionFigures {
        size: size()?,
        reserved: STATE.range.load(Relaxed) as u64,
        committed: STATE.committed.load(Relaxed),
        peak: STATE.peak.load(Relaxed),
        refused: STATE.refused.load(Relaxed),
        before_main: STATE.before_main.load(Relaxed),
        locked: STATE.locked.load(Relaxed),
        huge_pages: STATE.huge_pages.load(Relaxed),
    })
}

/// Notes what is committed at the start of `main`.
pub fn main_begins() {
    let committed = STATE.committed.load(Relaxed);
    STATE.before_main.store(committed, Relaxed);
}

/// Python has started: from here on a request that fails is the script's to handle.
pub fn python_started() {
    STATE.has_python.store(true, Relaxed);
}

/// Exit status if the region is too small for Python to start.
pub const TOO_SMALL: libc::c_int = 2;

/// A request has failed. While Python starts it ends the process.
#[cold]
pub(crate) fn request_failed() {
    if size().is_some() && !STATE.has_python.load(Relaxed) {
        let size = Exact(STATE.size.load(Relaxed));
        let line = format_args!(
            "--region: {size} is too little for Python to start; expected a larger region"
        );
        end_start(line, TOO_SMALL);
    }
}

/// Whether the region is full for the first time since it had room.
pub(crate) fn is_newly_full() -> bool {
    !STATE.was_full.swap(true, Relaxed)
}

/// Room that was kept for a thread.
pub type Promise = (usize, u64);

fn promises() -> MutexGuard<'static, Promises> {
    let promises = STATE.promises.lock();
    promises.unwrap_or_else(PoisonError::into_inner)
}

/// Keeps room for a thread that the calling one is about to make; `None` if there is no room. With
/// huge pages, which are counted whole, for two of them.
pub fn promise() -> Option<Promise> {
    keep_room().or_else(|| {
        crate::collect();
        keep_room()
    })
}

/// Bytes to keep for threads that were promised so many bytes of whole slices. A thread uses a part of each slice.
fn for_threads(commits: &Commits, bytes: u64) -> u64 {
    match counts_parts(commits) {
        true => bytes / 2,
        false => bytes,
    }
}

fn keep_room() -> Option<Promise> {
    // A forked child finds the locks free, since the gate is closed while the process forks.
    let _inside = gate::enter(state().slot(), thread_id());
    let guard = locked();
    let commits = guard.as_ref()?;
    let mut promises = promises();
    promises.settle();
    let need = match commits.whole_blocks {
        true => 2 * BLOCK as u64,
        false => for_threads(commits, THREAD_NEED),
    };
    let others = for_threads(commits, promises.of_others());
    let room = STATE.size.load(Relaxed).saturating_sub(commits.committed());
    let (addresses, _) = ffi::count_bytes();
    let has_addresses = addresses + THREAD_ADDRESSES <= STATE.range.load(Relaxed);
    (room >= need + others && has_addresses).then(|| promises.keep())
}

/// Takes back what was kept for a thread that the calling one could not make.
pub fn withdraw_promise() {
    let _inside = gate::enter(state().slot(), thread_id());
    let _guard = locked();
    promises().withdraw();
}

/// Takes back what was kept for the calling thread, which ends.
pub fn thread_ends() {
    if size().is_some() {
        let _inside = gate::enter(state().slot(), thread_id());
        let _guard = locked();
        promises().end();
    }
}

/// In a forked child, which has no other threads: nobody waits for room, and the region is not locked in memory.
pub fn forked() {
    promises().forget();
    backing::forked();
}

/// Whether a thread may get its part of a heap: mimalloc would take it from the system if the region is full.
pub(crate) fn has_room_for_a_thread() -> bool {
    STATE.size.load(Relaxed) == 0
        || STATE.committed.load(Relaxed) + THREAD_ROOM <= STATE.size.load(Relaxed)
}

/// The slices that a run of addresses touches; None if it is not within the range.
fn slices_of(start: usize, bytes: usize) -> Option<Range<usize>> {
    let base = STATE.base.load(Relaxed);
    let offset = start.checked_sub(base)?;
    let end = offset.checked_add(bytes)?;
    (base != 0 && bytes > 0 && end <= STATE.range.load(Relaxed))
        .then(|| offset / SLICE..end.div_ceil(SLICE))
}

fn memory(slices: &Range<usize>) -> (*mut c_void, usize) {
    let start = STATE.base.load(Relaxed) + slices.start * SLICE;
    let start = std::ptr::with_exposed_provenance_mut(start);
    (start, slices.len() * SLICE)
}

/// Makes slices usable. The system call, not the function: that is [`__wrap_mprotect`].
fn grant(slices: Range<usize>) -> bool {
    let (start, bytes) = memory(&slices);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: memory of the region, which mimalloc is about to use.
    unsafe {
        if system_call(libc::SYS_mprotect, [start.addr(), bytes, access as usize]) != 0 {
            return false;
        }
        // Without MLOCK_ONFAULT all of it would be resident at once.
        !STATE.locked.load(Relaxed) || libc::mlock2(start, bytes, libc::MLOCK_ONFAULT) == 0
    }
}

/// Gives the memory of slices back to the system, and takes the access away.
fn forget(slices: Range<usize>) -> bool {
    let (start, bytes) = memory(&slices);
    // SAFETY: memory of the region that mimalloc has no use for.
    unsafe {
        if libc::madvise(start, bytes, libc::MADV_DONTNEED) != 0 {
            // `EINVAL`: it is locked, by `--region lock` or by the script's mlockall(2).
            libc::munlock(start, bytes);
            if libc::madvise(start, bytes, libc::MADV_DONTNEED) != 0 {
                return false;
            }
        }
        let none = libc::PROT_NONE as usize;
        system_call(libc::SYS_mprotect, [start.addr(), bytes, none]);
    }
    true
}

/// Whether what a page has not made blocks of counts as free: not if the system counts all of it, and not if slices
/// are used again without [`on_commit`].
fn counts_parts(commits: &Commits) -> bool {
    !STATE.locked.load(Relaxed)
        && !commits.whole_blocks
        && ffi::mi_option_get(ffi::PYHOST_PURGE_DELAY) == 0
}

/// The entry of a page's slice in the table of what is unused; `None` if the page takes more than a slice.
fn entry(page: &Page) -> Option<(usize, &'static AtomicU8)> {
    let slices = slices_of(page.page_start.addr(), 1).filter(|_| page.bytes() <= SLICE)?;
    // SAFETY: the table has a byte for each slice of the region.
    let entry = unsafe { &*STATE.unused.load(Relaxed).add(slices.start) };
    Some((slices.start, entry))
}

/// Counts what the page of a new block uses. mimalloc makes the blocks of a page a few KiB at a time, from its start on, and touches
/// nothing behind them. Inside the gate.
///
/// # Errors
/// The region has no room for that, and the block must be given back: what was noted before, for [`take_back`].
pub(crate) fn settle(page: &Page) -> Result<(), u8> {
    let Some((slice, entry)) = entry(page) else {
        return if is_within() { Ok(()) } else { Err(0) };
    };
    let made = page.block_size * usize::from(page.capacity.get());
    let offset = page.page_start.addr() % SLICE;
    let used = (offset + made).div_ceil(page_size() as usize);
    let unused = (SLICE / page_size() as usize).saturating_sub(used) as u8;
    let before = entry.load(Relaxed);
    match before == unused || note(slice, unused) || unused > before {
        true => Ok(()),
        false => Err(before),
    }
}

/// Notes again what was unused of a page's slice: its new blocks are gone.
#[cold]
pub(crate) fn take_back(page: &Page, unused: u8) {
    if let Some((slice, _)) = entry(page) {
        note(slice, unused);
    }
}

/// Notes what is unused of a slice; false if the sum passes the size.
fn note(slice: usize, unused: u8) -> bool {
    let mut guard = locked();
    let Some(commits) = guard.as_mut().filter(|commits| counts_parts(commits)) else {
        return true;
    };
    let others = promises().of_others();
    commits.kept = for_threads(commits, others);
    let fits = commits.set_unused(slice, unused);
    publish(commits);
    if !fits {
        STATE.refused.fetch_add(1, Relaxed);
    }
    fits
}

/// Whether what is committed is within the size: a commit for a page that settles may pass it.
pub(crate) fn is_within() -> bool {
    STATE.committed.load(Relaxed) <= STATE.size.load(Relaxed)
}

/// Copies the sum for reports.
fn publish(commits: &Commits) {
    let (committed, size) = (commits.committed(), STATE.size.load(Relaxed));
    STATE.committed.store(committed, Relaxed);
    STATE.peak.fetch_max(committed.min(size), Relaxed);
}

/// Commits a run of addresses; None if it is refused, else whether all of it is zero. `settles` is for [`Commits::commit`].
fn commit(slices: Range<usize>, settles: bool) -> Option<bool> {
    let mut guard = locked();
    let commits = guard.as_mut()?;
    let mut promises = promises();
    commits.kept = for_threads(commits, promises.of_others());
    let settles = settles && slices.len() == 1 && counts_parts(commits);
    let added = commits.commit(slices, settles, grant);
    promises.use_up(added.map_or(0, |added| added.bytes));
    drop(promises);
    let whole = commits.whole_blocks;
    publish(commits);
    drop(guard);
    if added.is_none() {
        STATE.refused.fetch_add(1, Relaxed);
    }
    // A block keeps its memory until its last slice goes.
    added.map(|added| added.all_new && !whole)
}

/// Gives a run of addresses back; false if it stays committed.
fn release(slices: Range<usize>) -> bool {
    let mut guard = locked();
    let Some(commits) = guard.as_mut() else {
        return false;
    };
    let gone = commits.release(slices, forget);
    publish(commits);
    let size = STATE.size.load(Relaxed);
    let kept = for_threads(commits, promises().of_others());
    if commits.committed() + kept + (size / 16).max(1 << 20) < size {
        STATE.was_full.store(false, Relaxed);
    }
    gone
}

/// mimalloc's question: `mi_commit_fun_t`.
unsafe extern "C" fn on_commit(
    wanted: bool,
    start: *mut c_void,
    size: usize,
    is_zero: *mut bool,
    _argument: *mut c_void,
) -> bool {
    let Some(slices) = slices_of(start.addr(), size) else {
        return false;
    };
    if !wanted {
        return release(slices);
    }
    // SAFETY: null, or mimalloc's variable for the answer.
    let answer = unsafe { is_zero.as_mut() };
    let committed = commit(slices, true);
    if let (Some(zero), Some(answer)) = (committed, answer) {
        *answer = zero;
    }
    committed.is_some()
}

/// `mprotect` as the executable's own objects call it, mimalloc among them, by the linker's `--wrap`: when mimalloc
/// extends a page into the next slice, it does not ask the function that it was given but calls this.
///
/// # Safety
/// As mprotect(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_mprotect(start: *mut c_void, size: usize, access: c_int) -> c_int {
    if access == libc::PROT_READ | libc::PROT_WRITE {
        if let Some(slices) = slices_of(start.addr(), size) {
            if commit(slices, false).is_some() {
                return 0;
            }
            Errno(libc::ENOMEM).set();
            return -1;
        }
        if let Some(done) = address_limit::commit(start, size) {
            return if done { 0 } else { -1 };
        }
    }
    // SAFETY: the caller's duties.
    unsafe { system_call(libc::SYS_mprotect, [start.addr(), size, access as usize]) as c_int }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_several_times_the_size_and_whole_arenas() {
        for (size, range) in [
            (8 << 20, Some(256 << 20)),
            (24 << 20, Some(256 << 20)),
            (33 << 20, Some(288 << 20)),
            (1 << 30, Some(8 << 30)),
            ((1 << 30) + 1, Some(8 << 30)),
            (16 << 30, Some(32 << 30)),
            (1 << 40, Some(1200 << 30)),
            (1 << 41, None),
            (u64::MAX, None),
        ] {
            assert_eq!(range_for(size), range, "{size}");
        }
    }
}
