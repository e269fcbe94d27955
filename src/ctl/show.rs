//! `pyhostctl show`: the accounts of a process that runs, was killed, or left a report.

use crate::document::Document;
use crate::failure::{Failure, print};
use crate::find;
use crate::model::escaped;
use clap::Args;
use std::path::Path;

/// The options of `show`.
#[derive(Debug, Args)]
pub struct ShowOptions {
    /// As the report's JSON, schema pyhost-report/1
    #[arg(long)]
    pub json: bool,

    /// A process id, a file of --live, or a report in JSON
    #[arg(value_name = "FILE|PID")]
    pub what: String,
}

/// Shows what was asked for.
///
/// # Errors
/// It is not there or no host's, or standard output cannot be written.
pub fn run(options: &ShowOptions, directory: &Path) -> Result<(), Failure> {
    let document = Document::read(&find::path_of(&options.what, directory)?)?;
    print(&match options.json {
        true => escaped(&document.into_report().1),
        false => document.summary().to_text(),
    })
}
