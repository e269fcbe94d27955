//! The sampler's own life: what it lets go of, and its loop.
//!
//! It runs in a process of its own, which shares the pages of header and ledger with the host and
//! has a copy of the rest. It allocates nothing, touches no lock of the host's and never returns.

use super::pages::{self, Renderer};
use super::{brief, file::TimelineFile};
use crate::header::{MARKS, ProcessState};
use crate::ledger::{HEADER, LEDGER, Scope, Snapshot};
use crate::process::{self, Watched, small_file};
use crate::{observe::pyhostctl_process::Detached, resident};
use pyhost_os::file::{self, Fd};
use pyhost_os::signals::{SignalSet, signal_name};
use pyhost_os::{calls, clock, format::c_text_into, mapping::page_size, strings};
use std::ffi::c_int;
use std::{os::fd::AsRawFd, sync::atomic::Ordering::*, time::Duration};

/// How long a process may be on its way into another program before the timeline ends: a call of
/// `exec` that fails comes back sooner.
const EXEC_TAKES: u64 = 1_000_000_000;

/// The signal by which the host asks for the last lines. It lets a sampler that was stopped go on, every user may
/// send it within a session, and it does nothing to a stranger that has the id of a sampler that is gone.
pub const WAKE: c_int = libc::SIGCONT;

/// Whether the host says that it ends: what remains of it are functions at its exit.
fn says_end() -> bool {
    matches!(
        HEADER.state().0,
        ProcessState::Exited | ProcessState::Signalled | ProcessState::Exhausted
    )
}

/// The last written values of figures that change rarely.
#[derive(Default)]
struct Written {
    marks: u64,
    refused: u64,
    caps: [Option<u64>; Scope::COUNT],
}

/// Samples until the host, of this process id, ends.
pub fn run(
    own: &Detached,
    mut timeline: Option<TimelineFile>,
    interval: Duration,
    mut serves: Option<(&Renderer, c_int)>,
    pid: libc::pid_t,
) -> ! {
    let kept = timeline.as_ref().map_or(-1, TimelineFile::descriptor);
    let requests = serves.map_or(-1, |(_, requests)| requests);
    let host = let_go(own, [kept, brief::descriptor(), requests], pid);
    let started = HEADER.started_monotonic.load(Relaxed);
    let mut written = Written::default();
    let mut next = started;
    let mut exec_since = None;
    loop {
        let interval = timeline.as_ref().map_or(interval, |it| it.interval);
        let now = clock::monotonic();
        while next <= now {
            next += interval.as_nanos() as u64;
        }
        let requests = serves.map_or(-1, |(_, requests)| requests);
        let (has_ended, is_asked) = host.ends_within(next - now, requests);
        let has_ended = has_ended || says_end();
        let now = clock::monotonic();
        let seconds = now.saturating_sub(started) as f64 / 1e9;
        let snapshot = LEDGER.snapshot();
        let resident = (!has_ended).then(|| host.resident()).flatten();
        if let Some(timeline) = &mut timeline {
            write_events(
                timeline,
                &mut written,
                seconds,
                started,
                &snapshot,
                has_ended,
            );
            timeline.sample(seconds, &snapshot, resident);
        }
        let is_exec = HEADER.state().0 == ProcessState::Exec;
        let since = *exec_since.get_or_insert(now);
        if !is_exec {
            exec_since = None;
        }
        if has_ended || is_exec && now - since > EXEC_TAKES {
            end(timeline.as_mut(), seconds, serves);
        }
        if let Some((renderer, requests)) = serves.as_mut().filter(|_| is_asked)
            && !pages::answer(*requests, renderer)
        {
            // A host that is killed closes its end a moment before it ends.
            *requests = -1;
        }
        brief::write_progress(&snapshot);
    }
}

fn write_events(
    timeline: &mut TimelineFile,
    written: &mut Written,
    seconds: f64,
    started: u64,
    snapshot: &Snapshot,
    has_ended: bool,
) {
    let caps = LEDGER.caps();
    if caps != written.caps {
        written.caps = caps;
        timeline.caps(seconds, &caps);
    }
    let marks = HEADER.marks();
    while written.marks < marks {
        match HEADER.mark_of(written.marks + 1) {
            Some(mark) => {
                let at = mark.nanoseconds.saturating_sub(started) as f64 / 1e9;
                timeline.mark(at, mark.name());
            }
            // Counted, and still being written: it comes with the next sample.
            None if marks - written.marks < MARKS as u64 && !has_ended => break,
            None => {}
        }
        written.marks += 1;
    }
    let refused = snapshot.refused();
    if refused != written.refused {
        written.refused = refused;
        let mut room = [0; 512];
        timeline.refusal(seconds, refused, HEADER.refusal_into(&mut room));
    }
}

/// Writes the last line, makes the last pages, and ends the sampler.
fn end(timeline: Option<&mut TimelineFile>, seconds: f64, serves: Option<(&Renderer, c_int)>) -> ! {
    let (state, status) = HEADER.state();
    let (ended_by, exit_status) = match state {
        ProcessState::Running => ("kill", None),
        ProcessState::Exec => ("exec", None),
        ProcessState::Exited | ProcessState::Exhausted => ("exit", Some(status)),
        ProcessState::Signalled => (signal_name(status), None),
    };
    if let Some(timeline) = timeline {
        timeline.end(seconds, ended_by, exit_status);
    }
    if state == ProcessState::Running {
        brief::write_end(None); // else the host has
    }
    HEADER.sampler.is_all_written.store(1, Release);
    if let Some((renderer, requests)) = serves {
        if state == ProcessState::Running && pages::make_of_killed(renderer).is_some() {
            renderer.remove_timeline();
        }
        while requests >= 0 && pages::answer(requests, renderer) {}
    }
    process::end_now(0)
}

/// The host, seen from the sampler.
struct Host {
    process: Watched,
    /// Readable once it has sent [`WAKE`]; `None` if the system has no room for it.
    call: Option<Fd>,
    /// Its `/proc/PID/statm`.
    statm: Option<Fd>,
    page: u64,
}

impl Host {
    /// Waits until the host calls or there is a request, at most so many nanoseconds; whether the host has ended, and
    /// whether there is a request.
    fn ends_within(&self, nanoseconds: u64, requests: c_int) -> (bool, bool) {
        let call = self.call.as_ref().map_or(-1, Fd::as_raw_fd);
        let files = [self.process.as_raw_fd(), call, requests];
        let mut polls = files.map(|file| file::awaited(file, libc::POLLIN));
        let _ = file::wait(&mut polls, nanoseconds);
        if polls[1].revents != 0 {
            // Anybody may have sent it: it is taken, and the header asked.
            let _ = file::read(&call, &mut [0; size_of::<libc::signalfd_siginfo>()]);
        }
        (self.process.has_ended(), polls[2].revents != 0)
    }

    /// Its resident bytes; None if it has let go of its memory already.
    fn resident(&self) -> Option<(u64, u64)> {
        let mut text = [0u8; 128];
        let text = small_file::read(self.statm.as_ref()?, &mut text)?;
        let (bytes, files) = process::of_statm(text, self.page).filter(|found| found.0 > 0)?;
        // The report's peak is not below what the timeline shows.
        resident::note(bytes);
        HEADER.resident.store(bytes, Relaxed);
        Some((bytes, files))
    }
}

/// Lets go of all that is the host's, and takes hold of the host.
fn let_go(own: &Detached, mut kept: [c_int; 3], pid: libc::pid_t) -> Host {
    // Whoever ends the host's group must leave it the last word. The session stays: see `WAKE`.
    calls::setpgid(0, 0);
    let mut title = [0; 64];
    let title = c_text_into(&mut title, format_args!("pyhost-sampler {pid}"));
    strings::replace_arguments(title);
    calls::chdir(c"/".into());
    process::name_thread(c"pyhost-sampler");
    own.close_but(&mut kept);
    let mut path = [0; 64];
    let path = c_text_into(&mut path, format_args!("/proc/{pid}/statm"));
    Host {
        process: Watched::of(pid),
        // All signals are blocked since the process was made; one that came before is read, too.
        call: Fd::of_signals(&SignalSet::of(&[WAKE])).ok(),
        statm: small_file::open(path),
        page: page_size(),
    }
}
