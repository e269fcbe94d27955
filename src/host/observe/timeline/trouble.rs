//! What the sampler and the host share. Errors: the sampler has no standard error, since readers of the host's
//! would wait for its end too. So the host prints the errors at its own end. Beside them, the sampler's id, and whether it
//! has written its last lines.

use crate::{descriptor::notice, errno::Errno};
use pyhost_os::{forks::Child, mapping, zeros_are_valid};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};

/// The first error of each output, 0 for none, below zero once it is reported. Shared with the sampler.
pub(super) struct Shared {
    /// The process id of the sampler; 0 before it is made.
    sampler: AtomicI32,
    errors: [AtomicI32; 2], // by [`Output`]
    /// The sampler has written its last lines. It may live on to have pages made.
    is_all_written: AtomicBool,
}

zeros_are_valid!(Shared: sampler, errors, is_all_written);

/// Which output an error is of.
#[derive(Clone, Copy)]
pub enum Output {
    Timeline,
    Brief,
}

/// Makes the memory that is shared, before the sampler is made. Returns the place of the sampler's id, or `None` if the
/// system gives no memory.
pub fn share() -> Option<&'static AtomicI32> {
    let memory = mapping::Shared::<Shared>::new(1)?.leak();
    super::STATE.trouble.set_once(|| &memory[0]);
    Some(&memory[0].sampler)
}

/// In a forked child: what its parent could not write is the parent's to say.
pub fn leave_to_parent(child: &Child) {
    super::STATE.trouble.forget_in_child(child);
}

fn shared() -> Option<&'static Shared> {
    super::STATE.trouble.get().copied()
}

fn of(output: Output) -> Option<&'static AtomicI32> {
    shared().map(|shared| &shared.errors[output as usize])
}

/// In the sampler: its last lines are written.
pub fn note_all_written() {
    if let Some(shared) = shared() {
        shared.is_all_written.store(true, Release);
    }
}

/// Whether the sampler has written its last lines.
pub fn is_all_written() -> bool {
    shared().is_some_and(|shared| shared.is_all_written.load(Acquire))
}

/// Remembers an error; the first counts.
pub fn remember(output: Output, error: Errno) {
    if let Some(place) = of(output) {
        let _ = place.compare_exchange(0, error.0, Relaxed, Relaxed);
    }
}

/// Says what could not be written, once. In the host, at its end.
pub fn report() {
    const GAP: &str = "; what is missing is not in the file";
    for (output, name, rest) in [
        (Output::Timeline, "--timeline", GAP),
        (Output::Brief, "--brief", ""),
    ] {
        let new = |error: i32| (error > 0).then_some(-error);
        let found = of(output).map(|place| place.fetch_update(Relaxed, Relaxed, new));
        if let Some(Ok(error)) = found {
            notice(format_args!(
                "{name}: the file could not be written ({}){rest}",
                Errno(error)
            ));
        }
    }
}
