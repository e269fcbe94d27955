//! The dispositions that a script sees of the signals that [`super::signals`] watches, and the kernel's own.
//!
//! A script may put a signal back to its default at any time, as uvicorn does at every SIGTERM and gunicorn in its
//! workers. Under the host the default is: report, then end by the signal. So the kernel keeps the host's handler if
//! the script asked for the default, and the script reads back the default that it asked for. The exported functions
//! that set a handler (`libc_exports::process_end`) come here. Children that `exec` or `posix_spawn` makes have the
//! real default, since the kernel resets handlers there.
//!
//! Not seen: `sigset` and `sigignore` of System V, a `sigaction` that is looked up in libc itself, and
//! the reset of a handler with `SA_RESETHAND`. There the signal ends the process without a report.
//!
//! Any thread, and inside signal handlers: nothing here allocates or locks. A signal whose disposition
//! two threads change at once has either view, as without the host.

#![allow(unsafe_code)]

use crate::libc_exports::native::next::{self, Setter};
use crate::{observe::live, process};
use libc::{sigaction, sighandler_t};
use pyhost_os::{calls, mapping::FromZeros, signals::FAULTS};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::{ffi::c_int, ptr::null};

/// One more than the highest signal.
const SIGNALS: usize = 65;

/// A disposition that the script sees while the kernel has the host's handler.
struct View {
    handler: AtomicUsize,
    flags: AtomicI32,
    /// The first 64 signals of the mask: all that Linux has.
    mask: AtomicU64,
}

pyhost_os::state! {
    /// What the script believes to be installed for each signal.
    static STATE: SignalDispositions {
        views: [View; SIGNALS] = [const {
            View {
                handler: AtomicUsize::new(libc::SIG_DFL),
                flags: AtomicI32::new(0),
                mask: AtomicU64::new(0),
            }
        }; SIGNALS],
        /// The address of the host's handler; `SIG_DFL` before [`watch`].
        handler: AtomicUsize = AtomicUsize::new(libc::SIG_DFL),
        /// Bit n: signal n is watched.
        watched: AtomicU64 = AtomicU64::new(0),
        /// The host's handler of SIGBUS stands in front of one that the script has set: the host's files may lose pages.
        is_in_front: AtomicBool = AtomicBool::new(false),
    }
}

/// The process id of the first process of a pid namespace: it outlives every signal that it has no
/// handler for, but for faults and for SIGKILL from outside (`SIGNAL_UNKILLABLE` of the kernel).
pub const FIRST: libc::pid_t = 1;

/// A handler with `SA_SIGINFO`. Its third argument is the state that the signal interrupted.
pub type Handler = unsafe extern "C" fn(c_int, *const libc::siginfo_t, *const libc::ucontext_t);

/// A disposition that the script, the kernel or the host has made: its handler takes what its flags promise.
#[derive(Clone, Copy)]
pub struct Disposition(libc::sigaction);

impl Disposition {
    fn default() -> Self {
        Disposition(libc::sigaction::zeroed())
    }

    /// The host's handler, which blocks no other signal.
    fn ours() -> Self {
        let mut action = libc::sigaction::zeroed();
        action.sa_sigaction = STATE.handler.load(Relaxed);
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO | libc::SA_RESTART;
        Disposition(action)
    }

    fn is_ours(&self) -> bool {
        self.handler() == STATE.handler.load(Relaxed)
    }

    /// The handler's address, `SIG_DFL` or `SIG_IGN`.
    pub fn handler(&self) -> usize {
        self.0.sa_sigaction
    }
}

impl View {
    fn set(&self, Disposition(action): &Disposition) {
        // SAFETY: `sigset_t` has 128 bytes.
        let mask = unsafe { (&raw const action.sa_mask).cast::<u64>().read_unaligned() };
        self.flags.store(action.sa_flags, Relaxed);
        self.mask.store(mask, Relaxed);
        self.handler.store(action.sa_sigaction, Relaxed);
    }

    fn get(&self) -> Disposition {
        let mut action = libc::sigaction::zeroed();
        action.sa_sigaction = self.handler.load(Relaxed);
        action.sa_flags = self.flags.load(Relaxed);
        let mask = (&raw mut action.sa_mask).cast::<u64>();
        // SAFETY: as above.
        unsafe { mask.write_unaligned(self.mask.load(Relaxed)) };
        Disposition(action)
    }
}

fn index(signal: c_int) -> Option<usize> {
    let index = usize::try_from(signal).ok()?;
    (1..SIGNALS).contains(&index).then_some(index)
}

fn is_watched(signal: c_int) -> bool {
    // Signal 64 has bit 63, signal 0 none.
    index(signal).is_some_and(|index| STATE.watched.load(Relaxed) & (1 << (index - 1)) != 0)
}

/// Whether the host's handler may stand in for the default in this process: not in a child of `vfork`, whose memory is
/// its parent's; and in a namespace's first process for faults alone, since by default it outlives all others.
fn may_stand_in(signal: c_int) -> bool {
    let pid = process::id();
    super::STATE.owner.load(Relaxed) == pid && (pid != FIRST || FAULTS.contains(&signal))
}

/// Gives the kernel a disposition, if there is a new one. Returns the one before; `None` if the kernel refuses.
fn exchange(signal: c_int, new: Option<&Disposition>) -> Option<Disposition> {
    let mut found = libc::sigaction::zeroed();
    let new = new.map_or(null(), |new| &raw const new.0);
    // SAFETY: structures of ours, whose handler takes what the flags promise.
    let result = unsafe { next::sigaction(signal, new, &mut found) };
    (result == 0).then_some(Disposition(found))
}

pub fn current(signal: c_int) -> Option<Disposition> {
    exchange(signal, None)
}

/// Watches `signals` from here on, and puts `handler`, the host's, in the place of their defaults.
///
/// `is_chained` says whether the handler goes in front of one that is not the default, which comes next
/// then. While the process has one thread.
pub fn watch(
    signals: impl Iterator<Item = c_int>,
    handler: Handler,
    is_chained: impl Fn(c_int, &Disposition) -> bool,
) {
    STATE.handler.store(handler as *const () as usize, Relaxed);
    for signal in signals {
        let (Some(index), Some(found)) = (index(signal), current(signal)) else {
            continue;
        };
        STATE.watched.fetch_or(1 << (index - 1), Relaxed);
        let is_default = found.handler() == libc::SIG_DFL;
        if may_stand_in(signal) && (is_default || is_chained(signal, &found)) {
            STATE.views[index].set(&found);
            exchange(signal, Some(&Disposition::ours()));
        }
    }
}

/// Gives every signal of the first process of a pid namespace, which inherited the host's handlers
/// by `fork`, its default back, so that the kernel ignores it.
pub fn become_first() {
    for (index, view) in STATE.views.iter().enumerate().skip(1) {
        let signal = index as c_int;
        if is_watched(signal)
            && !may_stand_in(signal)
            && current(signal).is_some_and(|found| found.is_ours())
        {
            exchange(signal, Some(&view.get()));
        }
    }
}

/// Whether the script left the signal at its default, as far as it can see.
pub fn is_default(signal: c_int) -> bool {
    index(signal).is_none_or(|index| STATE.views[index].handler.load(Relaxed) == libc::SIG_DFL)
}

/// Puts in place what the script sees: what comes after the host's handler. From then on the signal is
/// the script's alone: faulthandler's handler puts the default in its own place, and means it.
pub fn step_aside(signal: c_int) {
    if let Some(index) = index(signal) {
        if super::STATE.owner.load(Relaxed) == process::id() {
            STATE.watched.fetch_and(!(1 << (index - 1)), Relaxed);
        }
        exchange(signal, Some(&STATE.views[index].get()));
    }
}

/// Puts the script's handler in place if the host's stands in front of it, and raises the signal again. Returns false if it
/// does not.
pub fn gives_way(signal: c_int, info: Option<&libc::siginfo_t>) -> bool {
    let Some(view) = watched(signal).filter(|_| signal == libc::SIGBUS) else {
        return false;
    };
    // It stays: another thread may have come here by the same fault.
    let gives_way = STATE.is_in_front.load(Relaxed);
    if gives_way {
        exchange(signal, Some(&view.get()));
        // A fault comes again by itself.
        if info.is_some_and(was_sent) {
            calls::raise(signal);
        }
    }
    gives_way
}

fn watched(signal: c_int) -> Option<&'static View> {
    let index = index(signal).filter(|_| is_watched(signal))?;
    Some(&STATE.views[index])
}

/// `sigaction(2)` of a signal that is watched. Returns the disposition that the script saw, or `None` if the kernel
/// refuses the one that it asked for.
fn change(signal: c_int, view: &View, asked: Option<Disposition>) -> Option<Disposition> {
    let before = view.get();
    let stands_in = |asked: &Disposition| {
        let handler = asked.handler();
        // Not in front of a signal that is ignored: programs that this one executes inherit that.
        let is_in_front = signal == libc::SIGBUS && handler != libc::SIG_IGN && live::is_in_file();
        may_stand_in(signal) && (handler == libc::SIG_DFL || is_in_front)
    };
    let seen = asked.filter(stands_in);
    let given = match seen {
        Some(seen) => {
            // First, since the handler may run at once.
            view.set(&seen);
            if signal == libc::SIGBUS {
                let is_in_front = seen.handler() != libc::SIG_DFL;
                STATE.is_in_front.store(is_in_front, Relaxed);
            }
            Some(Disposition::ours())
        }
        None => asked,
    };
    let found = exchange(signal, given.as_ref());
    if found.is_none() && seen.is_some() {
        view.set(&before);
    }
    found.map(|found| if found.is_ours() { before } else { found })
}

/// `sigaction(2)` of a signal that is watched, as the script sees it; libc's for another one.
///
/// # Safety
/// Structures or null, perhaps one for both, and a handler as the flags say.
pub unsafe fn set_action(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(view) = watched(signal) else {
            return next::sigaction(signal, new, old);
        };
        let asked = new.as_ref().map(|&new| Disposition(new));
        let Some(before) = change(signal, view, asked) else {
            return -1;
        };
        if !old.is_null() {
            *old = before.0;
        }
    }
    0
}

/// Sets a handler by libc's `function`. Returns the one before, or `SIG_ERR`.
pub fn set_handler(function: Option<Setter>, signal: c_int, handler: sighandler_t) -> sighandler_t {
    if let Some(view) = watched(signal).filter(|_| handler == libc::SIG_DFL) {
        let before = change(signal, view, Some(Disposition::default()));
        return before.map_or(libc::SIG_ERR, |before| before.handler());
    }
    let seen = index(signal).map(|index| STATE.views[index].handler.load(Relaxed));
    // SAFETY: the handler is the caller's duty.
    let before = function.map_or(libc::SIG_ERR, |function| unsafe {
        function(signal, handler)
    });
    match before == Disposition::ours().handler() {
        true => seen.unwrap_or(libc::SIG_DFL),
        false => before,
    }
}

/// Whether a signal was sent by a process, this or another, and not raised by the kernel.
pub fn was_sent(info: &libc::siginfo_t) -> bool {
    info.si_code <= 0
}
