//! `--stats=html`: the sampler runs `pyhostctl`, which makes the pages.
//!
//! The host sends it the report, a file in memory, and the page's file over a socket, and waits for its answer. So
//! does each forked child that writes a page. The sampler is no part of the script, and small: the programs that it
//! starts are its own children, and the script sees none of them. It lives until nobody has the socket's other end.
//!
//! [`make`] may run in any thread and inside a signal handler: it allocates nothing and takes no lock. The socket's
//! end has one of the highest numbers. A script that closes every descriptor loses it.

use crate::observe::pyhostctl_process::{self, NOT_STARTED};
use crate::output::{self, Draft, Target};
use crate::{descriptor::out_of_the_way, errno::Errno, path_template::PathBuffer};
use pyhost_ledger::own;
use pyhost_os::file::{self, Fd};
use pyhost_os::{process, socket};
use std::ffi::{CStr, CString, c_int};
use std::os::fd::AsRawFd;

/// The status that it answers if a signal ended the program.
const KILLED: c_int = 128;
/// The status of `pyhostctl` if it has said on standard error what is wrong.
const HAS_REPORTED: c_int = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renderer {
    pub program: CString,
    /// The timeline of the host; `None` if there is none or its path is too long.
    pub timeline: Option<CString>,
    /// Whether the timeline is for the page alone, and goes once that is made.
    pub is_timeline_its_own: bool,
    /// The page of the host: an absolute path.
    pub page: Option<CString>,
    /// Whether to say where the page is, since nobody has named the file.
    pub prints_path: bool,
}

impl Renderer {
    /// Removes the timeline that is for the page alone.
    #[inline(never)] // for the caller's stack
    pub fn remove_timeline(&self) {
        if let Some(path) = self.timeline.as_ref().filter(|_| self.is_timeline_its_own)
            && let Some(mut place) = PathBuffer::of(path.to_bytes())
            // The script may have put a file of its own there.
            && output::look(&mut place) == Ok(Target::Old)
        {
            let _ = file::unlink(path);
        }
    }
}

pub enum NoPage {
    /// The sampler cannot be reached.
    NoSampler,
    /// The step that failed, and the system's reason if it gave one.
    Failed(&'static str, Option<Errno>),
    /// The program has said why.
    Reported,
}

/// Opens the socket. Returns the sampler's end, or `None` if the system refuses. Before the sampler is made.
pub fn open() -> Option<Fd> {
    let (own, requests) = socket::pair().ok()?;
    let own = out_of_the_way(own);
    let identity = file::identity(&own)?;
    let _ = super::STATE.socket.set((own, identity));
    Some(requests)
}

/// Asks for the page of a report, read from its begin, in an open file, with the host's timeline if `is_sampled`.
pub fn make(report: c_int, page: c_int, is_sampled: bool) -> Result<(), NoPage> {
    // The script may have closed it, and another file may have its number.
    let is_open = |(socket, identity): &&(Fd, _)| file::identity(socket).as_ref() == Some(identity);
    let socket = super::STATE.socket.get().filter(is_open);
    let (socket, _) = socket.ok_or(NoPage::NoSampler)?;
    let (answer, answers) =
        file::pipe().map_err(|error| NoPage::Failed("no pipe for the answer", Some(error)))?;
    let has_errors = file::is_open(libc::STDERR_FILENO);
    // The report, the page, where the answer goes, and standard error if it is open.
    let sent = [report, page, answers.as_raw_fd(), libc::STDERR_FILENO];
    let sent = &sent[..sent.len() - usize::from(!has_errors)];
    let result = socket::send(socket, u8::from(is_sampled), sent);
    drop(answers); // else the end of the sampler would not end the wait
    let status = result.and_then(|()| receive_status(&answer));
    match status {
        Ok(0) => Ok(()),
        Ok(HAS_REPORTED) => Err(NoPage::Reported),
        Ok(NOT_STARTED) => Err(NoPage::Failed("pyhostctl cannot be started", None)),
        Ok(_) => Err(NoPage::Failed("pyhostctl did not get to the end", None)),
        Err(Errno(libc::EPIPE | libc::ECONNRESET)) => Err(NoPage::NoSampler),
        Err(error) => Err(NoPage::Failed("the sampler does not answer", Some(error))),
    }
}

/// The status in the answer; [`KILLED`] if the sampler ended without one.
fn receive_status(pipe: &Fd) -> Result<c_int, Errno> {
    let mut status = [0u8];
    match file::read(pipe, &mut status)? {
        0 => Ok(KILLED),
        _ => Ok(status[0].into()),
    }
}

/// Answers one request. Returns `false` if nobody has the other end any more.
pub fn answer(socket: c_int, renderer: &Renderer) -> bool {
    match socket::receive(&socket) {
        Ok(Some((byte, received))) => {
            let [report, page, answer, errors] = received.each_ref().map(number);
            let status = run(renderer, c"-", byte != 0, [report, page, errors]);
            let _ = file::write(&answer, &[status as u8]);
            true
        }
        Ok(None) | Err(_) => false,
    }
}

/// The number of a descriptor; -1 if there is none.
fn number(file: &Option<Fd>) -> c_int {
    file.as_ref().map_or(-1, Fd::as_raw_fd)
}

/// Makes the page of a host that was killed, from its last counters. Returns `None` if there is none.
pub fn make_of_killed(renderer: &Renderer) -> Option<()> {
    let mut place = PathBuffer::of(renderer.page.as_ref()?.to_bytes())?;
    let target = output::look(&mut place).ok()?;
    if !matches!(target, Target::New | Target::Old) {
        return None;
    }
    let memory = Fd::in_memory(c"pyhost-record").ok()?;
    file::write_memory(&memory, own::addresses()).ok()?;
    let draft = Draft::begin(&place, target, 0).ok()?;
    let streams = [memory.as_raw_fd(), draft.descriptor(), -1];
    if run(renderer, c"/proc/self/fd/0", true, streams) != 0 {
        return None;
    }
    draft.finish().ok().map(drop)
}

/// Runs the program on a report with three descriptors and waits for it; its exit status.
fn run(renderer: &Renderer, report: &CStr, is_sampled: bool, streams: [c_int; 3]) -> c_int {
    let timeline = renderer.timeline.as_deref().filter(|_| is_sampled);
    let timeline = timeline.filter(|path| file::access(path, libc::R_OK).is_ok());
    let name = pyhostctl_process::NAME;
    let mut arguments = [name, c"html", report, c"-o", c"-", c"--timeline", c""];
    let count = if timeline.is_some() { 7 } else { 5 };
    arguments[6] = timeline.unwrap_or_default();
    let arguments = &arguments[..count];
    let Some(program) =
        pyhostctl_process::start(&renderer.program, arguments, &[0], streams, libc::SIGCHLD)
    else {
        return NOT_STARTED;
    };
    match process::wait_for(program, 0) {
        None => NOT_STARTED,
        Some(status) if libc::WIFEXITED(status) => libc::WEXITSTATUS(status),
        Some(_) => KILLED,
    }
}
