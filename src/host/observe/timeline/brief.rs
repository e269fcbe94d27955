//! `--brief`: a text of at most 4 KiB on the state of the process, for a container's termination log.
//!
//! The sampler rewrites it at each new peak worth telling and at refusals, the host at a refusal whose story it tells
//! and at its end, the sampler again if the host was killed. It is rewritten in place, in one call: an orchestrator
//! binds its log there as a file. Into a device, a FIFO or an open descriptor it is written once, at the end. A forked
//! child has its own if the file's name holds `%p`. Nothing here allocates but [`start`].

use super::trouble::{self, Output};
use crate::descriptor::{Descriptor, format_into, notice, out_of_the_way, quietly};
use crate::ledger::{HEADER, LEDGER, Scope, Snapshot};
use crate::output::{self, OutputError, Target};
use crate::path_template::{PathBuffer, names_process};
use crate::{bytes::Bytes, errno::Errno, header::ProcessState, process};
use pyhost_os::file::{self, Fd, FdPlace};
use pyhost_os::{signals::signal_name, terminal_text::whole_letters};
use std::fmt::{self, Display, Write};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::{ffi::c_int, os::fd::AsRawFd, sync::OnceLock};

/// Bytes of the file at most.
const ROOM: usize = 4096;
/// A peak is worth telling once it has grown by a sixteenth, or by so many bytes.
const WORTH: u64 = 16 << 20;

/// No descriptor: there is no file, or it is opened at the end.
const NONE: c_int = -1;

pyhost_os::state! {
    static STATE: BriefFile {
        file: FdPlace = FdPlace::new(),
        template: OnceLock<Vec<u8>> = OnceLock::new(),
        command: OnceLock<String> = OnceLock::new(),
        written_peak: AtomicU64 = AtomicU64::new(0),
        written_refused: AtomicU64 = AtomicU64::new(0),
        /// Output that this process writes only at its end, or never.
        later: AtomicU8 = AtomicU8::new(NEVER),
    }
}

/// Nothing is opened at the end.
const NEVER: u8 = 0;
/// A device, a FIFO or a descriptor.
const AS_STREAM: u8 = 1;
/// The file of a forked child.
const AS_FILE: u8 = 2;

/// Opens the file at the `path` of a template. If it cannot be written nothing is left of it. While the process has one thread.
pub fn start(template: &[u8], path: &PathBuffer, target: Target) -> Result<(), Errno> {
    let _ = STATE.command.set(HEADER.command());
    let _ = STATE.template.set(template.to_vec());
    match target {
        Target::New | Target::Old => {
            STATE.file.put(out_of_the_way(open(path, target)?));
            if let Err(error) = write(&LEDGER.snapshot()) {
                drop(STATE.file.take());
                if target == Target::New {
                    let _ = file::unlink(path.as_c_str());
                }
                return Err(error);
            }
        }
        Target::Stream => STATE.later.store(AS_STREAM, Relaxed),
        Target::Descriptor(own) => {
            STATE.file.put(out_of_the_way(Fd::copy(&own, 3)?));
            STATE.later.store(AS_STREAM, Relaxed);
        }
    }
    Ok(())
}

fn open(path: &PathBuffer, target: Target) -> Result<Fd, Errno> {
    let new = match target {
        Target::New => libc::O_CREAT | libc::O_EXCL,
        _ => 0,
    };
    Fd::open(path.as_c_str(), libc::O_WRONLY | libc::O_NOFOLLOW | new)
}

/// The descriptor; -1 for none.
pub fn descriptor() -> c_int {
    STATE.file.as_raw_fd()
}

/// Rewrites the file if there is news: in the sampler.
pub fn write_progress(snapshot: &Snapshot) {
    let written = STATE.written_peak.load(Relaxed);
    let peak = snapshot.total_peak_bytes;
    let refused = snapshot.refused();
    if peak > written + (written / 16).min(WORTH) || refused != STATE.written_refused.load(Relaxed)
    {
        STATE.written_peak.store(peak, Relaxed);
        STATE.written_refused.store(refused, Relaxed);
        if STATE.later.load(Relaxed) == NEVER {
            write_and_remember(snapshot);
        }
    }
}

/// Rewrites the file at a refusal. Any thread.
pub fn write_refusal() {
    if STATE.later.load(Relaxed) == NEVER {
        write_and_remember(&LEDGER.snapshot());
    }
}

/// Writes the last text, with what was live when the script `left` it. Any thread, also from a signal handler.
pub fn write_end(left: Option<&Snapshot>) {
    let later = STATE.later.load(Relaxed);
    if later == AS_FILE && HEADER.state().0 == ProcessState::Exec {
        return; // of a forked child that has become another program
    }
    if later != NEVER && descriptor() == NONE {
        match open_now() {
            Ok(file) => STATE.file.put(file),
            Err(OutputError::System(error)) => trouble::remember(Output::Brief, error),
            Err(refusal) => notice(format_args!("--brief: the file {refusal}")),
        }
    }
    if descriptor() != NONE {
        let now = LEDGER.snapshot();
        write_and_remember(&left.map_or(now, |left| now.with_live_of(left)));
    }
}

#[inline(never)] // for the caller's stack
fn open_now() -> Result<Fd, OutputError> {
    let template = STATE.template.get().map_or(&[][..], Vec::as_slice);
    let path = PathBuffer::expand(template, process::id(), b"");
    let mut path = path.ok_or(OutputError::TooLong)?;
    let target = output::look(&mut path)?;
    match target {
        Target::Stream => output::open_stream(path.as_c_str()),
        Target::Descriptor(own) => Fd::copy(&own, 3),
        _ => open(&path, target),
    }
    .map_err(OutputError::System)
}

/// In a forked child: the file is its parent's. It has one of its own at its end if the name holds `%p`.
pub fn leave_to_parent() {
    drop(STATE.file.take());
    let template = STATE.template.get();
    let has_own = template.is_some_and(|template| names_process(template));
    let later = if has_own { AS_FILE } else { NEVER };
    STATE.later.store(later, Relaxed);
}

fn write_and_remember(snapshot: &Snapshot) {
    if let Err(error) = write(snapshot) {
        trouble::remember(Output::Brief, error);
    }
}

#[inline(never)] // for the caller's stack
fn write(snapshot: &Snapshot) -> Result<(), Errno> {
    let file = descriptor();
    if file < 0 {
        return Ok(());
    }
    let mut room = [0; ROOM];
    let text = format_into(&mut room, format_args!("{}", Brief(snapshot)));
    if STATE.later.load(Relaxed) == AS_STREAM {
        let mut out = Descriptor::new(file);
        let _ = out.write_str(whole_letters(text));
        return out.finish().map(drop);
    }
    quietly(|| {
        let written = match file::write_at(&file, text, 0) {
            Ok(written) if written < text.len() => Err(Errno(libc::ENOSPC)),
            written => written,
        };
        // Half a text would say what is not so.
        let _ = file::truncate(&file, written.unwrap_or(0) as u64);
        written.map(drop)
    })
}

struct Brief<'a>(&'a Snapshot);

impl Display for Brief<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.0;
        let pid = HEADER.pid.load(Relaxed);
        let command = STATE.command.get().map_or("", String::as_str);
        let (state, status) = HEADER.state();
        let seconds = HEADER.lasted(true).unwrap_or(0) as f64 / 1e9;
        write!(out, "pyhost: process {pid} ({command}), {seconds:.1} s: ")?;
        match state {
            ProcessState::Running => writeln!(out, "running or killed")?,
            ProcessState::Exec => writeln!(out, "became another program")?,
            ProcessState::Exited | ProcessState::Exhausted => {
                writeln!(out, "exit status {status}")?
            }
            ProcessState::Signalled => writeln!(out, "ended by {}", signal_name(status))?,
        }
        let [live, peak] = [snapshot.total_live_bytes, snapshot.total_peak_bytes].map(Bytes);
        writeln!(out, "live {live}, peak {peak}")?;
        for (account, figures) in snapshot.accounts() {
            if figures.total_blocks > 0 {
                let [live, peak] = [figures.live_bytes, figures.peak_bytes].map(Bytes);
                let (name, refused, failed) = (account.name(), figures.refused, figures.failed);
                write!(out, "{name}: live {live}, peak {peak}, ")?;
                writeln!(out, "{refused} refused, {failed} failed")?;
            }
        }
        for scope in Scope::all() {
            if let Some(cap) = LEDGER.cap(scope) {
                writeln!(out, "cap of {} ({})", Bytes(cap), scope.name())?;
            }
        }
        let mut room = [0; 512];
        if let Some(text) = HEADER.refusal_into(&mut room) {
            writeln!(out, "last refusal: {text}")?;
        }
        Ok(())
    }
}
