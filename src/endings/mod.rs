//! Writes the report however the process ends, as far as it can still act.
//!
//! One function, [`finish`], for all endings; who calls it: `exit` through `on_exit`, `_exit`
//! and `exec` and a `kill` of oneself through the executable's own symbols ([`exports`]), the
//! signals that end a process through handlers ([`signals`]). It runs in any thread, inside
//! signal handlers and in forked children, so it allocates nothing and takes no lock.
//!
//! Only the process that was asked writes: a forked child does so where the file's name holds
//! `%p`, a child of `vfork` never.

#![allow(unsafe_code)]

mod exhibits;
mod exports;
mod left;
mod page;
mod place;
mod signals;

use crate::descriptor::Descriptor;
use crate::heap::{bound, guards, profile, register};
use crate::leaks;
use crate::ledger::LEDGER;
use crate::live;
use crate::numpy;
use crate::options::{Destination, Stats};
use crate::process;
use crate::process::resident::{self, Resident};
use crate::report::{self, Ending, Facts, Format, Json, Report};
use crate::template::names_process;
use exhibits::{Exhibits, Room};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};

/// What is to be written, by whom.
struct Plan {
    facts: Facts,
    stats: Option<Stats>,
    closing_line: bool,
    leak_status: u8,
    /// The process that the host started as.
    pid: i32,
}

static PLAN: OnceLock<Plan> = OnceLock::new();

/// The process that this memory belongs to: it changes in a forked child, not in one of `vfork`.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// A report was written, or is being written.
static DONE: AtomicBool = AtomicBool::new(false);
/// Forks seen, `vfork` included.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Python was finalised.
static FINALIZED: AtomicBool = AtomicBool::new(false);

/// Of the moment of a signal.
static DUMP_EXHIBITS: Room = Room::new();

/// Whether a report or a closing line is to be written.
pub fn is_planned() -> bool {
    PLAN.get()
        .is_some_and(|plan| plan.stats.is_some() || plan.closing_line)
}

/// Lays down what is to be written. Once, at the start, while the process has one thread.
pub fn plan(facts: Facts, stats: Option<Stats>, closing_line: bool, leak_status: u8) {
    let pid = process::id();
    OWNER.store(pid, Relaxed);
    if let Some(stats) = &stats {
        place::remember(stats);
    }
    let _ = PLAN.set(Plan {
        facts,
        stats,
        closing_line,
        leak_status,
        pid,
    });
    unsafe extern "C" {
        fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    }
    // SAFETY: functions of the executable.
    unsafe {
        on_exit(at_exit, std::ptr::null_mut());
        libc::pthread_atfork(None, Some(forked_in_parent), Some(forked_in_child));
    }
}

/// Puts the signal handlers in place where a report is to be written, or a fault at a guard page to
/// be told. After Python has
/// initialised, so that it sees the dispositions that it would see without the host.
pub fn watch_signals() {
    if live::has_file() || PLAN.get().is_some_and(|plan| plan.stats.is_some()) {
        signals::install(&signals::FATAL);
    } else if guards::are_on() {
        signals::install(&[libc::SIGSEGV]);
    }
}

/// The script has ended; Python is about to be finalised: the live figures are taken now.
pub fn script_ended() {
    leaks::script_ended();
    let plan = PLAN.get().filter(|plan| plan.stats.is_some());
    left::take(plan.is_some_and(|plan| writes_here(plan, process::id())));
}

/// Python was finalised.
pub fn python_finalized() {
    FINALIZED.store(true, Relaxed);
    if dumps_on_signal() {
        // Python has put the default in place of its handler.
        signals::install(&[libc::SIGUSR2]);
    }
}

extern "C" fn at_exit(status: c_int, _argument: *mut c_void) {
    // mimalloc's own function at exit would give back each page of what Python has freed.
    profile::keep_everything();
    let leaked = leak_status(status);
    finish(Ending::Exit(leaked.unwrap_or(status)), false);
    if let Some(leaked) = leaked {
        // glibc goes on with the functions that remain, and ends with this status (exit(3)).
        // SAFETY: ends the process.
        unsafe { libc::exit(leaked) };
    }
}

/// Tells of leaks, where they are to be looked for and Python was finalised; the exit status that
/// takes the place of the script's, which is kept where it is not 0.
fn leak_status(status: c_int) -> Option<c_int> {
    let plan = PLAN.get()?;
    if !FINALIZED.load(Relaxed) || OWNER.load(Relaxed) != process::id() {
        return None;
    }
    let findings = leaks::check()?;
    if findings.blocks == 0 {
        return None;
    }
    let mut out = Descriptor::new(libc::STDERR_FILENO);
    let _ = report::tell_leaks(findings, &mut out);
    out.flush();
    let leaked = c_int::from(plan.leak_status);
    (status == 0 && leaked != 0 && findings.is_sure()).then_some(leaked)
}

unsafe extern "C" fn forked_in_parent() {
    FORKS.fetch_add(1, Relaxed);
}

unsafe extern "C" fn forked_in_child() {
    OWNER.store(process::id(), Relaxed);
    FORKS.store(0, Relaxed);
    resident::begin_child();
    DONE.store(false, Relaxed);
    left::begin_child();
    DUMP_EXHIBITS.give_back();
}

/// The report of this moment, with what is to be shown of it, else what was shown of the script's end.
fn report<'a>(
    plan: &'a Plan,
    ending: Ending,
    partial: bool,
    exhibits: Option<&'a Exhibits>,
) -> Report<'a> {
    let left = left::figures().filter(|_| FINALIZED.load(Relaxed));
    let exhibits = exhibits.or_else(|| left::exhibits().filter(|_| left.is_some() && !partial));
    let now = LEDGER.snapshot();
    let measured = resident::resident();
    let balance = exhibits.and_then(|exhibits| exhibits.balance.as_ref());
    let region = bound::figures();
    let guards = guards::figures();
    Report {
        facts: &plan.facts,
        now,
        at_end: left.map(|left| left.ledger),
        wall_seconds: plan.facts.clock.elapsed().as_secs_f64(),
        ending,
        partial,
        numpy: left.map_or_else(numpy::figures, |left| left.numpy),
        region: left.map_or(region, |left| left.region.zip(region).map(as_left)),
        guards: left.map_or(guards, |left| left.guards),
        leaks: leaks::findings(),
        balance,
        size_classes: exhibits.map(|exhibits| &exhibits.classes),
        big_blocks: left.map_or_else(register::big_blocks, |left| left.big_blocks),
        resident: Resident {
            now: match left {
                Some(left) => left.resident,
                None => balance.map(|it| it.resident).or(measured.now),
            },
            ..measured
        },
        finalized_resident: left.and(measured.now),
        largest_child: resident::largest_child(measured.peak),
        forks: FORKS.load(Relaxed),
        pid: process::id(),
    }
}

/// The bounded heap: what is committed as the script `left` it, peak and counts of the whole run.
fn as_left((left, now): (bound::Figures, bound::Figures)) -> bound::Figures {
    bound::Figures {
        committed: left.committed,
        ..now
    }
}

/// Gives the report of this moment to `take`; the script's own question. Any thread.
pub fn with_report<T>(take: impl FnOnce(&Report<'_>) -> T) -> Option<T> {
    PLAN.get()
        .map(|plan| take(&report(plan, Ending::Running, false, None)))
}

/// The file that a report goes to, and its format.
fn file_of(plan: &Plan) -> Option<(&[u8], Format)> {
    let stats = plan.stats.as_ref()?;
    match &stats.to {
        Destination::File(path) => Some((path, stats.format)),
        _ => None,
    }
}

/// Whether a process writes what was planned: the one that was asked, and a forked child where the
/// file's name tells them apart.
fn writes_here(plan: &Plan, pid: i32) -> bool {
    pid == plan.pid || file_of(plan).is_some_and(|(path, _)| names_process(path))
}

/// Whether SIGUSR2 is to have the report of the moment written.
pub fn dumps_on_signal() -> bool {
    PLAN.get().is_some_and(|plan| file_of(plan).is_some())
}

/// Writes the report of this moment to its file, while the process goes on; false where this process
/// writes none. With the GIL, outside signal handlers.
pub fn dump() -> bool {
    let Some(plan) = PLAN.get() else { return false };
    let Some((path, format)) = file_of(plan).filter(|_| writes_here(plan, process::id())) else {
        return false;
    };
    if let Some(exhibits) = DUMP_EXHIBITS.take() {
        let report = report(plan, Ending::Running, false, Some(exhibits));
        place::write_file(&report, format, path);
        DUMP_EXHIBITS.give_back();
    }
    true
}

/// Writes what was planned, once a process. `partial`: from inside a signal handler.
fn finish(ending: Ending, partial: bool) {
    let Some(plan) = PLAN.get() else { return };
    let pid = process::id();
    if OWNER.load(Relaxed) != pid {
        return; // a child of vfork, in its parent's memory
    }
    live::end(ending, left::figures().map(|left| &left.ledger));
    let forked = pid != plan.pid;
    if !writes_here(plan, pid) {
        return;
    }
    if ending == Ending::Exec {
        if file_of(plan).is_none() || DONE.load(Relaxed) {
            return;
        }
    } else if DONE.swap(true, AcqRel) {
        return;
    }
    let report = report(plan, ending, partial, None);
    match &plan.stats {
        None => {
            if plan.closing_line && !forked && ending != Ending::Exec {
                let mut out = Descriptor::new(libc::STDERR_FILENO);
                let _ = report::closing_line(&report, &mut out);
                out.flush();
            }
        }
        Some(stats) => match &stats.to {
            Destination::Stderr => render(
                &report,
                stats.format,
                &mut Descriptor::new(libc::STDERR_FILENO),
            ),
            Destination::Descriptor(descriptor) => {
                place::write_descriptor(&report, stats.format, *descriptor)
            }
            Destination::File(template) => place::write_file(&report, stats.format, template),
        },
    }
}

/// Whether the processes of a family write a file each.
fn is_one_of_several() -> bool {
    let file = PLAN.get().and_then(file_of);
    file.is_some_and(|(path, _)| names_process(path))
}

fn render(report: &Report<'_>, format: Format, out: &mut Descriptor) {
    match format {
        Format::Json => {
            let mut json = Json::new(out);
            report.describe(&mut json);
            json.finish();
        }
        Format::OpenMetrics => {
            let _ = report::metrics(report, is_one_of_several(), out);
        }
        _ => {
            let _ = report::table(report, out);
        }
    }
    out.flush();
}
