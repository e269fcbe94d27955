//! `pyhostctl compare`: a program under hosts of several Pythons: peaks by account, resident peak, time, and the lines that differ.

mod hosts;

use crate::diff::{LineChanges, side};
use crate::model::{Ordered, Report, escaped};
use crate::output::{Failure, may_have_colours, print};
use crate::stacks::{Frame, Stacks, View};
use crate::summary::bytes;
use crate::sweep::{End, Program};
use clap::{Args, value_parser};
use hosts::Host;
use pyhost_os::terminal_text::plain;
use serde_json::json;
use std::fmt::Write;
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::{collections::HashMap, ffi::OsString};

/// Runs the program under each host, in turns, and shows the medians of the peaks beside each other. A first run of each, with --lines, says
/// which lines differ. The runs' output is dropped, and their input is empty.
///
/// Exit status: 0; 1 if the program fails under a host, which the table shows, or a host is not there; 2 for a bad command line.
///
/// Variables give the hosts' other options, such as PYHOST_CAP.
#[derive(Debug, Args)]
pub struct CompareOptions {
    /// Versions, such as 3.13 or 3.15t, of pyhostX.Y or pyhost beside this program or in PATH, and paths of hosts; the others are compared with
    /// the first
    #[arg(long, value_name = "LIST", required = true, value_delimiter = ',')]
    pub python: Vec<String>,

    /// The runs under each host
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u16).range(1..=1000))]
    pub runs: u16,

    /// As JSON, schema pyhost-compare/1
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub program: Program,
}

const SCHEMA: &str = "pyhost-compare/1";

/// The program under one host.
struct Side {
    host: Host,
    end: End,
    /// The last line of standard error of the last run.
    error: String,
    lines: Option<Stacks>,
    /// Empty if the program failed.
    reports: Vec<Report>,
}

impl Side {
    fn new(word: &str) -> Result<Self, Failure> {
        Ok(Side {
            host: Host::find(word)?,
            end: End::Status(0),
            error: String::new(),
            lines: None,
            reports: Vec::new(),
        })
    }

    /// Runs the program once, for its lines or for its figures, unless it has failed. The report goes to a file without a name.
    fn run(&mut self, program: &[OsString], for_lines: bool) -> Result<(), Failure> {
        if self.has_failed() {
            return Ok(());
        }
        let path = &self.host.path;
        let refuse = |error| Failure::of(path, format!("cannot be run ({error})"));
        let (own, file) = (std::process::id(), tempfile::tempfile().map_err(refuse)?);
        let report = format!("/proc/{own}/fd/{}", file.as_raw_fd());
        let mut command = Command::new(path);
        // Reports that variables ask for are the outermost host's: a run writes over no file.
        command.env("PYHOST_OUTERMOST", own.to_string());
        command.env_remove("PYHOST_STATS").stdin(Stdio::null());
        command.arg(format!("--stats=file={report}"));
        command.args(for_lines.then_some("--lines")).args(program);
        let output = command.output().map_err(refuse)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        self.end = End::of(Some(output.status), &errors);
        self.error = errors.lines().last().map(plain).unwrap_or_default();
        if self.has_failed() {
            (self.lines, self.reports) = (None, Vec::new());
            return Ok(());
        }
        let (report, lines) = side(report.as_ref())?;
        match for_lines {
            true => self.lines = lines,
            false => self.reports.push(*report),
        }
        Ok(())
    }

    fn has_failed(&self) -> bool {
        self.end != End::Status(0)
    }

    /// The median of a figure of the runs.
    fn median(&self, figure: impl Fn(&Report) -> Option<i64>) -> Option<i64> {
        let mut values: Vec<i64> = self.reports.iter().filter_map(figure).collect();
        values.sort_unstable();
        let upper = values.get(values.len() / 2)?;
        Some((values[(values.len() - 1) / 2] + upper) / 2)
    }

    /// The peaks in bytes: of each account, of all together, and the resident one.
    fn peaks(&self) -> Ordered<Option<i64>> {
        let first = self.reports.first();
        let names = first.map(Report::sorted_accounts).unwrap_or_default();
        let peak =
            |name: &String| self.median(|report| Some(report.accounts.get(name)?.peak_bytes));
        let accounts = names.iter().map(|(name, _)| ((*name).clone(), peak(name)));
        let total = self.median(|report| Some(report.total.peak_bytes));
        let resident = self.median(|report| report.process.peak_resident_bytes);
        let others = [("total", total), ("resident", resident)];
        let others = others.map(|(name, bytes)| (name.to_owned(), bytes));
        accounts.chain(others).collect()
    }

    fn microseconds(&self) -> Option<i64> {
        self.median(|report| Some((report.process.wall_seconds? * 1e6) as i64))
    }

    /// The lines that differ from those of another side, if both have some.
    fn changes<'a>(&'a self, from: &'a Side) -> Option<LineChanges<'a>> {
        let (a, b) = (from.lines.as_ref()?, self.lines.as_ref()?);
        Some(LineChanges::new(a, b, View::AtPeak))
    }
}

/// Runs the program under each host, and prints the table; the exit status.
pub fn run(options: &CompareOptions) -> Result<u8, Failure> {
    let sides: Result<Vec<Side>, _> = options.python.iter().map(|word| Side::new(word)).collect();
    let mut sides = sides?;
    for number in 0..=options.runs {
        for side in &mut sides {
            side.run(&options.program.words, number == 0)?;
        }
    }
    name_alike(&mut sides);
    print(&match options.json {
        true => to_json(&sides, options),
        false => to_text(&sides),
    })?;
    let failed: Vec<&Side> = sides.iter().filter(|side| side.has_failed()).collect();
    for side in &failed {
        let (python, end, error) = (&side.host.python, side.end.text(), &side.error);
        let _ = writeln!(io::stderr(), "pyhostctl: Python {python}: {end}: {error}");
    }
    Ok(u8::from(!failed.is_empty()))
}

/// Gives a comprehension, which is a function of its own before 3.12 (PEP 709), the name of the function around it.
fn name_alike(sides: &mut [Side]) {
    let is_own = |frame: &Frame| frame.name.ends_with("comp>");
    let mut names = HashMap::new();
    for stacks in sides.iter().flat_map(|side| &side.lines) {
        let others = stacks.frames.iter().filter(|frame| !is_own(frame));
        names.extend(others.map(|frame| (frame.place.clone(), frame.name.clone())));
    }
    for stacks in sides.iter_mut().flat_map(|side| &mut side.lines) {
        for frame in stacks.frames.iter_mut().filter(|frame| is_own(frame)) {
            let name = names.get(&frame.place).unwrap_or(&frame.name);
            frame.name = name.clone();
        }
    }
}

/// What a row shows of a side, and the figure that is compared with the first side's.
type Cell = (String, Option<i64>);

fn add_row(text: &mut String, title: &str, cells: impl Iterator<Item = Cell>) {
    let mut line = format!("{title:<8}");
    let mut first: Option<i64> = None; // none is known while the first is shown
    for (index, (shown, figure)) in cells.enumerate() {
        let change = first.zip(figure);
        let change = change.map(|(first, it)| (it - first) as f64 / first as f64 * 100.0);
        let percent = |it: f64| format!("{:+.0}%", it.round() + 0.0);
        let change = change.map(percent).unwrap_or_default();
        let _ = write!(line, "{shown:>15}{change:>7}");
        if index == 0 {
            first = figure.filter(|first| *first > 0);
        }
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

fn to_text(sides: &[Side]) -> String {
    let mut text = String::new();
    let named = |of: fn(&Side) -> String| sides.iter().map(move |side| (of(side), None));
    add_row(&mut text, "peak", named(|side| side.host.python.clone()));
    add_row(&mut text, "ended", named(|side| side.end.text()));
    let cell = |figure: Option<i64>, shown: fn(i64) -> String| {
        (figure.map_or("-".to_owned(), shown), figure)
    };
    let peaks: Vec<_> = sides.iter().map(Side::peaks).collect();
    let most = peaks.iter().max_by_key(|it| it.len());
    for name in most.into_iter().flat_map(|it| it.keys()) {
        let peak = |it: &Ordered<Option<i64>>| it.get(name).copied().flatten();
        let shown = |it| bytes(it).to_string();
        let cells = peaks.iter().map(|it| cell(peak(it), shown));
        add_row(&mut text, &plain(name), cells);
    }
    let seconds = |it| format!("{:.3} s", it as f64 / 1e6);
    let times = sides.iter().map(|side| cell(side.microseconds(), seconds));
    add_row(&mut text, "time", times);
    let has_colours = io::stdout().is_terminal() && may_have_colours();
    for side in &sides[1..] {
        if let Some(changes) = side.changes(&sides[0]) {
            let (a, b) = (&sides[0].host.python, &side.host.python);
            let _ = writeln!(text, "\nA: Python {a}, B: Python {b}");
            text += &changes.to_text(has_colours);
        }
    }
    text
}

fn to_json(sides: &[Side], options: &CompareOptions) -> String {
    let python = |(index, side): (usize, &Side)| {
        let changes = (index > 0).then(|| side.changes(&sides[0])).flatten();
        json!({
            "python": side.host.python,
            "host": side.host.path.to_string_lossy(),
            "ended": side.end.text(),
            "seconds": side.microseconds().map(|it| it as f64 / 1e6),
            "peak_bytes": side.peaks(),
            "lines": changes.map(|changes| changes.to_json()),
        })
    };
    let pythons: Vec<_> = sides.iter().enumerate().map(python).collect();
    let words = options.program.words.iter();
    let words = words.map(|word| word.to_string_lossy());
    escaped(&json!({"schema": SCHEMA, "program": words.collect::<Vec<_>>(), "runs": options.runs, "pythons": pythons}).to_string())
}
