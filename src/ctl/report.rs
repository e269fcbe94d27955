//! `pyhostctl report`: the reports of processes that run or were killed, made of their files, and reports as tables.

use crate::find::Directories;
use crate::output::{Failure, print};
use crate::{document::Document, find, model::escaped};
use clap::Args;

#[derive(Debug, Args)]
pub struct ReportOptions {
    /// As a table
    #[arg(long)]
    pub text: bool,

    /// Process ids of hosts with --live, files of --live, or reports in JSON; NAMESPACE:PID if processes of several pid
    /// namespaces have one id
    #[arg(value_name = "FILE|PID", required = true)]
    pub what: Vec<String>,
}

/// Reports on processes, of what their ledgers and `/proc` have, and on reports: a line of JSON or a table each.
pub fn run(options: &ReportOptions, directories: &Directories) -> Result<(), Failure> {
    let mut text = String::new();
    for word in &options.what {
        let document = Document::read(&find::path_of(word, directories)?)?;
        let (report, json) = document.into_report();
        text += &match options.text {
            true => report.to_text(),
            false => escaped(&json),
        };
    }
    print(&text)
}
