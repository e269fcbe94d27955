//! `--at-exhausted`: a command of the user's. It is started once in a process, at the first refusal of a cap that has a dossier, which it
//! gets as JSON on its standard input.
//!
//! It is no child of this process, so that the script does not wait for it: a copy of the process starts it, and ends. Nothing is allocated
//! or locked, as memory is short and the thread that asked is inside the allocator.

use crate::descriptor::{Descriptor, notice};
use crate::observe::pyhostctl_process;
use crate::{errno::Errno, process, process::Watched};
use pyhost_os::{clock, file, file::Fd, system_call::run_in_copy};
use pyhost_record::json::Json;
use std::ffi::{CStr, CString, OsString, c_int};
use std::os::{fd::AsRawFd, unix::ffi::OsStringExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

/// How long after the command's start the process's end waits for it, in nanoseconds. Later another process may have its number.
const PATIENCE: u64 = 10_000_000_000;
const SHELL: &CStr = c"/bin/sh";

pyhost_os::state! {
    static STATE: AtExhausted {
        command: OnceLock<Command> = OnceLock::new(),
        /// The command's process; 0 before it has started, -1 once nobody waits for it.
        process: AtomicI32 = AtomicI32::new(0),
        /// When it started, in nanoseconds.
        begun: AtomicU64 = AtomicU64::new(0),
    }
}

struct Command {
    text: CString,
    /// The addresses of the variables as they were at the start, without the host's own, and a zero.
    environment: Vec<usize>,
}

/// Keeps the command. At the start: the script may change the environment.
pub fn plan(command: Option<OsString>) {
    let Some(Ok(text)) = command.map(|text| CString::new(text.into_vec())) else {
        return;
    };
    if let Err(error) = file::access(SHELL, libc::X_OK) {
        notice(format_args!(
            "--at-exhausted: /bin/sh cannot be run ({error}); no command will be started"
        ));
    }
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let is_hosts = name.to_string_lossy().starts_with("PYHOST_");
        let text = [name.into_vec(), value.into_vec()].join(&b'=');
        CString::new(text).ok().filter(|_| !is_hosts)
    });
    let addresses = variables.map(|text| text.into_raw().expose_provenance());
    let environment = addresses.chain([0]).collect();
    let _ = STATE.command.set(Command { text, environment });
}

/// Starts the command, which gets what `describe` says; a line tells if it cannot be started. Any thread, also inside the allocator.
pub fn start(describe: impl FnOnce(&mut Json<'_, Descriptor>)) {
    let process = &STATE.process;
    let is_first = || process.compare_exchange(0, -1, Relaxed, Relaxed).is_ok();
    let Some(command) = STATE.command.get().filter(|_| is_first()) else {
        return;
    };
    STATE.begun.store(clock::monotonic(), Relaxed);
    match started(command, describe) {
        Ok(started) => process.store(started, Relaxed),
        Err(error) => notice(format_args!(
            "--at-exhausted: the command cannot be started ({error})"
        )),
    }
}

fn started(
    command: &Command,
    describe: impl FnOnce(&mut Json<'_, Descriptor>),
) -> Result<c_int, Errno> {
    let memory = Fd::in_memory(c"pyhost-refusal")?;
    let mut out = Descriptor::new(memory.as_raw_fd());
    let mut json = Json::new(&mut out);
    describe(&mut json);
    json.finish();
    out.finish()?;
    file::rewind(&memory);
    let streams = [memory.as_raw_fd(), libc::STDERR_FILENO, libc::STDERR_FILENO];
    let (answer, answers) = file::pipe()?;
    let copy = run_in_copy(libc::SIGCHLD, || {
        let words = [c"sh", c"-c", &command.text];
        let process = pyhostctl_process::start(SHELL, &words, &command.environment, streams, 0);
        let _ = file::write(&answers, &process.unwrap_or(-Errno::last().0).to_ne_bytes());
    });
    let copy = copy.ok_or_else(Errno::last)?;
    drop(answers);
    let mut process = [0; 4];
    let length = file::read(&answer, &mut process)?;
    process::wait_for(copy, 0);
    match c_int::from_ne_bytes(process) {
        process if length == 4 && process > 0 => Ok(process),
        error => Err(Errno(-error)),
    }
}

/// Waits for the command's end, as long as [`PATIENCE`] says: with the first process of a container everything ends. Any thread, also
/// from a signal handler.
pub fn wait() {
    let started = STATE.process.swap(-1, Relaxed);
    let since = clock::monotonic() - STATE.begun.load(Relaxed);
    if started <= 0 || since >= PATIENCE {
        return;
    }
    let process = Watched::of(started);
    if !clock::wait_until(PATIENCE - since, 5_000_000, || process.has_ended()) {
        notice(format_args!(
            "--at-exhausted: the command, process {started}, runs for 10 s; it is left alone"
        ));
    }
}

/// In a child of a fork: the command was its parent's.
pub fn forked() {
    STATE.process.store(0, Relaxed);
}
