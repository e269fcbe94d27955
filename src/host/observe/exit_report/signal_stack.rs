//! A stack for an ending that comes on one that is too small.
//!
//! faulthandler, if a script enables it after the host, gives the main thread a signal stack of 16 KiB
//! (`SIGSTKSZ` twice), on which a report does not fit.

use pyhost_os::cell::Exclusive;
use pyhost_os::signals::{SignalSet, handler_stack};
use pyhost_os::system_call::{Stack, call_on};

/// Bytes of a signal stack that are enough for the handler, whose largest frames are two paths.
pub(super) const STACK: usize = 96 * 1024;

static MEMORY: Exclusive<Stack<STACK>> = Exclusive::new(Stack([0; STACK]));

/// Runs `work`, which must not unwind: on a stack of its own if the calling thread is on a small signal stack,
/// and no other thread has that stack. All signals are blocked there: a handler would begin at the
/// signal stack's top, over the frames that are to be returned to.
pub fn with_room(mut work: impl FnMut()) {
    let current = handler_stack();
    let is_small = current.ss_flags & libc::SS_ONSTACK != 0 && current.ss_size < STACK;
    let Some(mut memory) = is_small.then(|| MEMORY.try_hold()).flatten() else {
        return work();
    };
    let before = SignalSet::all().make_mask();
    call_on(&mut memory, &mut work);
    before.make_mask();
}
