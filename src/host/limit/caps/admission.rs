//! Whether a request that does not fit below a ceiling's reserve is admitted. A shortage lasts from the first such request until
//! live bytes have fallen below the reserve again.
//!
//! The reserve is a ladder. A thread is notified of the shortage, by an error, if it has itself grown by a slice since the
//! last error and live bytes are a sixteenth of the rest higher; a thread that has grown by less is notified if they are half
//! of the rest higher: so do servers with a thread for each request grow. The rest is then what is left below the cap, so there
//! are at most a hundred errors if the threads keep what they have. Once a thread has freed much after its error, the ladder
//! stays where it is until half of the rest is gone, and errors come at the same height: so a server that is full refuses
//! large requests as long as they come. When little is left, small requests are served to the end. So a process frees memory,
//! works in what is left, or ends.
//!
//! Within a shortage each thread that allocates is in one of four states:
//!
//! - *New*: it was not notified.
//! - *Posted*: Python was asked to raise `MemoryError` in it at its next safe point. Only the main thread
//!   has safe points.
//! - *Missed*: at the safe point another handler would have caught the error, or no handler. The error is
//!   posted again; after a few times a request is refused.
//! - *Notified*: it has got its error. The reserve serves its handling.
//!
//! A thread without safe points is notified by a refused request. So is the main thread if half
//! of the rest of the reserve is used without a safe point (a loop in C). CPython raises `MemoryError`
//! for a refused request inside the innermost `try` around it, except at the places where it has a bug:
//! so the main thread is notified at a safe point wherever it has one.
//!
//! A server's own code is never notified: the error would end a connection or the loop. The code that it calls is.
//!
//! CPython also ignores some refusals: if the table of interned strings cannot grow, it clears the error
//! and continues. So a refusal does not prove that the script got an error. [`error_ended`] counts the
//! errors that passed through Python code. As long as the process had no such error, and the host raised none, the last
//! quarter of the reserve is kept, and the process is not ended. After an error, a small request that finds the cap full
//! ends the process, whichever thread makes it, and one of a server's own code: they could not go on if the next were refused.
//!
//! Some requests must not be refused, see [`Role`]: CPython loses the error if it gets no frame object
//! while it raises another error (3.11 to 3.13), and raises none if it gets no further chunk of its data
//! stack (3.11). They are served to the end. The memory that a deep recursion needs to unwind is part of
//! the reserve, see [`limits::stack_moved`].

use super::external;
use super::limits;
use super::python::{Notice, Python, Role, python};
use super::refusal::{self, Full, How, Refusal};
use super::shortages::{self, Shortage};
use crate::cpython::{IS_FREE_THREADED, frames::CodePlace};
use crate::heap::sampling::UnitFigures;
use crate::heap::{Request, attend_to_caps, bounded_heap};
use crate::ledger::{Account, Asker, LEDGER, Reach, Scope, Slot};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

/// The state of a thread within a shortage; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Posted,
    Missed,
    Notified,
}

pyhost_os::state! {
    /// A thread's part in a shortage. Plain cells without a destructor, as the heap's own.
    thread static PART: ThreadPart {
        shortage: Cell<u64> = Cell::new(0),
        state: Cell<Stage> = Cell::new(Stage::New),
        /// The thread's live bytes when it came, or the least since its last error.
        base: Cell<i64> = Cell::new(0),
        /// Its live bytes at its last error.
        height: Cell<i64> = Cell::new(0),
        /// For a thread that is to be notified at a safe point: its live bytes from which on one of its requests is refused
        /// instead.
        patience: Cell<i64> = Cell::new(0),
        place: Cell<CodePlace> = Cell::new(CodePlace::Nowhere),
        attempts: Cell<u8> = Cell::new(0),
        /// Refusals in a row between which the thread did next to nothing, and the blocks that it had
        /// allocated at the last.
        vain: Cell<u32> = Cell::new(0),
        blocks: Cell<u64> = Cell::new(0),
        /// `MemoryError`s of this thread that passed Python code and are gone: in all, at its last notification, and at its
        /// last refusal.
        errors: Cell<u64> = Cell::new(0),
        errors_when_notified: Cell<u64> = Cell::new(0),
        errors_at_refusal: Cell<u64> = Cell::new(0),
        /// Whether the thread was ever notified.
        given: Cell<bool> = Cell::new(false),
        /// The refusal of which the thread is to be notified.
        asked: Cell<(Account, usize)> = Cell::new((Account::Raw, 0)),
        /// The last refused request for a number, and whether it was made again.
        number: Cell<Number> = Cell::new(Number { asked: 0, blocks: 0, is_repeated: false }),
    }
}

/// A refused request for a number: its size, and the blocks that the thread had allocated then.
#[derive(Clone, Copy)]
struct Number {
    asked: usize,
    blocks: u64,
    is_repeated: bool,
}

impl ThreadPart {
    /// Whether the error that the thread was given last is still on its way, or being handled: beyond
    /// the end of its shortage, too.
    fn has_error(&self) -> bool {
        self.given.get() && self.errors.get() == self.errors_when_notified.get()
    }

    /// Notes how far the thread's live bytes have fallen since its error.
    fn note_live(&self, live: i64, scope: Scope) {
        if self.state.get() == Stage::Notified {
            self.base.set(self.base.get().min(live));
            if self.height.get() - self.base.get() > slice(reserve(scope)) / GIVEN_BACK {
                shortages::of(scope).gives_back.store(true, Relaxed);
            }
        }
    }
}

/// Safe points that the main thread may miss before a request is refused.
const ATTEMPTS: u8 = 3;

/// Refusals in a row after which a thread that does nothing else is taken to ask for ever, and how
/// many blocks it may allocate from one to the next.
const VAIN: u32 = 100_000;
const IDLE: u64 = 64;

/// Bytes that a new thread allocates: its thread state, a chunk of data stack, and the signal to its creator that it runs.
const FIRST_STEPS: i64 = 48 << 10;

/// Bounds of a small request of a thread that was not notified.
const SMALL: (u64, u64) = (4 << 10, 64 << 10);

/// The largest request of locks and of the dynamic loader.
const TINY: u64 = 2 << 10;

/// The largest request for an `int` of one machine word or a `float`; objects with a header for the
/// garbage collector, such as a traceback, are larger.
const NUMBER: usize = 32;

/// The steps of the ladder, as parts of what was left at the last error: for a thread that grows, and for any.
const STEPS: (i64, i64) = (16, 2);
/// The part of the reserve that a thread may take while it handles its error, and of which nobody is notified any more.
const FOR_HANDLING: i64 = 8;
const LAST: i64 = 32;
/// The part of a slice by which a thread has given back much: of a request that is refused near its begin, little is there to be freed.
const GIVEN_BACK: i64 = 8;
/// A thread is innocent if another has so many times as much.
const INNOCENT: i64 = 8;

/// Bytes of the reserve that a thread may allocate before it is taken for one that grows.
fn slice(reserve: u64) -> i64 {
    (reserve / 32).min(64 << 10) as i64
}

/// How far into the reserve an account's small requests may go before the script had an error. Those outside of `mem`, `obj`
/// and `arena` stop at three quarters, tiny ones of `raw` and `native` apart: Python needs the rest to handle a refusal.
fn reach(account: Account, bytes: usize) -> Reach {
    match account.asker() {
        Asker::Interpreter | Asker::Pymalloc => Reach::Cap,
        // Locks and extension modules, of which CPython makes a RuntimeError and an ImportError.
        Asker::Libraries if bytes as u64 <= TINY => Reach::Cap,
        Asker::Libraries | Asker::Arrays | Asker::Maps => Reach::High,
    }
}

/// Whether nothing can go on if a small request of `account` gets null: Python has no memory to
/// handle that with, or a call of the system's library fails in whatever code is next.
fn ends(account: Account, bytes: usize) -> bool {
    match account.asker() {
        Asker::Interpreter => true,
        Asker::Libraries => bytes as u64 > TINY,
        Asker::Pymalloc | Asker::Arrays | Asker::Maps => false,
    }
}

/// Whether CPython or NumPy makes an error of a small request of `account` that gets null.
fn surfaces(account: Account) -> bool {
    !matches!(account.asker(), Asker::Libraries | Asker::Maps)
}

/// Whether a request for so many bytes is refused at once, once it does not fit below the
/// reserve. Imports and tracebacks read whole files, and event loops make a buffer of 256 KiB for what
/// may be received, of which they keep a part.
fn is_large(bytes: usize, reserve: u64, fragile: bool) -> bool {
    let bytes = bytes as u64;
    match fragile {
        true => bytes > (reserve / 8).max(SMALL.0),
        // opendir(3) takes 40 KiB, and imports call it.
        false => {
            bytes
                > (reserve / 64)
                    .max((reserve / 16).min(48 << 10))
                    .clamp(SMALL.0, SMALL.1)
        }
    }
}

fn reserve(scope: Scope) -> u64 {
    let cap = LEDGER.cap(scope).unwrap_or(0);
    cap - LEDGER.hold(scope).unwrap_or(0).min(cap)
}

/// The number of the scope's shortage, begun if need be.
fn begin(scope: Scope) -> u64 {
    let hold = LEDGER.hold(scope).unwrap_or(0) as i64;
    let (number, is_new) = shortages::of(scope).begin(hold, reserve(scope) as i64);
    if is_new {
        attend_to_caps(true);
    }
    number
}

/// Ends the scope's shortage if live bytes have fallen below the reserve; whether one lasts.
pub(super) fn look(scope: Scope) -> bool {
    if shortages::of(scope).number() == 0 {
        return false;
    }
    let margin = slice(reserve(scope));
    let hold = LEDGER.hold(scope).unwrap_or(0) as i64;
    if LEDGER.bound(scope) < hold - margin {
        shortages::of(scope).end();
        return false;
    }
    true
}

/// A request that does not fit below a ceiling's reserve.
struct Case<'a> {
    slot: &'a Slot,
    account: Account,
    bytes: usize,
    asked: usize,
    scope: Scope,
    reserve: u64,
}

impl<'a> Case<'a> {
    fn new(slot: &'a Slot, scope: Scope, account: Account, bytes: usize, asked: usize) -> Self {
        Case {
            slot,
            account,
            bytes,
            asked,
            scope,
            reserve: reserve(scope),
        }
    }
}

/// Decides on a block that does not fit below the reserve of `scope`, and books it with `book`
/// if it may be had; whether it was booked. If it was not, it was given back.
#[cold]
pub(super) fn decide(
    slot: &Slot,
    request: &Request,
    scope: Scope,
    book: &dyn Fn(Reach) -> Result<(), Scope>,
) -> bool {
    let Request { account, bytes, .. } = *request;
    let Some(python) = python() else {
        let booked = book(Reach::Cap).is_ok();
        if !booked {
            LEDGER.count_refusal(account);
            (request.undo)();
        }
        return booked;
    };
    let case = Case::new(slot, scope, account, bytes, request.asked);
    PART.with(|part| {
        case.join(part, python);
        if case.is_large(part, python) || case.must_refuse(part, python) {
            (request.undo)();
            return case.refuse(part, python);
        }
        if book(reach(account, bytes).min(Reach::High)).is_ok() {
            return true;
        }
        if case.may_take_the_rest(part, python) && book(Reach::Cap).is_ok() {
            if account.is_under_gil() {
                // Without a window in which the next request would take of the rest, too.
                LEDGER.close_windows(slot);
            }
            return true;
        }
        (request.undo)();
        let is_the_end = ends(account, bytes) && case.shortage().had_error() && case.is_full();
        // An event loop that gets no buffer loses each connection, and waits for the next.
        let is_needed =
            || !is_large(bytes, case.reserve, false) || case.place(python) == CodePlace::Serving;
        if is_the_end && is_needed() {
            LEDGER.count_refusal(account);
            case.end(How::Fatal, python);
        }
        case.refuse(part, python)
    })
}

/// Whether a request that does not fit below the reserve is small enough to be decided on when it
/// is booked; else it is refused.
#[cold]
pub(super) fn is_small_enough(slot: &Slot, account: Account, bytes: usize, scope: Scope) -> bool {
    let Some(python) = python() else { return true };
    let case = Case::new(slot, scope, account, bytes, bytes);
    PART.with(|part| {
        if !case.is_large(part, python) {
            return true;
        }
        case.join(part, python);
        case.refuse(part, python)
    })
}

/// Keeps a refused map of `asked` bytes as the last refusal, and leaves the dossier of a shortage's first. Any thread,
/// without the heap's gate.
#[cold]
pub(super) fn refuse_map(scope: Scope, asked: usize) {
    LEDGER.count_refusal(Account::Mapped);
    if let Some(python) = python() {
        begin(scope);
        record(scope, Account::Mapped, asked, How::Null, None, python);
    }
}

/// Whether the shortage for which a unit pays lasts.
pub fn is_short(pays: u64) -> bool {
    shortages::scope_of(pays).is_some_and(look)
}

/// Records that the unit which has most has the error of a shortage; None if it is its budget's. Any thread, also inside the allocator.
#[cold]
pub fn record_payer(
    unit: &UnitFigures,
    account: Account,
    asked: usize,
    how: How,
) -> Option<Refusal> {
    let scope = shortages::scope_of(unit.pays)?;
    let (python, shortage) = (python()?, shortages::of(scope));
    shortage.note_raised();
    let bound = LEDGER.bound(scope);
    shortage.note_error(bound, LEDGER.cap(scope).unwrap_or(0) as i64 - bound);
    Some(record(scope, account, asked, how, Some(unit), python))
}

/// Keeps the last refusal, and leaves the dossier of a shortage's first. A library may end the process for null.
fn record(
    scope: Scope,
    account: Account,
    asked: usize,
    how: How,
    payer: Option<&UnitFigures>,
    python: &Python,
) -> Refusal {
    let refusal = refusal::record(Full::Cap(scope, payer), account, asked, how, python.trace);
    let has_dossier = shortages::of(scope).has_dossier.swap(true, Relaxed);
    if !has_dossier || (python.loses_errors)() {
        (python.first_refusal)(&refusal);
    }
    if how == How::Null && matches!(account, Account::Mapped | Account::Native) {
        external::note_refused(asked, refusal.number);
    }
    refusal
}

impl Case<'_> {
    /// Makes the calling thread part of the scope's shortage.
    fn join(&self, part: &ThreadPart, python: &Python) {
        let shortage = begin(self.scope);
        if part.shortage.get() != shortage {
            part.shortage.set(shortage);
            part.state.set(Stage::New);
            part.base.set(self.slot.live());
        }
        part.note_live(self.slot.live(), self.scope);
        // An error may be in a cycle of references with its frames, and is gone at a collection only.
        if !self.shortage().had_error() && self.handles_error(part, python) {
            self.shortage().note_raised();
        }
    }

    /// Where the thread's code is. Libraries that a server calls count as the server, unless the script had no error when three
    /// quarters of the reserve are gone: the script may be one of them.
    fn place(&self, python: &Python) -> CodePlace {
        let is_late = !self.shortage().had_error() && self.lacks_room(Reach::High);
        (python.place)(!is_late)
    }

    /// Whether the thread is handling the error that it was given last.
    fn handles_error(&self, part: &ThreadPart, python: &Python) -> bool {
        part.has_error() && (python.handles_error)()
    }

    fn shortage(&self) -> &'static Shortage {
        shortages::of(self.scope)
    }

    /// Whether the request is refused for its size. A thread that handles its error, and one that has little beside
    /// another, get more.
    fn is_large(&self, part: &ThreadPart, python: &Python) -> bool {
        is_large(self.bytes, self.reserve, false)
            && (is_large(self.bytes, self.reserve, true)
                || !(self.is_for_maps()
                    || self.handles_error(part, python)
                    || self.place(python).is_fragile()
                    || self.is_innocent(self.slot.live_of_owner())))
    }

    /// Whether it is a library's request while libraries' maps have most: a C++ library ends the process for null.
    fn is_for_maps(&self) -> bool {
        self.account == Account::Native && limits::maps() as i64 > LEDGER.bound(self.scope)
    }

    /// Whether a thread that has `own` bytes has little beside another.
    fn is_innocent(&self, own: i64) -> bool {
        LEDGER.most_of_a_slot() / INNOCENT > own
    }

    /// Whether the thread is the next that has an error of the shortage.
    fn is_due(&self, part: &ThreadPart, python: &Python) -> bool {
        let reserve = self.reserve as i64;
        let (last, left) = self.shortage().last_error();
        let risen = LEDGER.bound(self.scope) - last;
        if left < reserve / LAST || risen <= left / STEPS.0 {
            return false;
        }
        let handles_error = self.handles_error(part, python);
        let own = match handles_error {
            true => reserve / FOR_HANDLING,
            false => slice(self.reserve),
        };
        let has_grown = self.slot.live() - part.base.get() > own;
        match part.state.get() {
            Stage::New if has_grown => true,
            Stage::Notified if has_grown && !handles_error && self.gives_back() => true,
            _ if risen <= left / STEPS.1 => false,
            _ if has_grown => true,
            // Threads that take a slot one after the other grow together: a server's, one for each request.
            _ => {
                let is_innocent = self.is_innocent(self.slot.live());
                !handles_error && (self.lacks_room(Reach::High) || !is_innocent)
            }
        }
    }

    /// Whether the error goes to the unit that has most, and not to the one that asks, as long as half of the reserve is left.
    fn another_pays(&self, python: &Python) -> bool {
        !self.lacks_room(Reach::Middle) && (python.another_pays)(self.shortage().number())
    }

    /// Whether to refuse this request to notify the thread. Moves the thread to the next state.
    fn must_refuse(&self, part: &ThreadPart, python: &Python) -> bool {
        if self.repeats_refused_number(part) {
            return self.may_be_refused(part, python);
        }
        match part.state.get() {
            Stage::New if self.is_starting() => false,
            Stage::New | Stage::Notified
                if !self.is_due(part, python) || self.another_pays(python) =>
            {
                false
            }
            Stage::New | Stage::Notified => match self.place(python) {
                CodePlace::Serving => false,
                CodePlace::Nowhere if part.state.get() == Stage::New => false,
                place if self.can_wait(place) => false,
                place if (python.is_main)() && place != CodePlace::Nowhere => {
                    part.attempts.set(0);
                    part.patience.set(self.slot.live() + self.left() / 2);
                    self.post(part, place, python);
                    false
                }
                _ => self.may_be_refused(part, python),
            },
            Stage::Posted | Stage::Missed if self.slot.live() > part.patience.get() => {
                self.place(python) != CodePlace::Serving && self.may_be_refused(part, python)
            }
            Stage::Posted => false,
            Stage::Missed => {
                let place = self.place(python);
                // The safe point would be in the same import.
                if place != CodePlace::Serving && self.can_wait(place) {
                    return false;
                }
                if !place.is_fragile() && part.attempts.get() >= ATTEMPTS {
                    return self.may_be_refused(part, python);
                }
                self.post(part, place, python);
                false
            }
        }
    }

    /// Whether the thread is in its first steps, which take pages of a region: its creator waits for a sign of it, and would wait for
    /// ever after an error. Without a GIL several threads start at once.
    fn is_starting(&self) -> bool {
        (IS_FREE_THREADED || limits::is_followed() && bounded_heap::size().is_some())
            && self.slot.live_of_owner() < FIRST_STEPS
    }

    /// Whether an error for code at `place` waits until half of the reserve is gone.
    fn can_wait(&self, place: CodePlace) -> bool {
        place.is_fragile() && !self.lacks_room(Reach::Middle)
    }

    /// Whether the thread asks again for a number that it was refused, with nothing allocated between: CPython
    /// 3.15's specialised arithmetic takes null for a reason to use the general form. Unless that gets null,
    /// too, there is no error, and a deep recursion goes on. True once for a refusal.
    fn repeats_refused_number(&self, part: &ThreadPart) -> bool {
        let last = part.number.get();
        let is_same = last.asked == self.asked && last.blocks == self.slot.blocks();
        part.number.set(Number {
            is_repeated: is_same,
            ..last
        });
        is_same && !last.is_repeated
    }

    /// Whether this small request may be the one that is refused: CPython makes an error of it, and does not need it for an
    /// error that passes; a function's only if little is left. Chunks of the data stack are served to the end. So is `mem` of a
    /// free-threaded Python: `PyList_New` frees a list whose array it was refused (cpython issue 152125).
    fn may_be_refused(&self, part: &ThreadPart, python: &Python) -> bool {
        surfaces(self.account)
            && self.account != Account::Arena
            && !(IS_FREE_THREADED && self.account == Account::Mem)
            && match self.role(part, python) {
                Role::Plain => true,
                Role::Unwinding => false,
                Role::Function => self.lacks_room(Reach::High),
            }
    }

    /// Whether the last quarter of the reserve is for this small request, too.
    fn may_take_the_rest(&self, part: &ThreadPart, python: &Python) -> bool {
        if self.shortage().had_error() {
            return true;
        }
        if reach(self.account, self.bytes) < Reach::Cap {
            return false;
        }
        if !self.may_be_refused(part, python) || self.role(part, python) != Role::Plain {
            return true;
        }
        let place = self.place(python);
        place.is_fragile() || place == CodePlace::Nowhere
    }

    fn role(&self, part: &ThreadPart, python: &Python) -> Role {
        (python.role)(self.asked, part.has_error())
    }

    /// Whether the request does not fit below the cap.
    fn is_full(&self) -> bool {
        self.lacks_room(Reach::Cap)
    }

    fn lacks_room(&self, reach: Reach) -> bool {
        LEDGER.lacks_room(self.account, self.bytes, reach).is_some()
    }

    fn post(&self, part: &ThreadPart, place: CodePlace, python: &Python) {
        part.place.set(place);
        part.asked.set((self.account, self.asked));
        part.attempts.set(part.attempts.get().saturating_add(1));
        let posted = (python.post)();
        part.state
            .set(if posted { Stage::Posted } else { Stage::Missed });
    }

    /// Refuses the request, which notifies the thread. Always returns false.
    fn refuse(&self, part: &ThreadPart, python: &Python) -> bool {
        LEDGER.count_refusal(self.account);
        if self.account == Account::Arena && is_large(self.bytes, self.reserve, false) {
            // pymalloc continues without another arena: no thread is notified by this.
            return false;
        }
        self.set_notified(part);
        if self.account == Account::Obj && self.asked <= NUMBER && !part.number.get().is_repeated {
            part.number.set(Number {
                asked: self.asked,
                blocks: self.slot.blocks(),
                is_repeated: false,
            });
        }
        if self.asks_in_vain(part) {
            self.end(How::Vain, python);
        }
        if surfaces(self.account) && is_large(self.bytes, self.reserve, false) {
            external::has_error(python);
        }
        self.record(How::Null, python);
        false
    }

    /// Records that the thread has its error. A further refusal of a large request changes nothing unless the last one
    /// caused an error: CPython may have ignored it.
    fn set_notified(&self, part: &ThreadPart) {
        let is_large = is_large(self.bytes, self.reserve, false);
        if part.state.replace(Stage::Notified) == Stage::Notified && part.has_error() && is_large {
            return;
        }
        part.given.set(true);
        part.errors_when_notified.set(part.errors.get());
        part.height.set(self.slot.live());
        part.base.set(self.slot.live());
        let (last, left) = self.shortage().last_error();
        let bound = LEDGER.bound(self.scope);
        let stays = self.gives_back() && bound - last <= left / STEPS.1;
        if !is_large && !stays {
            self.shortage().note_error(bound, self.left());
        }
    }

    /// Whether a thread has given back much of what it had grown by, after an error of this shortage.
    fn gives_back(&self) -> bool {
        self.shortage().gives_back.load(Relaxed)
    }

    fn left(&self) -> i64 {
        let cap = LEDGER.cap(self.scope).unwrap_or(0) as i64;
        cap - LEDGER.bound(self.scope)
    }

    /// Whether the thread has been refused so often, with nothing between, that it will not stop.
    /// Refusals that CPython swallows do not count, unless nothing is left.
    fn asks_in_vain(&self, part: &ThreadPart) -> bool {
        let blocks = self.slot.blocks();
        let idle = blocks - part.blocks.replace(blocks) <= IDLE;
        let errors = part.errors.get();
        let had_error = errors != part.errors_at_refusal.replace(errors);
        if !idle {
            part.vain.set(0);
        } else if had_error || (self.bytes as u64 <= SMALL.0 && self.is_full()) {
            part.vain.set(part.vain.get() + 1);
        }
        part.vain.get() >= VAIN
    }

    fn end(&self, how: How, python: &Python) -> ! {
        (python.end)(&self.record(how, python))
    }

    fn record(&self, how: How, python: &Python) -> Refusal {
        record(self.scope, self.account, self.asked, how, None, python)
    }
}

/// Takes the error that was posted for the calling thread, at a safe point. The caller holds the GIL
/// and raises it.
pub fn notice(slot: &Slot) -> Notice {
    let Some(python) = python() else {
        return Notice::No;
    };
    if let Some(notice) = external::notice(python) {
        return notice;
    }
    PART.with(|part| {
        let shortage = part.shortage.get();
        let (Some(scope), Stage::Posted) = (shortages::scope_of(shortage), part.state.get()) else {
            return Notice::No;
        };
        // The bytes of the reserve have been freed meanwhile.
        let hold = LEDGER.hold(scope).unwrap_or(0) as i64;
        if LEDGER.bound(scope) <= hold {
            part.state.set(Stage::New);
            part.base.set(slot.live());
            return Notice::No;
        }
        let (account, bytes) = part.asked.get();
        let case = Case::new(slot, scope, account, bytes, bytes);
        if !case.place(python).stands_for(part.place.get()) {
            part.state.set(Stage::Missed);
            return Notice::Elsewhere;
        }
        LEDGER.count_refusal(account);
        case.set_notified(part);
        case.shortage().note_raised();
        case.record(How::Raised, python);
        Notice::Now
    })
}

/// Counts a `MemoryError` of the calling thread that has passed Python code and is gone: caught, or
/// printed. With the GIL.
pub fn error_ended(slot: &Slot) {
    PART.with(|part| {
        part.errors.set(part.errors.get().wrapping_add(1));
        // The thread may allocate what it has freed without a look: at the next look its live bytes may be as high again.
        if let Some(scope) = shortages::scope_of(part.shortage.get()) {
            part.note_live(slot.live(), scope);
        }
    });
    shortages::count_error();
    external::error_ended();
}

/// Whether a new thread would have the memory for its first steps. If not, that counts as a refusal, which ends the
/// process if the shortage had an error before. Not inside the allocator.
pub fn may_start_thread(slot: &Slot) -> bool {
    let need = FIRST_STEPS as usize;
    let lacking = |reach| LEDGER.lacks_room(Account::Obj, need, reach);
    let (Some(scope), Some(python)) = (lacking(Reach::High), python()) else {
        return true;
    };
    begin(scope);
    let case = Case::new(slot, scope, Account::Obj, need, need);
    let had_error = case.shortage().had_error();
    if had_error && lacking(Reach::Cap).is_none() {
        return true;
    }
    LEDGER.count_refusal(Account::Obj);
    if had_error {
        case.end(How::Fatal, python);
    }
    case.shortage().note_raised();
    case.record(How::NoThread, python);
    false
}
