//! The heap's part of a fork. The layer above calls these from its handlers of `pthread_atfork`.

use crate::threads::thread_state::{state, thread_id};
use crate::{bounded_heap, ledger::LEDGER, mimalloc::gate, sampling};
use pyhost_os::forks::Child;

/// In the thread that forks: keeps others out of mimalloc.
pub fn before() {
    sampling::forking();
    gate::close(state().slot(), thread_id());
}

pub fn in_parent() {
    gate::open();
}

pub fn in_child(child: &Child) {
    LEDGER.keep_only(state().slot());
    bounded_heap::forked();
    sampling::forked(child);
    gate::open();
}
