//! Where the report comes from: a file in JSON, standard input, or the ledger of a host.

use crate::Failure;
use crate::report::to_json;
use crate::show::path_of;
use crate::stored::{Document, text_of};
use std::path::{Path, PathBuf};

/// A report's text.
#[derive(Debug)]
pub struct Input {
    /// In JSON, schema `pyhost-report/1`.
    pub text: String,
    /// What to call it in errors.
    pub name: String,
    /// The file in JSON that it was read from; None for standard input and ledgers.
    pub file: Option<PathBuf>,
}

/// Reads the report that `what` names.
///
/// # Errors
/// It is not there, cannot be read, or is neither a report in JSON nor a host's ledger.
pub fn read(what: &str, directory: &Path) -> Result<Input, Failure> {
    if what == "-" {
        let name = "standard input".to_owned();
        let text =
            text_of(std::io::stdin().lock()).map_err(|what| Failure(format!("{name} {what}")))?;
        return Ok(Input {
            text,
            name,
            file: None,
        });
    }
    let path = path_of(what, directory)?;
    let name = format!("'{}'", path.display());
    let (text, file) = match Document::read(&path)? {
        Document::Record(record, alive) => (to_json(&record, alive), None),
        Document::Report(_, text) => (text, Some(path)),
    };
    Ok(Input { text, name, file })
}
