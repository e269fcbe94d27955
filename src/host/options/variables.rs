//! The host's variables.

use super::table::{Given, Row};
use crate::error::Error;
use std::ffi::OsString;

/// Names the outermost host of a family of processes, by its process id.
pub const OUTERMOST: &str = "PYHOST_OUTERMOST";

/// The variable of `--live`.
pub const LIVE: &str = "PYHOST_LIVE";

/// A variable that is set and not empty.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The values that the options' variables give.
///
/// # Errors
/// A value that is wrong.
pub fn read() -> Result<Given, Error> {
    let text = |row: &Row| match row.variable {
        "" => None,
        name => variable(name),
    };
    Given::read(&|row| text(row).into_iter().collect(), &|row, _, reason| {
        Error::option(format!("{}: {reason}", row.variable))
    })
}
