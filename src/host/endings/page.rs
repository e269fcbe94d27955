//! `--stats=html`: has `pyhostctl` make the page of a report, and waits for it.
//!
//! The report goes as JSON into a file that lies in memory, the program reads it from its standard
//! input and writes the page to its standard output, a file that the caller has opened. Like all
//! endings this may run in any thread and inside a signal handler: it allocates nothing and takes
//! no lock.
//!
//! The script must not notice. So this process starts a helper, which has no signal at its end and which
//! `waitpid` without `__WALL` does not see; the helper starts the program, and SIGCHLD is the helper's.
//! Both share this process's memory until the program has begun, as after `vfork`, and each has a
//! stack of its own, since a function that returns twice cannot be called from here. The program
//! gets an empty environment: nothing that the script has set, no `LD_PRELOAD`, reaches it.

#![allow(unsafe_code)]

use super::{PLAN, Report};
use crate::descriptor::{Descriptor, close_range, errno};
use crate::errno::Errno;
use crate::native::next::{self, call};
use crate::output::{self, Target};
use crate::report::{Ending, Json, Page};
use crate::template::PathBuffer;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// Bytes of each stack: room for the dynamic linker, which may look up a function there.
const STACK: usize = 64 * 1024;

/// What the helper answers where it could not start the program, beside the program's own status.
const NOT_STARTED: c_int = 125;
/// What `pyhostctl` answers where it has said on standard error what is wrong.
const HAS_TOLD: c_int = 1;

/// Why there is no page.
pub enum Unmade {
    /// What failed, and the system's reason where there is one.
    Because(&'static str, Option<Errno>),
    /// The program has said why.
    Told,
}

/// What the helper and the program's process need; in the caller's memory.
struct Order {
    program: *const c_char,
    arguments: [*const c_char; 6],
    report: c_int,
    page: c_int,
    /// The upper end of the program's stack until it has begun.
    stack: *mut c_void,
}

/// How the page is made, where one is planned, and the process that the host started as.
fn planned() -> Option<(&'static Page, libc::pid_t)> {
    let plan = PLAN.get()?;
    Some((plan.stats.as_ref()?.page.as_ref()?, plan.pid))
}

/// Whether to say where the page is.
pub fn is_told() -> bool {
    planned().is_some_and(|(page, _)| page.is_told)
}

/// Makes the page of a report in an open file.
///
/// # Errors
/// There is no page: why.
pub fn write(report: &Report<'_>, file: c_int) -> Result<(), Unmade> {
    let Some((page, pid)) = planned() else {
        return Err(Unmade::Because("pyhostctl was not looked for", None));
    };
    // SAFETY: the descriptors are this function's own, but for `file`, which the caller closes.
    unsafe {
        let memory = libc::memfd_create(c"pyhost-report".as_ptr(), libc::MFD_CLOEXEC);
        if memory < 0 {
            let error = Errno::last();
            return Err(Unmade::Because("no room for the report", Some(error)));
        }
        let made = write_from(report, page, report.pid == pid, memory, file);
        libc::close(memory);
        made
    }
}

/// # Safety
/// Two open descriptors.
unsafe fn write_from(
    report: &Report<'_>,
    page: &Page,
    is_sampled: bool,
    memory: c_int,
    file: c_int,
) -> Result<(), Unmade> {
    let mut out = Descriptor::new(memory);
    let mut json = Json::new(&mut out);
    report.describe(&mut json);
    json.finish();
    out.flush();
    if let Some(error) = out.error() {
        return Err(Unmade::Because("no room for the report", Some(error)));
    }
    let timeline = page.timeline.as_ref().filter(|_| is_sampled);
    // SAFETY: paths that end with a zero byte.
    let timeline = timeline.filter(|path| unsafe { libc::access(path.as_ptr(), libc::R_OK) } == 0);
    let mut arguments = [null(); 6];
    arguments[0] = c"pyhostctl".as_ptr();
    arguments[1] = c"html".as_ptr();
    arguments[2] = c"-".as_ptr();
    if let Some(path) = timeline {
        arguments[3] = c"--timeline".as_ptr();
        arguments[4] = path.as_ptr();
    }
    // SAFETY: open descriptors; what is made here is closed or given back here.
    let status = unsafe {
        libc::lseek(memory, 0, libc::SEEK_SET);
        // Out of the way of the three that the program begins with: a script may have closed its own.
        let above = |descriptor| libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3);
        let (from, to) = (above(memory), above(file));
        let stacks = libc::mmap(
            null_mut(),
            2 * STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK,
            -1,
            0,
        );
        let status = match from < 0 || to < 0 || stacks == libc::MAP_FAILED {
            true => Err(errno()),
            false => run(
                &mut Order {
                    program: page.program.as_ptr(),
                    arguments,
                    report: from,
                    page: to,
                    stack: stacks.byte_add(STACK),
                },
                stacks.byte_add(2 * STACK),
            ),
        };
        if stacks != libc::MAP_FAILED {
            libc::munmap(stacks, 2 * STACK);
        }
        for descriptor in [from, to] {
            libc::close(descriptor);
        }
        let is_over = report.ending != Ending::Running;
        if let Some(path) = timeline.filter(|_| page.is_timeline_its_own && is_over)
            && let Some(mut place) = PathBuffer::of(path.to_bytes())
            // The script may have put a file of its own there.
            && output::look(&mut place) == Ok(Target::Old)
        {
            libc::unlink(path.as_ptr());
        }
        status
    };
    match status {
        Ok(0) => Ok(()),
        Ok(HAS_TOLD) => Err(Unmade::Told),
        Ok(NOT_STARTED) => Err(Unmade::Because("pyhostctl cannot be started", None)),
        Ok(_) => Err(Unmade::Because("pyhostctl did not get to the end", None)),
        Err(error) => Err(Unmade::Because(
            "pyhostctl cannot be started",
            Some(Errno(error)),
        )),
    }
}

/// Starts the helper and waits for it; its exit status, or `errno`.
///
/// # Safety
/// The order's descriptors are open, its texts end with a zero byte, and both stacks are writable.
unsafe fn run(order: &mut Order, stack: *mut c_void) -> Result<c_int, i32> {
    // SAFETY: structures of ours. The helper shares this memory, and this thread stands still until
    // it has ended: what it is given outlives it. No signal reaches it, whose handler would run in
    // this process's memory.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK;
        let order: *mut Order = order;
        let helper = clone(help, stack, flags, order.cast());
        let error = errno();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        match helper {
            -1 => Err(error),
            helper => wait(helper, libc::__WALL),
        }
    }
}

/// `clone(2)` past the executable's own, which would count the process as the script's.
///
/// # Safety
/// As `clone(2)`.
unsafe fn clone(
    run: extern "C" fn(*mut c_void) -> c_int,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
) -> libc::pid_t {
    next::resolve();
    // SAFETY: the symbol has this type, but for arguments that the flags do not ask for.
    unsafe {
        call!(
            next::CLONE,
            fn(extern "C" fn(*mut c_void) -> c_int, *mut c_void, c_int, *mut c_void) -> libc::pid_t,
            (run, stack, flags, argument),
            -1
        )
    }
}

/// Waits for one process; its exit status, 128 where a signal ended it, or `errno`.
fn wait(pid: libc::pid_t, options: c_int) -> Result<c_int, i32> {
    let mut status = 0;
    loop {
        // SAFETY: a structure of ours.
        match unsafe { libc::waitpid(pid, &mut status, options) } {
            -1 if errno() == libc::EINTR => {}
            -1 => return Err(errno()),
            _ if libc::WIFEXITED(status) => return Ok(libc::WEXITSTATUS(status)),
            _ => return Ok(128),
        }
    }
}

/// The helper: starts the program and waits for it.
extern "C" fn help(order: *mut c_void) -> c_int {
    // SAFETY: `run` gives an order, which lives as long as the helper. The disposition is the helper's
    // own: it does not share the table. Its child begins on the other stack.
    unsafe {
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        next::sigaction(libc::SIGCHLD, &default, null_mut());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let stack = (*order.cast::<Order>()).stack;
        match clone(become_program, stack, flags, order) {
            -1 => NOT_STARTED,
            program => wait(program, 0).unwrap_or(NOT_STARTED),
        }
    }
}

/// Becomes the program, with its three descriptors and no others.
extern "C" fn become_program(order: *mut c_void) -> c_int {
    // SAFETY: as in `help`. Descriptors and dispositions are this process's own copies; `execve` is
    // called past the exported one, which would write a report.
    unsafe {
        let order = &*order.cast::<Order>();
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            let mut found: libc::sigaction = std::mem::zeroed();
            next::sigaction(signal, null(), &mut found);
            // A handler would run in the host's memory. What is ignored stays so.
            if found.sa_sigaction != libc::SIG_IGN {
                next::sigaction(signal, &default, null_mut());
            }
        }
        // A file that may not grow is an error that the program tells, not a signal that ends it.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, null_mut());
        if libc::dup2(order.report, libc::STDIN_FILENO) < 0
            || libc::dup2(order.page, libc::STDOUT_FILENO) < 0
        {
            return NOT_STARTED;
        }
        close_range(3, c_int::MAX);
        let environment: [*const c_char; 1] = [null()];
        libc::syscall(
            libc::SYS_execve,
            order.program,
            order.arguments.as_ptr(),
            environment.as_ptr(),
        );
    }
    NOT_STARTED
}
