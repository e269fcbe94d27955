//! The options of caps.

use super::baked;
use super::table::Given;
use crate::caps::{CapSettings, CapSize, Rule, Rules};
use crate::error::Error;
use crate::ledger::Scope;

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
    Ok(CapSettings {
        hard,
        soft: rules(&cli.soft_cap, &variables.soft_cap),
        share: cli.cap_share.or(variables.cap_share),
        most,
    })
}
