//! Where the report comes from: a file in JSON, standard input, or the ledger of a host.

use crate::report::to_json;
use crate::show::is_alive;
use crate::{Failure, find};
use pyhost_shared::record::Record;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// More than this no report and no timeline has: of both, a few MiB at most.
const MOST: u64 = 64 << 20;

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
        let text = text_of(std::io::stdin().lock(), &name)?;
        return Ok(Input {
            text,
            name,
            file: None,
        });
    }
    let path = match what.parse::<i32>() {
        Ok(pid) => find::of_process(pid, directory)?,
        Err(_) => PathBuf::from(what),
    };
    let name = format!("'{}'", path.display());
    if !is_json(&path).map_err(|error| unreadable(&name, &error))? {
        let record = Record::read(&path).map_err(|error| {
            Failure(format!(
                "{name} is no report in JSON, and as a ledger it {error}"
            ))
        })?;
        let alive = is_alive(&path, &record);
        return Ok(Input {
            text: to_json(&record, alive),
            name,
            file: None,
        });
    }
    let file = open(&path).map_err(|error| unreadable(&name, &error))?;
    Ok(Input {
        text: text_of(file, &name)?,
        name,
        file: Some(path),
    })
}

/// The text of a regular file.
///
/// # Errors
/// It is not there, is none, cannot be read, is larger than any of the host's or is not UTF-8.
pub fn text_of_file(path: &Path) -> Result<String, Failure> {
    let name = format!("'{}'", path.display());
    let file = open(path).map_err(|error| unreadable(&name, &error))?;
    text_of(file, &name)
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure(format!("{name} cannot be read ({error})"))
}

/// Opens a regular file. A pipe of that name must not stop the reader.
fn open(path: &Path) -> std::io::Result<File> {
    match std::fs::metadata(path)?.is_file() {
        true => File::open(path),
        false => Err(std::io::Error::other("it is no regular file")),
    }
}

/// Whether a file begins as JSON: with a brace, after white space.
fn is_json(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    open(path)?.take(64).read_to_end(&mut start)?;
    Ok(start.trim_ascii_start().starts_with(b"{"))
}

fn text_of(input: impl Read, name: &str) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = input.take(MOST + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(name, &error))?;
    if bytes.len() as u64 > MOST {
        return Err(Failure(format!(
            "{name} is larger than {} MiB; expected a file of pyhost's",
            MOST >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|_| Failure(format!("{name} is not UTF-8")))
}
