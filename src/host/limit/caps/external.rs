//! Growth past malloc under `--cap auto`, or below a cap that counts maps: libraries that map memory themselves.
//!
//! A page that is touched cannot be refused, so the script is notified early: if less than a *zone* is
//! left of the limit, or a map would leave less, and libraries have mapped at least as much, a thread gets a `MemoryError` at
//! its next suitable safe point, which may be the end of the call that mapped. It is the thread that maps, or that waits for the one that maps
//! in a call of the library, or, if that is unknown, the main thread. The main thread is asked by a pending call; another one has it raised
//! when it allocates, and none for a map that was refused: its library has raised its own, or ends the process. If half of the rest is used
//! before that, it gets the error at any safe point but a loop's jump. It gets another error only if the
//! charges have grown by a large part of the rest. A map that is larger than the rest is refused. Some libraries then end the
//! process by `abort`, which is an end by the caps.
//!
//! The state is of the process and has no lock: two threads that decide at once post at most twice.

use super::python::{Notice, Python, python};
use super::refusal::{Full, How, Refusal};
use super::zone::{another, has_room, is_at_work, mapped, zone};
use super::{limits, refusal, watch};
use crate::cpython::frames::CodePlace;
use crate::cpython::waiting;
use crate::heap::attend_to_caps;
use crate::ledger::{Account, LEDGER};
use pyhost_os::clock;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize};

/// Growth after which a script that had its error gets another, at least.
const LEAST_PATIENCE: i64 = 1 << 20;

/// For how long a map waits for memory that libraries give back, in nanoseconds, and for how long none waits after one that did in vain.
const DECAY: u64 = 2_000_000_000;
const IN_VAIN: u64 = 5_000_000_000;

/// The part of a limit that counts maps by which a map may pass its reserve's begin.
const SLACK: i64 = 36;

/// Threads beside the first that an error is for.
const OTHERS: usize = 4;

/// For how long the largest map counts as what the next call of a library takes, in nanoseconds, and as how many of its like.
const LATELY: u64 = 1_000_000_000;
const MAPS_OF_CALL: i64 = 2;

/// No error is under way.
const QUIET: u8 = 0;
/// The main thread has a pending call, which raises the error.
const POSTED: u8 = 1;
/// The call came where the error does not belong: the next allocation posts another. Or the error is for another thread, which has not
/// allocated since where it belongs.
const MISSED: u8 = 2;

pyhost_os::state! {
    /// The error on its way to a thread, and the last that one had.
    static ERROR: Error {
        state: AtomicU8 = AtomicU8::new(QUIET),
        /// The number of the thread that it is for, 0 of the main thread; and of others that may have it first, since that one does not
        /// come to it.
        thread: AtomicUsize = AtomicUsize::new(0),
        others: [AtomicUsize; OTHERS] = [const { AtomicUsize::new(0) }; OTHERS],
        /// The largest map lately, and when it was asked for, in nanoseconds.
        largest: AtomicI64 = AtomicI64::new(0),
        largest_at: AtomicU64 = AtomicU64::new(0),
        /// Bytes left of the limit when the error was first posted, or when the script had it.
        left: AtomicI64 = AtomicI64::new(0),
        /// Libraries that have mapped fewer bytes have given memory back since.
        least_mapped: AtomicI64 = AtomicI64::new(0),
        /// When a map may wait again for what is given back, after it has waited in vain, in nanoseconds.
        waits_from: AtomicU64 = AtomicU64::new(0),
        /// Whether there is a dossier since much was left: of an error, and of a refused map.
        has_dossier: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2],
        /// The map that was asked for last.
        asked: AtomicUsize = AtomicUsize::new(0),
        /// The number of the refused map that the error is for; 0 if no map was refused, and the error is the refusal.
        counted: AtomicU64 = AtomicU64::new(0),
        /// The instruction that the main thread was at when that map was refused; 0 if unknown.
        instruction: AtomicUsize = AtomicUsize::new(0),
        last: Last = Last {
            external: AtomicI64::new(0),
            charged: AtomicI64::new(0),
            patience: AtomicI64::new(0),
            has_ended: AtomicBool::new(false),
        },
    }
}

pyhost_os::state! {
    /// A thread's last refused request of a library: of a map, or of native memory. Plain cells without a destructor, as the heap's own.
    thread static REFUSED: Refused {
        /// In nanoseconds of the monotonic clock; 0 if nothing was refused, or if a larger map was granted since.
        time: Cell<u64> = Cell::new(0),
        bytes: Cell<usize> = Cell::new(0),
        /// The refusal's number; 0 if it was not recorded.
        number: Cell<u64> = Cell::new(0),
    }
}

/// For how long after a refusal its thread may end the process on its account, in nanoseconds: before polars does, it reads its
/// debug information for a backtrace, which takes seconds.
const LAST_WORDS: u64 = 30_000_000_000;

/// The last error that was raised since much of the limit was left; `external` is 0 if none was.
struct Last {
    /// Bytes charged beside the ledger then.
    external: AtomicI64,
    /// All bytes charged then. Freed memory that the heaps keep resident moves to the charges beside the
    /// ledger, and is no growth.
    charged: AtomicI64,
    /// By how much both may grow before there is another.
    patience: AtomicI64,
    /// The script has left its handler.
    has_ended: AtomicBool,
}

impl Error {
    fn is(&self, state: u8) -> bool {
        self.state.load(Relaxed) == state
    }

    /// Asks the thread to call for the error, if `state` is still the present state.
    fn post(&self, state: u8, python: &Python) {
        if self.thread.load(Relaxed) != 0 {
            self.state.store(MISSED, Relaxed);
            attend_to_caps(true);
            return LEDGER.close_cells();
        }
        let posted = self.state.compare_exchange(state, POSTED, Relaxed, Relaxed);
        if posted.is_ok() && !(python.post)() {
            self.state.store(MISSED, Relaxed);
        }
    }

    /// Whether memory was given back since the error was posted, or since the script had it. A map is charged when its pages are
    /// touched; until then as much is left as before it.
    fn is_stale(&self, limit: u64, left: i64) -> bool {
        let left = left - watch::granted();
        let is_unmapped = mapped() < self.least_mapped.load(Relaxed);
        let asked = self.asked.load(Relaxed) as i64;
        left > self.left.load(Relaxed) + zone(limit) / 4
            || is_unmapped && !leaves_too_little(limit, left, asked)
    }

    fn note(&self, left: i64, least: i64) {
        self.left.store(left, Relaxed);
        self.least_mapped.store(least, Relaxed);
    }

    /// Whether it is for the calling thread.
    fn is_own(&self, python: &Python) -> bool {
        match self.thread.load(Relaxed) {
            0 if (python.is_main)() => true,
            0 if !self.has_others() => false,
            number => (python.thread)().is_some_and(|own| own == number || self.is_for(own)),
        }
    }

    fn is_for(&self, thread: usize) -> bool {
        self.others
            .iter()
            .any(|it| thread != 0 && it.load(Relaxed) == thread)
    }

    fn has_others(&self) -> bool {
        self.others.iter().any(|it| it.load(Relaxed) != 0)
    }

    fn quiet(&self) {
        self.state.store(QUIET, Relaxed);
        self.others.iter().for_each(|it| it.store(0, Relaxed));
    }

    /// The largest map lately.
    fn largest(&self, size: i64) -> i64 {
        let now = clock::monotonic();
        let before = self.largest.load(Relaxed);
        if size < before && now < self.largest_at.load(Relaxed) + LATELY {
            return before;
        }
        self.largest.store(size, Relaxed);
        self.largest_at.store(now, Relaxed);
        size
    }

    /// Notes that the thread has it now; the limit and what is charged of it.
    fn had(&self) -> Option<(u64, i64)> {
        let (limit, charged) = watch::charged()?;
        self.last.set(watch::external()?, charged, watch::left());
        self.note(watch::left(), mapped() - zone(limit) / 4);
        self.quiet();
        Some((limit, charged))
    }
}

impl Last {
    fn forget(&self) {
        self.external.store(0, Relaxed);
    }

    fn set(&self, external: i64, charged: i64, left: i64) {
        self.external.store(external.max(1), Relaxed);
        self.charged.store(charged, Relaxed);
        let patience = (left / 4).max(LEAST_PATIENCE);
        self.patience.store(patience, Relaxed);
        self.has_ended.store(false, Relaxed);
    }

    /// Whether there was none, or the charges have grown on since.
    fn allows(&self, external: i64, charged: i64) -> bool {
        let before = self.external.load(Relaxed);
        let grown = (external - before).min(charged - self.charged.load(Relaxed));
        before == 0 || grown >= self.patience.load(Relaxed)
    }
}

/// A `MemoryError` that has passed Python code is gone. With the GIL.
pub(super) fn error_ended() {
    let is_of_maps = ERROR.last.external.load(Relaxed) != 0;
    if is_of_maps && !ERROR.last.has_ended.swap(true, Relaxed) {
        // Else what the script has dropped is filled again, unseen, up to a map that is refused.
        watch::purge();
        watch::look_soon();
        attend_to_caps(true);
        LEDGER.close_cells();
    }
}

/// Whether a library may map `bytes` more. Any thread at any moment.
pub(super) fn fits_limit(bytes: usize) -> bool {
    let size = i64::try_from(bytes).unwrap_or(i64::MAX);
    let fits = watch::is_far(size) || fits_rest(bytes, size);
    REFUSED.with(|refused| {
        if fits && bytes >= refused.bytes.get() {
            refused.time.set(0);
        }
    });
    fits
}

/// [`fits_limit`] if the limit is near.
fn fits_rest(bytes: usize, size: i64) -> bool {
    read(watch::is_large_map(bytes));
    let Some((limit, mut left)) = watch::left_for_map() else {
        return true;
    };
    let latest = |left| watch::left_for_map().map_or(left, |(_, left)| left);
    let least = least_rest(limit, size, 1);
    let lacks = |left: i64| (size > left, left.saturating_sub(size) < least);
    if watch::follows_maps() && lacks(left) != (false, false) {
        read(true);
        left = latest(left);
        if lacks(left) != lacks(left + watch::granted()) {
            watch::settle(python().is_some_and(|it| !(it.has_gil)()), look);
            left = latest(left);
        }
    }
    // A library in Rust ends the process for a map that is refused: a little past the limit it has it, and the script the error.
    let slack = if watch::follows_maps() {
        limit as i64 / SLACK
    } else {
        0
    };
    let mut fits = watch::claim(size, slack);
    // One that is far too large is an allocator's reserve, which makes do with less.
    let is_reserve = size > zone(limit);
    if !fits && watch::is_work_space(size) {
        return true;
    }
    if !fits && comes_to_fit(size, slack) {
        left = latest(left) + size;
        fits = true;
    }
    let mut number = 0;
    if !is_reserve || fits && watch::follows_maps() {
        ERROR.asked.store(bytes, Relaxed);
        number = if fits { 0 } else { refuse(limit, bytes) };
        if !fits || is_at_work(limit) && leaves_too_little(limit, left, size) {
            call_for(limit, left, mapped() + size / 2, Some(number));
        }
    }
    if !fits {
        note_refused(bytes, number);
    }
    fits
}

/// Waits until libraries have given back what the script has dropped, which jemalloc does after a second; whether a map of `size` bytes
/// fits then, which it is granted. Not if they have touched less than that.
fn comes_to_fit(size: i64, slack: i64) -> bool {
    let is_in_vain = clock::monotonic() < ERROR.waits_from.load(Relaxed)
        || !watch::follows_maps()
        || (limits::maps() as i64) < size;
    if is_in_vain || python().is_none_or(|python| (python.has_gil)()) {
        return false;
    }
    let fits = || {
        read(true);
        watch::claim(size, slack)
    };
    let is_so = clock::wait_until(DECAY, DECAY / 100, fits);
    if !is_so {
        ERROR
            .waits_from
            .store(clock::monotonic() + IN_VAIN, Relaxed);
    }
    is_so
}

/// Whether a map leaves so little that there is to be an error. Each thread that is in a call of a library may map as much as any lately.
fn leaves_too_little(limit: u64, left: i64, size: i64) -> bool {
    let largest = ERROR.largest(size);
    let is_so = |size, threads| left - size < least_rest(limit, size, threads);
    let threads = || python().map_or(1, |python| (python.calling_threads)()) as i64;
    let of_several = |threads| is_so(size.max(largest), threads * MAPS_OF_CALL);
    is_so(size, 1)
        || of_several(waiting::MOST as i64)
            && match threads() {
                1 => false,
                threads => of_several(threads),
            }
}

/// How much a map of `size` bytes must leave of a limit if there is to be no error, while so many threads map: below a cap that counts maps
/// as much as the next ones take, which would be refused, if that is a quarter of what libraries have touched at most.
fn least_rest(limit: u64, size: i64, threads: i64) -> i64 {
    match (watch::external(), watch::charged()) {
        // What a block of code has grown by may be less than what was mapped before it.
        (Some(external), Some((_, charged))) if watch::follows_maps() => {
            let size = size.min(another(limit));
            let next = zone(limit).max(size) * threads;
            let part = if threads == 1 { 4 } else { 3 };
            zone(limit).max(next.min(external.min(charged) / part))
        }
        _ => zone(limit),
    }
}

/// Keeps a refused map or native request for [`aborts`]. `number` is that of the refusal; 0 if it was not recorded.
pub(super) fn note_refused(bytes: usize, number: u64) {
    REFUSED.with(|refused| {
        refused.bytes.set(bytes);
        refused.number.set(number);
        refused.time.set(clock::monotonic());
    });
}

/// The refusal on whose account the calling thread ends the process by `abort`: of a map or of native memory, a moment ago. A map's
/// is recorded if it was not. Any thread, also inside a signal handler.
pub(super) fn aborts(python: &Python) -> Option<Refusal> {
    let of_thread = |it: &Refused| (it.time.get(), it.bytes.get(), it.number.get());
    let (time, bytes, known) = REFUSED.with(of_thread);
    if time == 0 || clock::monotonic().saturating_sub(time) > LAST_WORDS {
        return None;
    }
    let is_known = |last: Refusal| matches!(last.account, Account::Mapped | Account::Native);
    if known == 0 || !refusal::last().is_some_and(is_known) {
        let (limit, charged) = watch::charged()?;
        LEDGER.count_refusal(Account::Mapped);
        record(refusal::next(), bytes, limit, charged, How::Null, python);
    }
    refusal::last()
}

/// Keeps a refused map as the last refusal, with a dossier, and returns its number.
#[cold]
fn refuse(limit: u64, bytes: usize) -> u64 {
    LEDGER.count_refusal(Account::Mapped);
    let number = refusal::next();
    if let (Some(python), Some((_, charged))) = (python(), watch::charged()) {
        record(number, bytes, limit, charged, How::Null, python);
    }
    number
}

fn record(number: u64, bytes: usize, limit: u64, charged: i64, how: How, python: &Python) {
    let full = Full::Limit {
        number,
        limit,
        charged: charged.max(0) as u64,
    };
    let refusal = refusal::record(full, Account::Mapped, bytes, how, python.trace);
    if !ERROR.has_dossier[usize::from(how == How::Null)].swap(true, Relaxed) {
        (python.first_refusal)(&refusal);
    }
}

/// Reads the charges when growth or time demands it, or `force`, and looks at what is left. Inside the allocator too.
pub(super) fn read(force: bool) {
    watch::read(force, look);
}

/// Looks at charges that were just read.
fn look(limit: u64, left: i64) {
    if has_room(limit, left) && ERROR.is_stale(limit, left) {
        ERROR.quiet();
        let dossiers = ERROR.has_dossier.iter();
        dossiers.for_each(|it| it.store(false, Relaxed));
        // Else a map that is made and given back again and again would raise it each time.
        if has_room(limit, left - ERROR.asked.load(Relaxed) as i64) {
            ERROR.last.forget();
        }
    }
    if left < zone(limit).max(watch::step()) && is_at_work(limit) && watch::has_grown() {
        call_for(limit, left, mapped() - zone(limit) / 4, None);
    }
}

/// Posts an error that was missed once more, or has it raised in the calling thread. Inside the allocator, at any booking.
pub(super) fn try_again() {
    let is_missed = ERROR.is(MISSED);
    if (is_missed || ERROR.has_others())
        && let Some(python) = python()
    {
        match ERROR.thread.load(Relaxed) {
            _ if !(python.is_main)() && ERROR.is_own(python) => drop(take(python, python.raise)),
            0 if is_missed => ERROR.post(MISSED, python),
            _ => {}
        }
    }
}

/// Asks for the error of a thread, the main thread if it is not known, unless that had one and little was charged since. The error is
/// stale when libraries have mapped less than `least`. `map` is the number of a refused map that it is for, 0 of one that was granted;
/// `None` if it is for what was touched.
fn call_for(limit: u64, left: i64, least: i64, map: Option<u64>) {
    let external = watch::external().unwrap_or(0);
    // If the heaps have it all, their own requests are refused, whatever is mapped and untouched.
    if external < zone(limit) {
        return;
    }
    let charged = watch::charged().map_or(0, |(_, charged)| charged);
    let Some(python) = python() else { return };
    let (thread, calling) = (python.thread, python.calling_thread);
    let is_allowed = ERROR.last.allows(external, charged);
    let thread = match map {
        Some(_) => thread().or_else(calling),
        // Code of a server or of `threading` touches nothing of its own.
        None if is_allowed => calling().or_else(|| match (python.place)(true).is_fragile() {
            true => None,
            false => thread(),
        }),
        None => return,
    };
    // One that is not allowed is for a map.
    if !is_allowed && thread.is_none_or(|thread| thread == ERROR.thread.load(Relaxed)) {
        return;
    }
    let (thread, counted) = (thread.unwrap_or(0), map.unwrap_or(0));
    if thread != 0 && counted > 0 {
        return;
    }
    // Another thread may never come to it.
    let is_late = left < ERROR.left.load(Relaxed) / 2;
    if ERROR.is(QUIET) {
        ERROR.thread.store(thread, Relaxed);
    } else if is_late && ERROR.thread.load(Relaxed) != 0 && thread == 0 {
        ERROR.thread.store(thread, Relaxed);
        ERROR.state.store(QUIET, Relaxed);
    } else if is_late && thread != ERROR.thread.load(Relaxed) && !ERROR.is_for(thread) {
        let free = ERROR.others.iter().find(|it| it.load(Relaxed) == 0);
        free.inspect(|it| it.store(thread, Relaxed));
        attend_to_caps(true);
        LEDGER.close_cells();
    }
    // One that is under way is for a map that was refused meanwhile, too.
    if counted > 0 || ERROR.is(QUIET) {
        ERROR.counted.store(counted, Relaxed);
        let instruction = if counted > 0 {
            (python.main_instruction)()
        } else {
            0
        };
        ERROR.instruction.store(instruction, Relaxed);
    }
    if ERROR.is(QUIET) {
        ERROR.note(left, least);
        ERROR.post(QUIET, python);
    }
}

/// The calling thread gets an error since the heaps were refused a large request. It gets no
/// other for the same charges: it would be raised in the handler of this one, where nothing catches it.
pub(super) fn has_error(python: &Python) {
    let Some((limit, _)) = watch::charged() else {
        return;
    };
    if !has_room(limit, watch::left()) && is_at_work(limit) && ERROR.is_own(python) {
        ERROR.had();
    }
}

/// Takes the error that was posted for the main thread, at a safe point. Returns `None` if none was
/// posted. The caller holds the GIL and raises it.
pub(super) fn notice(python: &Python) -> Option<Notice> {
    let is_own = ERROR.is(POSTED) && (python.is_main)();
    is_own.then(|| take(python, || true))?
}

/// Takes the error of the calling thread, if this is the place for it and `raise` has it raised.
fn take(python: &Python, raise: impl FnOnce() -> bool) -> Option<Notice> {
    // Where the call of the library returns is a safe point. Elsewhere it was left by an error of the library's own.
    let instruction = ERROR.instruction.swap(0, Relaxed);
    if instruction != 0 && instruction != (python.main_instruction)() {
        ERROR.had();
        return None;
    }
    let place = (python.place)(true);
    let is_place = !place.is_fragile() && place != CodePlace::Jump;
    // At a jump nothing of the script's loop would catch it.
    let least = match place {
        CodePlace::Jump => 0,
        _ => ERROR.left.load(Relaxed) / 2,
    };
    let can_wait = watch::left() > least;
    if place.is_fragile() || !is_place && can_wait {
        ERROR.state.store(MISSED, Relaxed);
        return Some(Notice::Elsewhere);
    }
    watch::look_soon();
    read(true);
    // Unless memory was given back meanwhile.
    if ERROR.is(QUIET) || !raise() {
        return None;
    }
    let (limit, charged) = ERROR.had()?;
    let asked = ERROR.asked.load(Relaxed);
    let mut number = ERROR.counted.load(Relaxed);
    if number == 0 {
        LEDGER.count_refusal(Account::Mapped);
        number = refusal::next();
    }
    record(number, asked, limit, charged, How::Raised, python);
    Some(Notice::Now)
}
