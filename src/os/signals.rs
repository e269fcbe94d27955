//! Sets of signals, the stack of their handlers, and their names; without allocation but for [`signal_words`].

use crate::{calls, mapping::FromZeros};
use libc::{SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
use std::ffi::c_int;

/// Signals that the kernel sends for a fault of the thread itself, which it cannot put off.
pub const FAULTS: [c_int; 6] = [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS];

/// Signals that ask a process to stop. A server that handles one, and has stopped, often ends itself by it.
pub const STOPS: [c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

#[derive(Clone, Copy)]
pub struct SignalSet(pub(crate) libc::sigset_t);

impl SignalSet {
    pub fn of(signals: &[c_int]) -> Self {
        let mut set = libc::sigset_t::zeroed();
        calls::sigemptyset(&mut set);
        for &signal in signals {
            calls::sigaddset(&mut set, signal);
        }
        SignalSet(set)
    }

    pub fn all() -> Self {
        let mut set = libc::sigset_t::zeroed();
        calls::sigfillset(&mut set);
        SignalSet(set)
    }

    /// Those that were sent to the calling thread or the process and are blocked.
    pub fn pending() -> Self {
        let mut set = SignalSet::of(&[]);
        calls::sigpending(&mut set.0);
        set
    }

    /// The set, for a call that waits with it as the thread's mask.
    pub fn as_ptr(&self) -> *const libc::sigset_t {
        &self.0
    }

    pub fn contains(&self, signal: c_int) -> bool {
        calls::sigismember(&self.0, signal) == 1
    }

    pub fn remove(&mut self, signal: c_int) {
        calls::sigdelset(&mut self.0, signal);
    }

    /// Blocks them in the calling thread, beside those that are blocked already. Returns the latter.
    pub fn block(&self) -> SignalSet {
        self.change_mask(libc::SIG_BLOCK)
    }

    /// Blocks them and no others in the calling thread. Returns those that were blocked.
    pub fn make_mask(&self) -> SignalSet {
        self.change_mask(libc::SIG_SETMASK)
    }

    fn change_mask(&self, how: c_int) -> SignalSet {
        let mut before = SignalSet::of(&[]);
        calls::pthread_sigmask(how, Some(&self.0), Some(&mut before.0));
        before
    }

    /// Receives those that are pending, of which each is blocked.
    pub fn receive_pending(&self) {
        while calls::sigtimedwait(&self.0, None, &libc::timespec::zeroed()) > 0 {}
    }
}

/// The calling thread's stack for handlers.
pub fn handler_stack() -> libc::stack_t {
    let mut current = libc::stack_t::zeroed();
    calls::sigaltstack(None, Some(&mut current));
    current
}

/// Makes memory the calling thread's stack for handlers.
pub fn set_handler_stack(memory: &'static mut [u8]) {
    calls::sigaltstack(Some(&memory.into()), None);
}

/// The name of a signal that ends processes.
pub fn signal_name(signal: i32) -> &'static str {
    macro_rules! name {
        ($($name:ident)*) => {
            match signal {
                $(libc::$name => stringify!($name),)*
                _ if signal == libc::SIGRTMAX() => "SIGRTMAX",
                _ => usize::try_from(signal - libc::SIGRTMIN())
                    .ok()
                    .and_then(|number| REAL_TIME.get(number))
                    .unwrap_or(&"signal"),
            }
        };
    }
    name! {
        SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM
        SIGSTKFLT SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGIO SIGPWR SIGSYS
    }
}

macro_rules! real_time {
    ($($number:literal)*) => {
        ["SIGRTMIN", $(concat!("SIGRTMIN+", $number)),*]
    };
}

/// The names of signals of real time, from `SIGRTMIN` on.
const REAL_TIME: [&str; 30] =
    real_time!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29);

/// The name of a signal, or its number if it has none here.
pub fn signal_words(signal: i32) -> String {
    match signal_name(signal) {
        "signal" => format!("signal {signal}"),
        name => name.to_owned(),
    }
}
