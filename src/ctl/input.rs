//! Where the report comes from: a file in JSON, standard input, or the ledger of a host.

use crate::document::{Document, text_of};
use crate::failure::Failure;
use crate::find::path_of;
use crate::model::Report;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Input {
    pub report: Box<Report>,
    /// The same in JSON.
    pub text: String,
    /// The report as error messages name it.
    pub name: String,
    /// The file in JSON that it was read from; None for standard input and ledgers.
    pub file: Option<PathBuf>,
}

pub fn read(what: &str, directory: &Path) -> Result<Input, Failure> {
    if what == "-" {
        let refuse = |what| Failure(format!("standard input {what}"));
        let text = text_of(std::io::stdin().lock()).map_err(refuse)?;
        let report = Box::new(Report::of_json(&text).map_err(refuse)?);
        return Ok(Input {
            report,
            text,
            name: "standard input".to_owned(),
            file: None,
        });
    }
    let path = path_of(what, directory)?;
    let name = format!("'{}'", path.display());
    let document = Document::read(&path)?;
    let is_report = matches!(document, Document::Report(..));
    let (report, text) = document.into_report();
    Ok(Input {
        report,
        text,
        name,
        file: is_report.then_some(path),
    })
}
