//! What happens when the process forks: one list, in the order in which it happens.
//!
//! libc runs handlers of `pthread_atfork` last registered first before a fork, and first registered first after it. These are
//! registered before those of any library that the script loads: this list runs last before a fork, and first after it.
//! Processes that libc starts without these handlers (`vfork`, `clone`) are counted in `crate::libc_exports::child_processes`.

use crate::cpython::threads;
use crate::heap;
use crate::libc_exports::native::mapped;
use crate::observe::endings;
use crate::observe::live;
use pyhost_os::calls;

/// Registers the list. Once, while the process has one thread.
pub fn watch() {
    calls::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
}

/// In the thread that forks. From here on no other thread is inside mimalloc, the samples or the table of maps.
extern "C" fn before() {
    heap::forks::before();
    mapped::before_fork();
}

extern "C" fn in_parent() {
    mapped::after_fork();
    heap::forks::in_parent();
    endings::forked_in_parent();
}

/// The child has one thread, the one that forked.
extern "C" fn in_child() {
    // First: the pages of the ledger are the parent's until then.
    live::forked();
    mapped::after_fork();
    heap::forks::in_child();
    endings::forked_in_child();
    threads::forked();
}
