//! `pyhostctl sweep`: runs a program again and again under the host, each time with the next request
//! for memory failing, until one run passes because the program made no such request.

mod ending;
mod forks;
mod junit;
mod order;
mod progress;
mod rule;
mod run;
mod state;

use crate::output::{self, Failure, print};
use clap::{Args, value_parser};
pub use ending::End;
use junit::Cases;
use progress::{Done, Progress};
use pyhost_os::terminal_text::plain;
use rule::{Range, Rule};
use run::{Run, Runner};
use state::State;
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, ffi::OsString, io::Write, ops::ControlFlow};

/// Runs the program under the host once as it is, then with N = 1, 2, 3, ...: the Nth request fails. It ends with the
/// run in which no Nth request failed, since the program makes none. Prints how the runs ended, and for a crash,
/// a hang, a leak or a SystemError (a null without an exception) the request and the end of standard error. The runs' output is dropped, and their input is empty.
///
/// Exit status: 0; 1 if the host cannot be run; 2 for a bad command line; 24 if a run was such a finding; 25 if
/// the program fails without a failed request, or makes none that is counted.
///
/// Variables give the host's other options, such as PYHOST_CAP; the rules of PYHOST_FAIL hold in each run, too. With
/// PYHOST_LEAK_CHECK a run that leaks is a finding.
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

    /// Make so many runs at once; the program must not mind
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=256))]
    pub jobs: u16,

    /// Keep the result of each run in this file, and make no run whose result is in it: a sweep that was ended goes on
    /// where it stopped. The file belongs to the command
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,

    /// With --when-open, start the host for each run, rather than to fork it where pyhost.fail() first opens
    #[arg(long)]
    pub fresh: bool,

    /// Write the results to this file in JUnit's form: a test case for each line of Python whose requests failed
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// The host [default: pyhost beside this program, else in PATH]
    #[arg(long, value_name = "PATH")]
    pub host: Option<PathBuf>,

    #[command(flatten)]
    pub program: Program,
}

/// The program that is run.
#[derive(Debug, Args)]
pub struct Program {
    /// Python's options, the script, -c CODE or -m MODULE, and the arguments
    #[arg(value_name = "SCRIPT", required = true)]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<OsString>,
}

/// Exit status if a run crashed, hung or leaked.
const FOUND: u8 = 24;
/// Exit status if the program fails by itself, or made no request that is counted: nothing was tested.
const NOTHING: u8 = 25;
/// Exit status of a bad option, here of one that the host refuses, or of a file that cannot be used.
const BAD_OPTION: u8 = 2;

/// Runs the sweep and reports it on standard output; the exit status.
pub fn run(options: &SweepOptions) -> Result<u8, Failure> {
    let host = options.host.clone().unwrap_or_else(host);
    let state = match files(options, &host) {
        Ok(state) => state,
        Err(Failure(text)) => return Ok(complain(&text)),
    };
    let runner = Runner::new(&host, options)
        .map_err(|error| Failure(format!("no folder for the files of the runs ({error})")))?;
    let swept = Sweep::new(options, state).run(&runner);
    runner
        .close()
        .map_err(|error| Failure(format!("the signal cannot end the sweep ({error})")))?;
    swept
}

/// Prints an error of an option or its file on standard error; the exit status.
fn complain(text: &str) -> u8 {
    let _ = writeln!(std::io::stderr(), "pyhostctl: {}", plain(text));
    BAD_OPTION
}

/// Looks at the files that the sweep is to write, and reads the results of an earlier one.
fn files(options: &SweepOptions, host: &Path) -> Result<State, Failure> {
    if let Some(path) = &options.junit {
        output::check(path).map_err(|Failure(text)| Failure(format!("--junit: {text}")))?;
    }
    let state = match &options.resume {
        Some(path) => State::open(path, &state::command(options, host))?,
        None => State::default(),
    };
    match &options.junit {
        Some(path) if state.is_in(path) => Err(Failure(format!(
            "--junit: '{}' is the file of --resume; expected another one",
            path.display()
        ))),
        _ => Ok(state),
    }
}

/// The host: beside this program, else in `PATH`.
pub fn host() -> PathBuf {
    const NAME: &str = "pyhost";
    let beside = pyhost_os::process::executable().map(|own| own.with_file_name(NAME));
    let beside = beside.filter(|path| path.is_file());
    beside.unwrap_or_else(|| NAME.into())
}

struct Sweep<'a> {
    options: &'a SweepOptions,
    subject: String,
    state: State,
    progress: Progress,
    done: Done,
    /// The requests that the program makes if none fails, as far as that is known.
    requests: Option<u64>,
    ends: BTreeMap<End, u64>,
    passed: Option<(u64, End)>,
    cases: Cases,
}

impl<'a> Sweep<'a> {
    fn new(options: &'a SweepOptions, state: State) -> Self {
        let subject = options.rule.subject();
        Sweep {
            options,
            state,
            progress: Progress::new(subject.clone(), None),
            subject,
            done: Done::default(),
            requests: None,
            ends: BTreeMap::new(),
            passed: None,
            cases: Cases::default(),
        }
    }

    /// Makes all runs, and reports. The exit status; any if a signal has ended it.
    fn run(mut self, runner: &Runner) -> Result<u8, Failure> {
        let (unfailed, is_new) = match self.state.take(0) {
            Some(run) => (run, false),
            None => {
                let Some(run) = runner.count()? else {
                    return Ok(0);
                };
                if is_refused(&run) {
                    let _ = writeln!(std::io::stderr(), "{}", run.errors[0]);
                    return Ok(BAD_OPTION);
                }
                (run, true)
            }
        };
        let described = describe("no request fails", &unfailed);
        self.cases.add(None, &unfailed, &described);
        // Rules of PYHOST_FAIL may make any run fail.
        let fails = unfailed.end != End::Status(0) && runner.others.is_empty();
        if fails || unfailed.end.is_finding() {
            print(&describe("No request fails", &unfailed))?;
            let reason = format!("the program ends with {} by itself", unfailed.end.text());
            if unfailed.end.is_finding() {
                return self.nothing(FOUND, &reason);
            }
            self.cases.add_error(&reason);
            return self.nothing(NOTHING, &reason);
        }
        if is_new {
            self.state.keep(0, &unfailed)?;
        }
        if unfailed.requests == Some(0) {
            return self.no_request(unfailed.end);
        }
        self.requests = unfailed.requests;
        let runs = |requests| self.options.range.runs(requests);
        let runs = self.requests.map(runs);
        self.progress = Progress::new(self.subject.clone(), runs);
        let jobs = usize::from(self.options.jobs);
        let fail = |number| runner.fail(number);
        let numbers = self.options.range.numbers();
        order::in_order(numbers, jobs, fail, || runner.finish(), &mut self)?;
        self.progress.clear();
        if runner.was_ended() {
            return Ok(0);
        }
        match self.passed {
            // The run that was to count left no report.
            Some((_, end)) if self.requests.is_none() && self.ends.is_empty() => {
                self.no_request(end)
            }
            _ => self.end(),
        }
    }

    /// Reports that the program, which ended so, makes no request that is counted.
    fn no_request(&mut self, end: End) -> Result<u8, Failure> {
        let reason = format!("the program, {}, makes no such request", end.text());
        self.cases.add_error(&reason);
        self.nothing(NOTHING, &reason)
    }

    /// Reports that no run was made, and why.
    fn nothing(&mut self, status: u8, reason: &str) -> Result<u8, Failure> {
        let (status, subject) = (self.write_cases(status), &self.subject);
        print(&format!(
            "pyhostctl: sweep of {subject}: nothing was tested: {reason}\n"
        ))?;
        Ok(status)
    }

    /// Reports how the runs ended.
    fn end(&self) -> Result<u8, Failure> {
        let (subject, runs) = (&self.subject, self.done.runs);
        let mut text = format!("pyhostctl: sweep of {subject}: {runs} runs");
        if self.done.earlier > 0 {
            text += &format!(" ({} of them earlier)", self.done.earlier);
        }
        for (index, (end, count)) in self.ends.iter().enumerate() {
            let separator = if index == 0 { ";" } else { "," };
            text += &format!("{separator} {count} {}", end.text());
        }
        text += &match self.passed {
            Some((number, end)) => format!("; N = {number} passed, {}\n", end.text()),
            None => "; none passed\n".to_owned(),
        };
        let status = self.write_cases(if self.done.findings > 0 { FOUND } else { 0 });
        print(&text)?;
        Ok(status)
    }

    /// Writes the file of `--junit`. Returns the exit status: a file that cannot be written hides no finding.
    fn write_cases(&self, status: u8) -> u8 {
        let Some(path) = &self.options.junit else {
            return status;
        };
        match output::write(path, self.cases.text(&self.subject).as_bytes()) {
            Ok(()) => status,
            Err(Failure(text)) => {
                let bad_option = complain(&format!("--junit: {text}"));
                if status == 0 { bad_option } else { status }
            }
        }
    }
}

impl order::Sweep for Sweep<'_> {
    fn known(&mut self, number: u64) -> Option<Run> {
        let known = self.state.take(number)?;
        self.done.earlier += 1;
        Some(known)
    }

    fn may_be_early(&self, number: u64) -> bool {
        self.requests.is_none_or(|requests| number <= requests)
    }

    fn ended(&mut self, number: u64, run: &Run) -> Result<(), Failure> {
        self.state.keep(number, run)
    }

    fn look(&mut self, number: u64, run: Run) -> Result<ControlFlow<()>, Failure> {
        let line = self.options.rule.line_of(number, &run.injected);
        let has_failed = line.is_some();
        let is_finding = run.end.is_finding();
        self.done.number = number;
        self.done.runs += 1;
        self.done.findings += u64::from(is_finding);
        let described = describe(&format!("N = {number}"), &run);
        if has_failed || is_finding {
            self.cases.add(line, &run, &described);
            *self.ends.entry(run.end).or_default() += 1;
        } else {
            self.passed = Some((number, run.end));
        }
        if is_finding {
            self.progress.clear();
            print(&described)?;
        }
        self.progress.show(self.done);
        // If the request does not fail, the program makes none of this number: the sweep is at its end.
        Ok(match has_failed {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    }

    fn tick(&mut self) {
        self.progress.show(self.done);
    }
}

/// Whether the host has refused an option, a variable or a rule: then its standard error is one line of its own.
fn is_refused(run: &Run) -> bool {
    let is_a_line = matches!(&run.errors[..], [line] if line.starts_with("pyhost: "));
    run.end == End::Status(2) && is_a_line
}

/// A run that is a finding: the failure and the end of standard error.
fn describe(title: &str, run: &Run) -> String {
    let mut text = format!("{title}: {}\n", run.end.text());
    for line in &run.injected {
        text += &format!("  injected: {line}\n");
    }
    if run.errors_left_out > 0 {
        text += &format!("  | ({} lines)\n", run.errors_left_out);
    }
    for line in &run.errors {
        text += &format!("  | {line}\n");
    }
    text
}
