//! `pyhost.track`: a context manager that measures one block of code, and a decorator.
//!
//! A heap type, one an interpreter; written against the C API so that nothing of Python is allocated between the
//! figures of its begin and the block, or between the block and the figures of its end. Parts that need no such care
//! (accounts as objects, the table, decorated functions) is Python, see [`super::library`].

use super::{arguments::scope, library, lines, track_spans as spans};
use crate::cpython::functions::{Arguments, Attribute, Class, Method, Signature, Table, This};
use crate::cpython::objects::{Kind, Object, Returned};
use crate::cpython::{attributes, class};
use crate::ledger::{LEDGER, Marks, Others, Peaks, Scope, Slot as LedgerSlot, Snapshot};
use crate::observe::{peak, report, resident_peak};
use crate::{bytes::Bytes, heap};
use std::{cell::Cell, ffi::CStr, time::Instant};

const DOC: &CStr = c"track(function=None, /, *, account=None, precise=False)
--

Context manager that measures what its block does to the memory of the process:

    with pyhost.track() as t:
        work()
    print(t.peak_growth_bytes, t.growth_bytes, t.accounts['obj'].allocations)

peak_bytes, peak_growth_bytes, growth_bytes, growth_blocks and allocations are those of account, or of
all together where it is None; accounts has them for each. All are there during the block, too. Bytes
are those that the blocks really take; peaks of 'mem' and 'obj' are exact under one GIL, others never
low, and high by at most 1% and 72 KiB a thread; with precise=True by at most a 32nd of the
growth and 64 KiB for each other thread, at up to twice the time. resident_peak_bytes has what libraries
map, too: the highest resident size of the looks at begin and end, and right before memory is given
back, at most once a millisecond. Blocks nest and overlap, in all threads, and leave the peaks
of the process as they are. One object may be used for one block after another.

What other threads allocate meanwhile is counted too; threads and other_allocations report it.

lines has what grew by line, with --lines.

As a decorator, @pyhost.track or @pyhost.track(account='obj'), it measures each call, and the
function's last_track is that of the latest call to end. Coroutine functions and generators are
measured from their first step to their end.";

const ENTER_DOC: &CStr = c"__enter__($self, /)\n--\n\nBegin to measure.";
const EXIT_DOC: &CStr = c"__exit__($self, /, *exception)\n--\n\nEnd to measure.";
const HTML_DOC: &CStr = c"_repr_html_($self, /)\n--\n\nThe figures as HTML, for notebooks.";
const BUNDLE_DOC: &CStr =
    c"_repr_mimebundle_($self, /, include=None, exclude=None)\n--\n\nText and HTML, for notebooks.";

struct Track {
    scope: Scope,
    is_precise: bool,
    state: Cell<State>,
}

/// How far an instance is.
#[derive(Clone, Copy)]
#[allow(
    clippy::large_enum_variant,
    reason = "an instance is as large as its largest state"
)]
enum State {
    New,
    Open(Begun),
    Closed(Measured),
}

#[derive(Clone, Copy)]
struct Begun {
    /// Of its span.
    number: u64,
    begin: Snapshot,
    resident: u64,
    started: Instant,
    /// The slot of the thread that entered, and what all threads had allocated then.
    own: &'static LedgerSlot,
    marks: Marks,
}

/// The figures of a block that has ended, or runs.
#[derive(Clone, Copy)]
struct Measured {
    /// Of its span.
    number: u64,
    begin: Snapshot,
    end: Snapshot,
    peaks: Peaks,
    /// Resident bytes at the begin, and at most.
    resident: u64,
    resident_peak: u64,
    seconds: f64,
    others: Others,
}

struct ScopeFigures {
    peak: u64,
    peak_growth: u64,
    growth: i64,
    blocks: i64,
    allocations: u64,
}

impl Measured {
    fn of(&self, scope: Scope) -> ScopeFigures {
        let live = |snapshot: &Snapshot| match scope {
            Scope::Account(account) => snapshot.account(account).live_bytes,
            Scope::Total => snapshot.total_live_bytes,
        };
        let sum = |snapshot: &Snapshot, figure: fn(&crate::ledger::AccountFigures) -> u64| {
            let of_scope = |account| scope == Scope::Total || scope == Scope::Account(account);
            let accounts = snapshot.accounts();
            let chosen = accounts.filter(|&(account, _)| of_scope(account));
            chosen.map(|(_, figures)| figure(figures)).sum::<u64>()
        };
        let (begin, end) = (live(&self.begin), live(&self.end));
        let peak = match scope {
            Scope::Account(account) => self.peaks.account(account),
            Scope::Total => self.peaks.total,
        };
        let peak = peak.max(begin).max(end);
        let blocks = |snapshot| sum(snapshot, |figures| figures.live_blocks);
        let allocations = |snapshot| sum(snapshot, |figures| figures.total_blocks);
        ScopeFigures {
            peak,
            peak_growth: peak - begin,
            growth: end as i64 - begin as i64,
            blocks: blocks(&self.end) as i64 - blocks(&self.begin) as i64,
            allocations: allocations(&self.end).saturating_sub(allocations(&self.begin)),
        }
    }
}

impl Begun {
    /// With the figures of its last moment, or of this one.
    fn measured(&self, (end, peaks): (Snapshot, spans::SpanPeaks)) -> Measured {
        Measured {
            number: self.number,
            begin: self.begin,
            end,
            peaks: peaks.ledger,
            resident: self.resident,
            resident_peak: peaks.resident.max(self.resident),
            seconds: self.started.elapsed().as_secs_f64(),
            others: LEDGER.others_since(&self.marks, self.own),
        }
    }
}

impl Track {
    /// None before the first block.
    fn measured(&self) -> Option<Measured> {
        match self.state.get() {
            State::New => None,
            State::Open(begun) => {
                resident_peak::look_in_block();
                Some(begun.measured(spans::look(begun.number)))
            }
            State::Closed(measured) => Some(measured),
        }
    }

    fn close(&self) {
        if let State::Open(begun) = self.state.get() {
            resident_peak::look_in_block();
            let measured = begun.measured(spans::end(begun.number));
            if self.is_precise {
                LEDGER.end_precise();
            }
            heap::sampling::with(|samples| samples.end_span(begun.number));
            self.state.set(State::Closed(measured));
        }
    }

    /// Gives the lines of a block that has ended back.
    fn forget(&self) {
        if let State::Closed(measured) = self.state.get() {
            heap::sampling::with(|samples| samples.forget_span(measured.number));
        }
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        self.close();
        self.forget();
    }
}

fn new<'a>(class: Class<'a, Track>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<3> = Signature::new(c"|O$OO:track", [c"", c"account", c"precise"]);
    let [function, account, precise] = arguments.parse(&SIGNATURE)?;
    let scope = scope("track", account)?;
    let is_precise = precise.map_or(Ok(false), Object::truth)?;
    match function.filter(|function| !function.is_none()) {
        Some(function) => wrap(function, scope, is_precise),
        None => class.instance(Track {
            scope,
            is_precise,
            state: Cell::new(State::New),
        }),
    }
}

/// A function that tracks each call of another.
fn wrap<'a>(function: &Object<'a>, scope: Scope, is_precise: bool) -> Returned<'a> {
    let gil = function.gil();
    let text = "track: expected a function to decorate, or account=NAME";
    gil.ensure(function.is_callable(), Kind::Type, text)?;
    let (account, is_precise) = (gil.text(scope.name())?, gil.bool(is_precise)?);
    library::attribute(gil, c"_wrap")?.call(&[function, &account, &is_precise])
}

fn call<'a>(track: This<'a, Track>, arguments: Arguments<'a>) -> Returned<'a> {
    const SIGNATURE: Signature<1> = Signature::new(c"O:track", [c""]);
    let [function] = arguments.parse(&SIGNATURE)?;
    match function {
        Some(function) => wrap(function, track.scope, track.is_precise),
        None => Ok(track.gil().none()), // it may not be left out
    }
}

fn enter(track: This<'_, Track>) -> Returned<'_> {
    let is_open = matches!(track.state.get(), State::Open(_));
    let text = "track: its block is running already; expected one track for each block";
    track.gil().ensure(!is_open, Kind::Runtime, text)?;
    track.forget();
    peak::watch_releases();
    let resident = resident_peak::look_in_block();
    let own = heap::slot();
    let marks = LEDGER.marks();
    let started = Instant::now();
    let number = spans::number();
    heap::sampling::begin_span(number, track.scope);
    if track.is_precise {
        LEDGER.begin_precise();
    }
    let Some(begin) = spans::begin(number) else {
        if track.is_precise {
            LEDGER.end_precise();
        }
        return Err(track.gil().no_memory());
    };
    track.state.set(State::Open(Begun {
        number,
        begin,
        resident,
        started,
        own,
        marks,
    }));
    Ok(track.object().to_owned())
}

fn exit(track: This<'_, Track>) -> Returned<'_> {
    track.close();
    Ok(track.gil().none())
}

/// The figures of the last block; RuntimeError before the first one.
fn measured(track: This<'_, Track>) -> Returned<'_, Measured> {
    track.measured().ok_or_else(|| {
        let text = "track: nothing was measured yet; expected a block that was entered";
        track.gil().raise(Kind::Runtime, text)
    })
}

/// A figure of the instance's scope, as an int.
fn figure(track: This<'_, Track>, figure: impl FnOnce(&ScopeFigures) -> i64) -> Returned<'_> {
    let figures = measured(track)?.of(track.scope);
    track.gil().int(figure(&figures))
}

fn accounts(track: This<'_, Track>) -> Returned<'_> {
    let gil = track.gil();
    let measured = measured(track)?;
    let build = library::attribute(gil, c"_accounts")?;
    let rows = gil.list()?;
    for (account, _) in measured.begin.accounts() {
        let figures = measured.of(Scope::Account(account));
        // In the order of `TrackedAccount`.
        let row = [
            gil.text(account.name())?,
            gil.unsigned(figures.peak)?,
            gil.unsigned(figures.peak_growth)?,
            gil.int(figures.growth)?,
            gil.int(figures.blocks)?,
            gil.unsigned(figures.allocations)?,
        ];
        rows.append(&*gil.tuple(row)?)?;
    }
    build.call(&[&rows])
}

fn lines_of(track: This<'_, Track>) -> Returned<'_> {
    let (gil, number) = (track.gil(), measured(track)?.number);
    lines::object(gil, |take| {
        report::with_lines_of_span(number, track.scope, take)
    })
}

fn html(track: This<'_, Track>) -> Returned<'_> {
    library::attribute(track.gil(), c"_html_of_track")?.call(&[track.object()])
}

fn bundle<'a>(track: This<'a, Track>, _: Arguments<'a>) -> Returned<'a> {
    library::attribute(track.gil(), c"_bundle")?.call(&[track.object()])
}

fn repr(track: This<'_, Track>) -> Returned<'_> {
    let scope = track.scope.name();
    let Some(measured) = track.measured() else {
        let text = format!("<pyhost.track of {scope}, not entered>");
        return track.gil().text(&text);
    };
    let figures = measured.of(track.scope);
    let sign = if figures.growth < 0 { '-' } else { '+' };
    let state = match track.state.get() {
        State::Open(_) => ", open",
        _ => "",
    };
    let (peak, seconds) = (Bytes(figures.peak_growth), measured.seconds);
    let growth = Bytes(figures.growth.unsigned_abs());
    let resident = Bytes(measured.resident_peak);
    track.gil().text(&format!(
        "<pyhost.track of {scope}: peak {peak} above the begin, growth {sign}{growth}, resident peak {resident}, {seconds:.3} s{state}>"
    ))
}

fn show(track: This<'_, Track>) -> Returned<'_> {
    match track.state.get() {
        State::New => repr(track),
        _ => library::attribute(track.gil(), c"_show")?.call(&[track.object()]),
    }
}

static METHODS: Table<Method<Track>, 4> = Table::new([
    Method::plain(c"__enter__", enter, ENTER_DOC),
    // A tuple for its arguments would be counted.
    Method::any(c"__exit__", exit, EXIT_DOC),
    Method::plain(c"_repr_html_", html, HTML_DOC),
    Method::named(c"_repr_mimebundle_", bundle, BUNDLE_DOC),
]);

static ATTRIBUTES: Table<Attribute<Track>, 13> = attributes! { Track:
    c"peak_bytes", |track| figure(track, |it| it.peak as i64), c"The most bytes that were live in the block.";
    c"peak_growth_bytes", |track| figure(track, |it| it.peak_growth as i64),
        c"How far that is above what was live at the begin.";
    c"resident_peak_bytes", |track| track.gil().unsigned(measured(track)?.resident_peak),
        c"The highest resident size of the process that was seen in the block.";
    c"resident_peak_growth_bytes", |track| {
        let measured = measured(track)?;
        track.gil().unsigned(measured.resident_peak - measured.resident)
    }, c"How far that is above the resident size at the begin.";
    c"growth_bytes", |track| figure(track, |it| it.growth), c"Live bytes at the end less those at the begin.";
    c"growth_blocks", |track| figure(track, |it| it.blocks),
        c"Live blocks at the end less those at the begin.";
    c"allocations", |track| figure(track, |it| it.allocations as i64),
        c"Blocks that were allocated in the block.";
    c"threads", |track| track.gil().int(measured(track)?.others.threads.into()),
        c"How many other threads allocated meanwhile, at least: those that ran one after another may count as one.";
    c"other_allocations", |track| track.gil().unsigned(measured(track)?.others.blocks),
        c"Blocks that other threads allocated meanwhile.";
    c"seconds", |track| track.gil().float(measured(track)?.seconds), c"How long it took.";
    c"account", |track| track.gil().text(track.scope.name()),
        c"What the figures are of: an account's name, or 'total'.";
    c"accounts", accounts, c"The figures of each account, by its name.";
    c"lines", lines_of, c"Which lines grew, as a pyhost.Lines; None without --lines.";
};

class! { c"pyhost.track", DOC,
    new(new), call(call), repr(repr), str(show), methods(&METHODS), attributes(&ATTRIBUTES)
}
