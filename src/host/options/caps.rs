//! The options of caps.

use super::table::Values;
use super::{Options, baked, native_account, refuse_if};
use crate::error::Result;
use crate::ledger::Scope;
use crate::limit::caps::{CapSettings, CapSize, Rule, Rules};

/// Reads the options; if they are silent, the build's values hold.
pub fn settings(values: &Values) -> Result<CapSettings> {
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
                size: CapSize::Bytes(most),
            }),
        }
    }
    refuse_if(
        values.is_given("--cap-share") && hard.0.is_empty() && soft.0.is_empty(),
        "--cap-share: there is no cap to divide; expected --cap SIZE",
    )?;
    Ok(CapSettings {
        hard,
        soft,
        share: values.cap_share,
        most,
    })
}

/// Refuses caps of a malloc that is not counted.
pub fn check(options: &Options) -> Result<()> {
    let CapSettings { hard, soft, .. } = &options.caps;
    for (option, rules) in [("--cap", hard), ("--soft-cap", soft)] {
        let is_capped = |account| rules.of(Scope::Account(account)).is_some();
        native_account(option, is_capped, options)?;
    }
    Ok(())
}
