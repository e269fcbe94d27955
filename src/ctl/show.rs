//! `pyhostctl show`: the accounts of a process that runs, was killed, or left a report.

use crate::cli::ShowOptions;
use crate::document::Document;
use crate::model::Report;
use crate::summary::Summary;
use crate::{Failure, find, print};
use pyhost_os::bytes::Bytes;
use pyhost_os::plain::plain;
use pyhost_record::table;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Shows what was asked for.
///
/// # Errors
/// It is not there or no host's, or standard output cannot be written.
pub fn run(options: &ShowOptions, directory: &Path) -> Result<(), Failure> {
    let document = Document::read(&path_of(&options.what, directory)?)?;
    print(&match (&document, options.json) {
        (Document::Record(record, alive), true) => Report::of_record(record, *alive).to_json(),
        (Document::Report(_, text), true) => escaped(text),
        (_, false) => to_text(&document.summary()),
    })
}

/// The file that a word of the command line names: a process's, or a path.
///
/// # Errors
/// There is no file of that process.
pub fn path_of(word: &str, directory: &Path) -> Result<PathBuf, Failure> {
    match word.parse() {
        Ok(name) => find::of_process(&name, directory),
        Err(_) => Ok(PathBuf::from(word)),
    }
}

/// A report's text as it is, but for control characters inside of strings, which JSON allows from
/// U+007F on.
pub fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 1);
    for letter in text.trim_end().chars() {
        match letter {
            '\n' | '\r' | '\t' => line.push(letter),
            control if control.is_control() => {
                let _ = write!(line, "\\u{:04x}", control as u32);
            }
            other => line.push(other),
        }
    }
    line.push('\n');
    line
}

/// A process as a table for people.
pub fn to_text(summary: &Summary) -> String {
    let mut text = format!(
        "process {} ({}), Python {}, since {}: {}\n",
        summary.pid,
        summary.command,
        plain(&summary.python),
        plain(&summary.started),
        plain(&summary.status)
    );
    let _ = table::titles(&mut text);
    let _ = writeln!(text, "{:>9}{:>8}", "refused", "failed");
    let shown = |bytes| Bytes(bytes).to_string();
    for row in &summary.accounts {
        let _ = table::row(
            &mut text,
            &plain(&row.name),
            [row.live_bytes, row.peak_bytes],
            [row.live_blocks, row.total_blocks],
        );
        let _ = writeln!(text, "{:>9}{:>8}", row.refused, row.failed);
    }
    let (live, peak) = summary.total;
    let _ = table::total(&mut text, live, peak);
    let _ = match summary.resident {
        (Some(now), Some(peak)) => {
            writeln!(text, "resident {}, peak {}", shown(now), shown(peak))
        }
        (Some(now), None) => writeln!(text, "resident {}", shown(now)),
        (None, Some(peak)) => writeln!(text, "resident peak {}", shown(peak)),
        (None, None) => Ok(()),
    };
    if let Some(bytes) = summary.inherited {
        let _ = writeln!(
            text,
            "a forked child: {} of the live bytes were there at the fork, and are its parent's too",
            shown(bytes)
        );
    }
    for (name, bytes) in &summary.caps {
        let _ = writeln!(text, "cap of {} ({})", shown(*bytes), plain(name));
    }
    if let Some((count, line)) = &summary.refusal {
        let _ = writeln!(text, "refusals: {count}; the last: {}", plain(line));
    }
    text
}
