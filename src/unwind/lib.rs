//! The native calls of the calling thread, for callers inside an allocator or a signal handler: nothing is allocated, no
//! lock is taken.
//!
//! A walk begins at the registers of its own caller and follows the unwind tables (`.eh_frame`) of each function. These are
//! the traps, and the answers:
//!
//! - *The dynamic linker's lock.* A thread in `dlopen` holds it while it allocates, and so may wait for whoever
//!   walks. `dl_iterate_phdr` and `dladdr` take it; `_dl_find_object` (glibc 2.35) does not, and is the only function of
//!   the linker that is called here. Without it there is no walk: a table of one's own would be wrong from each `dlopen` to
//!   its next refresh, and right tables are what keeps a walk from reading unmapped memory.
//! - *`dlclose` in another thread.* A table is read only of an object in which the walking thread has a call that has not
//!   returned. An object that is unloaded then has been unloaded under a thread that runs in it, which crashes without
//!   a walk as well. A wrong table could lead to another object's code; its table may then vanish while it is read. This
//!   takes broken unwind tables and a `dlclose` at that moment.
//! - *Broken tables.* `gimli` checks each step against the bounds of the readable segment. A step that does not lead up
//!   the stack ends the walk, but for that out of a signal handler, which may run on a stack of its own.
//! - *Time.* Reading a table takes a microsecond a call. What a table says of an address is kept in [`rules`], so that
//!   the next walk through it takes some ten nanoseconds.
//! - *The stack's bounds.* They are not known cheaply: glibc reads `/proc/self/maps` for those of the main thread, and
//!   allocates; coroutines have stacks that nobody knows of. So the kernel is asked for each page before its first word is
//!   read: see [`machine`]. Pages above a thread's stack pointer hold its own live calls, so that nobody unmaps them.

#[cfg(target_arch = "x86_64")]
mod expression;
#[cfg(all(fuzzing, target_arch = "x86_64"))]
pub mod hostile;
#[cfg(target_arch = "x86_64")]
mod machine;
mod object;
#[cfg(target_arch = "x86_64")]
mod rules;
#[cfg(target_arch = "x86_64")]
mod step;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

pub use object::{Object, learn as learn_objects, object_of};

/// Calls that a walk visits at most.
pub const MOST: usize = 128;

#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// An address in the instruction that runs: of one that has called another, its last byte.
    pub address: usize,
    /// Where the function's code begins, as far as its unwind table says; 0 if it has none.
    pub function: usize,
    /// The stack pointer before the function was called: all of its own stack is below. 0 without an unwind table.
    pub stack_end: usize,
    /// A signal interrupted its caller: the calls visited so far are the handler's.
    pub is_from_signal: bool,
}

/// Prepares the walks. Once, at the start.
///
/// # Errors
/// The reason why there are none here, the end of a line.
pub fn start() -> Result<(), &'static str> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err("native calls are read on x86-64 only");
    }
    if !object::learn() {
        return Err("native calls need glibc 2.35 or newer");
    }
    #[cfg(target_arch = "x86_64")]
    step::make_rooms();
    Ok(())
}

#[cfg(target_arch = "x86_64")]
pub use step::walk;

/// Visits nothing here.
#[cfg(not(target_arch = "x86_64"))]
pub fn walk(_visit: impl FnMut(&Call) -> bool) -> bool {
    true
}
