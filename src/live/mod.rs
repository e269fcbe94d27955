//! The shared ledger: `--live` keeps card and ledger in a file of a directory, `--ledger-file` in a
//! file of a given name, so that others can read them while the process runs and after a kill.
//!
//! [`start`] runs while the process has one thread and before the heap's own handlers of forks. With
//! `--live` a forked child makes a file of its own; with `--ledger-file` it keeps its counters to
//! itself. An exit removes the process's file; what ends by a signal leaves it. The end and the
//! child's start are told from `exit`, signal handlers and `fork`: they allocate nothing and take no
//! lock.
//!
//! In a container a lock (`flock`) on a file of `--live` lasts as long as its process: it tells readers
//! in other pid namespaces. It needs a descriptor, which lies at the upper end, out of the script's way.

#![allow(unsafe_code)]

mod mapping;

use crate::card::{CARD, State};
use crate::descriptor::{format_into, notice, out_of_the_way};
use crate::error::Error;
use crate::ledger::{REPORTED, Snapshot};
use crate::process::{self, small_file::read_once};
use crate::report::{Ending, Facts};
use crate::template::PathBuffer;
use crate::timeline::brief;
use pyhost_shared::directory::{self, Identity, SUFFIX, start_ticks};
use pyhost_shared::moment;
use pyhost_shared::record::Record;
use std::cell::UnsafeCell;
use std::ffi::{CStr, OsStr, OsString, c_int};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32};

/// Where the ledger is to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the process's own memory.
    Own,
    /// In a file, whose name may hold `%p`.
    File(OsString),
    /// In a file of the process's own in this directory.
    Directory(PathBuf),
}

const PATH: usize = libc::PATH_MAX as usize;

/// The start of the names of this machine's files, and the name of the process's own: both end with
/// a zero byte.
struct Names(UnsafeCell<([u8; PATH], [u8; PATH])>);
// SAFETY: written by `start` and in a forked child, while the process has one thread.
unsafe impl Sync for Names {}
static NAMES: Names = Names(UnsafeCell::new(([0; PATH], [0; PATH])));

/// The process has a file in a directory of `--live`.
static HAS_FILE: AtomicBool = AtomicBool::new(false);
/// The descriptor that holds the lock; -1 for none.
static LOCK: AtomicI32 = AtomicI32::new(-1);

/// How many of the killed are told of one by one.
const TOLD: usize = 3;

/// Puts the card and the ledger where `place` says; `shared` with a process of the host's own that
/// reads them, where they are to stay in memory. Of `argv`, `host_words` after the first are the
/// host's options.
///
/// # Errors
/// The file or the directory cannot be had; the ledger stays where it is.
pub fn start(
    place: &Place,
    shared: bool,
    argv: &[OsString],
    host_words: usize,
) -> Result<(), Error> {
    if *place == Place::Own && !shared {
        return Ok(());
    }
    let refuse = |what: &str| Err(Error::option(what));
    if !mapping::is_possible() {
        return refuse("--live: not with pages of more than 4 KiB");
    }
    fill_card(argv);
    CARD.host_words.store(host_words as u64, Relaxed);
    match place {
        Place::Own => {
            if !mapping::onto_memory(true) {
                return Err(Error::start("the system gives no shared memory"));
            }
        }
        Place::File(template) => in_file(template)?,
        Place::Directory(path) => in_directory(path)?,
    }
    // SAFETY: a function of the executable.
    unsafe { libc::pthread_atfork(None, None, Some(begin_child)) };
    Ok(())
}

fn fill_card(argv: &[OsString]) {
    let own = Identity::own();
    CARD.boot.set(&own.boot);
    CARD.pid.store(own.pid, Relaxed);
    CARD.pid_namespace.store(own.pid_namespace, Relaxed);
    CARD.start_ticks.store(own.start_ticks, Relaxed);
    // SAFETY: no arguments.
    let (parent, user) = unsafe { (libc::getppid(), libc::geteuid()) };
    CARD.parent.store(parent, Relaxed);
    CARD.user.store(user, Relaxed);
    CARD.started.store(moment::now(), Relaxed);
    CARD.started_monotonic.store(moment::monotonic(), Relaxed);
    CARD.host.set(env!("CARGO_PKG_VERSION"));
    CARD.set_argv(argv.iter().map(|word| word.as_bytes()));
}

/// Tells the card what is known once Python's configuration is.
pub fn describe(facts: &Facts) {
    CARD.python.set(&facts.python_version);
    CARD.mimalloc.set(&facts.mimalloc);
    CARD.allocator.set(facts.allocator);
    CARD.native.set(facts.native);
    CARD.profile.set(facts.profile);
    CARD.script.set(&facts.command);
    CARD.debug_hooks
        .store(u32::from(facts.debug_hooks), Relaxed);
    let active = REPORTED.iter().filter(|&&account| facts.is_active(account));
    let bits = active.map(|&account| 1 << account as u32).sum();
    CARD.active.store(bits, Relaxed);
}

fn in_file(template: &OsStr) -> Result<(), Error> {
    let refuse = || {
        Error::option(format!(
            "--ledger-file: '{}' cannot be written and mapped; expected a file that can",
            Path::new(template).display()
        ))
    };
    let path = PathBuffer::expand(template.as_bytes(), process::id(), b"").ok_or_else(refuse)?;
    let path = Path::new(OsStr::from_bytes(path.as_c_str().to_bytes()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(true);
    let file = options.mode(0o600).open(path).map_err(|_| refuse())?;
    mapping::onto_file(file.as_raw_fd())
        .then_some(())
        .ok_or_else(refuse)
}

fn in_directory(path: &Path) -> Result<(), Error> {
    let refuse = |what: &str| {
        Error::option(format!(
            "--live: '{}' {what}; expected a directory that only its user can write to",
            path.display()
        ))
    };
    directory::prepare(path).map_err(|what| refuse(&what))?;
    tell_of(&directory::tidy(path), path);
    let own = Identity::own();
    let prefix = path.join(format!("{}-", own.boot));
    let name = path.join(own.file_name());
    // SAFETY: the process has one thread.
    let (start, whole) = unsafe { &mut *NAMES.0.get() };
    for (place, name) in [(start, &prefix), (whole, &name)] {
        let name = name.as_os_str().as_bytes();
        if name.len() + 64 > PATH {
            return Err(refuse("is too long"));
        }
        place[..name.len()].copy_from_slice(name);
    }
    // A program that this process was before may have left one.
    let _ = std::fs::remove_file(&name);
    make_file().map_err(refuse)
}

/// Tells of processes that were killed and whose files lay in the directory.
fn tell_of(killed: &[Record], directory: &Path) {
    for record in killed.iter().take(TOLD) {
        notice(format_args!("{}", record.last_words()));
    }
    let more = killed.len().saturating_sub(TOLD);
    if more > 0 {
        let folder = directory.join(directory::ARCHIVE);
        notice(format_args!(
            "{more} more were killed; see {}",
            folder.display()
        ));
    }
}

/// Makes the file of the process's own name, maps card and ledger onto it, and locks it in a
/// container.
fn make_file() -> Result<(), &'static str> {
    // SAFETY: a path that ends with a zero byte; descriptors of this function's own.
    unsafe {
        let (_, name) = &*NAMES.0.get();
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        let file = libc::open(name.as_ptr().cast(), flags, 0o600);
        if file < 0 {
            return Err("takes no file");
        }
        let locks = directory::locks(CARD.pid_namespace.load(Relaxed));
        if locks {
            libc::flock(file, libc::LOCK_EX | libc::LOCK_NB);
        }
        if !mapping::onto_file(file) {
            libc::close(file);
            libc::unlink(name.as_ptr().cast());
            return Err("takes no file that can be mapped");
        }
        if locks {
            LOCK.store(out_of_the_way(file), Relaxed);
        } else {
            libc::close(file);
        }
    }
    HAS_FILE.store(true, Relaxed);
    Ok(())
}

/// In a forked child: takes a copy of card and ledger in place of its parent's, then, with
/// `--live`, a file of its own.
unsafe extern "C" fn begin_child() {
    if !mapping::onto_memory(false) {
        // It goes on in its parent's pages, which are then wrong, but whole.
        HAS_FILE.store(false, Relaxed);
        return;
    }
    CARD.begin_child();
    brief::leave_to_parent();
    CARD.parent.store(CARD.pid.load(Relaxed), Relaxed);
    CARD.pid.store(process::id(), Relaxed);
    CARD.started.store(moment::now(), Relaxed);
    CARD.started_monotonic.store(moment::monotonic(), Relaxed);
    if HAS_FILE.swap(false, Relaxed) {
        let lock = LOCK.swap(-1, Relaxed);
        if is_locked_file(lock) {
            // SAFETY: the child's copy of the descriptor; the parent keeps its own, and the lock.
            unsafe { libc::close(lock) };
        }
        if name_child().is_some() {
            let _ = make_file();
        }
    }
}

/// Whether a descriptor is still the one of the process's file: a script may have closed it.
fn is_locked_file(lock: c_int) -> bool {
    // SAFETY: structures that the calls fill; a path that ends with a zero byte.
    unsafe {
        let (_, name) = &*NAMES.0.get();
        let mut of_lock: libc::stat = std::mem::zeroed();
        let mut of_name: libc::stat = std::mem::zeroed();
        libc::fstat(lock, &mut of_lock) == 0
            && libc::stat(name.as_ptr().cast(), &mut of_name) == 0
            && (of_lock.st_dev, of_lock.st_ino) == (of_name.st_dev, of_name.st_ino)
    }
}

/// Writes the name of a forked child's file; None where it cannot be known.
fn name_child() -> Option<()> {
    let mut text = [0u8; 1024];
    let ticks = start_ticks(read_once(c"/proc/self/stat", &mut text)?)?;
    // SAFETY: a constant path and a structure of ours.
    let namespace = unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        libc::stat(c"/proc/self/ns/pid".as_ptr(), &mut found);
        found.st_ino
    };
    CARD.start_ticks.store(ticks, Relaxed);
    CARD.pid_namespace.store(namespace, Relaxed);
    // SAFETY: the child has one thread.
    let (start, name) = unsafe { &mut *NAMES.0.get() };
    let start = CStr::from_bytes_until_nul(start).ok()?.to_bytes();
    *name = [0; PATH];
    name[..start.len()].copy_from_slice(start);
    let rest = format_args!("{namespace}-{}-{ticks}{SUFFIX}", process::id());
    format_into(&mut name[start.len()..PATH - 1], rest);
    Some(())
}

/// Says on the card how the process ends; where it ends by itself its file goes. `left` is the ledger as
/// the script left it, where Python was finalised since. Any thread, also from a signal handler; not in a
/// child of `vfork`.
pub fn end(ending: Ending, left: Option<&Snapshot>) {
    let (state, status) = match ending {
        Ending::Running => return,
        Ending::Exit(status) | Ending::QuickExit(status) => (State::Exited, status & 0xff),
        Ending::Signal(signal) => (State::Signalled, signal),
        Ending::Exec => (State::Exec, 0),
    };
    CARD.set_state(state, status, moment::now());
    brief::tell_end(left);
    if state == State::Exited && HAS_FILE.load(Relaxed) {
        // SAFETY: a path that ends with a zero byte.
        unsafe {
            let (_, name) = &*NAMES.0.get();
            libc::unlink(name.as_ptr().cast());
        }
    }
}

/// The process goes on after all: another image did not take its place.
pub fn resume() {
    CARD.set_state(State::Running, 0, 0);
}

/// Whether the process's file lies in a directory of `--live`.
pub fn has_file() -> bool {
    HAS_FILE.load(Relaxed)
}

/// Shows the counters of a file as a table.
///
/// # Errors
/// It is no file of a host's, or one of another version.
pub fn show(path: &OsStr) -> Result<String, Error> {
    let record = Record::read(Path::new(path)).map_err(|error| {
        Error::option(format!(
            "--read-ledger: '{}' {error}",
            Path::new(path).display()
        ))
    })?;
    Ok(record.table())
}
