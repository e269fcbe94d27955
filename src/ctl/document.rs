//! Reads a file of `--live` or a report in JSON, and gives the same plain data for both.
//!
//! The file is not trusted: it may be a pipe, a directory, huge, torn or hostile. Its kind is checked before
//! it is read, and it is read up to a bound. An error is one line. Numbers and texts are those of the file:
//! the code that prints them makes the texts plain.

use crate::find::Directories;
use crate::model::{Report, SampledLines};
use crate::{find::path_of, output::Failure, process::identity_of};
use pyhost_os::clock;
use pyhost_record::directory::{Entry, Here};
use pyhost_record::lines::{samples_of, unwritten_samples};
use pyhost_record::{self as record, Record, SIZE, Unreadable};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest report that is read, in bytes.
const LARGEST: u64 = 16 << 20;

pub enum Document {
    /// A header and a ledger; whether their process runs; their file.
    Record(Box<Record>, bool, PathBuf),
    Report(Box<Report>, String),
}

impl Document {
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let refuse = |what: String| Failure::of(path, what);
        let bytes = bytes_of(path).map_err(refuse)?;
        if record::begins(&bytes) {
            let record = Record::of_bytes(&bytes).map_err(|error| refuse(error.to_string()))?;
            let alive = is_alive(path, &record);
            return Ok(Document::Record(Box::new(record), alive, path.to_owned()));
        }
        if bytes.trim_ascii_start().first() != Some(&b'{') {
            let what = "is neither a file of --live nor a report in JSON";
            return Err(Failure::of(path, what));
        }
        let text = text_of(bytes.as_slice()).map_err(refuse)?;
        let report = Report::of_json(&text).map_err(refuse)?;
        Ok(Document::Report(Box::new(report), text))
    }

    /// Whether it is the ledger of a process that runs.
    pub fn is_running(&self) -> bool {
        matches!(self, Document::Record(_, true, _))
    }

    pub fn into_report(self) -> (Box<Report>, String) {
        match self {
            Document::Report(report, text) => (report, text),
            Document::Record(record, alive, path) => {
                let report = report_of(&record, alive, &path);
                let text = report.to_json();
                (report, text)
            }
        }
    }
}

/// The report of a ledger: what it says, and the samples beside it, which are read now.
fn report_of(record: &Record, alive: bool, path: &Path) -> Box<Report> {
    let mut report = Report::of_record(record, alive);
    report.lines = samples_of(path).map(|mut samples| {
        if alive {
            samples.look_at_clock(clock::monotonic());
        }
        SampledLines::of_samples(&samples)
    });
    let unwritten = unwritten_samples(record.header());
    report.lines_missing = unwritten.filter(|_| report.lines.is_none());
    Box::new(report)
}

/// The text of a regular file, or what is wrong with it.
pub fn text_of_file(path: &Path) -> Result<String, String> {
    text_of(bytes_of(path)?.as_slice())
}

/// A text of at most [`LARGEST`] bytes, or what is wrong with it.
pub fn text_of(input: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = input.take(LARGEST + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot be read ({error})"))?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!(
            "has more than {LARGEST} bytes; expected a file of pyhost's"
        ));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}

/// The bytes of a regular file of at most [`LARGEST`], or what is wrong with it.
fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    record::read_regular(path, LARGEST).map_err(|error| match error {
        Unreadable::Length(length) => format!(
            "has {length} bytes; expected the {SIZE} of a ledger, or a report of at most {LARGEST}"
        ),
        other => other.to_string(),
    })
}

/// Whether a record's process runs: by its header, since the file may have another name.
fn is_alive(path: &Path, record: &Record) -> bool {
    let identity = identity_of(record.header());
    let path = path.to_owned();
    record.is_running() && Entry { path, identity }.is_alive(&Here::find())
}

/// A report, and where it comes from.
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

impl Input {
    /// Reads the report of a file in JSON, of standard input (`-`), or of the ledger of a host.
    pub fn read(what: &str, directories: &Directories) -> Result<Input, Failure> {
        if what == "-" {
            let refuse = |what| Failure(format!("standard input {what}"));
            let text = text_of(std::io::stdin().lock()).map_err(refuse)?;
            return Ok(Input {
                report: Box::new(Report::of_json(&text).map_err(refuse)?),
                text,
                name: "standard input".to_owned(),
                file: None,
            });
        }
        let path = path_of(what, directories)?;
        let document = Document::read(&path)?;
        let is_report = matches!(document, Document::Report(..));
        let (report, text) = document.into_report();
        Ok(Input {
            report,
            text,
            name: format!("'{}'", path.display()),
            file: is_report.then_some(path),
        })
    }
}
