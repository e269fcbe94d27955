//! `pyhostctl diff`: two moments of a process, or of two, an account a row; and the lines that changed.

mod lines;
mod listing;
#[cfg(test)]
mod tests;

pub use lines::{Change, LineChanges};
pub use listing::{Listing, error_of_change, interval_of};

use crate::baseline;
use crate::document::Document;
use crate::failure::{Failure, print};
use crate::find::path_of;
use crate::stacks::{Stacks, View};
use crate::summary::{AccountSummary, Summary};
use clap::Args;
use pyhost_os::bytes::Bytes;
use pyhost_os::plain::plain;
use pyhost_record::describe::Sink;
use pyhost_record::json::Json;
use std::fmt::Write;
use std::path::Path;

/// The options of `diff`.
#[derive(Debug, Args)]
pub struct DiffOptions {
    /// As JSON, schema pyhost-diff/1
    #[arg(long)]
    pub json: bool,

    /// Keep the accounts of process A as its baseline, to compare with later
    #[arg(long, conflicts_with_all = ["json", "b"])]
    pub keep: bool,

    /// A process id, a file of --live, or a report in JSON
    #[arg(value_name = "A")]
    pub a: String,

    /// The same; without it, A is a process id, which is compared with its baseline
    #[arg(value_name = "B")]
    pub b: Option<String>,
}

/// The schema's name, the first field of the JSON form.
const SCHEMA: &str = "pyhost-diff/1";

/// Compares A with B; a process id alone is compared with its baseline.
///
/// # Errors
/// One of them is not there or no host's, or standard output cannot be written.
pub fn run(options: &DiffOptions, directory: &Path) -> Result<(), Failure> {
    if options.keep {
        return baseline::keep(&options.a, directory);
    }
    let (a, b) = match &options.b {
        Some(b) => (path_of(&options.a, directory)?, path_of(b, directory)?),
        None => {
            let path = path_of(&options.a, directory)?;
            (baseline::of(&options.a, &path, directory)?, path)
        }
    };
    let ((a, of_a), (b, of_b)) = (side(&a)?, side(&b)?);
    let lines = match (&of_a, &of_b) {
        (Some(a), Some(b)) => Some(LineChanges::new(a, b, View::Live)),
        _ => None,
    };
    let [text, json] = forms(&a, &b, lines.as_ref());
    print(if options.json { &json } else { &text })
}

/// The summary of a report or of a process, and its sampled lines; None if it has none.
fn side(path: &Path) -> Result<(Summary, Option<Stacks>), Failure> {
    let document = Document::read(path)?;
    let summary = document.summary();
    let report = document.report();
    let stacks = report.lines.is_some().then(|| Stacks::by_thread(&report));
    let refuse = |what| Failure(format!("'{}' {what}", path.display()));
    Ok((summary, stacks.transpose().map_err(refuse)?))
}

/// Both forms of a comparison.
pub fn forms(a: &Summary, b: &Summary, lines: Option<&LineChanges>) -> [String; 2] {
    let pairs = pairs(a, b);
    let text = to_text(a, b, &pairs) + &lines.map_or(String::new(), LineChanges::to_text);
    [text, to_json(a, b, &pairs, lines)]
}

/// The accounts of both, in A's order and then B's; one that only the other has counts nothing.
fn pairs(a: &Summary, b: &Summary) -> Vec<(AccountSummary, AccountSummary)> {
    let named =
        |rows: &[AccountSummary], name: &str| rows.iter().find(|row| row.name == name).cloned();
    let mut names: Vec<&str> = a.accounts.iter().map(|row| row.name.as_str()).collect();
    let others = b.accounts.iter().map(|row| row.name.as_str());
    let others: Vec<&str> = others.filter(|name| !names.contains(name)).collect();
    names.extend(others);
    let row = |rows: &[AccountSummary], name: &str| {
        named(rows, name).unwrap_or_else(|| AccountSummary {
            name: name.to_owned(),
            ..AccountSummary::default()
        })
    };
    let both = names
        .iter()
        .map(|name| (row(&a.accounts, name), row(&b.accounts, name)));
    both.collect()
}

/// A difference of bytes, with its sign; empty if there is none.
pub fn signed(a: u64, b: u64) -> String {
    match a.cmp(&b) {
        std::cmp::Ordering::Equal => "0".to_owned(),
        std::cmp::Ordering::Less => format!("+{}", Bytes(b - a)),
        std::cmp::Ordering::Greater => format!("-{}", Bytes(a - b)),
    }
}

/// B less A, as far as it fits.
fn change(a: u64, b: u64) -> i64 {
    let change = i128::from(b) - i128::from(a);
    change.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn line_of(letter: char, summary: &Summary) -> String {
    let when = match summary.seconds {
        Some(seconds) => format!(", {seconds:.1} s after its start"),
        None => String::new(),
    };
    format!(
        "{letter}: process {} ({}), Python {}, since {}{when}: {}\n",
        summary.pid,
        summary.command,
        plain(&summary.python),
        plain(&summary.started),
        plain(&summary.status)
    )
}

fn to_text(a: &Summary, b: &Summary, pairs: &[(AccountSummary, AccountSummary)]) -> String {
    let mut text = line_of('A', a) + &line_of('B', b);
    let _ = writeln!(
        text,
        "{:<8}{:>11}{:>11}{:>12}{:>11}{:>11}{:>12}{:>10}{:>10}{:>11}",
        "account",
        "live A",
        "live B",
        "change",
        "peak A",
        "peak B",
        "change",
        "blocks A",
        "blocks B",
        "change"
    );
    let bytes = |a, b| {
        format!(
            "{:>11}{:>11}{:>12}",
            Bytes(a).to_string(),
            Bytes(b).to_string(),
            signed(a, b)
        )
    };
    for (a, b) in pairs {
        let blocks = match change(a.live_blocks, b.live_blocks) {
            0 => "0".to_owned(),
            change => format!("{change:+}"),
        };
        let _ = writeln!(
            text,
            "{:<8}{}{}{:>10}{:>10}{blocks:>11}",
            plain(&a.name),
            bytes(a.live_bytes, b.live_bytes),
            bytes(a.peak_bytes, b.peak_bytes),
            a.live_blocks,
            b.live_blocks
        );
    }
    let _ = writeln!(
        text,
        "{:<8}{}{}",
        "total",
        bytes(a.total.0, b.total.0),
        bytes(a.total.1, b.total.1)
    );
    if let (Some(a), Some(b)) = (a.resident.0, b.resident.0) {
        let _ = writeln!(text, "{:<8}{}", "resident", bytes(a, b));
    }
    text
}

fn to_json(
    a: &Summary,
    b: &Summary,
    pairs: &[(AccountSummary, AccountSummary)],
    lines: Option<&LineChanges>,
) -> String {
    let mut text = String::new();
    let mut sink = Json::new(&mut text);
    sink.text("schema", SCHEMA);
    for (key, summary) in [("a", a), ("b", b)] {
        sink.begin(key);
        sink.int("pid", summary.pid);
        sink.begin_list("argv");
        for word in &summary.argv {
            sink.text("", word);
        }
        sink.end();
        sink.text("started", &summary.started);
        match summary.seconds {
            Some(seconds) => sink.fraction("wall_seconds", seconds),
            None => sink.null("wall_seconds"),
        }
        sink.end();
    }
    sink.begin("accounts");
    for (a, b) in pairs {
        sink.begin(&a.name);
        both("live_bytes", a.live_bytes, b.live_bytes, &mut sink);
        both("peak_bytes", a.peak_bytes, b.peak_bytes, &mut sink);
        both("live_blocks", a.live_blocks, b.live_blocks, &mut sink);
        both("total_blocks", a.total_blocks, b.total_blocks, &mut sink);
        sink.end();
    }
    sink.end();
    sink.begin("total");
    both("live_bytes", a.total.0, b.total.0, &mut sink);
    both("peak_bytes", a.total.1, b.total.1, &mut sink);
    sink.end();
    match (a.resident.0, b.resident.0) {
        (Some(a), Some(b)) => both("resident_bytes", a, b, &mut sink),
        _ => sink.null("resident_bytes"),
    }
    match lines {
        Some(lines) => lines.describe(&mut sink),
        None => sink.null("lines"),
    }
    sink.finish();
    text
}

fn both(key: &str, a: u64, b: u64, sink: &mut impl Sink) {
    sink.begin(key);
    sink.int("a", change(0, a));
    sink.int("b", change(0, b));
    sink.int("change", change(a, b));
    sink.end();
}
