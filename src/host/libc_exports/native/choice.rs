//! Decides how the exported family serves.

use super::mode::{self, Mode, leave_to};
use super::{checkers, lookup, mapped, next};
use crate::process::limits::{self, Ulimit};
use crate::{bytes::Bytes, descriptor::notice};
use pyhost_os::strings::Strings;

/// Decides how the process's malloc serves, and sets it. What was asked for holds; else malloc is left alone
/// beneath a tool that must see every block, and under a limit of the system that leaves too little for the
/// heaps, unless the heaps lie in a region of a fixed size.
pub fn choose(asked: Option<Mode>, has_region: bool) -> Mode {
    let mode = asked.unwrap_or_else(|| by_circumstances(has_region));
    set_mode(mode);
    mode
}

fn by_circumstances(has_region: bool) -> Mode {
    if let Some(tool) = checkers::at_work() {
        leave_to(tool);
        notice(format_args!(
            "{tool} is at work: malloc and CPython's allocators are left to it (--malloc off)"
        ));
        return Mode::Off;
    }
    if let Some(Ulimit { command, bytes }) = limits::too_tight().filter(|_| !has_region) {
        notice(format_args!(
            "{command} allows {}, too little for heaps of the host's own: malloc and CPython's \
             allocators are the system's (--malloc off)",
            Bytes(bytes)
        ));
        return Mode::Off;
    }
    Mode::Count
}

/// Changes the mode. Blocks of before are still freed where they came from; maps of before are counted in
/// [`Mode::Count`] alone.
pub fn set_mode(mode: Mode) {
    mode::set(mode);
    lookup::bind_deeply(mode == Mode::Off);
    if mode != Mode::Count {
        mapped::forget();
    }
}

/// Leaves requests to the next malloc from here on, in a process that runs. Blocks of before stay booked
/// until they are freed.
pub fn hand_over() {
    mode::set_handed_over();
    mapped::forget();
}

/// Makes the decisions that must be made before any library's constructor runs; allocates nothing.
///
/// It runs once the loader has relocated everything, and before the constructors of preloaded libraries: see
/// [`crate::early`]. There the functions behind the exported ones are found, and the family is left to a preloaded
/// memory tool: a sanitizer's constructor allocates while the pthread functions that it intercepts do not work yet, and
/// every tool is to see the blocks of the constructors.
pub fn decide(environment: &Strings<'_>) {
    next::resolve();
    lookup::learn_libc();
    let preloaded = environment.value(b"LD_PRELOAD=");
    if preloaded.is_some_and(checkers::is_named_in) {
        set_mode(Mode::Off);
    }
}
