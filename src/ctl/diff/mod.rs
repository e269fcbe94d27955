//! `pyhostctl diff`: two moments of a process, or of two, an account a row; and the lines that changed.

mod lines;
#[cfg(test)]
mod tests;

pub use lines::{Change, LineChanges, Listing, interval_of};

use crate::find::Directories;
use crate::model::{Account, Ordered, Process, Report, escaped};
use crate::output::{Failure, print};
use crate::stacks::{Stacks, View};
use crate::summary::signed;
use crate::{baseline, document::Document, find::path_of, output::may_have_colours};
use clap::Args;
use pyhost_os::{bytes::Bytes, terminal_text::plain};
use serde_json::{Map, Value, json};
use std::{fmt::Write, io::IsTerminal, path::Path};

#[derive(Debug, Args)]
pub struct DiffOptions {
    /// The bytes of lines that are compared
    #[arg(long, value_name = "VIEW", default_value = "live")]
    pub view: View,

    /// As JSON, schema pyhost-diff/1
    #[arg(long)]
    pub json: bool,

    /// Keep the accounts of process A as its baseline, to compare with later
    #[arg(long, conflicts_with_all = ["json", "view", "b"])]
    pub keep: bool,

    /// A process id, a file of --live, or a report in JSON
    #[arg(value_name = "A")]
    pub a: String,

    /// The same; without it, A is a process id, which is compared with its baseline
    #[arg(value_name = "B")]
    pub b: Option<String>,
}

const SCHEMA: &str = "pyhost-diff/1";

const TITLES: &str = "account      live A     live B      change     peak A     peak B      change  blocks A  blocks B     change\n";

/// Compares A with B; a process id alone is compared with its baseline.
pub fn run(options: &DiffOptions, directories: &Directories) -> Result<(), Failure> {
    if options.keep {
        return baseline::keep(&options.a, directories);
    }
    let (a, b) = match &options.b {
        Some(b) => (path_of(&options.a, directories)?, path_of(b, directories)?),
        None => {
            let path = path_of(&options.a, directories)?;
            (baseline::of(&options.a, &path)?, path)
        }
    };
    let ((a, of_a), (b, of_b)) = (side(&a)?, side(&b)?);
    let lines = match (&of_a, &of_b) {
        (Some(a), Some(b)) => Some(LineChanges::new(a, b, options.view)),
        _ => None,
    };
    let lines = lines.as_ref();
    let has_colours = std::io::stdout().is_terminal() && may_have_colours();
    let of_lines = |lines: &LineChanges| lines.to_text(has_colours);
    print(&match options.json {
        true => to_json(&a, &b, lines),
        false => to_text(&a, &b) + &lines.map(of_lines).unwrap_or_default(),
    })
}

/// A report or that of a process, and its sampled lines; None if it has none.
pub fn side(path: &Path) -> Result<(Box<Report>, Option<Stacks>), Failure> {
    let (report, _) = Document::read(path)?.into_report();
    let stacks = report.lines.is_some().then(|| Stacks::by_thread(&report));
    let stacks = stacks.transpose();
    let stacks = stacks.map_err(|what| Failure::of(path, what))?;
    Ok((report, stacks))
}

/// An account of A and of B, of which one may not have it.
type Pair<'a> = [Option<&'a Account>; 2];

/// The accounts of both, in A's order and then B's.
fn pairs<'a>(a: &'a Report, b: &'a Report) -> Ordered<Pair<'a>> {
    let mut pairs: Ordered<Pair<'a>> = Ordered::new();
    for (side, report) in [a, b].into_iter().enumerate() {
        for (name, account) in report.sorted_accounts() {
            pairs.entry(name.clone()).or_default()[side] = Some(account);
        }
    }
    pairs
}

/// A figure of both; an account that only the other has counts nothing.
fn of(pair: &Pair, figure: fn(&Account) -> i64) -> [i64; 2] {
    pair.map(|account| account.map_or(0, figure))
}

/// The resident bytes of both, and their peaks, if both are known.
fn resident(a: &Report, b: &Report) -> [Option<[i64; 2]>; 2] {
    let figures: [fn(&Process) -> Option<i64>; 2] =
        [|it| it.resident_bytes, |it| it.peak_resident_bytes];
    figures.map(|figure| {
        let bytes = |of: &Report| Some(figure(&of.process)?.max(0));
        Some([bytes(a)?, bytes(b)?])
    })
}

fn line_of(letter: char, report: &Report) -> String {
    let after = |seconds| format!(", {seconds:.1} s after its start");
    let when = report.process.wall_seconds.map(after).unwrap_or_default();
    format!("{letter}: {}", report.line(&when))
}

pub fn to_text(a: &Report, b: &Report) -> String {
    let mut text = line_of('A', a) + &line_of('B', b);
    text += TITLES;
    let bytes = |[a, b]: [i64; 2]| {
        let [a_bytes, b_bytes] = [a, b].map(|bytes| Bytes(bytes as u64).to_string());
        format!("{a_bytes:>11}{b_bytes:>11}{:>12}", signed(b - a))
    };
    for (name, pair) in &pairs(a, b) {
        let [blocks_a, blocks_b] = of(pair, |account| account.live_blocks);
        let blocks = match blocks_b - blocks_a {
            0 => "0".to_owned(),
            change => format!("{change:+}"),
        };
        let live = bytes(of(pair, |account| account.live_bytes));
        let peak = bytes(of(pair, |account| account.peak_bytes));
        let _ = write!(text, "{:<8}{live}{peak}", plain(name));
        let _ = writeln!(text, "{blocks_a:>10}{blocks_b:>10}{blocks:>11}");
    }
    let [live, peak] = totals(a, b).map(bytes);
    let _ = writeln!(text, "{:<8}{live}{peak}", "total");
    let resident = resident(a, b);
    if resident != [None, None] {
        let [now, peak] = resident.map(|pair| pair.map(bytes).unwrap_or_default());
        let line = format!("{:<8}{now:34}{peak}", "resident");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The live bytes of both, and their peaks.
fn totals(a: &Report, b: &Report) -> [[i64; 2]; 2] {
    let (a, b) = (&a.total, &b.total);
    [[a.live_bytes, b.live_bytes], [a.peak_bytes, b.peak_bytes]]
}

pub fn to_json(a: &Report, b: &Report, lines: Option<&LineChanges>) -> String {
    let side = |report: &Report| {
        let process = &report.process;
        json!({
            "pid": process.pid.unwrap_or_default(),
            "argv": process.argv,
            "started": process.started.as_deref().unwrap_or_default(),
            "wall_seconds": process.wall_seconds,
        })
    };
    let account = |pair: &Pair| {
        json!({
            "live_bytes": both(of(pair, |account| account.live_bytes)),
            "peak_bytes": both(of(pair, |account| account.peak_bytes)),
            "live_blocks": both(of(pair, |account| account.live_blocks)),
            "total_blocks": both(of(pair, |account| account.total_blocks)),
        })
    };
    let pairs = pairs(a, b).into_iter();
    let accounts = pairs.map(|(name, pair)| (name, account(&pair)));
    let [live, peak] = totals(a, b).map(both);
    let [resident, most] = resident(a, b);
    let value = json!({
        "schema": SCHEMA,
        "a": side(a),
        "b": side(b),
        "accounts": accounts.collect::<Map<_, _>>(),
        "total": {"live_bytes": live, "peak_bytes": peak},
        "resident_bytes": resident.map(both),
        "peak_resident_bytes": most.map(both),
        "lines": lines.map(LineChanges::to_json),
    });
    escaped(&value.to_string())
}

fn both([a, b]: [i64; 2]) -> Value {
    json!({"a": a, "b": b, "change": b.saturating_sub(a)})
}
