//! What happens when the process forks: one list, in the order in which it happens.
//!
//! libc runs handlers of `pthread_atfork` last registered first before a fork, and first registered first after it. These are
//! registered before those of any library that the script loads: this list runs last before a fork, and first after it.
//! Processes that libc starts without these handlers (`vfork`, `clone`) are counted in `crate::libc_exports::child_processes`.

use crate::limit::{caps, recycling};
use crate::observe::{at_exhausted, exit_report, live};
use crate::{cpython::threads, heap, libc_exports::native::mapped};
use pyhost_os::errno::Errno;
use pyhost_os::forks::{AtFork, Child};

pub struct Fork;

impl AtFork for Fork {
    /// From here on no other thread is inside mimalloc, the samples or the table of maps.
    fn before() {
        heap::forks::before();
        mapped::before_fork();
        // Last: see `caps::has_forked`.
        Errno(0).set();
    }

    fn in_parent() {
        caps::has_forked();
        mapped::after_fork();
        heap::forks::in_parent();
        exit_report::forked_in_parent();
    }

    fn in_child(child: &Child) {
        // First: the pages of the ledger are the parent's until then.
        live::forked(child);
        mapped::after_fork();
        heap::forks::in_child(child);
        caps::forked(heap::slot());
        exit_report::forked_in_child(child);
        threads::forked();
        recycling::forked();
        at_exhausted::forked();
    }
}
