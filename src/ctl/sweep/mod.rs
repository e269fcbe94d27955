//! `pyhostctl sweep`: runs a program again and again under the host, each time with the next request
//! for memory failing, until one run passes because the program made no such request.

mod rule;
mod run;

use rule::{Range, Rule};

use crate::failure::{Failure, print};
use clap::{Args, value_parser};
use run::{End, Run, Runner};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Runs the program under the host with N = 1, 2, 3, ...: the Nth request fails. It ends with the run in which
/// nothing failed, since the program makes no such request. Prints how each run ended, and for a crash or a hang
/// the request and the end of standard error. The runs' output is dropped, and their input is empty.
///
/// Exit status: 0; 1 if the host cannot be run; 2 for a bad command line; 24 if a run crashed or hung; 25 if the
/// program makes no request that is counted.
///
/// Variables give the host's other options, such as PYHOST_CAP; the rules of PYHOST_FAIL hold in each run, too.
#[derive(Debug, Args)]
pub struct SweepOptions {
    /// The requests that are counted.
    #[command(flatten)]
    pub rule: Rule,

    /// The requests to try: from FIRST on, below END, each STEP-th of them
    #[arg(long, value_name = "FIRST[:END[:STEP]]", default_value = "1::1")]
    pub range: Range,

    /// A run that takes longer hangs, and is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub timeout: u64,

    /// The host [default: pyhost beside this program, else in PATH]
    #[arg(long, value_name = "PATH")]
    pub host: Option<PathBuf>,

    /// Python's options, the script, -c CODE or -m MODULE, and the arguments
    #[arg(
        value_name = "SCRIPT",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub program: Vec<OsString>,
}

/// Exit status if a run crashed or hung.
const FOUND: u8 = 24;
/// Exit status if the program made no request that is counted: nothing was tested.
const NOTHING: u8 = 25;
/// Exit status of a bad option, here of one that the host refuses.
const BAD_OPTION: u8 = 2;
/// Between two lines that say how far the sweep is.
const PROGRESS: Duration = Duration::from_secs(5);
/// Lines of a bad run's standard error that are shown.
const SHOWN_LINES: usize = 40;

/// Runs the sweep and reports it on standard output; the exit status.
///
/// # Errors
/// There is no room for the runs' files, or the host cannot be started.
pub fn run(options: &SweepOptions) -> Result<u8, Failure> {
    let host = options.host.clone().unwrap_or_else(host);
    let others = std::env::var("PYHOST_FAIL").ok();
    let others = others.filter(|rules| !rules.is_empty());
    let timeout = Duration::from_secs(options.timeout);
    let mut runner = Runner::new(host.clone(), options.program.clone(), timeout)
        .map_err(|error| Failure(format!("no folder for the files of the runs ({error})")))?;
    let mut run_once = |number| {
        let swept = options.rule.with_nth(number);
        let rules = others.iter().chain([&swept]).map(String::as_str);
        let rules: Vec<&str> = rules.collect();
        runner
            .run(&rules.join(";"))
            .map_err(|error| Failure(format!("'{}' cannot be run ({error})", host.display())))
    };
    let subject = options.rule.subject();
    let Range { first, end, step } = options.range;
    let (mut number, mut runs) = (first, 0);
    let mut ends: BTreeMap<End, u64> = BTreeMap::new();
    let mut progress = Progress::new(&subject);
    let passed = loop {
        if end.is_some_and(|end| number >= end) {
            break None;
        }
        let run = run_once(number)?;
        runs += 1;
        if runs == 1 && is_refused(&run) {
            eprint!("{}", run.errors);
            return Ok(BAD_OPTION);
        }
        if run.injected.is_empty() && !run.end.is_bad() {
            let requests_nothing = runs == 1 && (number == 1 || run_once(1)?.injected.is_empty());
            if requests_nothing {
                print(&format!(
                    "pyhostctl: sweep of {subject}: nothing was tested: the program, {}, makes no such request\n",
                    run.end.text()
                ))?;
                return Ok(NOTHING);
            }
            break Some((number, run.end));
        }
        *ends.entry(run.end).or_default() += 1;
        if run.end.is_bad() {
            print(&describe(number, &run))?;
        }
        if run.injected.is_empty() {
            break None; // so it ends without a failure, too: there is nothing to search on
        }
        progress.show(number, runs, &ends);
        number = number.saturating_add(step);
    };
    let listed: Vec<String> = ends
        .iter()
        .map(|(end, count)| format!("{count} {}", end.text()))
        .collect();
    let listed = match listed.is_empty() {
        true => String::new(),
        false => format!("; {}", listed.join(", ")),
    };
    let passed = match passed {
        Some((number, end)) => format!("N = {number} passed, {}", end.text()),
        None => "none passed".to_owned(),
    };
    print(&format!(
        "pyhostctl: sweep of {subject}: {runs} runs{listed}; {passed}\n"
    ))?;
    Ok(if bad_ends(&ends) > 0 { FOUND } else { 0 })
}

/// The host: beside this program, else in `PATH`.
fn host() -> PathBuf {
    const NAME: &str = "pyhost";
    let own = pyhost_os::process::executable();
    let beside = own.as_deref().and_then(Path::parent);
    let beside = beside.map(|folder| folder.join(NAME));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| NAME.into())
}

/// Whether the host has refused an option, a variable or a rule: then its standard error is one line of its own.
fn is_refused(run: &Run) -> bool {
    run.end == End::Status(2)
        && run.errors.starts_with("pyhost: ")
        && run.errors.lines().count() == 1
}

/// How many runs crashed or hung.
fn bad_ends(ends: &BTreeMap<End, u64>) -> u64 {
    let bad = ends.iter().filter(|(end, _)| end.is_bad());
    bad.map(|(_, count)| count).sum()
}

/// Says on standard error how far the sweep is, now and then.
struct Progress<'a> {
    subject: &'a str,
    start: Instant,
    shown: Instant,
}

impl<'a> Progress<'a> {
    fn new(subject: &'a str) -> Self {
        let now = Instant::now();
        Progress {
            subject,
            start: now,
            shown: now,
        }
    }

    fn show(&mut self, number: u64, runs: u64, ends: &BTreeMap<End, u64>) {
        if self.shown.elapsed() < PROGRESS {
            return;
        }
        self.shown = Instant::now();
        eprintln!(
            "pyhostctl: sweep of {}: N = {number}, {runs} runs, {} of them bad, {} s so far",
            self.subject,
            bad_ends(ends),
            self.start.elapsed().as_secs()
        );
    }
}

/// A run that crashed or hung: the failure and the end of standard error.
fn describe(number: u64, run: &Run) -> String {
    let mut text = format!("N = {number}: {}\n", run.end.text());
    for line in &run.injected {
        text += &format!("  injected: {line}\n");
    }
    let lines: Vec<&str> = run.errors.lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN_LINES);
    if skipped > 0 {
        text += &format!("  | ({skipped} lines)\n");
    }
    for line in &lines[skipped..] {
        text += &format!("  | {line}\n");
    }
    text
}
