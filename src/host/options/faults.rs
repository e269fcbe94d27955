//! The options of forced failures, from the command line or the variables.

use super::Options;
use super::outputs::{FAIL_LOG, Outputs};
use super::table::Given;
use crate::allocator::Allocator;
use crate::error::Error;
pub use crate::faults::FaultSettings;
use crate::faults::MAX_RULES;
use crate::ledger::Account;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Reads the options; where they are silent, the variables.
///
/// # Errors
/// Refuses options that need another one, or that are given twice.
pub fn settings(
    cli: &Given,
    variables: &Given,
    is_inherited: bool,
    outputs: &mut Outputs,
) -> Result<FaultSettings, Error> {
    let log = match (&cli.fail_log, &variables.fail_log) {
        (Some(path), _) => outputs.choose(FAIL_LOG, path, false, false)?,
        (None, Some(path)) => {
            outputs.choose(FAIL_LOG.given_by(false), path, false, is_inherited)?
        }
        (None, None) => None,
    };
    let settings = FaultSettings {
        rules: cli
            .fail
            .as_ref()
            .or(variables.fail.as_ref())
            .cloned()
            .unwrap_or_default(),
        log: log.map(|path| PathBuf::from(OsString::from_vec(path))),
        fresh_log: cli.fail_log.is_some(),
    };
    let refuse = |text: &str| Err(Error::option(text));
    if settings.rules.len() > MAX_RULES {
        return refuse("--fail: too many rules; expected at most 8");
    }
    if settings.rules.is_empty() && cli.fail_log.is_some() {
        return refuse("--fail-log: nothing fails; expected --fail");
    }
    Ok(settings)
}

/// Refuses rules about a malloc that is not the host's, or that is not counted.
///
/// # Errors
/// Such a rule.
pub fn check(options: &Options) -> Result<(), Error> {
    for account in [Account::Native, Account::Mapped] {
        if options.faults.rules.iter().any(|rule| rule.names(account)) {
            let rule = format!("--fail {}=...", account.name());
            super::check_native(&rule, options)?;
            if options.allocator == Some(Allocator::System) {
                return Err(Error::option(format!(
                    "{rule}: not with --allocator system; expected an allocator that replaces malloc"
                )));
            }
        }
    }
    Ok(())
}
