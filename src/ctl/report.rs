//! `pyhostctl report`: the reports of hosts that run, made of their files.

use crate::document::Document;
use crate::failure::{Failure, print};
use crate::find::{self, Name};
use clap::Args;
use std::path::Path;

/// The options of `report`.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// As a table
    #[arg(long)]
    pub text: bool,

    /// Process ids of hosts with --live; NAMESPACE:PID where processes of several pid namespaces have one
    #[arg(value_name = "PID", required = true)]
    pub pids: Vec<Name>,
}

/// Reports on processes that run: what their ledgers and `/proc` have, a line of JSON or a table each.
///
/// # Errors
/// One does not run or is no host with `--live`, or standard output cannot be written.
pub fn run(options: &ReportOptions, directory: &Path) -> Result<(), Failure> {
    let mut text = String::new();
    for name in &options.pids {
        let document = Document::read(&find::of_process(name, directory)?)?;
        match &document {
            Document::Record(_, true, _) if !options.text => text += &document.into_report().1,
            Document::Record(_, true, _) => text += &document.summary().to_text(),
            _ => {
                return Err(Failure(format!(
                    "process {name} runs no more; expected a host that runs, or `pyhostctl show \
                     {name}`"
                )));
            }
        }
    }
    print(&text)
}
