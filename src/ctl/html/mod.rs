//! `pyhostctl html`: a report, and its timeline, as one page that asks nothing of any network.
//!
//! [`timeline`] reads the timeline; a module a section makes
//! markup of the report, [`bands`] and [`chart`] the picture; [`page`] puts all together. The page is made whole before
//! a byte of it is written, and a file of it is whole or not there.

mod accounts;
mod balance;
mod bands;
mod chart;
mod figures;
mod heaps;
pub mod lines;
mod over_time;
pub mod page;
mod peak;
mod processes;
mod refusal;
mod summary;
mod text;
pub mod timeline;

#[cfg(test)]
mod contrast;

use crate::document::{Input, text_of_file};
use crate::find::Directories;
use crate::output::{self, Failure, print};
use crate::tree::statement_of;
use clap::Args;
use lines::Baseline;
use page::Beside;
use std::path::{Path, PathBuf};
use timeline::Timeline;

#[derive(Debug, Args)]
pub struct HtmlOptions {
    /// The timeline of the same run, as --timeline wrote it
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,

    /// Compare the sampled lines with those of an earlier report: in JSON, `-` for stdin, a process id, or a file of --live
    #[arg(long, value_name = "OTHER")]
    pub baseline: Option<String>,

    /// Where the page goes, `-` for stdout [default: beside a report in a file, with .html; else stdout]
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,

    /// A report in JSON, `-` for stdin, a process id, or a file of --live
    #[arg(value_name = "REPORT")]
    pub report: String,
}

/// A report that has every section.
#[cfg(test)]
const SAMPLE: &str = include_str!("sample.json");

pub fn run(options: &HtmlOptions, directories: &Directories) -> Result<(), Failure> {
    let input = Input::read(&options.report, directories)?;
    let timeline = options.timeline.as_deref().map(timeline_of).transpose()?;
    let baseline = options.baseline.as_deref();
    let baseline = baseline.map(|other| baseline_of(other, directories));
    let (timeline, baseline) = (timeline.as_ref(), baseline.transpose()?);
    let process = options.report.parse().ok();
    let tree = process.and_then(|pid| statement_of(pid, directories).ok());
    let beside = Beside {
        timeline,
        baseline: baseline.as_ref(),
        tree: tree.filter(|(members, _)| members.len() > 1),
    };
    let page = page::page(&input.report, &input.text, &beside);
    let page = page.map_err(|what| Failure(format!("{} {what}", input.name)))?;
    let beside = input.file.map(|path| path.with_extension("html"));
    match (&options.output, beside) {
        (Some(path), _) if path.as_os_str() == "-" => print(&page),
        (Some(path), _) => output::write(path, page.as_bytes()),
        (None, Some(path)) => {
            output::write(&path, page.as_bytes())?;
            print(&format!("{}\n", path.display()))
        }
        (None, None) => print(&page),
    }
}

fn timeline_of(path: &Path) -> Result<Timeline, Failure> {
    let timeline = text_of_file(path).and_then(|text| Timeline::of_text(&text));
    timeline.map_err(|what| Failure::of(path, what))
}

fn baseline_of(what: &str, directories: &Directories) -> Result<Baseline, Failure> {
    let input = Input::read(what, directories)?;
    let baseline = Baseline::new(input.report);
    baseline.map_err(|what| Failure(format!("{} {what}", input.name)))
}
