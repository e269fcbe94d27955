//! The options of forced failures.

use super::outputs::{FAIL_LOG, Outputs};
use super::table::Values;
use super::{Options, native_account, refuse_if};
use crate::allocator::Allocator;
pub use crate::check::faults::FaultSettings;
use crate::check::faults::MAX_RULES;
use crate::error::{Error, Result};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

pub fn settings(values: &mut Values, outputs: &mut Outputs) -> Result<FaultSettings> {
    let is_given = values.is_given("--fail");
    let is_inherited = outputs.is_inherited("--fail", values);
    let log = match values.fail_log.clone() {
        Some(path) => outputs.choose(FAIL_LOG, &path, values, is_inherited)?,
        None => None,
    };
    let settings = FaultSettings {
        rules: values.fail.clone().unwrap_or_default(),
        log: log.map(|path| PathBuf::from(OsString::from_vec(path))),
        fresh_log: is_given,
    };
    refuse_if(
        settings.rules.len() > MAX_RULES,
        "--fail: too many rules; expected at most 8",
    )?;
    refuse_if(
        settings.rules.is_empty() && settings.log.is_some() && is_given,
        "--fail log: nothing fails; expected --fail SPEC,log=PATH",
    )?;
    Ok(settings)
}

/// Refuses rules about a malloc that is not the host's, or that is not counted.
pub fn check(options: &Options) -> Result<()> {
    let is_named = |account| options.faults.rules.iter().any(|rule| rule.names(account));
    let named = native_account("--fail", is_named, options)?;
    match (named, options.allocator) {
        (Some(account), Some(Allocator::System)) => Err(Error::option(format!(
            "--fail {}=...: not with --allocator system; expected an allocator that replaces malloc",
            account.name()
        ))),
        _ => Ok(()),
    }
}
