//! Runs `pyhostctl`, which does for the host what need not happen inside the process: it lies beside the host.
//!
//! A process is made past the host's own functions, which would count it as the script's. Nothing is allocated or locked
//! but by [`find`].

#![allow(unsafe_code)]

use crate::errno::{Errno, errno};
use crate::{libc_exports::preload, process};
use pyhost_os::system_call::{copy_process, run_in_copy, system_call};
use pyhost_os::{calls::waitpid, clock::wait_until, file, mapping::FromZeros, signals::SignalSet};
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

pub const NAME: &CStr = c"pyhostctl";

/// The status of a process that cannot become the program.
pub const NOT_STARTED: c_int = 125;

/// Finds the program: beside the host's own command, else in `PATH`, unless the start is privileged. `None` if it is in
/// neither place. At the start: the script may change both.
pub fn find() -> Option<CString> {
    let beside = preload::commands().or_else(|| Some(process::executable()?.parent()?.to_owned()));
    let path = match process::is_privileged_start() {
        true => None,
        false => std::env::var_os("PATH"),
    };
    let folders = path.iter().flat_map(std::env::split_paths);
    beside
        .into_iter()
        .chain(folders.filter(|folder| folder.is_absolute()))
        .map(|folder| folder.join(NAME.to_string_lossy().as_ref()))
        .find_map(executable)
}

/// The path as the system takes it, if it is a file that the user may run.
fn executable(path: PathBuf) -> Option<CString> {
    let path = CString::new(path.into_os_string().into_encoded_bytes()).ok()?;
    file::is_executable(&path).then_some(path)
}

/// Whether the system gives orphans to this process: it is the first of its pid namespace, or a reaper (prctl(2)).
fn is_reaper() -> bool {
    let mut is_subreaper: c_int = 0;
    // SAFETY: the call writes the number.
    unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) };
    process::id() == 1 || is_subreaper != 0
}

/// A copy of this process that never returns to the host's code: it has one thread, and its memory, descriptors and
/// dispositions are its own.
pub struct Detached(());

impl Detached {
    /// Closes all descriptors but these, of which those below 0 are none.
    pub fn close_but(&self, kept: &mut [c_int]) {
        kept.sort_unstable();
        let mut first = 0;
        let kept = kept.iter().filter(|&&kept| kept >= 0);
        for &end in kept.chain([&c_int::MAX]) {
            let range = [first as usize, (end - 1) as usize, 0];
            // SAFETY: the copy's own; what it still has of them in values is only a number that is not open.
            unsafe {
                if first < end && system_call(libc::SYS_close_range, range) != 0 {
                    // Before Linux 5.9.
                    for descriptor in first..end.min(1 << 16) {
                        libc::close(descriptor);
                    }
                }
            }
            first = end.saturating_add(1);
        }
    }
}

/// Copies this process, which has one thread, and runs `run` in the copy. Returns the copy's id, or `None`, with the reason
/// as `errno`. The copy is not a child of this process: a process between the two makes it, stores its id in `place`,
/// which both share, and ends. In a reaper ([`is_reaper`]) the copy is a child that sends no signal at its end.
pub fn detach(place: &AtomicI32, run: impl FnOnce(&Detached)) -> Option<libc::pid_t> {
    let mut is_alone = !process::has_several_threads();
    process::each_other_thread(|_| is_alone = false);
    if !is_alone {
        Errno(libc::EINVAL).set();
        return None;
    }
    // SAFETY: this process has one thread, so nothing was left half-done by another one.
    match unsafe { copy_to_nobody(place) } {
        Some(0) => {
            run(&Detached(()));
            process::end_now(0)
        }
        copy => copy,
    }
}

/// As [`copy_process`], to nobody as [`detach`] says.
///
/// # Safety
/// As of [`copy_process`], and this process has one thread.
unsafe fn copy_to_nobody(place: &AtomicI32) -> Option<libc::pid_t> {
    // SAFETY: the caller's duties. The structures are this function's, and the disposition becomes what it was, in all three.
    unsafe {
        if is_reaper() {
            return copy_process(0);
        }
        // A child that is waited for counts in RUSAGE_CHILDREN, which the script sees; one whose signal is ignored does not.
        // The program before this one may have left children, whose ends must not get lost.
        let mut found: libc::siginfo_t = std::mem::zeroed();
        let of_any = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        let is_alone = libc::waitid(libc::P_ALL, 0, &mut found, of_any) != 0;
        let mut before = libc::sigaction::zeroed();
        libc::sigaction(libc::SIGCHLD, null(), &mut before);
        let mut during = before;
        if is_alone {
            during.sa_sigaction = libc::SIG_IGN;
        }
        libc::sigaction(libc::SIGCHLD, &during, null_mut());
        let between = copy_process(libc::SIGCHLD);
        if let Some(child) = between.filter(|&child| child > 0) {
            process::wait_for(child, libc::__WALL);
        }
        libc::sigaction(libc::SIGCHLD, &before, null_mut());
        if between == Some(0) {
            match copy_process(0) {
                Some(0) => return Some(0),
                copy => place.store(copy.unwrap_or(-errno()), Relaxed),
            }
            process::end_now(0);
        }
        between?;
    }
    match place.load(Relaxed) {
        copy @ 1.. => Some(copy),
        error => {
            Errno(-error).set();
            None
        }
    }
}

/// Waits for a copy of this process, and ends it after so many nanoseconds. Its exit status, or `None` if it had to be ended,
/// or a signal did.
pub fn wait(copy: libc::pid_t, patience: u64) -> Option<c_int> {
    let (mut ended, mut status) = (0, 0);
    let has_ended = || {
        // The copy sends no signal at its end, so that nobody else waits for it.
        ended = waitpid(copy, Some(&mut status), libc::__WALL | libc::WNOHANG);
        ended != 0
    };
    if !wait_until(patience, 1_000_000, has_ended) {
        process::signal(copy, libc::SIGKILL);
        waitpid(copy, None, libc::__WALL);
    }
    (ended == copy && libc::WIFEXITED(status)).then(|| libc::WEXITSTATUS(status))
}

/// Runs the program in a copy of this process, which sends it `signal` at its end, or none for 0. Returns the copy's id, or
/// `None` if the system refuses. It has at most seven arguments, three descriptors, of which the last may be none, and the variables at
/// these addresses up to a zero: nothing that the script has set reaches it.
pub fn start(
    program: &CStr,
    arguments: &[&CStr],
    environment: &[usize],
    streams: [c_int; 3],
    signal: c_int,
) -> Option<libc::pid_t> {
    let mut list: [*const c_char; 8] = [null(); 8];
    for (place, argument) in list[..7].iter_mut().zip(arguments) {
        *place = argument.as_ptr();
    }
    run_in_copy(signal, || {
        become_program(&Detached(()), program, &list, environment, streams)
    })
}

fn become_program(
    own: &Detached,
    program: &CStr,
    arguments: &[*const c_char; 8],
    environment: &[usize],
    streams: [c_int; 3],
) -> ! {
    // SAFETY: descriptors and dispositions of the copy's own; texts in lists that end with null, as `start` makes them.
    unsafe {
        // A file that may not grow is an error that the program tells, not a signal that ends it.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        SignalSet::of(&[]).make_mask();
        // Out of the way of the three first.
        let streams = streams.map(|stream| libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 3));
        // No number is free: the program would read and write what the script has at its own.
        if streams[..2].iter().any(|&stream| stream < 0) {
            process::end_now(NOT_STARTED);
        }
        for (number, stream) in (0..).zip(streams) {
            libc::dup2(stream, number);
        }
        own.close_but(&mut [0, 1, 2]);
        let (arguments, environment) = (arguments.as_ptr(), environment.as_ptr());
        libc::syscall(libc::SYS_execve, program.as_ptr(), arguments, environment);
    }
    process::end_now(NOT_STARTED)
}
