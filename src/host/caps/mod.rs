//! Caps: what happens to a request that does not fit below a ceiling.
//!
//! A ceiling of the ledger has a cap and, beneath it, a reserve. A request that would go into the
//! reserve ends up in [`episode`]: a large one is refused at once; a small one is served from the
//! reserve, and the thread that took more than a slice of it is notified, by an error that Python
//! raises at a place where the script can catch it, or by one refused request. The last refusal
//! is kept in [`refusal`]. When live bytes have fallen, the ceiling is as it was.
//!
//! [`arm`] hands over the functions that the caps need of Python (where a thread is, how to notify it),
//! so that the heap beneath Python can call this module. Functions that the heap calls run inside the
//! allocator, on any thread: they do not allocate, lock or panic.

mod episode;
mod external;
mod limits;
mod pressure;
mod refusal;
mod settings;
mod start;
mod watch;

pub use episode::{CodePlace, Role, Told, error_ended, may_start_thread, thread_begins, told};
pub use limits::{CodeBlockLimit, LimitError, enter, get, headroom, leave, live, set, stack_moved};
pub use pressure::{pressed, set_soft, soft};
pub use refusal::{How, Refusal, last};
pub use settings::{CapSettings, CapSize, Rule, Rules, Share};
pub use start::start;

use crate::heap;
use crate::heap::caps::{Request, attend, look_if_asked};
use crate::ledger::{Account, Gils, LEDGER, Reach, Scope, Slot};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8};

/// The functions of Python and of the report that the caps call. Each may be called inside the allocator,
/// on any thread.
pub struct Python {
    /// Where the calling thread's Python code is.
    pub place: fn() -> CodePlace,
    /// Whether Python runs and is not being finalised.
    pub is_running: fn() -> bool,
    /// Notifies the calling thread, the main thread, at its next safe point; returns false if that is
    /// impossible.
    pub post: fn() -> bool,
    /// Makes the main thread free memory at its next safe point.
    pub post_pressure: fn() -> bool,
    /// Whether the calling thread is the main thread, whose safe points Python finds.
    pub is_main: fn() -> bool,
    /// The use of a small request, guessed from its bytes and from whether an error is being raised in the
    /// calling thread.
    pub role: fn(usize, bool) -> Role,
    /// Writes the calling thread's Python traceback, cut where it is full; its length.
    pub trace: fn(&mut [u8]) -> usize,
    /// Keeps and shows what surrounds the first refusal of an episode.
    pub first_refusal: fn(&Refusal),
    /// Ends the process: the reserve is used up.
    pub end: fn(&Refusal) -> !,
}

static PYTHON: OnceLock<Python> = OnceLock::new();

/// No script runs yet, or none any more: requests are met up to the cap, and no thread is notified.
const QUIET: u8 = 0;
/// The script runs.
const ARMED: u8 = 1;
static PHASE: AtomicU8 = AtomicU8::new(QUIET);

/// Whether a thread that the region had no room for has left its dossier: the first of a process.
static TOLD_OF_THREADS: AtomicBool = AtomicBool::new(false);

/// Starts notifications of refusals. After Python has initialised.
pub fn arm(python: Python) {
    heap::caps::register(heap::caps::Caps {
        admits,
        book,
        look,
        region_is_full,
    });
    let _ = PYTHON.set(python);
    PHASE.store(ARMED, Release);
}

fn python() -> Option<&'static Python> {
    match PHASE.load(Acquire) {
        ARMED => PYTHON.get().filter(|python| (python.is_running)()),
        _ => None,
    }
}

/// Books a block that was made, beneath a ceiling; false where a cap refuses it: nothing was booked, and
/// the block was given back. Inside the heap's gate.
fn book(slot: &Slot, request: &Request, gils: &Gils) -> bool {
    let book = |reach| LEDGER.book_slow(slot, request.account, request.bytes, gils, reach);
    let mut booked = book(Reach::Hold);
    if booked.is_err() && watch::is_on() {
        watch::read(true);
        booked = book(Reach::Hold);
    }
    match booked {
        Ok(()) => {
            look_if_asked();
            if watch::is_near() && request.account.is_under_gil() {
                LEDGER.close_windows(slot);
            }
            true
        }
        Err(scope) => episode::settle(slot, request, scope, &book),
    }
}

/// Whether a request for `bytes` may be met, before anything is allocated for it: one that is too
/// large for what is left is refused here. `book` has the last word. Inside the heap's gate.
fn admits(slot: &Slot, account: Account, bytes: usize) -> bool {
    match LEDGER.lacks_room(account, bytes, Reach::Hold) {
        None => true,
        Some(_) => {
            watch::read(true);
            let scope = LEDGER.lacks_room(account, bytes, Reach::Hold);
            scope.is_none_or(|scope| episode::admits(slot, account, bytes, scope))
        }
    }
}

/// Whether a library may map `bytes` more. Any thread at any moment, without the heap's gate.
pub fn admits_map(bytes: usize) -> bool {
    if !LEDGER.is_capped() {
        return true;
    }
    let lacks = LEDGER.lacks_room(Account::Mapped, bytes, Reach::Cap);
    let admitted = lacks.is_none() && external::admits(bytes);
    if !admitted {
        LEDGER.count_refusal(Account::Mapped);
    }
    admitted
}

/// Looks at the next chance what the kernel charges: memory was given back.
pub fn look_at_charges() {
    watch::look_soon();
}

/// Records a request that the region of `size` bytes has no room for; `is_first` where it had room
/// before. Inside the heap's gate.
fn region_is_full(size: u64, account: Account, asked: usize, is_first: bool) {
    if let Some(python) = python() {
        let refusal = refusal::record_region(size, account, asked, How::Null, python);
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
        let bytes = need as usize;
        let refusal = refusal::record_region(size, Account::Native, bytes, How::NoThread, python);
        if !TOLD_OF_THREADS.swap(true, Relaxed) {
            (python.first_refusal)(&refusal);
        }
    }
}

/// Looks whether live bytes have fallen or risen enough to matter. Called by the slow paths of booking
/// and of releasing, where somebody asked for that.
fn look() {
    watch::read(false);
    external::try_again();
    let mut attention = watch::is_on();
    for scope in Scope::all() {
        attention |= episode::look(scope);
        attention |= pressure::look(scope);
    }
    attend(attention);
}
