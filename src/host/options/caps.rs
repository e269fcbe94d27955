//! The options of caps.

use super::baked;
use crate::caps::{CapSize, Rule, Rules, Settings};
use crate::cli::Cli;
use crate::error::Error;
use crate::ledger::Scope;

/// What the options and, where they are silent, the variables and the build say.
///
/// # Errors
/// A cap of the total above the one that was baked in.
pub fn settings(cli: &Cli, variables: &Settings) -> Result<Settings, Error> {
    let rules = |given: &[Rule], inherited: &Rules| match given {
        [] => inherited.clone(),
        given => Rules(given.to_vec()),
    };
    let mut hard = rules(&cli.caps.cap, &variables.hard);
    let most = baked::cap();
    if let Some(most) = most {
        let name = match cli.caps.cap.as_slice() {
            [] => "PYHOST_CAP",
            _ => "--cap",
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
    Ok(Settings {
        hard,
        soft: rules(&cli.caps.soft_cap, &variables.soft),
        share: cli.caps.cap_share.or(variables.share),
        most,
    })
}
