//! `--recycle-at`: a worker that keeps too much asks its master for another in its place, between two requests.
//!
//! A server's main thread waits for work in one place. Of its last waits, those have the fewest calls of Python around them: a
//! request or a task that waits itself does so further in. If more than the size is live at such a wait, garbage is collected at the next
//! safe point. If as much is live at a later one, the process sends itself the signal, and the wait ends with `EINTR`, so that CPython runs
//! the handler at once. This happens once in a process; and not if most of the size was live at every wait, since the next worker
//! would begin with as much.
//!
//! The state is the main thread's. A forked child begins anew.

use crate::bytes::Bytes;
use crate::cpython::functions::add_pending_call;
use crate::cpython::objects::{Gil, Raised};
use crate::cpython::{frames, threads};
use crate::{descriptor::notice, heap, ledger::Scope, limit::caps, process};
use pyhost_os::{calls, clock, signals::signal_name};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicU64};
use std::{ffi::c_int, sync::OnceLock};

/// The signal by which a process asks to be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum RecycleSignal {
    #[default]
    Term = libc::SIGTERM,
    Int = libc::SIGINT,
    Quit = libc::SIGQUIT,
    Hup = libc::SIGHUP,
    Usr1 = libc::SIGUSR1,
    Usr2 = libc::SIGUSR2,
}

pyhost_os::named!(RecycleSignal: "TERM" Term, "INT" Int, "QUIT" Quit, "HUP" Hup, "USR1" Usr1, "USR2" Usr2);

/// The live bytes from which on a process asks to be replaced, and how.
#[derive(Clone, Copy, Debug)]
pub struct RecycleSettings {
    pub bytes: u64,
    pub signal: RecycleSignal,
}

/// Waits of which the outermost are those for work: this many, and as many before them.
const WAITS: u32 = 1000;
/// Nanoseconds from one collection of garbage to the next.
const PAUSE: u64 = 1_000_000_000;
/// Fewer bytes than the size were live at the last wait.
const BELOW: u8 = 0;
/// Garbage is to be collected, or was.
const COLLECTING: u8 = 1;
const COLLECTED: u8 = 2;
/// The signal was sent, or never will be.
const DONE: u8 = 3;

pyhost_os::state! {
    static STATE: Recycling {
        /// The settings, and the function that shows which lines have most.
        settings: OnceLock<(RecycleSettings, fn())> = OnceLock::new(),
        stage: AtomicU8 = AtomicU8::new(BELOW),
        /// The fewest live bytes at a wait; `u64::MAX` before the first.
        least: AtomicU64 = AtomicU64::new(u64::MAX),
        collected_at: AtomicU64 = AtomicU64::new(0),
        waits: AtomicU32 = AtomicU32::new(0),
        /// The fewest calls around a wait, of the thousand before and of those now.
        depths: [AtomicI32; 2] = [const { AtomicI32::new(c_int::MAX) }; 2],
    }
}

/// Watches the process from now on, if its waits are seen. `show_lines` writes the lines that have most to stderr, without allocating.
pub fn start(settings: Option<RecycleSettings>, are_waits_seen: bool, show_lines: fn()) {
    if settings.is_some() && !are_waits_seen {
        notice(format_args!(
            "--recycle-at: waits are not seen by this Python, or with --malloc off; nothing is recycled"
        ));
    } else if let Some(settings) = settings {
        let _ = STATE.settings.set((settings, show_lines));
    }
}

pub fn forked() {
    STATE.stage.store(BELOW, Relaxed);
    STATE.least.store(u64::MAX, Relaxed);
    STATE.waits.store(0, Relaxed);
    for depth in &STATE.depths {
        depth.store(c_int::MAX, Relaxed);
    }
}

/// Whether the process may yet be recycled.
pub fn is_on() -> bool {
    STATE.settings.get().is_some() && STATE.stage.load(Relaxed) != DONE
}

/// Called before the calling thread waits. Returns true if the process was sent the signal: the wait ends with `EINTR`.
pub fn interrupts_wait() -> bool {
    let Some((settings, show_lines)) = STATE.settings.get() else {
        return false;
    };
    if !threads::is_main() || frames::is_finalizing() || !is_for_work() {
        return false;
    }
    let live = caps::live(Scope::Total);
    let least = STATE.least.fetch_min(live, Relaxed).min(live);
    if live < settings.bytes {
        STATE.stage.store(BELOW, Relaxed);
        return false;
    }
    let stage = STATE.stage.load(Relaxed);
    let is_due = || clock::monotonic() > STATE.collected_at.load(Relaxed) + PAUSE;
    if stage == BELOW && is_due() && add_pending_call(collect) {
        STATE.stage.store(COLLECTING, Relaxed);
    }
    if stage != COLLECTED {
        return false;
    }
    let (own, live, size) = (process::id(), Bytes(live), Bytes(settings.bytes));
    STATE.stage.store(DONE, Relaxed);
    if least > settings.bytes / 4 * 3 {
        let least = Bytes(least);
        notice(format_args!(
            "--recycle-at {size}: process {own} goes on with {live} live, since it never had less than {least}"
        ));
        return false;
    }
    let (signal, least) = (settings.signal as c_int, Bytes(least));
    notice(format_args!(
        "process {own} recycled by {}: {live} live while it waits for work, {least} at least, --recycle-at {size}",
        signal_name(signal)
    ));
    show_lines();
    calls::raise(signal) == 0
}

/// Whether the calling thread is about to wait where it waits for work.
fn is_for_work() -> bool {
    let [before, now] = &STATE.depths;
    if STATE.waits.fetch_add(1, Relaxed).is_multiple_of(WAITS) {
        before.store(now.swap(c_int::MAX, Relaxed), Relaxed);
    }
    let depth = frames::depth();
    depth <= now.fetch_min(depth, Relaxed).min(before.load(Relaxed))
}

/// Collects garbage, since what is live decides.
fn collect(gil: Gil<'_>) -> Result<(), Raised<'_>> {
    gil.collect();
    heap::collect();
    STATE.collected_at.store(clock::monotonic(), Relaxed);
    let settings = STATE.settings.get();
    let is_much = settings.is_some_and(|(it, _)| caps::live(Scope::Total) >= it.bytes);
    let stage = if is_much { COLLECTED } else { BELOW };
    STATE.stage.store(stage, Relaxed);
    Ok(())
}
