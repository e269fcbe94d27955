//! Episodes: from the request that first enters a ceiling's reserve until live bytes have fallen
//! below it again.
//!
//! Within an episode each thread that allocates is in one of four states:
//!
//! - *New*: it has allocated less than a slice of the reserve. Its requests are served, so that a thread
//!   that allocates little notices nothing.
//! - *Posted*: Python was asked to raise `MemoryError` in it at its next safe point. Only the main thread
//!   has safe points.
//! - *Missed*: at the safe point another handler would have caught the error, or no handler. The error is
//!   posted again; after a few times a request is refused.
//! - *Told*: it has got its error. The reserve serves its handling.
//!
//! A thread without safe points is notified by a refused request at once. So is the main thread if half
//! of the rest of the reserve is used without a safe point (a loop in C). CPython raises `MemoryError`
//! for a refused request inside the innermost `try` around it, except at the places where it has a bug:
//! so the main thread is notified at a safe point wherever it has one.
//!
//! CPython also ignores some refusals: if the table of interned strings cannot grow, it clears the error
//! and continues. So a refusal does not prove that the script got an error. [`error_ended`] counts the
//! errors that passed through Python code. Without one of these, or one that the host raised, the last
//! quarter of the reserve is kept, and the process is not ended.
//!
//! Some requests must not be refused, see [`Role`]: CPython loses the error if it gets no frame object
//! while it raises another error (3.11 to 3.13), and raises none if it gets no further chunk of its data
//! stack (3.11). They are served to the end. The memory that a deep recursion needs to unwind is part of
//! the reserve, see [`limits::stack_moved`](super::limits::stack_moved).

use super::python::{CodePlace, Python, Role, Told, python};
use super::refusal::{self, How};
use super::{external, running};
use crate::heap::caps::{Request, attend};
use crate::ledger::{Account, LEDGER, Reach, Scope, Slot};
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

/// The state of a thread within an episode; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Posted,
    Missed,
    Told,
}

/// A thread's part in an episode. Plain cells without a destructor, as the heap's own.
struct ThreadPart {
    episode: Cell<u64>,
    state: Cell<Stage>,
    /// The thread's live bytes at its last notification, or when it came.
    base: Cell<i64>,
    /// Bytes that a notified thread may allocate before the next notification. For a thread that is to be notified at
    /// a safe point: bytes that it may allocate before one of its requests is refused instead.
    patience: Cell<i64>,
    place: Cell<CodePlace>,
    attempts: Cell<u8>,
    /// Refusals in a row between which the thread did next to nothing, and the blocks that it had
    /// allocated at the last.
    vain: Cell<u32>,
    blocks: Cell<u64>,
    /// `MemoryError`s of this thread that passed Python code and are gone: in all, when the thread
    /// came to the episode, at its last notification, and at its last refusal.
    errors: Cell<u64>,
    errors_at_start: Cell<u64>,
    errors_when_told: Cell<u64>,
    errors_at_refusal: Cell<u64>,
    /// Whether the thread was ever notified, and whether in this episode by an error that the host raised.
    given: Cell<bool>,
    raised: Cell<bool>,
    /// Whether the thread was made below a cap, and has not been notified since.
    is_new: Cell<bool>,
    /// The refusal of which the thread is to be notified.
    asked: Cell<(Account, usize)>,
    /// The last refused request for a number, and whether it was made again.
    number: Cell<Number>,
}

/// A refused request for a number: its size, and the blocks that the thread had allocated then.
#[derive(Clone, Copy)]
struct Number {
    asked: usize,
    blocks: u64,
    is_repeated: bool,
}

impl ThreadPart {
    /// Whether the thread had an error in this episode that it could catch.
    fn had_error(&self) -> bool {
        self.raised.get() || self.errors.get() != self.errors_at_start.get()
    }

    /// Whether the error that the thread was given last is still on its way, or being handled: beyond
    /// the end of its episode, too.
    fn has_error(&self) -> bool {
        self.given.get() && self.errors.get() == self.errors_when_told.get()
    }
}

thread_local! {
    static PART: ThreadPart = const {
        ThreadPart {
            episode: Cell::new(0),
            state: Cell::new(Stage::New),
            base: Cell::new(0),
            patience: Cell::new(0),
            place: Cell::new(CodePlace::Nowhere),
            attempts: Cell::new(0),
            vain: Cell::new(0),
            blocks: Cell::new(0),
            errors: Cell::new(0),
            errors_at_start: Cell::new(0),
            errors_when_told: Cell::new(0),
            errors_at_refusal: Cell::new(0),
            given: Cell::new(false),
            raised: Cell::new(false),
            is_new: Cell::new(false),
            asked: Cell::new((Account::Raw, 0)),
            number: Cell::new(Number {
                asked: 0,
                blocks: 0,
                is_repeated: false,
            }),
        }
    };
}

/// Safe points that the main thread may miss before a request is refused.
const ATTEMPTS: u8 = 3;

/// Refusals in a row after which a thread that does nothing else is taken to ask for ever, and how
/// many blocks it may allocate from one to the next.
const VAIN: u32 = 100_000;
const IDLE: u64 = 64;

/// The least number of bytes that a notified thread may allocate before the next notification.
const LEAST_PATIENCE: i64 = 8 << 10;

/// Bytes of the reserve that a new thread may allocate: its thread state, a chunk of data stack, and the
/// signal to its creator that it runs.
const FIRST_STEPS: i64 = 48 << 10;

/// Bounds of a small request of a thread that was not notified.
const SMALL: (u64, u64) = (4 << 10, 64 << 10);

/// The largest request of locks and of the dynamic loader.
const TINY: u64 = 2 << 10;

/// The largest request for an `int` of one machine word or a `float`; objects with a header for the
/// garbage collector, such as a traceback, are larger.
const NUMBER: usize = 32;

/// Bytes of the reserve that a thread may allocate before it is notified.
fn slice(reserve: u64) -> i64 {
    (reserve / 32).min(64 << 10) as i64
}

/// How far into the reserve an account's small requests go. Those past the objects stop
/// before its end, so that Python can still handle what comes of it.
fn reach(account: Account, bytes: usize) -> Reach {
    match account {
        Account::Mem | Account::Obj | Account::Arena => Reach::Cap,
        // Locks and extension modules, of which CPython makes a RuntimeError and an ImportError.
        Account::Raw | Account::Native if bytes as u64 <= TINY => Reach::Cap,
        Account::Raw | Account::Numpy | Account::Native | Account::Mapped | Account::Pooled => {
            Reach::High
        }
    }
}

/// Whether nothing can go on where a small request of `account` gets null: Python has no memory to
/// handle that with.
fn ends(account: Account) -> bool {
    matches!(account, Account::Mem | Account::Obj)
}

/// Whether CPython or NumPy makes an error of a small request of `account` that gets null.
fn surfaces(account: Account) -> bool {
    !matches!(account, Account::Raw | Account::Native | Account::Mapped)
}

/// Whether a request for so many bytes is refused at once, once it does not fit below the
/// reserve. Imports and tracebacks read whole files, and event loops make a buffer of 256 KiB for what
/// may be received, of which they keep a part.
fn is_large(bytes: usize, reserve: u64, fragile: bool) -> bool {
    let bytes = bytes as u64;
    match fragile {
        true => bytes > (reserve / 8).max(SMALL.0),
        false => bytes > (reserve / 64).clamp(SMALL.0, SMALL.1),
    }
}

fn reserve(scope: Scope) -> u64 {
    let cap = LEDGER.cap(scope).unwrap_or(0);
    cap - LEDGER.hold(scope).unwrap_or(0).min(cap)
}

/// The number of the scope's episode, begun if need be.
fn begin(scope: Scope) -> u64 {
    let (number, is_new) = running::of(scope).begin();
    if is_new {
        attend(true);
    }
    number
}

/// Ends the scope's episode where live bytes have fallen below the reserve; whether one lasts.
pub(super) fn look(scope: Scope) -> bool {
    if running::of(scope).number() == 0 {
        return false;
    }
    let margin = slice(reserve(scope));
    let hold = LEDGER.hold(scope).unwrap_or(0) as i64;
    if LEDGER.bound(scope) < hold - margin {
        running::of(scope).end();
        return false;
    }
    true
}

/// A request that does not fit beneath a ceiling's reserve.
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
/// where it may be had; whether it was booked. Where it was not, it was given back.
#[cold]
pub(super) fn settle(
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
        case.join(part);
        if case.is_large(python) || case.must_refuse(part, python) {
            (request.undo)();
            return case.refuse(part, python);
        }
        if book(reach(account, bytes).min(Reach::High)).is_ok() {
            return true;
        }
        let reach = reach(account, bytes);
        if reach == Reach::Cap && case.may_take_the_rest(part, python) && book(reach).is_ok() {
            if account.is_under_gil() {
                // Without a window in which the next request would take of the rest, too.
                LEDGER.close_windows(slot);
            }
            return true;
        }
        (request.undo)();
        if bytes as u64 <= SMALL.0 && ends(account) && part.had_error() && case.is_full() {
            case.end(How::Fatal, python);
        }
        case.refuse(part, python)
    })
}

/// Whether a request that does not fit below the reserve is small enough to be decided on when it
/// is booked; else it is refused.
#[cold]
pub(super) fn admits(slot: &Slot, account: Account, bytes: usize, scope: Scope) -> bool {
    let Some(python) = python() else {
        return true;
    };
    let case = Case::new(slot, scope, account, bytes, bytes);
    PART.with(|part| {
        if !case.is_large(python) {
            return true;
        }
        case.join(part);
        case.refuse(part, python)
    })
}

impl Case<'_> {
    /// Makes the calling thread part of the scope's episode.
    fn join(&self, part: &ThreadPart) {
        let episode = begin(self.scope);
        if part.episode.get() != episode {
            part.episode.set(episode);
            part.state.set(Stage::New);
            part.base.set(self.slot.live());
            part.errors_at_start.set(part.errors.get());
            part.raised.set(false);
            running::of(self.scope).joined.fetch_add(1, Relaxed);
        }
    }

    /// Bytes of the reserve that the thread may allocate before it is notified: fewer if many threads ask.
    fn slice(&self) -> i64 {
        slice(self.reserve) / (1 + running::of(self.scope).joined.load(Relaxed) / 4)
    }

    /// Whether the request is refused for its size.
    fn is_large(&self, python: &Python) -> bool {
        is_large(self.bytes, self.reserve, false)
            && (is_large(self.bytes, self.reserve, true) || !(python.place)().is_fragile())
    }

    /// Whether to refuse this request to notify the thread. Moves the thread to the next state.
    fn must_refuse(&self, part: &ThreadPart, python: &Python) -> bool {
        if self.repeats_refused_number(part) {
            return self.may_be_refused(part, python);
        }
        let taken = self.slot.live() - part.base.get();
        let middle_passed = || self.lacks_room(Reach::Middle);
        match part.state.get() {
            // A thread that took little has nothing to do with it.
            Stage::New if taken <= self.slice() => false,
            Stage::New if part.is_new.get() && taken <= FIRST_STEPS => false,
            Stage::Told if taken <= part.patience.get() => false,
            Stage::New | Stage::Told => match (python.place)() {
                CodePlace::Nowhere if part.state.get() == Stage::New => false,
                place if place.is_fragile() && !middle_passed() => false,
                place if (python.is_main)() && place != CodePlace::Nowhere => {
                    part.attempts.set(0);
                    part.base.set(self.slot.live());
                    part.patience.set(self.left() / 2);
                    self.post(part, place, python);
                    false
                }
                _ => self.may_be_refused(part, python),
            },
            Stage::Posted | Stage::Missed if taken > part.patience.get() => {
                let serves =
                    (python.place)() == CodePlace::Serving && !self.lacks_room(Reach::High);
                !serves && self.may_be_refused(part, python)
            }
            Stage::Posted => false,
            Stage::Missed => {
                let place = (python.place)();
                if !place.is_fragile() && part.attempts.get() >= ATTEMPTS {
                    return self.may_be_refused(part, python);
                }
                self.post(part, place, python);
                false
            }
        }
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

    /// Whether it may be this small request: one of which CPython makes an error, unless little is
    /// left. Chunks of the data stack are served to the end.
    fn may_be_refused(&self, part: &ThreadPart, python: &Python) -> bool {
        surfaces(self.account)
            && self.account != Account::Arena
            && match self.role(part, python) {
                Role::Plain => true,
                Role::Unwinding => false,
                Role::Function => self.lacks_room(Reach::High),
            }
    }

    /// Whether the last quarter of the reserve is for this small request, too.
    fn may_take_the_rest(&self, part: &ThreadPart, python: &Python) -> bool {
        if self.account == Account::Arena || !surfaces(self.account) {
            return true;
        }
        if self.role(part, python) != Role::Plain {
            return true;
        }
        let place = (python.place)();
        part.had_error() || place.is_fragile() || place == CodePlace::Nowhere
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
        part.state.set(match posted {
            true => Stage::Posted,
            false => Stage::Missed,
        });
    }

    /// Refuses the request, which notifies the thread. Always returns false.
    fn refuse(&self, part: &ThreadPart, python: &Python) -> bool {
        LEDGER.count_refusal(self.account);
        if self.account == Account::Arena && is_large(self.bytes, self.reserve, false) {
            // pymalloc continues without another arena: no thread is notified by this.
            return false;
        }
        self.set_told(part);
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
        let refusal = self.record(How::Null, python);
        self.tell_of_first(&refusal, python);
        false
    }

    /// Records that the thread has its error. The rest of the reserve serves it and the other notified
    /// threads: half of it before their next notification, and so on until nothing is left. A further
    /// refusal of a large request changes that only if the last one caused an error: CPython may have
    /// ignored it.
    fn set_told(&self, part: &ThreadPart) {
        let notified = &running::of(self.scope).notified;
        if part.state.replace(Stage::Told) != Stage::Told {
            notified.fetch_add(1, Relaxed);
        } else if part.has_error() && is_large(self.bytes, self.reserve, false) {
            return;
        }
        part.given.set(true);
        part.is_new.set(false);
        part.errors_when_told.set(part.errors.get());
        part.base.set(self.slot.live());
        let share = self.left() / 2 / notified.load(Relaxed).max(1);
        part.patience.set(share.max(LEAST_PATIENCE));
    }

    /// Bytes left below the cap.
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

    /// Ends the process.
    fn end(&self, how: How, python: &Python) -> ! {
        let refusal = self.record(how, python);
        self.tell_of_first(&refusal, python);
        (python.end)(&refusal)
    }

    fn record(&self, how: How, python: &Python) -> refusal::Refusal {
        refusal::record(self.scope, self.account, self.asked, how, python.trace)
    }

    fn tell_of_first(&self, refusal: &refusal::Refusal, python: &Python) {
        let has_dossier = running::of(self.scope).has_dossier.swap(true, Relaxed);
        if !has_dossier || (python.loses_errors)() {
            (python.first_refusal)(refusal);
        }
    }
}

/// Takes the error that was posted for the calling thread, at a safe point. The caller holds the GIL
/// and raises it.
pub fn told(slot: &Slot) -> Told {
    let Some(python) = python() else {
        return Told::No;
    };
    if let Some(told) = external::told(python) {
        return told;
    }
    PART.with(|part| {
        let episode = part.episode.get();
        let (Some(scope), Stage::Posted) = (running::scope_of(episode), part.state.get()) else {
            return Told::No;
        };
        // The bytes of the reserve have been freed meanwhile.
        let hold = LEDGER.hold(scope).unwrap_or(0) as i64;
        if LEDGER.bound(scope) <= hold {
            part.state.set(Stage::New);
            part.base.set(slot.live());
            return Told::No;
        }
        let place = (python.place)();
        if !place.stands_for(part.place.get()) {
            part.state.set(Stage::Missed);
            return Told::Elsewhere;
        }
        let (account, bytes) = part.asked.get();
        let case = Case::new(slot, scope, account, bytes, bytes);
        LEDGER.count_refusal(account);
        case.set_told(part);
        part.raised.set(true);
        let refusal = case.record(How::Raised, python);
        case.tell_of_first(&refusal, python);
        Told::Now
    })
}

/// Counts a `MemoryError` of the calling thread that has passed Python code and is gone: caught, or
/// printed. With the GIL.
pub fn error_ended() {
    PART.with(|part| part.errors.set(part.errors.get().wrapping_add(1)));
}

/// Whether a thread that is made now would have what it needs for its first steps; else that is a
/// refusal. Not inside the allocator.
pub fn may_start_thread() -> bool {
    let need = FIRST_STEPS as usize;
    let scope = LEDGER.lacks_room(Account::Obj, need, Reach::High);
    let (Some(scope), Some(python)) = (scope, python()) else {
        return true;
    };
    LEDGER.count_refusal(Account::Obj);
    let refusal = refusal::record(scope, Account::Obj, need, How::NoThread, python.trace);
    if !running::of(scope).has_dossier.swap(true, Relaxed) {
        (python.first_refusal)(&refusal);
    }
    false
}

/// The calling thread was just made.
pub fn thread_begins() {
    PART.with(|part| part.is_new.set(true));
}
