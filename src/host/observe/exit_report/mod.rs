//! Writes the report however the process ends, as far as it can still act.
//!
//! One function, [`finish`], for all endings; who calls it: `exit` through `on_exit`, `_exit`
//! and `exec` and a `kill` of oneself through the executable's own symbols (`libc_exports::process_end`), the
//! signals that end a process through handlers ([`signals`]). It runs in any thread, inside
//! signal handlers and in forked children, so it allocates nothing and takes no lock.
//!
//! Only the process that was asked writes: a forked child does so if the file's name holds
//! `%p`, a child of `vfork` never.

mod damage;
pub mod dispositions;
mod report_file;
mod script_end;
mod signals;

use crate::check::leaks::{self, StackTop};
use crate::descriptor::{Descriptor, name_process, notice};
use crate::error::{CAP_EXHAUSTED, UNGUARDED};
use crate::heap::{big_blocks, bounded_heap, checked_blocks, guards, retention};
use crate::ledger::{HEADER, LEDGER};
use crate::libc_exports::native;
use crate::limit::caps::{self, How, Refusal};
use crate::observe::report::{
    self, AtPeak, Destination, Ending, Facts, Format, Json, Report, Stats, command,
};
use crate::observe::{at_exhausted, live, peak, resident_peak};
use crate::resident::{self, Resident};
use crate::{check::stacks::Text, cpython::objects::Gil, cpython::threads};
use crate::{path_template::names_process, process, python::numpy};
use pyhost_os::{calls, clock, forks::Child};
use script_end::{ReportParts, Room};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8};
use std::{ffi::c_int, sync::OnceLock};

/// The report to write, and the process that writes it.
struct Plan {
    facts: Facts,
    stats: Option<Stats>,
    closing: bool,
    leak_status: u8,
    /// The process that the host started as.
    pid: i32,
}

pyhost_os::state! {
    /// What is written at the end, and how much of it has been.
    static STATE: ProcessEnd {
        quick_status: AtomicI32 = AtomicI32::new(0),
        plan: OnceLock<Plan> = OnceLock::new(),
        /// The descriptor that the report goes to, and its file's device and inode at the start.
        descriptor: OnceLock<(c_int, (u64, u64))> = OnceLock::new(),
        /// The process that this memory belongs to: it changes in a forked child, not in one of `vfork`.
        owner: AtomicI32 = AtomicI32::new(0),
        /// The part of the end that was written: one of the four below.
        written: AtomicU8 = AtomicU8::new(NOTHING),
        /// A report of the moment is being written.
        dumping: AtomicBool = AtomicBool::new(false),
        finalized: AtomicBool = AtomicBool::new(false),
    }
}

/// Of the moment of a signal.
// Large and all zeros: not beside what begins with another value, which the file has.
static DUMP_PARTS: Room = Room::new();

const NOTHING: u8 = 0;
/// A signal handler is writing.
const IN_HANDLER: u8 = 1;
/// A signal handler has written. If the process lives on (a debugger took the signal), its end is written anew.
const BY_SIGNAL: u8 = 2;
/// The last report is written, or is being written.
const LAST: u8 = 3;

/// Whether a report or a closing line is to be written.
pub fn is_planned() -> bool {
    let plan = STATE.plan.get();
    plan.is_some_and(|plan| plan.stats.is_some() || plan.closing)
}

fn has_report() -> bool {
    STATE.plan.get().is_some_and(|plan| plan.stats.is_some())
}

/// Lays down what is to be written. Once, at the start, while the process has one thread.
pub fn plan(facts: Facts, stats: Option<Stats>, closing: bool, leak_status: u8) {
    let pid = process::id();
    STATE.owner.store(pid, Relaxed);
    stats.iter().for_each(report_file::remember);
    let _ = STATE.plan.set(Plan {
        facts,
        stats,
        closing,
        leak_status,
        pid,
    });
    native::on_exit(at_exit);
    calls::at_quick_exit(at_quick_exit);
}

/// Puts the signal handlers in place if a report is to be written, or a line about a fault at a guard page, by bytes of
/// the debug hooks, or about a block that libc's own `free` refuses. After Python has initialised, so that it sees the dispositions that it would see without the host.
pub fn watch_signals() {
    if live::is_shared() || has_report() {
        signals::install(signals::fatal());
        return;
    }
    if guards::are_on() || checked_blocks::is_on() || caps::counts_maps() {
        signals::install(signals::BY_ADDRESS.into_iter());
    }
    if native::mode() != native::Mode::Off {
        signals::watch([libc::SIGABRT].into_iter());
    }
}

/// Makes the host look at the process near its peak, if a report shows it. With the GIL.
pub fn watch_peak(gil: Gil<'_>) {
    if has_report() {
        peak::start(gil);
    }
}

/// The script has ended; Python is about to be finalised: the live figures are taken now.
pub fn script_ended(gil: Gil<'_>) {
    leaks::script_ended(gil);
    peak::stop();
    let plan = STATE.plan.get().filter(|_| has_report());
    let shows = plan.is_some_and(|plan| writes_here(plan, process::id()));
    script_end::take(gil, shows);
}

pub extern "C" fn python_finalized() {
    STATE.finalized.store(true, Relaxed);
}

/// The first function of the host's at the end, with no more in its frame than the end of the stack that
/// the leak check searches: what lies above was there before, what comes below is the host's own.
#[inline(never)]
fn at_exit(status: c_int) -> Option<c_int> {
    let top = StackTop::new();
    let leaked = end_at(status, &top);
    top.keep();
    leaked
}

#[inline(never)]
fn end_at(status: c_int, top: &StackTop) -> Option<c_int> {
    // mimalloc's own function at exit would give back each page of what Python has freed.
    retention::keep_everything();
    // A child that was forked past libc waits for ever for threads that it does not have.
    if STATE.owner.load(Relaxed) == process::id() {
        damage::look(STATE.finalized.load(Relaxed));
    }
    let leaked = leak_status(status, top);
    let unguarded = (write_crowded_out() && status == 0).then_some(UNGUARDED);
    let changed = leaked.or(unguarded);
    finish(Ending::Exit(changed.unwrap_or(status)), false);
    changed
}

/// Reports leaks, if the check is on and Python was finalised. Returns the exit status that takes the place of the script's,
/// which is kept if it is not 0.
fn leak_status(status: c_int, top: &StackTop) -> Option<c_int> {
    let plan = STATE.plan.get()?;
    if !STATE.finalized.load(Relaxed) || STATE.owner.load(Relaxed) != process::id() {
        return None;
    }
    let findings = leaks::check(top)?;
    let mut text = Text::begin(libc::STDERR_FILENO);
    let _ = report::write_leaks(findings, &mut text);
    text.finish();
    let leaked = c_int::from(plan.leak_status);
    let is_leak = !findings.is_nothing() && findings.is_sure();
    (status == 0 && leaked != 0 && is_leak).then_some(leaked)
}

/// Says how many blocks `--guard` had no room for, in the process that was asked to guard; whether most.
fn write_crowded_out() -> bool {
    let is_asked = |plan: &Plan| plan.pid == process::id();
    if STATE.plan.get().is_some_and(is_asked)
        && let Some(figures) = guards::figures()
    {
        let mut out = Descriptor::new(libc::STDERR_FILENO);
        let are_most = report::write_crowded_out(&figures, &mut out);
        out.flush();
        return are_most.unwrap_or(false);
    }
    false
}

pub fn forked_in_parent() {
    HEADER.forks.fetch_add(1, Relaxed);
}

/// The child's end is its own: it has written nothing yet.
pub fn forked_in_child(child: &Child) {
    let pid = process::id();
    STATE.owner.store(pid, Relaxed);
    name_process();
    if pid == dispositions::FIRST {
        dispositions::become_first();
    }
    if !live::is_shared() {
        // Else `live` has.
        live::begin_clock();
        live::note_inherited();
        HEADER.forks.store(0, Relaxed);
    }
    STATE.written.store(NOTHING, Relaxed);
    STATE.dumping.store(false, Relaxed);
    resident::begin_child();
    script_end::begin_child(child);
    peak::begin_child(child);
    DUMP_PARTS.begin_child(child);
}

/// The report of this moment, with what is to be shown of it, else what was shown of the script's end.
fn report<'a>(
    plan: &'a Plan,
    ending: Ending,
    partial: bool,
    parts: Option<&'a ReportParts>,
) -> Report<'a> {
    let left = script_end::figures().filter(|_| STATE.finalized.load(Relaxed));
    let parts = parts.or_else(|| left.filter(|_| !partial)?.parts);
    let now = LEDGER.snapshot();
    let measured = resident::resident();
    let balance = parts.and_then(|parts| parts.balance.as_ref());
    let mut region = bounded_heap::figures();
    if let (Some(left), Some(region)) = (left, &mut region) {
        // Peak and counts are those of the whole run.
        region.committed = left.region.map_or(0, |left| left.committed);
    }
    let wall_seconds = HEADER.seconds_until(clock::monotonic());
    let resident = Resident {
        now: match left {
            Some(left) => left.resident,
            None => balance.map(|it| it.resident).or(measured.now),
        },
        ..measured
    };
    let at_peak = peak::has_begun().then(|| {
        let live = left.map_or(&now, |left| &left.ledger).total_live_bytes;
        let seconds = left.map_or(wall_seconds, |left| left.time as f64 / 1e9);
        AtPeak::find(live, seconds, balance.is_some())
    });
    Report {
        facts: &plan.facts,
        now,
        at_end: left.map(|left| left.ledger),
        started: HEADER.started.load(Relaxed),
        inherited: HEADER.inherited(),
        at_peak,
        at_resident_peak: resident_peak::highest().filter(|_| peak::has_begun()),
        wall_seconds,
        ending,
        partial,
        numpy: left.map_or_else(numpy::figures, |left| left.numpy),
        region,
        guards: left.map_or_else(guards::figures, |left| left.guards),
        leaks: leaks::findings(),
        balance,
        size_classes: parts.map(|parts| &parts.classes),
        big_blocks: left.map_or_else(big_blocks::big_blocks, |left| left.big_blocks),
        resident,
        finalized_resident: left.and(measured.now),
        largest_child: resident::largest_child(measured.peak),
        forks: HEADER.forks.load(Relaxed),
        pid: process::id(),
    }
}

/// Gives the report of this moment to `take`; the script's own question. Any thread.
pub fn with_report<T>(take: impl FnOnce(&Report<'_>) -> T) -> Option<T> {
    let plan = STATE.plan.get()?;
    if peak::has_begun() {
        resident_peak::look();
    }
    Some(take(&report(plan, Ending::Running, false, None)))
}

fn file_of(plan: &Plan) -> Option<(&[u8], Format)> {
    let stats = plan.stats.as_ref()?;
    match &stats.to {
        Destination::File(path) => Some((path, stats.format)),
        _ => None,
    }
}

/// Whether a process writes what was planned: the one that was asked, and a forked child if the
/// file's name distinguishes them.
fn writes_here(plan: &Plan, pid: i32) -> bool {
    pid == plan.pid || file_of(plan).is_some_and(|(path, _)| names_process(path))
}

/// Whether SIGUSR2 is to write the report of the moment.
pub fn dumps_on_signal() -> bool {
    STATE.plan.get().is_some_and(|plan| file_of(plan).is_some())
}

/// Answers SIGUSR2: writes a report of this moment to its file, or says why it cannot. The process goes on. With the GIL,
/// outside signal handlers.
pub fn dump_on_signal() {
    let parts = DUMP_PARTS.take();
    if let Some(plan) = STATE.plan.get() {
        dump(plan, parts.as_deref(), false);
    }
}

/// As [`dump_on_signal`], from inside a signal handler; false if no file was asked for, or in a child of `vfork`.
fn dump_from_handler() -> bool {
    let plan = STATE.plan.get();
    let plan = plan.filter(|_| STATE.owner.load(Relaxed) == process::id());
    plan.is_some_and(|plan| dump(plan, None, true))
}

/// Writes the report of this moment with `parts`, unless another is being written; false if no file was asked for.
fn dump(plan: &Plan, parts: Option<&ReportParts>, in_handler: bool) -> bool {
    let Some((path, format)) = file_of(plan) else {
        return false;
    };
    let is_over = in_handler && STATE.written.load(Relaxed) == LAST;
    let pid = process::id();
    if !writes_here(plan, pid) {
        notice(format_args!(
            "SIGUSR2: process {pid} is a forked child and writes no report; expected %p in the name of \
             --stats=file=PATH, or `pyhostctl report {pid}` of a host with --live"
        ));
    } else if (in_handler || parts.is_some()) && !is_over && !STATE.dumping.swap(true, AcqRel) {
        let report = report(plan, Ending::Running, in_handler, parts);
        report_file::write_file(&report, format, path);
        STATE.dumping.store(false, Release);
    }
    true
}

/// Whether the caller is to write, of this ending, from inside a signal handler or not. From then on no other does.
fn is_to_write(partial: bool) -> bool {
    let (next, may_follow): (u8, &[u8]) = match partial {
        true => (IN_HANDLER, &[NOTHING]),
        false => (LAST, &[NOTHING, BY_SIGNAL]),
    };
    let claim = |now: u8| may_follow.contains(&now).then_some(next);
    STATE.written.fetch_update(AcqRel, Acquire, claim).is_ok()
}

/// Ends the process at once, since the reserve of a cap is used up: with a line that says why and a report; its file
/// stays. Any thread, inside the allocator.
pub fn end_exhausted(refusal: &Refusal) -> ! {
    let why = match refusal.how {
        How::Vain => "the script goes on asking in vain",
        _ => "the reserve is used up",
    };
    say_fatal(refusal, why);
    end_now(CAP_EXHAUSTED)
}

/// As [`end_exhausted`], for a library that ends the process since it was refused a map. Inside the handler of its signal.
fn end_refused(refusal: &Refusal) -> ! {
    say_fatal(refusal, "the library ends the process");
    finish(Ending::QuickExit(CAP_EXHAUSTED), true);
    process::end_now(CAP_EXHAUSTED)
}

fn say_fatal(refusal: &Refusal, why: &str) {
    notice(format_args!(
        "fatal: {refusal}; {why}; exit status {CAP_EXHAUSTED}"
    ));
    live::note_exhausted();
}

/// `quick_exit` was called: its status, which the functions of `at_quick_exit` do not get.
pub fn begin_quick_exit(status: c_int) {
    STATE.quick_status.store(status, Relaxed);
}

/// The last of the functions that `quick_exit` calls, as the first that was registered.
extern "C" fn at_quick_exit() {
    finish(Ending::QuickExit(STATE.quick_status.load(Relaxed)), false);
}

/// Writes what was planned, and ends the process at once.
pub fn end_now(status: c_int) -> ! {
    finish(Ending::QuickExit(status), false);
    process::end_now(status)
}

/// Writes what was planned if the process is about to kill itself by a signal for which no handler of the host will run.
/// Python dies of Ctrl-C this way, after it has finalised.
pub fn before_kill(pid: libc::pid_t, signal: c_int) {
    let by_interrupt = signal == libc::SIGINT && STATE.finalized.load(Relaxed);
    let is_end = signal == libc::SIGKILL || by_interrupt;
    // The first process of a pid namespace outlives both.
    if is_end && pid == process::id() && pid != dispositions::FIRST {
        if by_interrupt {
            live::note_stop(true);
        }
        finish(Ending::Signal(signal), false);
    }
}

/// Writes what was planned, once a process. `partial`: from inside a signal handler.
pub fn finish(ending: Ending, partial: bool) {
    let Some(plan) = STATE.plan.get() else { return };
    let pid = process::id();
    if STATE.owner.load(Relaxed) != pid {
        return; // a child of vfork, in its parent's memory
    }
    live::end(ending, script_end::figures().map(|left| &left.ledger));
    let is_exec = ending == Ending::Exec;
    let is_due = || match is_exec {
        true => file_of(plan).is_some() && STATE.written.load(Acquire) == NOTHING,
        false => is_to_write(partial),
    };
    if writes_here(plan, pid) && is_due() {
        write_planned(plan, ending, partial);
        if partial && !is_exec {
            STATE.written.store(BY_SIGNAL, Release);
        }
    }
    if !is_exec {
        at_exhausted::wait();
    }
}

fn write_planned(plan: &Plan, ending: Ending, partial: bool) {
    let names_program = command::is_a_scripts(&plan.facts.command);
    let has_none = names_program && script_end::figures().is_some_and(|left| !left.has_run);
    if plan.closing && (has_none || !threads::has_main()) {
        if !names_program && plan.facts.argv.last().is_some_and(|word| word == "-h") {
            notice(format_args!("the host's options: pyhost --help"));
        }
        return;
    }
    let report = report(plan, ending, partial, None);
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    match plan.stats.as_ref().map(|stats| (&stats.to, stats.format)) {
        None if plan.closing => {
            let _ = report::closing_line(&report, &mut out);
            out.flush();
        }
        None => {}
        Some((Destination::Stderr, format)) => render(&report, format, &mut out),
        Some((Destination::Descriptor(descriptor), format)) => {
            report_file::write_descriptor(&report, format, *descriptor)
        }
        Some((Destination::File(template), format)) => {
            report_file::write_file(&report, format, template)
        }
    }
}

fn render(report: &Report<'_>, format: Format, out: &mut Descriptor) {
    match format {
        Format::Json => {
            let mut json = Json::new(out);
            report.describe(&mut json);
            json.finish();
        }
        Format::OpenMetrics => {
            let file = STATE.plan.get().and_then(file_of);
            let is_one_of_several = file.is_some_and(|(path, _)| names_process(path));
            let _ = report::metrics(report, is_one_of_several, out);
        }
        _ => {
            let _ = report::table(report, out);
        }
    }
    out.flush();
}
