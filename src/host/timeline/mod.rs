//! `--timeline`, `--stats-brief`: a small process that samples the accounts and the resident size, and has the pages
//! of `--stats=html` made.
//!
//! A process and not a thread: `os.fork()` warns of threads from CPython 3.12 on, and a kill of the
//! host leaves it time for a last word. It is made by `clone` before Python initialises, while the
//! host has one thread, and shares nothing with it but the pages of card and ledger. It has no
//! signal at its end, so that `os.wait()` never sees it, and it never takes the GIL. It allocates
//! nothing: what it allocated would be booked to the host's accounts.
//!
//! [`start`] is called once, after the ledger lies in shared memory. The sampler ends with the host.

#![allow(unsafe_code)]

pub mod brief;
mod file;
pub mod pages;
mod sampler;
mod settings;
pub mod trouble;

pub use settings::{Interval, TimelineSettings};

use crate::descriptor::notice;
use crate::errno::Errno;
use crate::ledger::CARD;
use crate::native::next::{self, call};
use crate::output::{self, OutputError};
use crate::process;
use crate::template::PathBuffer;
use file::TimelineFile;
use pyhost_os::moment;
use std::ffi::{c_int, c_long};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

/// The sampler's process, and the process that it samples; 0 if there is none.
static SAMPLER: AtomicI32 = AtomicI32::new(0);
static HOST: AtomicI32 = AtomicI32::new(0);

/// Nanoseconds that a host waits for the end of its timeline.
const PATIENCE: u64 = 1_000_000_000;

/// Starts the sampler, where there is anything to be written. What cannot be written is left out, with
/// a notice; so is all of it where the system gives no process.
pub fn start(settings: &TimelineSettings) {
    let timeline = settings.timeline.as_deref().and_then(|template| {
        let opened = open_timeline(template, settings);
        opened
            .map_err(|why| leave_out("--timeline", template, &why))
            .ok()
    });
    let brief = settings.brief.as_deref().is_some_and(|template| {
        let started = brief::start(template);
        started
            .map_err(|why| leave_out("--stats-brief", template, &why))
            .is_ok()
    });
    let requests = settings.renderer.as_ref().and_then(|_| pages::open());
    let serves = settings
        .renderer
        .as_ref()
        .zip(requests.as_ref().map(AsRawFd::as_raw_fd));
    if timeline.is_none() && !brief && serves.is_none() {
        return;
    }
    trouble::share();
    let host = process::id();
    // SAFETY: no flags: a copy of this process, whose only thread returns here twice. The copy runs
    // `sampler::run` alone, which does not return.
    unsafe {
        // The sampler is born with all signals blocked. A short script may end, and call the sampler,
        // before the sampler has run at all: the call would end it without its last lines.
        let mut signals: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut signals);
        libc::sigprocmask(libc::SIG_BLOCK, &signals, &mut before);
        let made = make_process(0);
        if made != 0 {
            libc::sigprocmask(libc::SIG_SETMASK, &before, null_mut());
        }
        match made {
            -1 => notice(format_args!(
                "--timeline, --stats-brief: no process to sample from ({}); the script runs \
                 without one",
                Errno::last()
            )),
            0 => sampler::run(timeline, settings.interval.0, serves, host),
            sampler => {
                SAMPLER.store(sampler as libc::pid_t, Relaxed);
                HOST.store(host, Relaxed);
            }
        }
        // The sampler has copies of its own.
        drop((requests, timeline));
    }
}

/// Has the sampler write its last lines, and waits until it has, at most [`PATIENCE`], or until it has ended: the system may
/// end it with the host, as in a container whose first process the host is. Any thread, also from a
/// signal handler; after the card says how the host ends.
pub fn end() {
    if HOST.load(Relaxed) != process::id() {
        return; // a forked child
    }
    let sampler = SAMPLER.swap(0, Relaxed);
    if sampler == 0 {
        return;
    }
    let pause = libc::timespec {
        tv_sec: 0,
        tv_nsec: 200_000,
    };
    // SAFETY: the id is this process's child until it is waited for here; structures of ours.
    unsafe {
        libc::kill(sampler, sampler::WAKE);
        let since = moment::monotonic();
        while libc::waitpid(sampler, null_mut(), libc::__WALL | libc::WNOHANG) == 0
            && !trouble::is_all_written()
            && moment::monotonic() - since < PATIENCE
        {
            libc::nanosleep(&pause, null_mut());
        }
    }
}

/// Makes a copy of this process, past the executable's own `syscall`, which would count it as the
/// script's. Its parent gets `signal` at its end, or none for 0.
///
/// # Safety
/// As `clone(2)` without flags.
unsafe fn make_process(signal: c_int) -> c_long {
    next::resolve();
    // SAFETY: the symbol has this type.
    unsafe {
        call!(
            next::SYSCALL,
            fn(c_long, c_long, c_long, c_long, c_long, c_long) -> c_long,
            (libc::SYS_clone, c_long::from(signal), 0, 0, 0, 0),
            -1
        )
    }
}

fn leave_out(option: &str, template: &[u8], why: &OutputError) {
    let shown = String::from_utf8_lossy(template);
    notice(format_args!(
        "{option}: '{shown}' {why}; the script runs without it"
    ));
}

fn open_timeline(
    template: &[u8],
    settings: &TimelineSettings,
) -> Result<TimelineFile, OutputError> {
    let path = PathBuffer::expand(template, process::id(), b"");
    let mut path = path.ok_or(OutputError::TooLong)?;
    let target = output::look(&mut path)?;
    TimelineFile::create(path, target, CARD.command(), settings.interval.0)
        .map_err(OutputError::System)
}
