//! The options of caps.

use super::table::Given;
use super::{Options, baked, native_account};
use crate::error::Error;
use crate::ledger::Scope;
use crate::limit::caps::{CapSettings, CapSize, Rule, Rules};

/// Reads the options; where they are silent, the variables; then the build's values.
///
/// # Errors
/// A cap of the total above the one that was baked in.
pub fn settings(cli: &Given, variables: &Given) -> Result<CapSettings, Error> {
    let rules = |given: &Option<Vec<Rule>>, inherited: &Option<Vec<Rule>>| {
        Rules(
            given
                .as_ref()
                .or(inherited.as_ref())
                .cloned()
                .unwrap_or_default(),
        )
    };
    let mut hard = rules(&cli.cap, &variables.cap);
    let most = baked::cap();
    if let Some(most) = most {
        let name = match cli.cap {
            None => "PYHOST_CAP",
            Some(_) => "--cap",
        };
        match hard.of(Scope::Total).map(|rule| rule.size) {
            Some(CapSize::Bytes(bytes)) => {
                baked::lower(name, Some(bytes), Some(most))?;
            }
            Some(CapSize::Share(_) | CapSize::Auto) => {}
            None => hard.0.push(Rule {
                scope: Scope::Total,
                size: CapSize::Bytes(most),
            }),
        }
    }
    let soft = rules(&cli.soft_cap, &variables.soft_cap);
    if cli.cap_share.is_some() && hard.0.is_empty() && soft.0.is_empty() {
        return Err(Error::option(
            "--cap-share: there is no cap to divide; expected --cap SIZE",
        ));
    }
    Ok(CapSettings {
        hard,
        soft,
        share: cli.cap_share.or(variables.cap_share),
        most,
    })
}

/// Refuses caps of a malloc that is not counted.
///
/// # Errors
/// Such a cap.
pub fn check(options: &Options) -> Result<(), Error> {
    let CapSettings { hard, soft, .. } = &options.caps;
    for (option, rules) in [("--cap", hard), ("--soft-cap", soft)] {
        let is_capped = |account| rules.of(Scope::Account(account)).is_some();
        native_account(option, is_capped, options)?;
    }
    Ok(())
}
