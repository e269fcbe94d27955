//! Caps: what happens to a request that does not fit below a ceiling.
//!
//! A ceiling of the ledger has a cap and, below it, a reserve. A request that would go into the
//! reserve ends up in [`admission`]: a large one is refused at once; a small one is served from the
//! reserve, and the thread that took more than a slice of it is notified, by an error that Python
//! raises at a place where the script can catch it, or by one refused request. The last refusal
//! is kept in [`refusal`]. When live bytes have fallen, the ceiling is as it was.
//!
//! [`connect`] hands over the functions that the caps need of Python (where a thread is, how to notify it),
//! so that the heap beneath Python can call this module. Functions that the heap calls run inside the
//! allocator, on any thread: they do not allocate, lock or panic.

mod admission;
pub mod cap_errors;
mod claims;
mod external;
mod join;
mod limits;
#[cfg(test)]
mod model_tests;
mod pressure;
mod python;
mod refusal;
mod settings;
mod shares;
mod shortages;
mod start;
mod tree;
mod watch;
mod zone;

pub use admission::{error_ended, is_short, may_start_thread, notice, record_payer};
pub use claims::{forked, has_forked, refuses_fork};
pub use join::join;
pub use limits::{CodeBlockLimit, LimitError, live, stack_moved};
pub use pressure::{pressed, set_soft, soft};
pub use python::{Notice, Python, Role, connect};
pub use refusal::{Full, How, Refusal, last, record};
pub use settings::{CapSettings, CapSize, OWNED, Rule, Rules, Share};
pub use start::start;
pub use watch::{look_soon as look_at_charges, measure_maps_by};

use crate::heap::{CapDecisions, Request, attend_to_caps, look_at_caps};
use crate::ledger::{Account, Gils, LEDGER, Ledger, Reach, Scope, Slot};
use python::{is_connected, python};

/// What becomes of a request under a cap.
pub const DECISIONS: CapDecisions = CapDecisions {
    fits,
    book,
    look,
    region_is_full,
    make_room: claims::claim,
};

/// Books a block that was made, under a ceiling; false if a cap refuses it: nothing was booked, and
/// the block was given back. Inside the heap's gate.
fn book(slot: &Slot, request: &Request, gils: &Gils) -> bool {
    if !is_connected() {
        claims::claim_at_start(request.bytes);
        LEDGER.book_anyway(slot, request.account, request.bytes, gils);
        return true;
    }
    let book = |reach| LEDGER.book_slow(slot, request.account, request.bytes, gils, reach);
    let mut booked = book(Reach::Hold);
    if booked.is_err() && watch::is_on() {
        external::read(true);
        booked = book(Reach::Hold);
    }
    let makes_room = || claims::claim(request.bytes);
    booked = Ledger::book_making_room(booked, || book(Reach::Hold), makes_room);
    match booked {
        Ok(()) => {
            look_at_caps();
            if watch::is_near() && request.account.is_under_gil() {
                LEDGER.close_windows(slot);
            }
            true
        }
        Err(scope) => admission::decide(slot, request, scope, &book),
    }
}

/// A request before which what libraries have touched is looked at.
const LARGE: usize = 256 << 10;

/// Whether a request for `bytes` may be met, before anything is allocated for it: one that is too
/// large for what is left is refused here. `book` has the last word. Inside the heap's gate.
fn fits(slot: &Slot, account: Account, bytes: usize) -> bool {
    // Libraries may have touched much since the last reading.
    if bytes >= LARGE && watch::follows_maps() {
        external::read(watch::is_large_map(bytes));
    }
    let lacking = || LEDGER.lacks_room(account, bytes, Reach::Hold);
    match lacking() {
        Some(_) if is_connected() => {
            external::read(true);
            let lacks = || lacking().map_or(Ok(()), Err);
            let fits = Ledger::book_making_room(lacks(), lacks, || claims::claim(bytes));
            let is_small = |scope| admission::is_small_enough(slot, account, bytes, scope);
            fits.is_ok() || fits.is_err_and(is_small)
        }
        _ => true,
    }
}

/// Whether a library may map `bytes` more. Any thread at any moment, without the heap's gate.
pub fn admits_map(bytes: usize) -> bool {
    if !LEDGER.is_capped() {
        return true;
    }
    match LEDGER.lacks_room(Account::Mapped, bytes, Reach::Cap) {
        None => external::fits_limit(bytes),
        Some(scope) => {
            admission::refuse_map(scope, bytes);
            false
        }
    }
}

/// Sets the cap of a scope, or takes it away. The total's counts the maps of libraries if it is to and can. An error changes
/// nothing. `slot` is the calling thread's, as below; all with the GIL.
pub fn set(scope: Scope, cap: Option<u64>, with_maps: bool, slot: &Slot) -> Result<(), LimitError> {
    let set = limits::set(scope, cap, maps_of(scope, with_maps), slot);
    set.map(|()| watch::ceilings_changed())
}

/// Opens a limit over a scope, the total's with maps as in [`set`]; its number, for [`leave`].
pub fn enter(
    scope: Scope,
    limit: CodeBlockLimit,
    with_maps: bool,
    slot: &Slot,
) -> Result<usize, LimitError> {
    let opened = limits::enter(scope, limit, maps_of(scope, with_maps), slot);
    opened.inspect(|_| watch::ceilings_changed())
}

pub fn leave(number: usize, slot: &Slot) {
    limits::leave(number, slot);
    watch::ceilings_changed();
}

/// The cap of a scope that options or the script set, and no more than the limit that the total follows; else the total's is the tree's.
pub fn get(scope: Scope) -> Option<u64> {
    let limit = watch::followed_limit().filter(|_| scope == Scope::Total);
    limits::get(scope).map(|cap| cap.min(limit.unwrap_or(cap)))
}

pub fn is_in_tree() -> bool {
    tree::shares().is_some()
}

/// Bytes that may still be booked to a scope before its reserve; `None` if it has no ceiling.
pub fn headroom(scope: Scope, slot: &Slot) -> Option<u64> {
    maps_of(scope, limits::with_maps().is_some());
    claims::look_for_ended();
    limits::headroom(scope, slot)
}

fn maps_of(scope: Scope, are_counted: bool) -> Option<u64> {
    are_counted.then(|| watch::measured(scope)).flatten()
}

/// Whether maps count: beneath the charges, or in the total's cap or limit.
pub fn counts_maps() -> bool {
    watch::limit().is_some()
}

/// The refused map or native request for which the calling thread ends the process by `abort`. Inside a signal handler.
pub fn aborts() -> Option<Refusal> {
    external::aborts(python()?)
}

/// Looks what the kernel charges, if that is due: the calling thread will wait, and nothing of this process may look for long.
pub fn rests() {
    external::read(false);
}

/// Records a request that the region of `size` bytes has no room for; `is_first` if it had room
/// before. Inside the heap's gate.
fn region_is_full(size: u64, account: Account, asked: usize, is_first: bool) {
    if let Some(python) = python() {
        let refusal = record(Full::Region(size), account, asked, How::Null, python.trace);
        if is_first {
            (python.first_refusal)(&refusal);
        }
    }
}

/// Records a thread that was not made, since the region of `size` bytes has no room for its first
/// steps.
#[cold]
pub fn no_thread_in_region(size: u64, need: u64) {
    if let Some(python) = python() {
        let (full, bytes) = (Full::Region(size), need as usize);
        let refusal = record(full, Account::Native, bytes, How::NoThread, python.trace);
        if refusal::is_first_thread() {
            (python.first_refusal)(&refusal);
        }
    }
}

/// Looks whether live bytes have fallen or risen enough to matter. Called by the slow paths of booking
/// and of releasing, if somebody asked for that.
fn look() {
    external::read(false);
    external::try_again();
    let mut attention = watch::is_on() | claims::give_back();
    for scope in Scope::all() {
        attention |= admission::look(scope);
        attention |= pressure::look(scope);
    }
    attend_to_caps(attention);
}
