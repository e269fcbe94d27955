//! The options of checks: forced failures, and the rules of `--leak-check suppressions=FILE`.

use super::outputs::{FAIL_LOG, Outputs};
use super::{Options, native_account, refuse_if, table::Values};
use crate::allocator::Allocator;
pub use crate::check::faults::FaultSettings;
use crate::error::{Error, Result};
use crate::{check::faults::MAX_RULES, check::leaks::Suppressions};
use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

pub fn faults(values: &mut Values, outputs: &mut Outputs) -> Result<FaultSettings> {
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
pub fn check_faults(options: &Options) -> Result<()> {
    let is_named = |account| options.faults.rules.iter().any(|rule| rule.names(account));
    let named = native_account("--fail", is_named, options)?;
    match (named, options.given.allocator) {
        (Some(account), Some(Allocator::System)) => Err(Error::option(format!(
            "--fail {}=...: not with --allocator system; expected an allocator that replaces malloc",
            account.name()
        ))),
        _ => Ok(()),
    }
}

/// Reads the files. One that a parent process named and that cannot be read is left out, with a notice.
pub fn suppressions(values: &Values, outputs: &mut Outputs) -> Result<Suppressions> {
    let name = format!("{} suppressions", values.name("--leak-check"));
    let mut rules = Suppressions::default();
    rules.names_unused = values.leak_unused.unwrap_or_default();
    for path in values.leak_suppressions.iter().flatten() {
        let text = std::fs::read_to_string(path);
        let path = path.display().to_string();
        match text {
            Ok(text) => rules
                .add(&path, &text)
                .map_err(|reason| Error::option(format!("{name}: '{path}' {reason}")))?,
            Err(error) => {
                let text = format!("{name}: '{path}' cannot be read ({error})");
                if !outputs.is_inherited("--leak-check", values) {
                    return Err(Error::option(text));
                }
                let notice = format!("{text}; the script runs without its rules");
                outputs.notices.push(notice);
            }
        }
    }
    Ok(rules)
}
