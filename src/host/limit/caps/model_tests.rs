//! The caps against a naive oracle: random events in three threads of a Python that is made up.
//!
//! The ledger and the caps are the process's own, and this executable's `malloc` books to them. So the cases run in a
//! process of their own, in new threads, of which one runs at a time. Windows are closed before each request, so
//! that the oracle knows to the byte what fits. `--cap auto` is not part of it: it reads the kernel's files.

use super::python::{Notice, Python, Role, connect};
use super::refusal::{How, last};
use super::{DECISIONS, admission, limits, pressure, shortages};
use crate::cpython::frames::CodePlace;
use crate::heap::{GILS, Request};
use crate::ledger::{ACCOUNTS, Account, LEDGER, Reach, Scope, Slot};
use Account::{Arena, Mapped, Mem, Native, Numpy, Obj, Raw};
use proptest::bool::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{TestCaseError, TestRunner};
use std::cell::Cell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex};

const CASES: u32 = 400;
const EVENTS: usize = 500;
const THREADS: usize = 3;
/// The variable that marks the process of the cases.
const MARK: &str = "PYHOST_TEST_CAPS_MODEL";

/// The Python of the calling thread, and what the caps asked of it.
#[derive(Clone, Copy, Debug)]
struct Fake {
    place: CodePlace,
    role: Role,
    handles_error: bool,
    is_running: bool,
    takes_calls: bool,
    is_main: bool,
    posts: u32,
    /// Posts that Python took and has not acted on.
    pending: u32,
    pressure: u32,
    dossiers: [u32; Scope::COUNT],
}

thread_local! {
    static FAKE: Cell<Fake> = const {
        Cell::new(Fake {
            place: handler(1),
            role: Role::Plain,
            handles_error: false,
            is_running: false,
            takes_calls: true,
            is_main: false,
            posts: 0,
            pending: 0,
            pressure: 0,
            dossiers: [0; Scope::COUNT],
        })
    };
}

const fn handler(handler: isize) -> CodePlace {
    CodePlace::Within { frame: 1, handler }
}

fn change<T>(work: impl FnOnce(&mut Fake) -> T) -> T {
    let mut fake = FAKE.get();
    let result = work(&mut fake);
    FAKE.set(fake);
    result
}

fn connect_fake() {
    connect(Python {
        place: |_| FAKE.get().place,
        handles_error: || FAKE.get().handles_error,
        is_running: || FAKE.get().is_running,
        post: || {
            change(|fake| {
                fake.posts += 1;
                fake.pending += u32::from(fake.takes_calls);
                fake.takes_calls
            })
        },
        post_pressure: || {
            change(|fake| fake.pressure += 1);
            FAKE.get().takes_calls
        },
        raise: || false,
        thread: || FAKE.get().is_main.then_some(0),
        calling_thread: || None,
        calling_threads: || 1,
        has_gil: || true,
        is_main: || FAKE.get().is_main,
        main_instruction: || 0,
        role: |_, _| FAKE.get().role,
        trace: |_| 0,
        loses_errors: || false,
        another_pays: |_| false,
        first_refusal: |refusal| change(|fake| fake.dossiers[refusal.scope.index()] += 1),
        end: |refusal| resume_unwind(Box::new(refusal.how)),
    });
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A cap with so much room above what is live.
    Cap(Scope, u64),
    NoCap(Scope),
    SoftCap(Scope, u64),
    Limit(Scope, u64),
    EndLimit,
    /// A request that leaves so much below the reserves.
    Fill(Account, i64),
    Request(Account, usize, Role),
    Map(usize),
    /// The block at this place among all.
    Free(usize),
    SafePoint,
    Place(CodePlace),
    Handler(bool),
    ErrorEnds,
    StartThread,
    TakesCalls(bool),
    Running(bool),
    Switch(usize),
    /// The script works on, and catches each error.
    Climb,
    /// It keeps requests of so many bytes that succeed, and frees those that fail.
    Serve(usize),
    /// It asks for the same again and again.
    Insist(usize),
}

/// A cap that has little room left soon, then what happens under it.
fn events() -> impl Strategy<Value = Vec<Event>> {
    const ACCOUNTS: &[Account] = &[Obj, Mem, Numpy, Raw, Arena];
    const PLACES: &[CodePlace] = &[
        handler(1),
        handler(2),
        CodePlace::Nowhere,
        CodePlace::Fragile,
        CodePlace::Machinery,
        CodePlace::Serving,
        CodePlace::Jump,
        CodePlace::Unknown,
    ];
    let of_case = (select(ACCOUNTS), select(&[5_u32, 15, 30]));
    of_case.prop_flat_map(|(main, frees)| {
        let account = prop_oneof![2 => Just(main), 1 => select(ACCOUNTS)];
        let scope = prop_oneof![Just(Scope::Total), account.clone().prop_map(Scope::Account)];
        let capped = select(vec![Scope::Total, Scope::Account(main)]);
        let room = select(&[3 << 20, 16 << 20, 40 << 20]);
        let begin = (
            (capped, room).prop_map(|(scope, room)| Event::Cap(scope, room)),
            select(&[4 << 20, 64 << 20]).prop_map(|room| Event::Cap(Scope::Account(Mapped), room)),
            (0..THREADS).prop_map(Event::Switch),
            select(&[0, 1 << 10, 200 << 10]).prop_map(move |room| Event::Fill(main, room)),
        );
        let change = (scope, 0..6, any::<prop::sample::Index>(), weighted(0.6));
        let change = change.prop_map(|(scope, kind, room, is_running)| match kind {
            0 => Event::Cap(scope, *room.get(&[1 << 20, 3 << 20, 16 << 20])),
            1 => Event::NoCap(scope),
            2 => Event::Limit(scope, *room.get(&[64 << 10, 2 << 20])),
            3 => Event::EndLimit,
            4 => Event::SoftCap(scope, *room.get(&[0, 200 << 10])),
            _ => Event::Running(is_running),
        });
        // 32 bytes to 32 KiB, and at times more.
        let size = (0..12_u32, select(&[0, 0, 0, 0, 1, 3, 8]));
        let size = size.prop_map(|(power, more)| 16 << (power + more));
        let role = select(&[
            Role::Plain,
            Role::Plain,
            Role::Plain,
            Role::Unwinding,
            Role::Function,
        ]);
        let request = (account, size, role);
        let request = request.prop_map(|(account, size, role)| Event::Request(account, size, role));
        let event = prop_oneof![
            frees => (0..10_000_usize).prop_map(Event::Free),
            8 => Just(Event::SafePoint),
            6 => select(PLACES).prop_map(Event::Place),
            4 => weighted(0.3).prop_map(Event::Handler),
            4 => Just(Event::ErrorEnds),
            6 => select(&[0, 0, 1, 2]).prop_map(Event::Switch),
            1 => change,
            1 => weighted(0.6).prop_map(Event::TakesCalls),
            1 => Just(Event::StartThread),
            1 => select(&[64 << 10, 1 << 20, 8 << 20]).prop_map(Event::Map),
            68 - frees => request,
        ];
        let all = (begin, prop::collection::vec(event, EVENTS));
        all.prop_map(|((cap, map, switch, fill), events)| {
            let begin = [cap, map, switch, fill].into_iter();
            begin.chain(events).chain([Event::Climb]).collect()
        })
    })
}

#[derive(Clone, Copy)]
struct Thread {
    slot: &'static Slot,
    live: [i64; ACCOUNTS],
    /// The least that it had since there was no shortage.
    least: i64,
    /// It was refused, and no error of it has ended since.
    has_error: bool,
    /// The shortage of the last post, its place, and whether it is under way, until the thread has its error.
    posted: Option<(u64, CodePlace, bool)>,
    /// The last refused request for a number, until a block is given.
    number: Option<usize>,
    /// Refusals since it was given a block.
    refusals: u32,
}

impl Thread {
    fn total(&self) -> i64 {
        self.live.iter().sum()
    }
}

/// A scope's shortage, as the oracle knows it.
#[derive(Clone, Copy, Default)]
struct Seen {
    number: u64,
    had_error: bool,
    dossiers: u32,
    is_past_soft: bool,
}

struct Model<'a> {
    events: std::slice::Iter<'a, Event>,
    turn: usize,
    threads: [Thread; THREADS],
    blocks: Vec<(Account, usize)>,
    mapped: i64,
    limits: Vec<(Scope, usize)>,
    seen: [Seen; Scope::COUNT],
    /// Refusals in all, the number of the last, and those of this event that were kept.
    refused: u64,
    number: u64,
    kept: u32,
    /// Small requests since the last free that were refused though nothing can go on.
    at_the_end: usize,
    result: Option<Result<(), TestCaseError>>,
}

/// What the caps answered, or how they ended the process.
fn answer(work: impl FnOnce() -> bool) -> Result<bool, How> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| match payload.downcast::<How>() {
        Ok(how) => *how,
        Err(payload) => resume_unwind(payload),
    })
}

/// The heights of a scope: where its reserve begins, and its cap.
fn heights(scope: Scope) -> (i64, i64) {
    let height = |bytes: Option<u64>| bytes.map_or(i64::MAX, |bytes| bytes as i64);
    (height(LEDGER.hold(scope)), height(LEDGER.cap(scope)))
}

/// The reserve that the guide promises, if it does.
fn promised_reserve(scope: Scope, cap: u64) -> Option<u64> {
    match scope {
        Scope::Total | Scope::Account(Obj | Mem) => Some((cap / 8).clamp(2 << 20, 4 << 20)),
        Scope::Account(Numpy | Native) => Some((cap / 16).min(1 << 20)),
        Scope::Account(_) => None,
    }
}

fn is_import(place: CodePlace) -> bool {
    matches!(place, CodePlace::Fragile | CodePlace::Machinery)
}

/// An error if something is wrong.
fn check(wrong: &str, facts: &dyn Debug) -> Result<(), TestCaseError> {
    match wrong {
        NOTHING => Ok(()),
        wrong => Err(TestCaseError::fail(format!("{wrong}; {facts:?}"))),
    }
}

const NOTHING: &str = "";

/// Whether the process goes on, or what is wrong.
type Goes = Result<bool, TestCaseError>;

impl Model<'_> {
    /// Lets the thread whose turn it is go on to its next switch or to the end.
    fn take_turn(&mut self) {
        while let Some(&event) = self.events.next() {
            if let Event::Switch(thread) = event {
                self.turn = thread;
                return;
            }
            self.kept = 0;
            match self.step(event).and_then(|goes| Ok(goes && self.look()?)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.result = Some(Err(TestCaseError::fail(format!("{event:?}: {error}"))));
                    return;
                }
            }
        }
        let counted = LEDGER.snapshot().refused();
        let is_so = counted == self.refused;
        let wrong = || TestCaseError::fail(format!("{counted} refusals, not {}", self.refused));
        self.result = Some(is_so.then_some(()).ok_or_else(wrong));
    }

    fn step(&mut self, event: Event) -> Goes {
        let slot = self.thread().slot;
        match event {
            Event::Request(account, bytes, role) => return self.request(account, bytes, role),
            Event::Climb => return self.climb(),
            Event::Serve(bytes) => return self.serve(bytes),
            Event::Insist(bytes) => return self.insist(bytes),
            Event::Map(bytes) => return self.map(bytes),
            Event::StartThread => return self.start_thread(),
            Event::SafePoint => return self.safe_point(),
            Event::Place(place) => change(|fake| fake.place = place),
            Event::Handler(handles) => change(|fake| fake.handles_error = handles),
            Event::TakesCalls(takes) => change(|fake| fake.takes_calls = takes),
            Event::Running(is_running) => change(|fake| fake.is_running = is_running),
            Event::ErrorEnds => self.error_ends(),
            Event::Switch(_) => {}
            Event::Fill(account, room) => {
                let left = |scope| heights(scope).0.saturating_sub(LEDGER.bound(scope));
                let left = left(Scope::Account(account)).min(left(Scope::Total)) - room;
                if (1..1 << 40).contains(&left) {
                    return self.request(account, left as usize & !15, Role::Plain);
                }
            }
            Event::Free(place) if !self.blocks.is_empty() => {
                let (account, bytes) = self.blocks.swap_remove(place % self.blocks.len());
                LEDGER.release_slow(slot, account, bytes, &GILS);
                self.thread().live[account as usize] -= bytes as i64;
                self.at_the_end = 0;
            }
            Event::Free(_) => {}
            Event::Cap(scope, room) => {
                let cap = limits::live(scope) + room;
                let set = limits::set(scope, Some(cap), None, slot);
                if let Some(reserve) = promised_reserve(scope, cap) {
                    prop_assert_eq!(set.is_ok(), room >= reserve);
                    if set.is_ok() && self.limits.is_empty() {
                        prop_assert_eq!(heights(scope), ((cap - reserve) as i64, cap as i64));
                    }
                }
                self.changed(scope, set.is_ok());
            }
            Event::NoCap(scope) => {
                let set = limits::set(scope, None, None, slot);
                self.changed(scope, set.is_ok());
            }
            Event::SoftCap(scope, room) => {
                pressure::set_soft(scope, Some(limits::live(scope) + room));
                self.seen[scope.index()].is_past_soft = false;
            }
            Event::Limit(scope, bytes) => {
                let limit = limits::CodeBlockLimit::here(bytes);
                let limit = limits::enter(scope, limit, None, slot).map(|limit| (scope, limit));
                self.limits.extend(limit);
                self.changed(scope, limit.is_ok());
            }
            Event::EndLimit => {
                if let Some((scope, limit)) = self.limits.pop() {
                    limits::leave(limit, slot);
                    self.changed(scope, true);
                }
            }
        }
        Ok(true)
    }

    fn thread(&mut self) -> &mut Thread {
        &mut self.threads[self.turn]
    }

    /// A ceiling was set, which ends its shortage.
    fn changed(&mut self, scope: Scope, is_changed: bool) {
        if is_changed {
            self.seen[scope.index()].number = 0;
            self.at_the_end = 0;
        }
    }

    fn error_ends(&mut self) {
        admission::error_ended(self.thread().slot);
        self.thread().has_error = false;
        self.seen.iter_mut().for_each(|seen| seen.had_error = true);
    }

    /// A request meets the shortage of `scope`, or begins it.
    fn meets(&mut self, scope: Scope) -> &mut Seen {
        let seen = &mut self.seen[scope.index()];
        let number = shortages::of(scope).number();
        if seen.number != number || number == 0 {
            *seen = Seen {
                number,
                is_past_soft: seen.is_past_soft,
                ..Seen::default()
            };
        }
        seen
    }

    /// A refusal that is counted and kept; its scope.
    fn refused(&mut self, account: Account, how: How) -> Result<Scope, TestCaseError> {
        let last = last().ok_or_else(|| TestCaseError::fail("no last refusal"))?;
        let found = (last.number, last.how, last.account);
        prop_assert_eq!(found, (self.number + 1, how, account), "{}", last);
        self.number = last.number;
        self.refused += 1;
        self.kept += 1;
        Ok(last.scope)
    }

    fn request(&mut self, account: Account, bytes: usize, role: Role) -> Goes {
        LEDGER.close_windows(self.thread().slot);
        change(|fake| fake.role = role);
        let (thread, fake) = (*self.thread(), FAKE.get());
        let lacks = |reach| LEDGER.lacks_room(account, bytes, reach);
        let scope = lacks(Reach::Hold).filter(|_| fake.is_running);
        let [is_half, is_high] = [Reach::Middle, Reach::High].map(|reach| lacks(reach).is_some());
        let full = lacks(Reach::Cap);
        let is_innocent = thread.total() < LEDGER.most_of_a_slot() / 8;
        let before = scope.map(|scope| shortages::of(scope).number());

        let (undone, is_made) = (Cell::new(0), Cell::new(false));
        let request = Request {
            account,
            bytes,
            asked: bytes,
            undo: &|| undone.set(undone.get() + 1),
        };
        let answer = answer(|| {
            is_made.set((DECISIONS.fits)(thread.slot, account, bytes));
            is_made.get() && (DECISIONS.book)(thread.slot, &request, &GILS)
        });
        let (is_granted, is_null) = (answer == Ok(true), answer == Ok(false));
        let posts = FAKE.get().posts - fake.posts;
        let facts = (answer, fake);
        let is_undone = is_made.get() && !is_granted;
        let fits = full.is_none();
        let wrong = match scope {
            _ if undone.get() != u32::from(is_undone) => "a block is not given back once",
            _ if is_granted && !fits => "granted past a cap",
            None if is_granted != fits => "refused, and it fits or Python has ended",
            None if posts > 0 => "an error without a shortage",
            _ => NOTHING,
        };
        check(wrong, &facts)?;
        if is_granted {
            self.blocks.push((account, bytes));
            let thread = self.thread();
            thread.live[account as usize] += bytes as i64;
            (thread.number, thread.refusals) = (None, 0);
        }
        let (Some(scope), Some(before)) = (scope, before) else {
            self.refused += u64::from(!is_granted);
            return Ok(true);
        };

        let (hold, cap) = heights(scope);
        let (reserve, size) = (cap - hold, bytes as i64);
        let is_large = size
            > (reserve / 64)
                .max((reserve / 16).min(48 << 10))
                .clamp(4 << 10, 64 << 10);
        let in_import = is_import(fake.place);
        let is_serving = fake.place == CodePlace::Serving;
        let is_handling = thread.has_error && fake.handles_error;
        let is_spared = in_import || is_serving || is_handling || is_innocent;
        let seen = self.meets(scope);
        seen.had_error |= is_handling;
        let (had_error, number) = (seen.had_error, seen.number);
        let posted = thread
            .posted
            .filter(|posted| posted.0 == before && before != 0);
        let new = Some((number, fake.place, fake.takes_calls));
        self.thread().posted = if posts > 0 { new } else { posted };

        let at_once = size > (reserve / 8).max(4 << 10) || is_large && !is_spared;
        // The last quarter of the reserve is kept until the script had an error.
        let of_c = matches!(account, Raw | Native);
        let is_object = matches!(account, Mem | Obj);
        let nowhere = fake.place == CodePlace::Nowhere;
        let is_plain = role == Role::Plain && !in_import && !is_serving && !nowhere;
        let takes_rest = account == Arena || of_c && size <= 2 << 10 || is_object && !is_plain;
        let no_room = full.is_some() || is_high && !had_error && !takes_rest;
        // A small request is refused for an error only where CPython makes one of it, in the script's code.
        let is_repeated = thread.number == Some(bytes);
        let is_error = is_null && !at_once && !no_room;
        let may_be_error = role == Role::Plain || role == Role::Function && is_high;
        let is_late = is_half || posted.is_some() || is_repeated;
        let is_first = (is_error || posts > 0) && posted.is_none() && !is_repeated;
        let has_grown = thread.total() - thread.least > (reserve / 32).min(64 << 10);
        let is_near_half = LEDGER.bound(scope) + size > hold + reserve / 16 * 7;
        // The end.
        let is_vital = is_object || of_c && size > 2 << 10;
        let is_needed = !at_once && (!is_large || is_serving) && is_vital;
        let may_end = is_needed && had_error && full.is_some();
        if may_end && full == Some(scope) && !is_repeated && answer.is_ok() {
            self.at_the_end += 1;
        }
        let wrong = match answer {
            Ok(true) if at_once => "a large request is granted",
            Err(How::Fatal) if !may_end => "the process ends",
            Err(How::Vain) if thread.refusals < 99_999 => "the process ends after few refusals",
            _ if is_granted && no_room => "granted from the last quarter",
            _ if is_error && (!may_be_error || of_c || account == Arena) => "this one is needed",
            _ if is_error && is_serving && !is_repeated => "refused in a server's code",
            _ if is_error && in_import && !is_late => "refused in an import",
            _ if posts > 0 && !fake.is_main => "an error for another thread",
            _ if posts > 0 && is_granted == no_room => "refused, and an error is to come",
            _ if posts > 0 && in_import && !is_half => "an error in an import before half is gone",
            _ if is_first && !has_grown && !is_near_half => {
                "an error for a thread that has not grown"
            }
            // Each thread may be due for one more error.
            _ if self.at_the_end > THREADS => "nothing can go on, and the process does",
            _ => NOTHING,
        };
        check(wrong, &facts)?;

        match answer {
            Err(how) => return self.refused(account, how).map(|_| false),
            Ok(true) => {}
            Ok(false) if account == Arena && is_large => self.refused += 1,
            Ok(false) => {
                prop_assert_eq!(self.refused(account, How::Null)?, scope);
                let thread = self.thread();
                (thread.has_error, thread.posted) = (true, None);
                thread.refusals += 1;
                if account == Obj && bytes <= 32 {
                    thread.number = Some(bytes);
                }
            }
        }
        Ok(true)
    }

    fn map(&mut self, bytes: usize) -> Goes {
        let scope = Scope::Account(Mapped);
        let fits = LEDGER.bound(scope) + bytes as i64 <= heights(scope).1;
        prop_assert_eq!(super::admits_map(bytes), fits);
        if fits {
            LEDGER.adjust_mapped(bytes as i64, 1, 0);
            self.mapped += bytes as i64;
        } else if FAKE.get().is_running {
            self.meets(scope);
            self.refused(Mapped, How::Null)?;
        } else {
            self.refused += 1;
        }
        Ok(true)
    }

    fn start_thread(&mut self) -> Goes {
        let slot = self.thread().slot;
        let lacks = |reach| LEDGER.lacks_room(Obj, 48 << 10, reach);
        let (high, full) = (lacks(Reach::High), lacks(Reach::Cap));
        let answer = answer(|| admission::may_start_thread(slot));
        let expected = match high.filter(|_| FAKE.get().is_running) {
            None => Ok(true),
            Some(scope) => match (self.meets(scope).had_error, full) {
                (true, None) => Ok(true),
                (true, Some(_)) => Err(How::Fatal),
                (false, _) => Ok(false),
            },
        };
        prop_assert_eq!(answer, expected);
        match answer {
            Ok(true) => {}
            Ok(false) => {
                let scope = self.refused(Obj, How::NoThread)?;
                self.seen[scope.index()].had_error = true;
            }
            Err(how) => return self.refused(Obj, how).map(|_| false),
        }
        Ok(true)
    }

    fn safe_point(&mut self) -> Goes {
        let place = FAKE.get().place;
        if FAKE.get().pending == 0 || !FAKE.get().is_running {
            return Ok(true);
        }
        change(|fake| fake.pending -= 1);
        let posted = self.thread().posted;
        let scope = posted.and_then(|posted| shortages::scope_of(posted.0));
        let is_over = scope.is_none_or(|scope| LEDGER.bound(scope) <= heights(scope).0);
        let notice = admission::notice(self.thread().slot);
        let is_now = matches!(notice, Notice::Now);
        let Some((number, meant, true)) = posted.filter(|_| !is_over) else {
            prop_assert!(!is_now, "an error that nobody waits for");
            // One that has missed its place waits for the thread's next request.
            self.thread().posted = posted.filter(|&(_, _, is_under_way)| !is_under_way);
            return Ok(true);
        };
        let is_same = place == meant || place == CodePlace::Fragile && is_import(meant);
        let is_next = meant == CodePlace::Serving && !is_import(place);
        let is_place = place != CodePlace::Serving && (is_same || is_next);
        prop_assert_eq!(is_now, is_place, "{:?}, meant for {:?}", place, meant);
        self.thread().posted = Some((number, meant, false)).filter(|_| !is_place);
        if is_place {
            self.thread().has_error = true;
            let account = last().map_or(Obj, |last| last.account);
            let scope = self.refused(account, How::Raised)?;
            self.seen[scope.index()].had_error = true;
        }
        Ok(true)
    }

    /// After each event: no cap is passed, and each shortage is as long as it must be, with one dossier.
    fn look(&mut self) -> Goes {
        let pressure = FAKE.get().pressure;
        (DECISIONS.look)();
        let fake = FAKE.get();
        change(|fake| fake.dossiers = [0; Scope::COUNT]);
        let (mut dossiers, mut pressed) = (0, 0);
        for scope in Scope::all() {
            let (bound, (hold, cap)) = (LEDGER.bound(scope), heights(scope));
            let number = shortages::of(scope).number();
            let seen = &mut self.seen[scope.index()];
            seen.dossiers += fake.dossiers[scope.index()];
            dossiers += seen.dossiers;
            let wrong = match number {
                _ if bound > cap => "past the cap",
                _ if seen.dossiers > 1 => "two dossiers",
                0 if seen.number != 0 && bound >= hold => "the shortage is over",
                1.. if seen.number != number => "a shortage began",
                1.. if bound < hold - (64 << 10) => "the shortage lasts",
                _ => NOTHING,
            };
            check(wrong, &(scope, bound, hold, cap))?;
            if number == 0 {
                (seen.number, seen.dossiers) = (0, 0);
            }
            let soft = pressure::soft(scope).map_or(i64::MAX, |soft| soft as i64);
            seen.is_past_soft &= bound >= soft - soft / 20;
            if bound > soft && fake.is_running && !seen.is_past_soft {
                pressed += 1;
                seen.is_past_soft = fake.takes_calls;
            }
        }
        prop_assert!(self.kept == 0 || dossiers > 0, "no dossier");
        prop_assert_eq!(fake.pressure - pressure, pressed, "calls for relief");
        let is_quiet = self.seen.iter().all(|seen| seen.number == 0);
        for thread in &mut self.threads {
            let least = if is_quiet { i64::MAX } else { thread.least };
            thread.least = least.min(thread.total());
        }
        Ok(true)
    }

    /// At most a hundred errors, then the process ends.
    fn climb(&mut self) -> Goes {
        let mut scopes = [Scope::Account(Obj), Scope::Total].into_iter();
        if !scopes.any(|scope| LEDGER.cap(scope).is_some()) {
            return Ok(true);
        }
        change(|fake| {
            (fake.place, fake.is_running, fake.handles_error) = (handler(1), true, false)
        });
        let mut errors = 0;
        loop {
            let number = self.number;
            if !self.request(Obj, 4 << 10, Role::Plain)? || !self.safe_point()? || !self.look()? {
                return Ok(false);
            }
            if self.number > number {
                self.error_ends();
                errors += 1;
                prop_assert!(errors <= 100, "{} errors", errors);
            }
        }
    }

    /// However many requests fail, the process does not end.
    fn serve(&mut self, bytes: usize) -> Goes {
        for _ in 0..1000 {
            let (kept, number) = (self.blocks.len(), self.number);
            for _ in 0..bytes / 1024 {
                let goes = self.request(Obj, 1024, Role::Plain)? && self.safe_point()?;
                prop_assert!(goes, "it ends");
                if self.number > number {
                    break;
                }
            }
            if self.number > number {
                while self.blocks.len() > kept {
                    self.step(Event::Free(self.blocks.len() - 1))?;
                }
                self.error_ends();
            }
            self.look()?;
        }
        Ok(true)
    }

    fn insist(&mut self, bytes: usize) -> Goes {
        // The first refusal is in vain if another follows.
        for _ in 0..=100_000 {
            if !self.request(Obj, bytes, Role::Plain)? {
                return Ok(false);
            }
            self.error_ends();
        }
        Err(TestCaseError::fail("it is refused for ever"))
    }

    fn clean_up(self) {
        let slot = self.threads[0].slot;
        let open = self.limits.into_iter();
        open.for_each(|(_, limit)| limits::leave(limit, slot));
        for scope in Scope::all() {
            let _ = limits::set(scope, None, None, slot);
            pressure::set_soft(scope, None);
        }
        LEDGER.adjust_mapped(-self.mapped, 0, 0);
        for thread in self.threads {
            for (account, live) in Account::ALL.into_iter().zip(thread.live) {
                match live {
                    1.. => LEDGER.release_slow(thread.slot, account, live as usize, &GILS),
                    _ => LEDGER.book_anyway(thread.slot, account, -live as usize, &GILS),
                }
            }
        }
    }
}

fn run(slots: &[&'static Slot; THREADS], events: &[Event]) -> Result<(), TestCaseError> {
    let thread = |slot| Thread {
        slot,
        live: [0; ACCOUNTS],
        least: 0,
        has_error: false,
        posted: None,
        number: None,
        refusals: 0,
    };
    let model = Model {
        events: events.iter(),
        turn: 0,
        threads: slots.map(thread),
        // Nothing is allocated in the middle of an event.
        blocks: Vec::with_capacity(20_000),
        mapped: 0,
        limits: Vec::with_capacity(EVENTS),
        seen: [Seen::default(); Scope::COUNT],
        refused: LEDGER.snapshot().refused(),
        number: last().map_or(0, |last| last.number),
        kept: 0,
        at_the_end: 0,
        result: None,
    };
    let (model, turn) = (Mutex::new(model), Condvar::new());
    let take_turns = |own| {
        change(|fake| (fake.is_main, fake.is_running) = (own == 0, true));
        let waits = |model: &mut Model| model.turn != own && model.result.is_none();
        loop {
            let mut model = turn.wait_while(model.lock().unwrap(), waits).unwrap();
            if model.result.is_some() {
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| model.take_turn())).is_err() {
                model.result = Some(Err(TestCaseError::fail("a panic")));
            }
            turn.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for own in 0..THREADS {
            scope.spawn(move || take_turns(own));
        }
    });
    let mut model = model.into_inner().unwrap();
    let result = model.result.take().unwrap();
    model.clean_up();
    result
}

#[test]
fn the_caps_keep_their_promises_whatever_happens() {
    if std::env::var_os(MARK).is_none() {
        let name = "limit::caps::model_tests::the_caps_keep_their_promises_whatever_happens";
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args([name, "--exact", "--nocapture", "--test-threads=1"]);
        assert!(command.env(MARK, "1").status().unwrap().success());
        return;
    }
    crate::heap::begin();
    // What the test's own threads allocate would move the total between an event and what is expected of it.
    crate::heap::count_native(false);
    connect_fake();
    let slots = [(); THREADS].map(|()| LEDGER.claim());
    let cap = Event::Cap(Scope::Account(Obj), 16 << 20);
    run(&slots, &[cap, Event::Fill(Obj, 0), Event::Insist(1 << 20)]).unwrap();
    for bytes in [100 << 10, 200 << 10, 300 << 10, 1 << 20] {
        run(&slots, &[cap, Event::Fill(Obj, 0), Event::Serve(bytes)]).unwrap();
    }
    let mut cases = TestRunner::new(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    cases.run(&events(), |events| run(&slots, &events)).unwrap();
}
