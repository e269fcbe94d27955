//! Puts in force what options ask of caps, once Python has initialised.

use super::settings::{CapSize, Rule, Settings};
use super::{LimitError, limits, pressure};
use crate::bytes::Bytes;
use crate::error::Error;
use crate::ledger::{Scope, Slot};
use crate::process;

/// Sets the caps and soft caps of `settings`. `slot` is the calling thread's.
///
/// # Errors
/// A cap is below what Python itself has live at its start, and its reserve.
pub fn start(settings: &Settings, slot: &Slot) -> Result<(), Error> {
    let share = u64::from(settings.share.map_or(1, |share| share.0));
    for scope in Scope::all() {
        if let Some(rule) = settings.hard.of(scope) {
            let bytes = size_of_rule(rule) / share;
            limits::set(scope, Some(bytes), slot).map_err(|error| too_low(rule, bytes, error))?;
        }
        if let Some(rule) = settings.soft.of(scope) {
            pressure::set_soft(scope, Some(size_of_rule(rule) / share));
        }
    }
    Ok(())
}

/// The bytes of a rule.
fn size_of_rule(rule: &Rule) -> u64 {
    match rule.size {
        CapSize::Bytes(bytes) => bytes,
        CapSize::Share(hundredths) => {
            let whole = u128::from(process::physical_memory());
            (whole * u128::from(hundredths) / 10_000) as u64
        }
        CapSize::Auto => process::physical_memory(),
    }
}

fn too_low(rule: &Rule, bytes: u64, error: LimitError) -> Error {
    let LimitError::TooLow { live, least } = error else {
        return Error::option(format!("--cap {rule}: there is no room for it"));
    };
    // In whole tenths of a mebibyte, upwards.
    let least = least.next_multiple_of((1 << 20) / 10 + 1);
    Error::option(format!(
        "--cap: bad value '{}'; expected at least {}: {} has {} live when the script starts, and \
         the reserve comes on top",
        Bytes(bytes),
        Bytes(least),
        rule.scope.name(),
        Bytes(live),
    ))
}
