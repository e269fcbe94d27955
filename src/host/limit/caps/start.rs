//! Puts in force what options ask of caps, once Python has initialised.

use super::claims::{self, NoRoom};
use super::settings::{CapSettings, CapSize, Rule};
use super::{LimitError, limits, pressure, tree, watch};
use crate::bytes::Bytes;
use crate::descriptor::notice;
use crate::error::Error;
use crate::ledger::{Scope, Slot};
use crate::process::{self, cgroup};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Sets the caps and soft caps of `settings`; a region is a cap of the total, unless that follows the charges. An error if a cap is
/// below what Python itself has live at its start, and its reserve. `slot` is the calling thread's.
pub fn start(settings: &CapSettings, slot: &Slot) -> Result<(), Error> {
    let total = settings.hard.of(Scope::Total);
    let is_auto = total.is_some_and(|rule| rule.size == CapSize::Auto);
    if !is_auto && !tree::follows() {
        watch::start_region();
    }
    if settings.hard.0.is_empty() && settings.soft.0.is_empty() {
        return Ok(());
    }
    if let Some(most) = settings.most {
        limits::STATE.most.store(most, Relaxed);
    }
    let share = u64::from(settings.share.map_or(1, |share| share.0));
    let machine = Machine::look();
    if let Some(rule) = settings.hard.tree().filter(|_| tree::follows()) {
        watch::start(machine.group.as_ref(), machine.physical, u64::MAX, 1);
        machine.tell(rule, machine.whole());
    }
    for scope in Scope::all() {
        if let Some(rule) = settings.hard.of(scope) {
            let most = settings.most.filter(|_| scope == Scope::Total);
            let most = most.unwrap_or(u64::MAX);
            let bytes = machine.size_of(rule).min(most) / share;
            let set = |bytes| {
                super::set(scope, Some(bytes), !rule.is_owned, slot)
                    .map_err(|error| too_low(rule, bytes, share, error))
            };
            if rule.size == CapSize::Auto && !tree::follows() {
                watch::start(machine.group.as_ref(), machine.physical, most, share);
            }
            set(bytes)?;
            if rule.size == CapSize::Auto {
                // It was possible as it is; from here on the charges lower it, and the limit may rise.
                set(machine.physical.min(most) / share)?;
            }
            machine.tell(rule, bytes);
        }
        if let Some(rule) = settings.soft.of(scope) {
            pressure::set_soft(scope, Some(machine.size_of(rule) / share));
        }
    }
    match claims::start_script(slot) {
        true => Ok(()),
        false => Err(Error::start(NoRoom.to_string())),
    }
}

/// The memory that the process may have.
pub(super) struct Machine {
    group: Option<cgroup::GroupLimit>,
    physical: u64,
}

impl Machine {
    pub(super) fn look() -> Self {
        let physical = process::physical_memory();
        let group = cgroup::group();
        Machine { group, physical }
    }

    /// The group's limit, if it is below the machine's memory.
    fn limit(&self) -> Option<&cgroup::GroupLimit> {
        let group = self.group.as_ref();
        group.filter(|limit| limit.bytes < self.physical)
    }

    fn whole(&self) -> u64 {
        self.limit().map_or(self.physical, |limit| limit.bytes)
    }

    pub(super) fn size_of(&self, rule: &Rule) -> u64 {
        match rule.size {
            CapSize::Bytes(bytes) => bytes,
            CapSize::Share(hundredths) => {
                (u128::from(self.whole()) * u128::from(hundredths) / 10_000) as u64
            }
            CapSize::Auto => self.whole(),
        }
    }

    /// What the process may have, and by whose limit.
    fn source(&self) -> String {
        let mut text = String::new();
        let _ = match self.limit() {
            Some(limit) => write!(text, "{limit}"),
            None => watch::machines(self.physical, &mut text),
        };
        text
    }

    /// Says what was chosen, if the option does not.
    fn tell(&self, rule: &Rule, bytes: u64) {
        let from = self.source();
        match rule.size {
            CapSize::Bytes(_) => {}
            CapSize::Share(_) => notice(format_args!("--cap {rule}: {} of {from}", Bytes(bytes))),
            CapSize::Auto => notice(format_args!(
                "--cap {rule}: {} of {from}; requests are refused so that what the kernel charges \
                 stays below; stacks and shared memory are charged and cannot be refused",
                Bytes(bytes)
            )),
        }
    }
}

fn too_low(rule: &Rule, bytes: u64, share: u64, error: LimitError) -> Error {
    let LimitError::Low { live, least } = error else {
        return Error::option(format!("--cap {rule}: there is no room for it"));
    };
    // In whole tenths of a mebibyte, upwards.
    let least = least.next_multiple_of((1 << 20) / 10 + 1);
    let divided = match share {
        1 => String::new(),
        share => format!(", the cap divided by --cap-share {share}"),
    };
    Error::option(format!(
        "--cap: bad value '{}'{divided}; expected at least {}: {} has {} live when the script starts, and \
         the reserve comes on top",
        Bytes(bytes),
        Bytes(least),
        rule.scope.name(),
        Bytes(live),
    ))
}
