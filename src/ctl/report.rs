//! `pyhostctl report`: the reports of hosts that run, made of their files.

use crate::cli::ReportOptions;
use crate::document::Document;
use crate::model::Report;
use crate::process::{Usage, identity_of};
use crate::show::to_text;
use crate::{Failure, find, print};
use pyhost_ledger::card::Card;
use pyhost_record::directory::Here;
use std::path::Path;

/// Reports on processes that run: what their ledgers and `/proc` have, a line of JSON or a table each.
///
/// # Errors
/// One does not run or is no host with `--live`, or standard output cannot be written.
pub fn run(options: &ReportOptions, directory: &Path) -> Result<(), Failure> {
    let mut text = String::new();
    for name in &options.pids {
        let document = Document::read(&find::of_process(name, directory)?)?;
        match &document {
            Document::Record(record, true) if !options.text => {
                text += &Report::of_record(record, true).to_json()
            }
            Document::Record(_, true) => text += &to_text(&document.summary()),
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

/// Resident bytes of a process, now and at most: from `/proc` where it runs, else what its host had noted
/// when it ended. None for what is not known.
pub fn resident_of_record(card: &Card, alive: bool) -> (Option<u64>, Option<u64>) {
    match alive {
        true => {
            let usage = Usage::of(&identity_of(card), &Here::find());
            (usage.resident, usage.peak_resident)
        }
        false => card.last_resident(),
    }
}
