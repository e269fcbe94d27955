//! How the exported family serves: read on every call. [`super::choice`] decides it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// The choices of `--malloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// From mimalloc, booked to `native`.
    Count = 0,
    /// From mimalloc, not counted.
    Plain = 1,
    /// From the next malloc in lookup order.
    Off = 2,
    /// As [`Mode::Count`], but `faults` may let a request fail, and blocks may be checked. Only while faults are enabled, or
    /// blocks are checked.
    Faulty = 3,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Count | Mode::Faulty => "count",
            Mode::Plain => "plain",
            Mode::Off => "off",
        }
    }
}

pyhost_os::state! {
    static STATE: MallocMode {
        mode: AtomicU8 = AtomicU8::new(Mode::Count as u8),
        /// Whether there are blocks of a mode before the one in force.
        handed_over: AtomicBool = AtomicBool::new(false),
        /// The tool that memory is left to.
        left_to: OnceLock<&'static str> = OnceLock::new(),
    }
}

/// Keeps the name of the tool that malloc and CPython's allocators are left to, for the report.
pub fn leave_to(tool: &'static str) {
    let _ = STATE.left_to.set(tool);
}

/// The tool that malloc and CPython's allocators are left to, if there is one.
pub fn left_to() -> Option<&'static str> {
    STATE.left_to.get().copied()
}

/// The mode in force. Before `main` decides it is [`Mode::Count`].
#[inline(always)]
pub fn mode() -> Mode {
    match STATE.mode.load(Relaxed) {
        0 => Mode::Count,
        1 => Mode::Plain,
        3 => Mode::Faulty,
        _ => Mode::Off,
    }
}

/// Changes the mode. Blocks of before are still freed where they came from.
pub fn set(mode: Mode) {
    crate::heap::count_native(mode == Mode::Count);
    STATE.mode.store(mode as u8, Relaxed);
}

/// Sets [`Mode::Off`] in a process that has blocks of the mode before.
pub fn set_handed_over() {
    STATE.handed_over.store(true, Relaxed);
    STATE.mode.store(Mode::Off as u8, Relaxed);
}

/// Whether the process has no blocks of the exported family.
#[cfg(not(target_feature = "crt-static"))]
pub fn is_off_from_the_start() -> bool {
    mode() == Mode::Off && !STATE.handed_over.load(Relaxed)
}

/// Lets requests fail if `faults` says so, or no more. Changes nothing but [`Mode::Count`], in
/// which alone every block is booked.
pub fn inject(on: bool) {
    if !on && crate::heap::checked_requests::is_on() {
        return;
    }
    let (from, to) = match on {
        true => (Mode::Count, Mode::Faulty),
        false => (Mode::Faulty, Mode::Count),
    };
    let _ = (STATE.mode).compare_exchange(from as u8, to as u8, Relaxed, Relaxed);
}
