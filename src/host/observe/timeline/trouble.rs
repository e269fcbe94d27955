//! Errors of the timeline and of the brief text, which the host prints at its end: see `SamplerCell` of the header.

use crate::{descriptor::notice, errno::Errno, ledger::HEADER};
use std::sync::atomic::Ordering::Relaxed;

#[derive(Clone, Copy)]
pub enum Output {
    Timeline,
    Brief,
}

/// Remembers an error; the first counts.
pub fn remember(output: Output, error: Errno) {
    let place = &HEADER.sampler.errors[output as usize];
    let _ = place.compare_exchange(0, error.0, Relaxed, Relaxed);
}

/// Says what could not be written, once. In the host, at its end.
pub fn report() {
    const GAP: &str = "; what is missing is not in the file";
    let outputs = [("--timeline", GAP), ("--brief", "")];
    for ((name, rest), place) in outputs.into_iter().zip(&HEADER.sampler.errors) {
        let new = |error: i32| (error > 0).then_some(-error);
        if let Ok(error) = place.fetch_update(Relaxed, Relaxed, new) {
            notice(format_args!(
                "{name}: the file could not be written ({}){rest}",
                Errno(error)
            ));
        }
    }
}
