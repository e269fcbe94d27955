//! `pyhost.profile`: what each line of a function adds, its peak, its hits and its time. Python calls at the lines, or, before
//! 3.12, the interpreter's loop; the rest is Python, see [`super::library`].
//!
//! A line costs what happens from its start to the start of the next one in the same call, or to the end of the call, with all that
//! it calls. It is a span of its own. While a generator waits, no line of it runs. If a line is reached again while it runs
//! already in the same thread, as in a recursion, the outer run has the bytes and the time, and the inner one is a hit.
//!
//! The host's own records are not counted in any account. `sys.monitoring` makes an `int` for each call; its bytes are subtracted.

use super::{library, track_spans as spans};
use crate::cpython::functions::{Method, Module, Table, This};
use crate::cpython::objects::{Gil, Object, Returned, or_none};
use crate::heap::{self, gate};
use crate::ledger::{Account, LEDGER, REPORTED, Scope, Snapshot};
use crate::observe::{peak, resident_peak};
use crate::{bytes::Expected, cpython::frames, libc_exports::native::mapped};
use derive_more::Display;
use pyhost_os::path_template::{PathBuffer, names_process};
use pyhost_os::process::{self, has_ancestor_of_its_kind, resident_and_shared};
use pyhost_os::{clock::monotonic, mmap_vec::MmapVec};
use pyhost_record::output;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{ffi::c_int, str::FromStr};

/// Bytes of each account, and of all together: of `mapped` those that are resident, which count in all, too.
type Moment = [i64; ALL + 1];
const ALL: usize = REPORTED.len();
const MAPS: usize = Account::Mapped as usize;

#[derive(Clone, Copy, Default)]
struct Line {
    hits: u64,
    nanoseconds: u64,
    /// The most bytes in all while it ran, and how far that was above its begin.
    peak: i64,
    peak_growth: i64,
    growth: Moment,
    /// Whether other threads allocated meanwhile.
    has_others: bool,
}

struct Function {
    /// The address of its code, which stays.
    code: usize,
    first: i32,
    lines: MmapVec<Line>,
}

#[derive(Clone, Copy)]
struct Running {
    frame: usize,
    thread: usize,
    function: usize,
    line: usize,
    span: u64,
    begin: Moment,
    /// What other threads had allocated.
    others: u64,
    /// The ledger's bound at its begin: the peak is measured from there, with the windows of other threads.
    bound: i64,
    /// The most bytes that were seen before memory was given back.
    seen: i64,
    started: u64,
}

struct Lines {
    functions: Vec<Function>,
    running: MmapVec<Running>,
    /// Libraries' maps at the last look: bytes, the process's resident size, what is resident of them.
    looked: [u64; 3],
    /// Bytes of the `int` of a call: of `obj`, and in all, where those of pymalloc are a part of an arena.
    own: [i64; 2],
}

pyhost_os::state! {
    static STATE: LineProfiles {
        lines: Mutex<Lines> = Mutex::new(Lines {
            functions: Vec::new(),
            running: MmapVec::new(),
            looked: [0; 3],
            own: [0; 2],
        }),
        /// Where the page of the tables goes, and the process that the option was for.
        file: OnceLock<(Vec<u8>, libc::pid_t)> = OnceLock::new(),
    }
}

const MOST_LINES: usize = 1 << 16;
/// The resident size may change by less without another look at the maps.
const LOOK: u64 = 64 << 10;

/// Runs `work` on the state, in the gate, so that no fork finds it held. It must not allocate.
fn with_state<T>(work: impl FnOnce(&mut Lines) -> T) -> T {
    let _inside = gate::enter(heap::slot(), heap::thread_number());
    work(&mut STATE.lines.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What happens in the innermost call: it is at a line if `event` is 1, ends or yields if 0, starts or goes on behind a yield if -1.
/// `with_number`: by a call for which an `int` was made, of the line, or of the offset if there is no line.
fn happens(event: c_int, with_number: bool) {
    let ended = monotonic();
    let call = frames::innermost();
    let number = if event > 0 { call.line } else { call.offset };
    let has_own = with_number && number > 256; // CPython keeps the small ones
    with_state(|state| {
        let place = state.functions.iter().position(|it| it.code == call.code);
        let Some(function) = place else { return };
        let own = if has_own { state.own } else { [0; 2] };
        let seen = resident_peak::take_window() as i64;
        for it in state.running.iter_mut() {
            it.seen = it.seen.max(seen);
        }
        let runs = state.running.iter().position(|it| it.frame == call.frame);
        let mut now = None;
        if let Some(at) = runs {
            let run = state.running.swap_remove(at);
            let (snapshot, peaks) = spans::end(run.span);
            LEDGER.end_precise();
            let end = state.moment(&snapshot, own);
            let others = LEDGER.blocks_of_others(heap::slot()) != run.others;
            // The frame of a call that starts may be that of one whose end was not seen.
            if event >= 0 {
                state.book(&run, &end, peaks.ledger.total as i64 - own[1], ended);
                state.functions[run.function].lines[run.line].has_others |= others;
            }
            now = Some(end);
        }
        let Function { first, lines, .. } = &mut state.functions[function];
        let Ok(line @ 0..MOST_LINES) = usize::try_from(call.line - *first) else {
            return;
        };
        while lines.len() <= line && event > 0 && lines.push(Line::default()) {}
        // A call starts before its first line.
        let Some(figures) = lines.get_mut(line).filter(|it| event > 0 || it.hits > 0) else {
            return;
        };
        figures.hits += u64::from(event > 0);
        if event == 0 {
            return;
        }
        LEDGER.begin_precise();
        let span = spans::number();
        let Some(snapshot) = spans::begin(span) else {
            return LEDGER.end_precise();
        };
        let run = Running {
            frame: call.frame,
            thread: heap::thread_number(),
            function,
            line,
            span,
            begin: now.unwrap_or_else(|| state.moment(&snapshot, own)),
            others: LEDGER.blocks_of_others(heap::slot()),
            bound: LEDGER.bound(Scope::Total),
            seen: 0,
            started: monotonic(),
        };
        if !state.running.push(run) {
            spans::end(span);
            LEDGER.end_precise();
        }
    });
}

impl Lines {
    /// The figures of a moment, without the `own` bytes of the call.
    fn moment(&mut self, snapshot: &Snapshot, own: [i64; 2]) -> Moment {
        let mapped = snapshot.account(Account::Mapped).live_bytes;
        let size = (mapped > 0).then(resident_and_shared).flatten();
        let size = size.map_or(0, |it| it.0);
        if mapped != self.looked[0] || size.abs_diff(self.looked[1]) >= LOOK {
            let maps = mapped::resident_of(mapped::COUNTED).unwrap_or(self.looked[2]);
            self.looked = [mapped, size, maps];
        }
        let live = |place| snapshot.account(REPORTED[place]).live_bytes as i64;
        let mut moment = std::array::from_fn(|place| if place == ALL { 0 } else { live(place) });
        moment[Account::Obj as usize] -= own[0];
        moment[MAPS] = self.looked[2] as i64;
        moment[ALL] = snapshot.total_live_bytes as i64 - own[1] + moment[MAPS];
        moment
    }

    /// Adds a run that has ended to the figures of its line. `peak`: the ledger's of its span.
    fn book(&mut self, run: &Running, end: &Moment, peak: i64, ended: u64) {
        let place = |it: &Running| (it.thread, it.function, it.line);
        let is_inner = self.running.iter().any(|it| place(it) == place(run));
        let line = &mut self.functions[run.function].lines[run.line];
        let (begin, now) = (run.begin[ALL], end[ALL]);
        let less_maps = (run.begin[MAPS] - end[MAPS]).max(0);
        let within = begin + (peak - run.bound).max(0) - less_maps;
        let peak = begin.max(now).max(within).max(run.seen);
        line.peak = line.peak.max(peak);
        line.peak_growth = line.peak_growth.max(peak - begin);
        if !is_inner {
            line.nanoseconds += ended - run.started;
            for (place, sum) in line.growth.iter_mut().enumerate() {
                *sum += end[place] - run.begin[place];
            }
        }
    }
}

/// As the interpreter's loop calls before 3.12.
extern "C" fn loop_calls(event: c_int) {
    happens(event, false);
}

fn monitoring_calls<const EVENT: c_int>(this: This<'_, Module>) -> Returned<'_> {
    happens(EVENT, true);
    Ok(this.gil().none())
}

/// Begins to watch a code object. Returns whether that is all: else `sys.monitoring` has to call.
fn watch<'a>(this: This<'a, Module>, code: &Object<'a>) -> Returned<'a> {
    let is_all = frames::watch_lines(code, loop_calls)?;
    peak::watch_releases();
    let function = Function {
        code: code.pointer().addr(),
        first: code.attribute(c"co_firstlineno")?.number()? as i32,
        lines: MmapVec::new(),
    };
    let gil = this.gil();
    // From 3.14 on CPython keeps the first one for the next.
    gil.int(1 << 20)?;
    let before = LEDGER.snapshot();
    let number = gil.int(1 << 20)?;
    let after = LEDGER.snapshot();
    drop(number);
    let bytes = |snapshot: &Snapshot| snapshot.account(Account::Obj).live_bytes as i64;
    let own = bytes(&after) - bytes(&before);
    let is_in_all = after.total_live_bytes as i64 - before.total_live_bytes as i64 >= own;
    let mut functions = with_state(|state| std::mem::take(&mut state.functions));
    functions.push(function);
    with_state(|state| {
        state.functions = functions;
        state.own = [own, if is_in_all { own } else { 0 }];
    });
    gil.bool(is_all)
}

/// `(line, hits, nanoseconds, peak, peak growth, whether other threads allocated, growth of each account, of all)` of each line of a code object that was reached.
fn rows<'a>(this: This<'a, Module>, code: &Object<'a>) -> Returned<'a> {
    let gil = this.gil();
    let rows = gil.list()?;
    let address = code.pointer().addr();
    for place in 0.. {
        let found = with_state(|state| {
            let function = state.functions.iter().find(|it| it.code == address)?;
            let line = function.lines.get(place)?;
            Some((function.first + place as i32, *line))
        });
        let Some((number, line)) = found else { break };
        if line.hits > 0 {
            let head = [i64::from(number), line.hits as i64, line.nanoseconds as i64];
            let tail = [line.peak, line.peak_growth, i64::from(line.has_others)];
            let numbers = head.into_iter().chain(tail);
            let numbers = numbers.chain(line.growth).map(|number| gil.int(number));
            rows.append(&*gil.tuple_of(7 + ALL, numbers)?)?;
        }
    }
    Ok(rows)
}

/// Forgets what was measured, in a forked child.
fn forget(this: This<'_, Module>) -> Returned<'_> {
    with_state(|state| {
        for function in &mut state.functions {
            function.lines.fill(Line::default());
        }
    });
    Ok(this.gil().none())
}

/// What `--profile-lines` names: a module, a colon, and a function as `__qualname__` has it.
#[derive(Clone, Debug, Display)]
pub struct FunctionName(String);

impl FromStr for FunctionName {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        let mut parts = text.split(':');
        let is_pair = parts.clone().count() == 2 && parts.all(|part| !part.is_empty());
        let name = is_pair.then(|| FunctionName(text.to_owned()));
        name.ok_or(Expected(
            "MODULE:FUNCTION, such as __main__:work or app.models:User.load",
        ))
    }
}

/// Writes the page that a function makes, if this process shall write one. Returns whether it did.
fn write_page<'a>(this: This<'a, Module>, make: &Object<'a>) -> Returned<'a> {
    let is_own = |(path, pid): &&(Vec<u8>, _)| *pid == process::id() || names_process(path);
    let Some((template, _)) = STATE.file.get().filter(is_own) else {
        return this.gil().bool(false);
    };
    let page = make.call(&[])?;
    let path = PathBuffer::expand(template, process::id(), b"");
    let written =
        output::open_or_leave_out("--profile-lines file", template, path, |path, target| {
            let written = page.with_text(|text| output::write(&path, target, text));
            written.unwrap_or(Ok(()))
        });
    this.gil().bool(written.is_some())
}

/// Profiles the functions of `--profile-lines`, once their modules run. A host below another says nothing of those that are never
/// called.
pub fn profile_lines(gil: Gil<'_>, names: &[FunctionName], file: Option<Vec<u8>>) {
    if let Some(file) = file {
        let _ = STATE.file.set((file, process::id()));
    }
    let is_quiet = !names.is_empty() && has_ancestor_of_its_kind();
    for name in names {
        let begin = library::attribute(gil, c"_profile_named")
            .and_then(|begin| begin.call(&[&*gil.text(&name.0)?, &*gil.bool(is_quiet)?]));
        or_none(begin);
    }
}

pub static METHODS: Table<Method<Module>, 7> = Table::new([
    Method::one(c"_profile_write", write_page, c""),
    Method::plain(c"_profile_forget", forget, c""),
    Method::one(c"_profile_watch", watch, c""),
    Method::one(c"_profile_rows", rows, c""),
    Method::any(c"_profile_line", monitoring_calls::<1>, c""),
    Method::any(c"_profile_start", monitoring_calls::<-1>, c""),
    Method::any(c"_profile_end", monitoring_calls::<0>, c""),
]);
