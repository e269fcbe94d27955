//! `--stats=html`: the sampler has `pyhostctl` make the pages.
//!
//! The host sends it the report, a file in memory, and the page's file over a socket, and waits for its answer. So
//! does each forked child that writes a page. The sampler is no part of the script, and small: the programs that it
//! starts are its own children, and the script sees none of them. It lives until nobody has the socket's other end.
//!
//! [`make`] may run in any thread and inside a signal handler: it allocates nothing and takes no lock. The socket's
//! end has one of the highest numbers. A script that closes every descriptor loses it.

#![allow(unsafe_code)]

use super::make_process;
use crate::descriptor::{close_range, out_of_the_way};
use crate::errno::Errno;
use crate::output::{self, Draft, Target};
use crate::template::PathBuffer;
use pyhost_ledger::own;
use pyhost_os::file::{self, Fd};
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::null;
use std::sync::OnceLock;

/// The status that the sampler answers if it cannot start the program.
const NOT_STARTED: c_int = 125;
/// The status that it answers if a signal ended the program.
const KILLED: c_int = 128;
/// The status of `pyhostctl` if it has said on standard error what is wrong.
const HAS_TOLD: c_int = 1;

/// The descriptors of a request: the report, the page, where the answer goes, and standard error if it is open.
const SENT: usize = 4;
/// Bytes of a message's control part for so many descriptors, and more.
const CONTROL: usize = 64;

/// How pages are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renderer {
    /// The path of `pyhostctl`.
    pub program: CString,
    /// The timeline of the host; `None` if there is none or its path is too long.
    pub timeline: Option<CString>,
    /// Whether the timeline is for the page alone, and goes once that is made.
    pub is_timeline_its_own: bool,
    /// The page of the host: an absolute path.
    pub page: Option<CString>,
    /// Whether to say where the page is, since nobody has named the file.
    pub is_told: bool,
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

/// Why there is no page.
pub enum NoPage {
    /// The sampler cannot be reached.
    NoSampler,
    /// The step that failed, and the system's reason if it gave one.
    Failed(&'static str, Option<Errno>),
    /// The program has said why.
    Told,
}

/// The host's end of the socket, and its device and inode.
static SOCKET: OnceLock<(Fd, (u64, u64))> = OnceLock::new();

/// Opens the socket. Returns the sampler's end, or `None` if the system refuses. Before the sampler is made.
pub fn open() -> Option<Fd> {
    let (own, requests) = file::sockets().ok()?;
    let own = out_of_the_way(own);
    let identity = file::identity(&own)?;
    let _ = SOCKET.set((own, identity));
    Some(requests)
}

/// Has the page of a report, read from its begin, written to an open file, with the host's timeline if `is_sampled`.
///
/// # Errors
/// There is no page: why.
pub fn make(report: c_int, page: c_int, is_sampled: bool) -> Result<(), NoPage> {
    // The script may have closed it, and another file may have its number.
    let is_open = |(socket, identity): &&(Fd, _)| file::identity(socket).as_ref() == Some(identity);
    let Some((socket, _)) = SOCKET.get().filter(is_open) else {
        return Err(NoPage::NoSampler);
    };
    let (answer, answers) =
        file::pipe().map_err(|error| NoPage::Failed("no pipe for the answer", Some(error)))?;
    let has_errors = file::is_open(libc::STDERR_FILENO);
    let sent = [report, page, answers.as_raw_fd(), libc::STDERR_FILENO];
    let sent = &sent[..SENT - usize::from(!has_errors)];
    let result = send(socket.as_raw_fd(), u8::from(is_sampled), sent);
    drop(answers); // else the end of the sampler would not end the wait
    let status = result.and_then(|()| receive_status(&answer));
    match status {
        Ok(0) => Ok(()),
        Ok(HAS_TOLD) => Err(NoPage::Told),
        Ok(NOT_STARTED) => Err(NoPage::Failed("pyhostctl cannot be started", None)),
        Ok(_) => Err(NoPage::Failed("pyhostctl did not get to the end", None)),
        Err(Errno(libc::EPIPE | libc::ECONNRESET)) => Err(NoPage::NoSampler),
        Err(error) => Err(NoPage::Failed("the sampler does not answer", Some(error))),
    }
}

/// A message of one byte, to be sent or received with descriptors.
///
/// # Safety
/// All that it points to outlives it.
unsafe fn message(
    byte: &mut u8,
    part: &mut MaybeUninit<libc::iovec>,
    control: &mut [u64; CONTROL / 8],
) -> libc::msghdr {
    let part = part.write(libc::iovec {
        iov_base: (&raw mut *byte).cast(),
        iov_len: 1,
    });
    // SAFETY: a structure of plain fields, of which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL;
    message
}

/// Sends a byte and descriptors.
fn send(socket: c_int, mut byte: u8, descriptors: &[c_int]) -> Result<(), Errno> {
    let mut part = MaybeUninit::uninit();
    let mut control = [0; CONTROL / 8];
    let bytes = size_of_val(descriptors);
    // SAFETY: structures of ours; the control part has room for all descriptors.
    unsafe {
        let mut message = message(&mut byte, &mut part, &mut control);
        message.msg_controllen = libc::CMSG_SPACE(bytes as u32) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes as u32) as usize;
        let room = libc::CMSG_DATA(header).cast::<c_int>();
        std::ptr::copy_nonoverlapping(descriptors.as_ptr(), room, descriptors.len());
        while libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL) < 0 {
            match Errno::last() {
                Errno(libc::EINTR) => {}
                error => return Err(error),
            }
        }
    }
    Ok(())
}

/// The status in the answer; [`KILLED`] if the sampler ended without one.
fn receive_status(pipe: &Fd) -> Result<c_int, Errno> {
    let mut status = [0u8];
    match file::read(pipe, &mut status)? {
        0 => Ok(KILLED),
        _ => Ok(status[0].into()),
    }
}

/// In the sampler: answers one request. Returns `false` if nobody has the other end any more.
pub fn answer(socket: c_int, renderer: &Renderer) -> bool {
    let mut byte = 0;
    let mut part = MaybeUninit::uninit();
    let mut control = [0; CONTROL / 8];
    let mut received = [-1; SENT];
    // SAFETY: structures of ours; of the descriptors received, as many are read as the header counts.
    unsafe {
        let mut message = message(&mut byte, &mut part, &mut control);
        match libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC) {
            0 => return false,
            1 => {}
            _ => return Errno::last() == Errno(libc::EINTR),
        }
        let header = libc::CMSG_FIRSTHDR(&message);
        if !header.is_null() {
            let bytes = (*header)
                .cmsg_len
                .saturating_sub(libc::CMSG_LEN(0) as usize);
            let count = (bytes / size_of::<c_int>()).min(SENT);
            let data = libc::CMSG_DATA(header).cast::<c_int>();
            std::ptr::copy_nonoverlapping(data, received.as_mut_ptr(), count);
        }
        let [report, page, answer, errors] = received;
        let status = run(renderer, c"-", byte != 0, [report, page, errors]) as u8;
        libc::write(answer, (&raw const status).cast(), 1);
        for descriptor in received.into_iter().filter(|&descriptor| descriptor >= 0) {
            libc::close(descriptor);
        }
    }
    true
}

/// In the sampler: makes the page of a host that was killed, from its last counters. Returns `None` if there is none.
pub fn make_of_killed(renderer: &Renderer) -> Option<()> {
    let mut place = PathBuffer::of(renderer.page.as_ref()?.to_bytes())?;
    let target = output::look(&mut place).ok()?;
    if !matches!(target, Target::New | Target::Old) {
        return None;
    }
    let record = own::addresses();
    // SAFETY: the shared pages of card and ledger; the descriptors are closed with the process, which ends.
    unsafe {
        let memory = libc::memfd_create(c"pyhost-record".as_ptr(), libc::MFD_CLOEXEC);
        if libc::write(memory, record.start as *const c_void, record.len()) != record.len() as isize
        {
            return None;
        }
        let draft = Draft::begin(&place, target, 0).ok()?;
        let streams = [memory, draft.descriptor(), -1];
        if run(renderer, c"/proc/self/fd/0", true, streams) != 0 {
            draft.discard();
            return None;
        }
        draft.finish().ok()?;
    }
    renderer.remove_timeline();
    Some(())
}

/// Runs the program on a report with three descriptors and waits for it; its exit status.
///
/// # Safety
/// In the sampler alone.
unsafe fn run(renderer: &Renderer, report: &CStr, is_sampled: bool, streams: [c_int; 3]) -> c_int {
    // SAFETY: the sampler has one thread; its copy runs the program alone.
    unsafe {
        match make_process(libc::SIGCHLD) {
            -1 => NOT_STARTED,
            0 => become_program(renderer, report, is_sampled, streams),
            program => {
                let mut status = 0;
                while libc::waitpid(program as libc::pid_t, &mut status, 0) < 0 {
                    if Errno::last() != Errno(libc::EINTR) {
                        return NOT_STARTED;
                    }
                }
                match libc::WIFEXITED(status) {
                    true => libc::WEXITSTATUS(status),
                    false => KILLED,
                }
            }
        }
    }
}

/// Becomes the program, with an empty environment: nothing that the script has set reaches it.
///
/// # Safety
/// In a process of the sampler's alone.
unsafe fn become_program(
    renderer: &Renderer,
    report: &CStr,
    is_sampled: bool,
    streams: [c_int; 3],
) -> ! {
    let mut arguments: [*const c_char; 8] = [null(); 8];
    for (place, word) in arguments
        .iter_mut()
        .zip([c"pyhostctl", c"html", report, c"-o", c"-"])
    {
        *place = word.as_ptr();
    }
    // SAFETY: paths that end with a zero byte; descriptors and dispositions are this process's own.
    unsafe {
        let timeline = renderer.timeline.as_ref().filter(|_| is_sampled);
        let is_readable = |path: &&CString| libc::access(path.as_ptr(), libc::R_OK) == 0;
        if let Some(path) = timeline.filter(is_readable) {
            arguments[5] = c"--timeline".as_ptr();
            arguments[6] = path.as_ptr();
        }
        // A file that may not grow is an error that the program tells, not a signal that ends it.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        // Out of the way of the three first.
        let streams = streams.map(|stream| libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3));
        for (number, stream) in (0..).zip(streams) {
            libc::dup2(stream, number);
        }
        close_range(3, c_int::MAX);
        let environment: [*const c_char; 1] = [null()];
        libc::syscall(
            libc::SYS_execve,
            renderer.program.as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
        );
        loop {
            libc::syscall(libc::SYS_exit_group, NOT_STARTED as c_long);
        }
    }
}
