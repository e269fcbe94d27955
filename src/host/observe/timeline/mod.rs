//! `--timeline`, `--brief`: a small process that samples the accounts and the resident size, and runs `pyhostctl`
//! for the pages of `--stats=html`.
//!
//! A process and not a thread: `os.fork()` warns of threads from CPython 3.12 on, and a kill of the
//! host leaves it time for a last word. It is made before Python initialises, while the host has one thread, and shares
//! nothing with it but the pages of header and ledger. It never takes the GIL. It allocates nothing: what
//! it allocated would be booked to the host's accounts.
//!
//! It is not the script's child: a process between the two makes it and ends, and the system gives it to the first process
//! or to a reaper (`is_reaper` of `pyhostctl_process`). A host that is itself that process has it as a child, without a signal at its
//! end, so that `os.wait()` does not see it.
//!
//! [`start`] is called once, after the ledger lies in shared memory. The sampler ends with the host.

pub mod brief;
mod file;
pub mod pages;
mod sampler;
pub mod trouble;

use crate::process;
use crate::{bytes::Expected, descriptor::notice, errno::Errno, ledger::HEADER};
use crate::{observe::pyhostctl_process, output, path_template::PathBuffer, process::Watched};
use derive_more::Display;
use file::TimelineFile;
use pages::Renderer;
use pyhost_os::{clock, duration, file::Fd, signals::SignalSet};
use std::sync::atomic::{AtomicI32, Ordering::Acquire, Ordering::Relaxed};
use std::{os::fd::AsRawFd, str::FromStr, sync::OnceLock, time::Duration};

pyhost_os::state! {
    static STATE: TimelineProcesses {
        /// The process id of the sampler, and of the process that it samples; 0 without a sampler.
        sampler: AtomicI32 = AtomicI32::new(0),
        host: AtomicI32 = AtomicI32::new(0),
        /// The host's end of the socket by which pages are asked for, and its device and inode.
        socket: OnceLock<(Fd, (u64, u64))> = OnceLock::new(),
    }
}

/// Nanoseconds that a host waits for the end of its timeline.
const PATIENCE: u64 = 1_000_000_000;

/// Starts the sampler, if there is anything to be written. What cannot be written is left out, with
/// a notice; so is all of it if the system gives no process.
pub fn start(settings: &TimelineSettings) {
    let expand = |template| PathBuffer::expand(template, process::id(), b"");
    let timeline = settings.timeline.as_deref().and_then(|template| {
        output::open_or_leave_out("--timeline", template, expand(template), |path, target| {
            TimelineFile::create(path, target, HEADER.command(), settings.interval.0)
        })
    });
    let brief = settings.brief.as_deref().and_then(|template| {
        output::open_or_leave_out("--brief", template, expand(template), |path, target| {
            brief::start(template, &path, target)
        })
    });
    let requests = settings.renderer.as_ref().and_then(|_| pages::open());
    let descriptor = requests.as_ref().map(AsRawFd::as_raw_fd);
    let serves = settings.renderer.as_ref().zip(descriptor);
    if timeline.is_none() && brief.is_none() && serves.is_none() {
        return;
    }
    let host = process::id();
    // The sampler is born with all signals blocked. A short script may end, and call the sampler,
    // before the sampler has run at all: the call would end it without its last lines.
    let before = SignalSet::all().block();
    let made = pyhostctl_process::detach(&HEADER.sampler.id, |own| {
        sampler::run(own, timeline, settings.interval.0, serves, host);
    });
    match made {
        None => notice(format_args!(
            "--timeline, --brief: no process to sample from ({}); the script runs \
             without one",
            Errno::last()
        )),
        Some(sampler) => {
            STATE.sampler.store(sampler, Relaxed);
            STATE.host.store(host, Relaxed);
        }
    }
    before.make_mask();
}

/// Makes the sampler write its last lines, and waits until it has, at most [`PATIENCE`], or until it has ended: the system may
/// end it with the host, as in a container whose first process the host is. A line says if it has not. Any thread, also
/// from a signal handler; after the header says how the host ends.
pub fn end() {
    if STATE.host.load(Relaxed) != process::id() {
        return; // a forked child
    }
    let sampler = STATE.sampler.swap(0, Relaxed);
    if sampler == 0 {
        return;
    }
    process::signal(sampler, sampler::WAKE);
    let process = Watched::of(sampler);
    let is_all_written = || HEADER.sampler.is_all_written.load(Acquire) == 1;
    let is_over = || is_all_written() || process.has_ended();
    let how = match clock::wait_until(PATIENCE, 200_000, is_over) {
        true => "(it was killed)",
        false => "within a second",
    };
    if !is_all_written() {
        notice(format_args!(
            "--timeline, --brief: the process that samples has not written its last lines {how}"
        ));
    }
}

const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_secs(3600);

/// The time between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[display("{}s", _0.as_secs_f64())]
pub struct Interval(pub Duration);

impl Default for Interval {
    fn default() -> Self {
        Interval(Duration::from_millis(10))
    }
}

impl FromStr for Interval {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        const EXPECTED: Expected = Expected("a time from 1ms to 1h, such as 10ms, 0.5s or 1m");
        let found = duration::parse(text, None, LEAST..=MOST);
        found.map(Interval).ok_or(EXPECTED)
    }
}

/// The settings of the sampler. It does not run without a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimelineSettings {
    /// The file of the timeline: an absolute path, in which `%p` stands for the process id.
    pub timeline: Option<Vec<u8>>,
    pub interval: Interval,
    /// The file of `--brief`, likewise.
    pub brief: Option<Vec<u8>>,
    pub renderer: Option<Renderer>,
}

impl TimelineSettings {
    pub fn is_on(&self) -> bool {
        self.timeline.is_some() || self.brief.is_some() || self.renderer.is_some()
    }
}
