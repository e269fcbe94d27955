//! `pyhostctl html`: a report, and its timeline, as one page that asks nothing of any network.
//!
//! [`input`] reads the report as text, [`model`] and [`timeline`] as data; a module a section makes
//! markup of it, [`bands`] and [`chart`] the picture; [`page`] puts all together. The page is made whole before a
//! byte of it is written, and a file of it is whole or not there.

mod accounts;
mod balance;
mod bands;
mod chart;
mod checks;
mod classes;
mod figures;
mod heaps;
mod input;
mod model;
mod over_time;
mod page;
mod refusal;
mod summary;
mod text;
mod timeline;

#[cfg(test)]
mod contrast;

use crate::cli::HtmlOptions;
use crate::stored::text_of_file;
use crate::{Failure, print};
use model::Report;
use pyhost_shared::describe::SCHEMA;
use std::fs;
use std::path::{Path, PathBuf};
use timeline::Timeline;

/// A report that has every section.
#[cfg(test)]
const SAMPLE: &str = include_str!("sample.json");

/// Makes the page that was asked for.
///
/// # Errors
/// The report or the timeline cannot be read or is none, or the page cannot be written.
pub fn run(options: &HtmlOptions, directory: &Path) -> Result<(), Failure> {
    let input = input::read(&options.report, directory)?;
    let report = report_of(&input.text, &input.name)?;
    let timeline = match &options.timeline {
        Some(path) => Some(timeline_of(path)?),
        None => None,
    };
    let page = page::page(&report, &input.text, timeline.as_ref()).map_err(Failure)?;
    let beside = input.file.map(|path| path.with_extension("html"));
    match (&options.output, beside) {
        (Some(path), _) if path.as_os_str() == "-" => print(&page),
        (Some(path), _) => write(path, &page),
        (None, Some(path)) => {
            write(&path, &page)?;
            print(&format!("{}\n", path.display()))
        }
        (None, None) => print(&page),
    }
}

fn report_of(text: &str, name: &str) -> Result<Report, Failure> {
    let report: Report = serde_json::from_str(text)
        .map_err(|error| Failure(format!("{name} is no report of pyhost's ({error})")))?;
    match report.schema.as_str() {
        SCHEMA => Ok(report),
        "" => Err(Failure(format!(
            "{name} is no report of pyhost's; expected JSON with \"schema\":\"{SCHEMA}\""
        ))),
        other => Err(Failure(format!(
            "{name} is of schema '{}'; expected {SCHEMA}",
            text::short(other, 40)
        ))),
    }
}

fn timeline_of(path: &Path) -> Result<Timeline, Failure> {
    let refuse = |what: String| Failure(format!("'{}' {what}", path.display()));
    let text = text_of_file(path).map_err(refuse)?;
    Timeline::of_text(&text).map_err(|error| refuse(error.to_string()))
}

/// Writes the whole page beside its place, then moves it there.
fn write(path: &Path, page: &str) -> Result<(), Failure> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let written = fs::write(&part, page).and_then(|()| fs::rename(&part, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&part);
        Failure(format!("'{}' cannot be written ({error})", path.display()))
    })
}
