//! The shared ledger: `--live` keeps header and ledger in a file of a directory, or in a file of a given
//! name, so that others can read them while the process runs and after a kill.
//!
//! [`start`] runs while the process has one thread. With a directory a forked child makes a file of its own; with a
//! given name it keeps its counters to itself. An exit removes the process's file; what ends by a signal leaves it.
//! What runs at the end and at the child's start is called by `exit`, signal handlers and `fork`: it allocates nothing
//! and takes no lock.
//!
//! In a container a lock (`flock`) on a file of `--live` lasts as long as its process: it tells readers
//! in other pid namespaces. It needs a descriptor, which lies at the upper end, out of the script's way.

pub mod lines;
mod mapping;
mod siblings;

pub use mapping::is_in_file;

use crate::descriptor::{format_into, name_process, notice, out_of_the_way};
use crate::error::{BAD_OPTION, Error, Result};
use crate::ledger::{HEADER, LEDGER, REPORTED, Snapshot};
use crate::observe::report::{Ending, Facts};
use crate::observe::timeline::{self, brief, trouble};
use crate::output::{self, Draft, Target};
use crate::process::{self, cgroup, small_file::read_once};
use crate::resident::{keep_noting, resident};
use crate::{errno::Errno, header::ProcessState, libc_exports::native, path_template::PathBuffer};
use pyhost_os::file::{self, Fd, FdPlace};
use pyhost_os::{calls, cell::Exclusive, clock, forks::Child};
use pyhost_record::directory::{self, Identity, SUFFIX, Unfit, start_ticks};
use pyhost_record::{self as record, Record};
use std::ffi::{OsString, c_int};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::{os::fd::AsRawFd, os::unix::ffi::OsStrExt};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerPlace {
    /// In the process's own memory.
    Own,
    /// In a file: an absolute path, which may hold `%p`.
    File(Vec<u8>),
    /// In a file of the process's own in a directory.
    Directory {
        path: PathBuf,
        /// Whether the user has named it: then one that must not be used is an error.
        is_required: bool,
    },
}

/// The start of the names of this machine's files, and the name of the process's own.
struct Names {
    start: PathBuffer,
    own: PathBuffer,
}

/// The path of the process's own file, with another end of its name. None if it is too long.
fn own_path(names: &Names, suffix: &str) -> Option<PathBuffer> {
    let own = names.own.as_bytes().strip_suffix(SUFFIX.as_bytes())?;
    PathBuffer::of(own)?.with(suffix.as_bytes())
}

pyhost_os::state! {
    static STATE: LiveFile {
        /// Somebody else may read the header: a file or a sampler has it.
        is_shared: AtomicBool = AtomicBool::new(false),
        /// What a status or a signal of the end does not say by itself: one of the four below.
        reason: AtomicU8 = AtomicU8::new(NO_REASON),
        /// The process has a file in a directory of `--live`.
        has_file: AtomicBool = AtomicBool::new(false),
        /// The descriptor that holds the lock.
        lock: FdPlace = FdPlace::new(),
        /// The file of the lines could not be written, and no line says so yet.
        is_warning_due: AtomicBool = AtomicBool::new(false),
        /// A line says so, or will.
        is_warned: AtomicBool = AtomicBool::new(false),
        /// Python takes calls between two instructions.
        has_python: AtomicBool = AtomicBool::new(false),
    }
}

// Large and all zeros: not beside what begins with another value, which the file has.
static NAMES: Exclusive<Names> = Exclusive::new(Names {
    start: PathBuffer::EMPTY,
    own: PathBuffer::EMPTY,
});

const NO_REASON: u8 = 0;
/// The host ends the process, since the reserve of a cap is used up.
const EXHAUSTED: u8 = 1;
/// The process ends itself by a signal that asks it to stop, as uvicorn does once it has shut down.
const STOP: u8 = 2;
/// Another process ends it so.
const KILL: u8 = 3;

/// How many of the killed are named one by one.
const MOST_NAMED: usize = 3;

/// Puts the header and the ledger where `place` says; `shared` with a process of the host's own that reads them, if
/// they are to stay in memory. Of `argv`, `host_words` after the first are the host's options. If a resource is missing
/// the ledger stays in memory, a notice says so, and the result is false.
pub fn start(
    place: &LedgerPlace,
    shared: bool,
    argv: &[OsString],
    host_words: usize,
    command: &str,
) -> Result<bool> {
    begin_clock();
    if *place == LedgerPlace::Own && !shared {
        return Ok(true);
    }
    if !mapping::is_possible() {
        let text = "--live: not with pages of more than 64 KiB";
        return Err(Error::option(text));
    }
    fill_header(argv);
    HEADER.host_words.store(host_words as u64, Relaxed);
    HEADER.script.set(command);
    let is_in_file = match place {
        LedgerPlace::Own => false,
        LedgerPlace::File(template) => in_file(template),
        LedgerPlace::Directory { path, is_required } => in_directory(path, *is_required)?,
    };
    let is_shared = is_in_file || shared && in_memory();
    STATE.is_shared.store(is_shared, Relaxed);
    if is_shared {
        keep_noting(mapping::keep);
        native::on_exit(exit_before_the_plan);
    }
    Ok(is_in_file || *place == LedgerPlace::Own)
}

/// Shares the ledger with the sampler alone; false if the system refuses.
fn in_memory() -> bool {
    let is_shared = mapping::onto_memory(true);
    if !is_shared {
        notice(format_args!(
            "--timeline, --brief: no memory to share with the sampler ({}); the script runs \
             without them",
            Errno::last()
        ));
    }
    is_shared
}

/// Python has ended the process before a report was planned, as it does for a bad option of its own:
/// a file that stayed would be taken for that of a process that was killed.
fn exit_before_the_plan(status: c_int) -> Option<c_int> {
    if HEADER.state().0 == ProcessState::Running && HEADER.pid.load(Relaxed) == process::id() {
        end(Ending::Exit(status), None);
    }
    None
}

/// In a forked child: notes what it begins with, which its parent counts too.
pub fn note_inherited() {
    let bytes = LEDGER.snapshot().total_live_bytes;
    HEADER.inherited.store(bytes, Relaxed);
    HEADER.forked.store(1, Relaxed);
}

/// Notes that the process starts now; the one clock of its report, its file and its timeline.
pub fn begin_clock() {
    HEADER.started.store(clock::now(), Relaxed);
    HEADER.started_monotonic.store(clock::monotonic(), Relaxed);
}

fn fill_header(argv: &[OsString]) {
    let own = Identity::own();
    HEADER.boot.set(&own.boot);
    HEADER.pid.store(own.pid, Relaxed);
    HEADER.pid_namespace.store(own.pid_namespace, Relaxed);
    HEADER.start_ticks.store(own.start_ticks, Relaxed);
    HEADER.parent.store(calls::getppid(), Relaxed);
    HEADER.user.store(calls::geteuid(), Relaxed);
    HEADER.host.set(env!("CARGO_PKG_VERSION"));
    let events = cgroup::events().and_then(|path| path.into_os_string().into_string().ok());
    HEADER.begin_group(events.as_deref());
    HEADER.set_argv(argv.iter().map(|word| word.as_bytes()));
}

/// Tells the header what is known once Python's configuration is, and lets others see the samples of lines.
pub fn describe(facts: &Facts) {
    lines::start();
    HEADER.python.set(&facts.python_version);
    HEADER.mimalloc.set(&facts.mimalloc);
    HEADER.allocator.set(facts.allocator);
    HEADER.native.set(facts.native);
    HEADER.profile.set(facts.profile);
    let debug_hooks = u32::from(facts.debug_hooks);
    HEADER.debug_hooks.store(debug_hooks, Relaxed);
    let active = REPORTED.iter().filter(|&&account| facts.is_active(account));
    let bits = active.map(|&account| 1 << account as u32).sum();
    HEADER.active.store(bits, Relaxed);
}

/// Keeps the ledger in one file; false if it cannot, which a notice says.
fn in_file(template: &[u8]) -> bool {
    let path = PathBuffer::expand(template, process::id(), b"");
    output::open_or_leave_out("--live", template, path, |path, target| {
        map_file(&path, target)
    })
    .is_some()
}

/// Maps the ledger onto a file at `path`. It is a new one, since another process may have mapped the one
/// that is there; only if none can be moved there, the old one.
fn map_file(path: &PathBuffer, target: Target) -> Result<(), Errno> {
    let is_placed = match Draft::apart(path, target, 0) {
        Ok(draft) => {
            let mapped = mapping::onto_file(draft.descriptor());
            let placed = mapped.and_then(|()| draft.finish());
            let file = placed.inspect_err(|_| {
                mapping::onto_memory(false);
            })?;
            file.is_some()
        }
        Err(error) if target == Target::New => return Err(error),
        Err(_) => false,
    };
    if is_placed {
        return Ok(());
    }
    let file = Fd::open(path.as_c_str(), libc::O_RDWR | libc::O_NOFOLLOW)?;
    mapping::onto_file(file.as_raw_fd())?;
    let _ = file::truncate(&file, record::SIZE as u64);
    Ok(())
}

/// Keeps the ledger in a file of the process's own; false if it cannot, which a notice says.
fn in_directory(path: &Path, is_required: bool) -> Result<bool> {
    let prepared = prepare(path);
    let path = path.display();
    match prepared {
        Ok(()) => return Ok(true),
        Err(Unfit::Wrong(what)) if is_required => {
            return Err(Error::option(format!(
                "--live: '{path}' {what}; expected a directory that only its user can write to, \
                 or file: and a path"
            )));
        }
        Err(why) => notice(format_args!(
            "--live: '{path}' {why}; the script runs without it"
        )),
    }
    Ok(false)
}

fn prepare(path: &Path) -> Result<(), Unfit> {
    let folder = directory::prepare(path)?;
    report_killed(directory::tidy(path, &folder), path);
    let own = Identity::own();
    let prefix = path.join(format!("{}-", own.boot));
    let name = path.join(own.file_name());
    let mut names = NAMES.hold().ok_or(Unfit::Wrong("is in use".to_owned()))?;
    let of = |path: &Path| {
        let path = path.as_os_str().as_bytes();
        // There is room for another end, and for that of a draft.
        let path = PathBuffer::of(path).filter(|it| it.with(&[b'-'; 63]).is_some());
        path.ok_or_else(|| Unfit::Wrong("is too long".to_owned()))
    };
    (names.start, names.own) = (of(&prefix)?, of(&name)?);
    drop(names);
    // A program that this process was before may have left them.
    let _ = std::fs::remove_file(&name);
    lines::remove();
    make_file().map_err(|Errno(error)| {
        let error = std::io::Error::from_raw_os_error(error);
        Unfit::System("takes no file", error)
    })
}

/// Writes a line about each of those processes that ran the script of this one: the others are not its matter.
fn report_killed(mut killed: Vec<Record>, directory: &Path) {
    killed.retain(|record| record.header().script.get() == HEADER.script.get());
    for record in killed.iter().take(MOST_NAMED) {
        notice(format_args!("{}", record.last_words()));
    }
    let more = killed.len().saturating_sub(MOST_NAMED);
    if more > 0 {
        let folder = directory.join(directory::ARCHIVE);
        let folder = folder.display();
        notice(format_args!("{more} more were killed; see {folder}"));
    }
}

/// Makes the file of the process's own name, maps header and ledger onto it, and locks it in a container.
fn make_file() -> Result<(), Errno> {
    let names = NAMES.hold().ok_or(Errno(libc::EBUSY))?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    let file = Fd::open(names.own.as_c_str(), flags)?;
    let locks = directory::locks(HEADER.pid_namespace.load(Relaxed));
    if locks {
        let _ = file::lock(&file, libc::LOCK_EX);
    }
    mapping::onto_file(file.as_raw_fd()).inspect_err(|_| {
        let _ = file::unlink(names.own.as_c_str());
    })?;
    if locks {
        STATE.lock.put(out_of_the_way(file));
    }
    STATE.has_file.store(true, Relaxed);
    Ok(())
}

/// In a forked child: takes a copy of header and ledger in place of its parent's, then, with
/// `--live`, a file of its own.
pub fn forked(child: &Child) {
    if !is_shared() {
        return;
    }
    mapping::forget_lines();
    if !mapping::onto_memory(false) {
        // It goes on in its parent's pages, which are then wrong, but whole.
        STATE.has_file.store(false, Relaxed);
        return;
    }
    HEADER.begin_child();
    HEADER.begin_group(None);
    name_process();
    note_inherited();
    brief::leave_to_parent();
    HEADER.parent.store(HEADER.pid.load(Relaxed), Relaxed);
    HEADER.pid.store(process::id(), Relaxed);
    begin_clock();
    if STATE.has_file.swap(false, Relaxed) {
        drop(NAMES.take_in_child(child));
        // The parent keeps its own, and the lock.
        if let Some(lock) = STATE.lock.take()
            && !is_locked_file(&lock)
        {
            lock.leak(); // the script has closed it, and another file may have the number
        }
        if name_child().is_some() {
            // First: it may make the room that the file needs.
            let _ = NAMES.hold().map(|names| siblings::archive(&names));
            let _ = make_file();
        }
    }
}

/// Whether a descriptor is still the one of the process's file.
fn is_locked_file(lock: &Fd) -> bool {
    let of_name = NAMES
        .hold()
        .and_then(|names| file::status_of(names.own.as_c_str(), 0).ok());
    of_name.is_some_and(|found| file::identity(lock) == Some((found.st_dev, found.st_ino)))
}

/// Writes the name of a forked child's file; None if it cannot be known.
fn name_child() -> Option<()> {
    let mut text = [0u8; 1024];
    let ticks = start_ticks(read_once(c"/proc/self/stat", &mut text)?)?;
    let namespace = file::status_of(c"/proc/self/ns/pid", 0).map_or(0, |found| found.st_ino);
    HEADER.start_ticks.store(ticks, Relaxed);
    HEADER.pid_namespace.store(namespace, Relaxed);
    let rest = format_args!("{namespace}-{}-{ticks}{SUFFIX}", process::id());
    let rest = format_into(&mut text, rest);
    let mut names = NAMES.hold()?;
    names.own = names.start.with(rest)?;
    Some(())
}

/// Goes on without a file that another process has made shorter, or that its file system has lost, if `address` is one of the
/// file's. Returns false if it is not. In the handler of SIGBUS.
pub fn goes_on_without_file(address: usize) -> bool {
    let (what, is_first) = match mapping::restore(address) {
        Some(is_first) => ("the counters", is_first),
        None if mapping::lines_go_on(address) => ("the samples of lines", true),
        None => return false,
    };
    if is_first {
        notice(format_args!(
            "--live: the file of {what} was made shorter by another process, or its file system has lost it; the script runs on, \
             and pyhostctl cannot read it any more"
        ));
    }
    true
}

/// The region is too small for Python to start, which ends the process: it must not look like a kill.
pub fn start_fails() {
    if is_shared() {
        end(Ending::Exit(BAD_OPTION), None);
    }
}

/// Says in the header how the process ends; if it ends by itself its file goes. `left` is the ledger as the script left
/// it, if Python was finalised since. Any thread, also from a signal handler; not in a child of `vfork`.
pub fn end(ending: Ending, left: Option<&Snapshot>) {
    let reason = STATE.reason.load(Relaxed);
    let (state, status) = match ending {
        Ending::Running => return,
        Ending::QuickExit(status) if reason == EXHAUSTED => (ProcessState::Exhausted, status),
        Ending::Exit(status) | Ending::QuickExit(status) => (ProcessState::Exited, status & 0xff),
        Ending::Signal(signal) => (ProcessState::Signalled, signal),
        Ending::Exec => (ProcessState::Exec, 0),
    };
    if is_shared() && state != ProcessState::Exec {
        // For who reads the header later.
        HEADER.resident.store(resident().now.unwrap_or(0), Relaxed);
    }
    HEADER.set_state(state, status, clock::now());
    brief::write_end(left);
    if state != ProcessState::Exec {
        timeline::end();
        trouble::report();
        lines::warn_if_due();
    }
    let is_stop = state == ProcessState::Signalled && reason == STOP;
    // Another thread's sample must not bring the file back.
    if (state == ProcessState::Exited || is_stop) && STATE.has_file.swap(false, Relaxed) {
        // A handler that interrupts who holds the names finds no file of this process's own yet.
        let _ = NAMES.hold().map(|names| file::unlink(names.own.as_c_str()));
        lines::remove();
    }
}

/// The process goes on after all: another image did not take its place.
pub fn resume() {
    HEADER.set_state(ProcessState::Running, 0, 0);
}

/// Notes that the host is about to end the process, since the reserve of a cap is used up: its file stays.
pub fn note_exhausted() {
    STATE.reason.store(EXHAUSTED, Relaxed);
}

/// Notes that a signal that asks the process to stop is about to end it. The file goes, as at an exit, if the
/// process has sent it itself. The first call counts: a signal may be put off and raised again.
pub fn note_stop(is_own: bool) {
    let reason = if is_own { STOP } else { KILL };
    let _ = (STATE.reason).compare_exchange(NO_REASON, reason, Relaxed, Relaxed);
}

/// Whether anybody else may read how the process ends: in a file, or as its sampler.
pub fn is_shared() -> bool {
    STATE.is_shared.load(Relaxed)
}
