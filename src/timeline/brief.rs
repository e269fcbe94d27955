//! `--stats-brief`: a text of at most 4 KiB that tells how the process stands, for a container's
//! termination log.
//!
//! The sampler rewrites it at each new peak worth telling and at refusals, the host at a refusal
//! whose story it tells and at its end, the sampler again where the host was killed. It is rewritten in
//! place, in one call: an orchestrator binds its log there as a file. Nothing here allocates but
//! [`start`].

#![allow(unsafe_code)]

use crate::bytes::Bytes;
use crate::card::{CARD, State};
use crate::descriptor::{format_into, out_of_the_way};
use crate::ledger::{LEDGER, Scope, Snapshot};
use pyhost_shared::describe::signal_name;
use pyhost_shared::moment;
use std::ffi::c_int;
use std::fmt::{self, Display};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::IntoRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU64};

/// Bytes of the file at most.
const ROOM: usize = 4096;
/// A peak is worth telling once it has grown by a sixteenth, or by so many bytes.
const WORTH: u64 = 16 << 20;

static FILE: AtomicI32 = AtomicI32::new(-1);
static COMMAND: OnceLock<String> = OnceLock::new();
static TOLD_PEAK: AtomicU64 = AtomicU64::new(0);
static TOLD_REFUSED: AtomicU64 = AtomicU64::new(0);

/// Opens the file. While the process has one thread.
///
/// # Errors
/// The system's.
pub fn start(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let _ = COMMAND.set(CARD.command());
    FILE.store(out_of_the_way(file.into_raw_fd()), Relaxed);
    write(&LEDGER.snapshot());
    Ok(())
}

/// The descriptor; -1 for none.
pub fn descriptor() -> c_int {
    FILE.load(Relaxed)
}

/// Rewrites the file where there is news: in the sampler.
pub fn tell_progress(snapshot: &Snapshot) {
    let told = TOLD_PEAK.load(Relaxed);
    let peak = snapshot.total_peak_bytes;
    let refused = snapshot.refused();
    if peak > told + (told / 16).min(WORTH) || refused != TOLD_REFUSED.load(Relaxed) {
        TOLD_PEAK.store(peak, Relaxed);
        TOLD_REFUSED.store(refused, Relaxed);
        write(snapshot);
    }
}

/// Rewrites the file at a refusal or the end; at the end with what was live when the script `left` it.
/// Any thread, also from a signal handler.
pub fn tell_end(left: Option<&Snapshot>) {
    let now = LEDGER.snapshot();
    write(&left.map_or(now, |left| now.with_live_of(left)));
}

/// In a forked child: the file is its parent's.
pub fn leave_to_parent() {
    let file = FILE.swap(-1, Relaxed);
    if file >= 0 {
        // SAFETY: the child's copy of a descriptor of ours.
        unsafe { libc::close(file) };
    }
}

fn write(snapshot: &Snapshot) {
    let file = descriptor();
    if file < 0 {
        return;
    }
    let mut room = [0; ROOM];
    let text = format_into(&mut room, format_args!("{}", Brief(snapshot)));
    // SAFETY: a descriptor of ours and a buffer of ours.
    unsafe {
        libc::pwrite(file, text.as_ptr().cast(), text.len(), 0);
        libc::ftruncate(file, text.len() as libc::off_t);
    }
}

/// The text.
struct Brief<'a>(&'a Snapshot);

impl Display for Brief<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.0;
        let pid = CARD.pid.load(Relaxed);
        let command = COMMAND.get().map_or("", String::as_str);
        let started = CARD.started.load(Relaxed);
        let (state, status) = CARD.state();
        let until = match CARD.ended() {
            0 => moment::now(),
            ended => ended,
        };
        let seconds = until.saturating_sub(started) as f64 / 1e9;
        write!(out, "pyhost: process {pid} ({command}), {seconds:.1} s: ")?;
        match state {
            State::Running => writeln!(out, "running or killed")?,
            State::Exec => writeln!(out, "became another program")?,
            State::Exited => writeln!(out, "exit status {status}")?,
            State::Signalled => writeln!(out, "ended by {}", signal_name(status))?,
        }
        writeln!(
            out,
            "live {}, peak {}",
            Bytes(snapshot.total_live_bytes),
            Bytes(snapshot.total_peak_bytes)
        )?;
        for (account, figures) in snapshot.accounts() {
            if figures.total_blocks > 0 {
                writeln!(
                    out,
                    "{}: live {}, peak {}, {} refused, {} failed",
                    account.name(),
                    Bytes(figures.live_bytes),
                    Bytes(figures.peak_bytes),
                    figures.refused,
                    figures.failed
                )?;
            }
        }
        for scope in Scope::all() {
            if let Some(cap) = LEDGER.cap(scope) {
                writeln!(out, "cap of {} ({})", Bytes(cap), scope.name())?;
            }
        }
        let mut room = [0; 512];
        if let Some(text) = CARD.refusal_into(&mut room) {
            writeln!(out, "last refusal: {text}")?;
        }
        Ok(())
    }
}
