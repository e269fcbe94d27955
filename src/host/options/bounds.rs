//! The options that bound memory, the bounded heap and caps, and what they cannot go with.

use super::{Options, baked, native_account, refuse_if, table::Values};
use crate::heap::{bounded_heap::Size, retention::Retention};
use crate::limit::caps::{CapSettings, CapSize, Rule, Rules};
use crate::{allocator::Allocator, error::Result, ledger::Scope, libc_exports::native::Mode};
use crate::{limit::recycling::RecycleSettings, python::numpy::ArrayAllocator};

/// The size of the region; if the option is silent, the build's value holds.
pub fn region(values: &Values) -> Result<Option<u64>> {
    let asked = values.region.map(|Size(size)| size);
    baked::lower_bytes(values.name("--region"), asked, baked::region())
}

/// The choice of `--retain`: with a region or a cap, `small` unless another is asked for, since what is kept of
/// freed memory would be resident beside what is live.
pub fn retain(values: &Values, bounded: bool) -> Result<Retention> {
    let held = baked::lower_retain(values.name("--retain"), values.retain, baked::retain())?;
    Ok(match held {
        None if bounded => Retention::Small,
        // Baked in, and not for a region.
        Some(Retention::Speed) if bounded && values.retain.is_none() => Retention::Small,
        held => held.unwrap_or_default(),
    })
}

/// Refuses what does not go with a region, or without one.
pub fn check_region(options: &Options) -> Result<()> {
    if options.region.is_none() {
        let keys = [options.given.region_lock, options.given.region_huge_pages];
        return refuse_if(
            keys.contains(&Some(true)),
            "--region: there is no region; expected a SIZE beside lock and huge-pages",
        );
    }
    refuse_if(
        cfg!(Py_GIL_DISABLED),
        "--region: a free-threaded Python keeps OBJ on its own mimalloc; expected a Python \
         with a GIL",
    )?;
    refuse_if(
        options.given.malloc == Some(Mode::Off),
        "--region: nothing is in it with --malloc off; expected --malloc count or plain",
    )?;
    refuse_if(
        options.given.allocator == Some(Allocator::System),
        "--region: nothing is in it with --allocator system; expected --allocator mimalloc \
         or pymalloc",
    )?;
    refuse_if(
        options.retain == Retention::Speed,
        "--retain speed: reserves memory outside of the region; expected balanced or small",
    )?;
    refuse_if(
        options.numpy.allocator == Some(ArrayAllocator::Bfc),
        "--numpy bfc: has a region of its own outside of --region; expected mimalloc or pool",
    )?;
    refuse_if(
        options.numpy.allocator == Some(ArrayAllocator::System),
        "--numpy system: takes array data from outside of --region; expected mimalloc or pool",
    )
}

/// Reads the options; if they are silent, the build's values hold.
pub fn caps(values: &Values) -> Result<CapSettings> {
    let rules = |rules: &Option<Vec<Rule>>| Rules(rules.clone().unwrap_or_default());
    let (mut hard, soft) = (rules(&values.cap), rules(&values.soft_cap));
    let most = baked::cap();
    if let Some(most) = most {
        match hard.of(Scope::Total).map(|rule| rule.size) {
            Some(CapSize::Bytes(bytes)) => {
                baked::lower_bytes(values.name("--cap"), Some(bytes), Some(most))?;
            }
            Some(CapSize::Share(_) | CapSize::Auto) => {}
            None => hard.0.push(Rule {
                scope: Scope::Total,
                is_owned: false,
                is_tree: false,
                size: CapSize::Bytes(most),
            }),
        }
    }
    refuse_if(
        values.is_given("--cap-share") && hard.0.is_empty() && soft.0.is_empty(),
        "--cap-share: there is no cap to divide; expected --cap SIZE",
    )?;
    refuse_if(
        soft.0.iter().any(|rule| rule.is_tree),
        "--soft-cap: a tree has none; expected --cap tree=SIZE",
    )?;
    Ok(CapSettings {
        hard,
        soft,
        share: values.cap_share,
        most,
    })
}

pub fn recycling(values: &Values) -> Result<Option<RecycleSettings>> {
    refuse_if(
        values.recycle_at.is_none() && values.recycle_signal.is_some(),
        "--recycle-at: expected a SIZE beside signal",
    )?;
    Ok(values.recycle_at.map(|Size(bytes)| RecycleSettings {
        bytes,
        signal: values.recycle_signal.unwrap_or_default(),
    }))
}

/// Refuses caps of a malloc that is not counted.
pub fn check_caps(options: &Options) -> Result<()> {
    let CapSettings { hard, soft, .. } = &options.caps;
    for (option, rules) in [("--cap", hard), ("--soft-cap", soft)] {
        let is_capped = |account| rules.of(Scope::Account(account)).is_some();
        native_account(option, is_capped, options)?;
    }
    Ok(())
}
