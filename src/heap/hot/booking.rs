//! Between the heaps and the ledger: booking what was allocated, with the caps' consent, and
//! taking off what was freed, if the inlined paths could not.
//!
//! Any thread; the functions on blocks of a heap run inside the gate.

use crate::host::{Request, host};
use crate::ledger::{Account, LEDGER, Ledger, Reach, Slot};
use crate::system_memory::{retention, small_pages};
use crate::threads::thread_state::{state, thread_id};
use crate::{GILS, bounded_heap, counts, mimalloc::gate, peak_watch, sizes::big_blocks};
use crate::{resident, sampling};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

pyhost_os::state! {
    /// What the slow paths ask before they book.
    static STATE: Booking {
        /// The largest request that is tried. mimalloc asks the kernel without a promise of memory (`MAP_NORESERVE`),
        /// so that the kernel would grant addresses that it can never back, while libc's malloc fails.
        largest: AtomicUsize = AtomicUsize::new(usize::MAX),
        /// Whether the layer above has anything to look at.
        attention: AtomicBool = AtomicBool::new(false),
    }
}

/// Sets the largest request that is tried. Before threads exist.
pub fn set_largest(bytes: usize) {
    STATE.largest.store(bytes, Relaxed);
}

/// Whether the machine could never meet a request.
#[inline]
pub(super) fn is_beyond_all(size: usize) -> bool {
    size > STATE.largest.load(Relaxed)
}

/// Whether the machine could never meet the request, which is counted as failed then.
#[inline]
fn is_beyond(account: Account, size: usize) -> bool {
    let is_beyond = is_beyond_all(size);
    if is_beyond {
        LEDGER.count_failure(account);
    }
    is_beyond
}

/// Whether a request for `size` bytes may be tried: one that the machine could never meet, or that
/// a cap refuses at once, is counted and reported here, before any memory is touched for it.
#[inline]
pub(crate) fn admits(slot: &Slot, account: Account, size: usize) -> bool {
    // A cap first: what it refuses leaves its evidence.
    let is_free = !counts(account) || !LEDGER.is_capped();
    (is_free || fits_caps(slot, account, size)) && !is_beyond(account, size)
}

#[cold]
fn fits_caps(slot: &Slot, account: Account, size: usize) -> bool {
    host().is_none_or(|host| (host.caps.fits)(slot, account, size))
}

/// Chooses whether the slow paths call [`crate::CapDecisions::look`].
pub fn attend_to_caps(attention: bool) {
    STATE.attention.store(attention, Relaxed);
}

/// Makes the layer above look at live bytes, if it asked for that.
#[inline]
pub fn look_at_caps() {
    if STATE.attention.load(Relaxed) {
        look();
    }
}

#[cold]
fn look() {
    if let Some(host) = host() {
        (host.caps.look)();
    }
}

/// The bytes to request if `size` bytes are needed and `more` would be useful: `more`, unless a cap is near.
#[inline]
pub(crate) fn within_reach(account: Account, size: usize, more: usize) -> usize {
    let is_near = || LEDGER.lacks_room(account, more, Reach::Hold).is_some();
    match more > size && LEDGER.is_capped() && is_near() {
        true => size,
        false => more,
    }
}

/// Counts a request that the heap could not meet, and records it if the region is full.
#[cold]
pub(crate) fn failed(account: Account, asked: usize) {
    LEDGER.count_failure(account);
    bounded_heap::request_failed();
    if let (Some(size), Some(host)) = (bounded_heap::size(), host()) {
        (host.caps.region_is_full)(size, account, asked, bounded_heap::is_newly_full());
    }
}

/// Books a block, big ones to the register too. Returns false if a cap refuses the block: then nothing was booked, and
/// the block was given back.
#[inline]
pub(crate) fn book_beneath_caps(slot: &Slot, block: *mut u8, request: &Request) -> bool {
    let booked = match host() {
        _ if slot.book_to(request.account, request.bytes) => true,
        Some(host) if LEDGER.is_capped() => (host.caps.book)(slot, request, &GILS),
        _ => {
            LEDGER.book_anyway(slot, request.account, request.bytes, &GILS);
            look_at_caps();
            true
        }
    };
    if booked {
        resident::note_growth();
        if request.account != Account::Pooled {
            note_big(request.account, block, 0, request.bytes);
        }
    }
    peak_watch::after_booking();
    booked
}

/// Notes a block that is booked with `bytes`, if it is big, and was with `before`: 0 if it is new.
#[inline]
fn note_big(account: Account, block: *mut u8, before: usize, bytes: usize) {
    if bytes.max(before) < big_blocks::BIG {
        return;
    }
    if bytes < big_blocks::BIG {
        return big_blocks::remove(block.addr());
    }
    if bytes > before {
        retention::took(bytes - before);
    }
    if before < big_blocks::BIG || !big_blocks::resized(block.addr(), bytes) {
        big_blocks::add(block.addr(), account, bytes);
    }
    if account != Account::Numpy {
        small_pages::settled(block, bytes);
    }
}

/// Books a block of a heap that has another size where it lies. False, and nothing was booked, if it would reach into the reserve
/// of a cap.
pub(super) fn rebook(
    slot: &Slot,
    account: Account,
    block: *mut u8,
    before: usize,
    after: usize,
) -> bool {
    if !counts(account) {
        return true;
    }
    let delta = after as i64 - before as i64;
    let rebook = || LEDGER.rebook(slot, account, delta, &GILS, Reach::Hold);
    let makes_room = || host().is_some_and(|host| (host.caps.make_room)(delta as usize));
    if Ledger::book_making_room(rebook(), rebook, makes_room).is_err() {
        return false;
    }
    look_at_caps();
    if delta > 0 {
        resident::note_growth();
    }
    note_big(account, block, before, after);
    peak_watch::after_booking();
    true
}

/// Takes a block of `account` off the ledger that the hook of `caller` was given.
pub(crate) fn release_block(account: Account, block: *mut u8, bytes: usize, caller: Account) {
    if !counts(account) {
        return;
    }
    if bytes >= big_blocks::BIG {
        big_blocks::remove(block.addr());
    }
    if account.is_under_gil() && !caller.is_under_gil() {
        LEDGER.release_foreign(account, bytes);
    } else if !state().slot().release_from(account, bytes) {
        LEDGER.release_slow(state().slot(), account, bytes, &GILS);
    }
    look_at_caps();
}

/// Books a block that another allocator made; false if a cap refuses it, and nothing was
/// booked: the caller gives it back.
#[inline]
pub fn book<const A: usize>(block: *mut u8, bytes: usize) -> bool {
    let booked = state().slot.get().book::<A>(bytes) || book_slow(Account::ALL[A], block, bytes);
    if booked && sampling::is_on() {
        sampling::booked(Account::ALL[A], block, bytes);
    }
    booked
}

/// [`book`] of a block within the slot's window, unless samples are taken. False, and nothing was booked, in all other cases.
#[inline(always)]
pub fn book_at_once<const A: usize>(bytes: usize) -> bool {
    !sampling::is_on() && state().slot.get().book::<A>(bytes)
}

/// [`release`], as [`book_at_once`].
#[inline(always)]
pub fn release_at_once<const A: usize>(bytes: usize) -> bool {
    !sampling::is_on() && state().slot.get().release::<A>(bytes)
}

/// [`book`] beyond the slot's window. Out of line, so that the callers keep no registers for it.
#[cold]
#[inline(never)]
fn book_slow(account: Account, block: *mut u8, bytes: usize) -> bool {
    sampling::look_if_asked(account);
    let slot = state().slot();
    let _inside = gate::enter(slot, thread_id());
    let request = Request {
        account,
        bytes,
        asked: bytes,
        undo: &|| (),
    };
    book_beneath_caps(slot, block, &request)
}

/// Whether another allocator may try to make a block of `size` bytes, as for [`admits`].
pub fn may_book<const A: usize>(size: usize) -> bool {
    let account = Account::ALL[A];
    if LEDGER.is_capped() {
        let slot = state().slot();
        let _inside = gate::enter(slot, thread_id());
        if !fits_caps(slot, account, size) {
            return false;
        }
    }
    !is_beyond(account, size)
}

/// Books a block that another allocator has resized, and whose old form is gone: whatever the
/// caps say, which [`may_book`] was asked.
pub fn book_resized<const A: usize>(block: *mut u8, bytes: usize) {
    if !book::<A>(block, bytes) {
        let slot = state().slot();
        let inside = gate::enter(slot, thread_id());
        LEDGER.book_anyway(slot, Account::ALL[A], bytes, &GILS);
        if sampling::is_on() {
            sampling::booked_inside(Account::ALL[A], block, bytes, &inside);
        }
    }
}

/// Takes a block off that [`book`] booked.
#[inline]
pub fn release<const A: usize>(block: *mut u8, bytes: usize) {
    if sampling::is_on() {
        sampling::unbooked(Account::ALL[A], block);
    }
    release_resized::<A>(block, bytes);
}

/// [`release`] of the old form of a block that another allocator has resized. Its sample was taken out before: another thread
/// may have the address by now.
#[inline]
pub fn release_resized<const A: usize>(block: *mut u8, bytes: usize) {
    if !state().slot.get().release::<A>(bytes) {
        release_slow(Account::ALL[A], block, bytes);
    }
}

/// [`release`] beyond the slot's window, out of line as [`book_slow`] is.
#[cold]
#[inline(never)]
fn release_slow(account: Account, block: *mut u8, bytes: usize) {
    // A request has closed the window, which opens again below.
    sampling::look_if_asked(account);
    let slot = state().slot();
    if bytes >= big_blocks::BIG {
        peak_watch::before_big_free();
    }
    let _inside = gate::enter(slot, thread_id());
    if bytes >= big_blocks::BIG {
        big_blocks::remove(block.addr());
    }
    LEDGER.release_slow(slot, account, bytes, &GILS);
    look_at_caps();
}
