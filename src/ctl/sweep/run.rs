//! One run of the program: the host with one request that fails, CPython's `faulthandler`, and a log
//! that says whether and where the failure was injected.

use super::forks::{Forks, LAST_WORDS};
use super::{SweepOptions, ending::End};
use crate::output::Failure;
use pyhost_os::{process, semicolon_list};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::emulate_default_handler};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Lines of a run's standard error that are kept.
const KEPT_LINES: usize = 40;

#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    pub end: End,
    /// The failures that were injected into the process itself: number, account, size, place.
    pub injected: Vec<String>,
    /// The last lines of its standard error.
    pub errors: Vec<String>,
    /// The number of lines before them.
    pub errors_left_out: usize,
    pub seconds: f64,
    /// The requests that the sweep's rule counted, if the run was to count them.
    pub requests: Option<u64>,
}

impl Run {
    /// A process of the program that has ended, or without a status was ended.
    fn ended(
        process: u32,
        status: Option<ExitStatus>,
        errors: &[u8],
        log: &Path,
        start: Instant,
    ) -> Self {
        let (errors, own) = (String::from_utf8_lossy(errors), format!("{process} "));
        let log = std::fs::read(log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let injected = log.lines().filter_map(|line| line.strip_prefix(&own));
        let left_out = errors.lines().count().saturating_sub(KEPT_LINES);
        Run {
            end: End::of(status, &errors),
            injected: injected.map(str::to_owned).collect(),
            errors: errors.lines().skip(left_out).map(str::to_owned).collect(),
            errors_left_out: left_out,
            seconds: start.elapsed().as_secs_f64(),
            requests: None,
        }
    }
}

#[cfg(test)]
impl Run {
    /// A run that ended so, of which nothing else is known.
    pub fn of(end: End) -> Self {
        Run {
            end,
            injected: Vec::new(),
            errors: Vec::new(),
            errors_left_out: 0,
            seconds: 0.5,
            requests: None,
        }
    }
}

/// The variable of `--fail` with these rules and a log.
fn failing(rules: &str, log: &Path) -> OsString {
    let log = &semicolon_list::written(log.as_os_str().as_bytes(), b',');
    let log = semicolon_list::written(log, b';');
    OsString::from_vec([rules.as_bytes(), b";log=", &log].concat())
}

/// Runs the program. Several threads may do so at once.
pub struct Runner<'a> {
    host: &'a Path,
    options: &'a SweepOptions,
    /// Hosts that wait where failures open; `None` if runs are not forked.
    forks: Mutex<Option<Vec<Forks>>>,
    /// The rules of the variable.
    pub others: String,
    folder: TempDir,
    /// The signal that ends the sweep, or 0.
    ending: Arc<AtomicUsize>,
    /// The sweep needs no further run.
    is_over: AtomicBool,
}

impl<'a> Runner<'a> {
    /// Makes a folder for the runs' files. From now on a signal that ends the sweep ends its runs.
    pub fn new(host: &'a Path, options: &'a SweepOptions) -> io::Result<Self> {
        let ending = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            if !is_ignored(signal) {
                flag::register_usize(signal, Arc::clone(&ending), signal as usize)?;
            }
        }
        Ok(Runner {
            host,
            options,
            forks: Mutex::new((options.rule.when_open && !options.fresh).then(Vec::new)),
            others: std::env::var("PYHOST_FAIL").unwrap_or_default(),
            folder: tempfile::Builder::new().prefix("pyhost-sweep-").tempdir()?,
            ending,
            is_over: AtomicBool::new(false),
        })
    }

    /// The run in which no request fails, which counts them. Returns `None` if a signal or [`Runner::finish`] ended it.
    pub fn count(&self) -> Result<Option<Run>, Failure> {
        let report = self.folder.path().join("report-%p.json");
        self.run(u64::MAX, Some(&report))
    }

    /// The run in which the request of this number fails; likewise.
    pub fn fail(&self, number: u64) -> Result<Option<Run>, Failure> {
        let mut run = self.run(number, None)?;
        if let Some(run) = run.as_mut().filter(|run| !run.end.is_finding()) {
            (run.errors, run.errors_left_out) = (Vec::new(), 0); // nobody shows them
        }
        Ok(run)
    }

    /// A run that is forked; `None` if it cannot be, or a signal ended it. Then none is forked any more.
    fn forked(&self, number: u64) -> io::Result<Option<Run>> {
        let kept = || self.forks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(waiting) = kept().as_mut().map(Vec::pop) else {
            return Ok(None);
        };
        let start = || {
            let folder = tempfile::tempdir_in(self.folder.path())?;
            let log = folder.path().join("log");
            Forks::start(self.command(u64::MAX, &log, None), folder)
        };
        let (mut forks, start) = (waiting.map_or_else(start, Ok)?, Instant::now());
        let patience = Duration::from_secs(self.options.timeout);
        let (stops, signal) = (|| self.is_ending(), || self.last_signal());
        let ended = forks.run(number, patience, &stops, &signal)?;
        let log = forks.folder.path().join("log");
        let ended = ended.filter(|_| !self.is_ending());
        let run = ended
            .map(|(process, status, errors)| Run::ended(process, status, &errors, &log, start));
        match (&run, &mut *kept()) {
            (Some(_), Some(waiting)) => waiting.push(forks),
            (None, waiting) => *waiting = None,
            _ => {}
        }
        Ok(run)
    }

    fn run(&self, number: u64, report: Option<&Path>) -> Result<Option<Run>, Failure> {
        let run = self.run_in(number, report);
        run.map_err(|error| Failure::of(self.host, format!("cannot be run ({error})")))
    }

    fn run_in(&self, number: u64, report: Option<&Path>) -> io::Result<Option<Run>> {
        if report.is_none()
            && let Some(run) = self.forked(number)?
        {
            return Ok(Some(run));
        }
        let folder = tempfile::tempdir_in(self.folder.path())?;
        let log = folder.path().join("log");
        let mut errors = tempfile::tempfile_in(folder.path())?;
        let mut command = self.command(number, &log, report);
        let start = Instant::now();
        let mut child = command.stderr(errors.try_clone()?).spawn()?;
        let status = self.wait(&mut child)?;
        if self.is_ending() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        errors.rewind()?;
        errors.read_to_end(&mut bytes)?;
        let mut run = Run::ended(child.id(), status, &bytes, &log, start);
        run.requests = report.and_then(|report| requests_of(report, child.id()));
        Ok(Some(run))
    }

    /// The program under a host in which the request of this number fails.
    fn command(&self, number: u64, log: &Path, report: Option<&Path>) -> Command {
        let mut rules = self.options.rule.with_nth(number);
        if !self.others.is_empty() {
            rules += &format!(";{}", self.others);
        }
        let mut command = Command::new(self.host);
        command
            .env("PYHOST_FAIL", failing(&rules, log))
            // Reports that variables ask for are the outermost host's: a run writes over no file.
            .env("PYHOST_OUTERMOST", std::process::id().to_string())
            .env_remove("PYHOST_STATS");
        if let Some(report) = report {
            let report = semicolon_list::written(report.as_os_str().as_bytes(), b',');
            let mut option = OsString::from("--stats=file=");
            option.push(OsStr::from_bytes(&report));
            command.arg(option);
        }
        command.args(["-X", "faulthandler"]);
        command.args(&self.options.program.words);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Ends the runs that are still going.
    pub fn finish(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Whether a signal has ended the sweep.
    pub fn was_ended(&self) -> bool {
        self.ending.load(Relaxed) != 0
    }

    /// Removes the files of the runs. If a signal has ended the sweep, ends the process as the signal does.
    pub fn close(self) -> io::Result<()> {
        drop(self.forks);
        drop(self.folder);
        match self.ending.load(Relaxed) {
            0 => Ok(()),
            signal => emulate_default_handler(signal as i32),
        }
    }

    fn is_ending(&self) -> bool {
        self.was_ended() || self.is_over.load(Relaxed)
    }

    /// The signal that ends a run that takes too long, or is not needed.
    fn last_signal(&self) -> i32 {
        match (self.is_over.load(Relaxed), self.ending.load(Relaxed)) {
            (true, _) => libc::SIGKILL,
            (_, 0) => libc::SIGABRT, // faulthandler prints where each thread is
            (_, ending) => ending as i32,
        }
    }

    /// Waits for a run. Returns `None` if it took too long, or is not needed any more, and was ended.
    fn wait(&self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let end = Instant::now() + Duration::from_secs(self.options.timeout);
        let status = wait_until(child, end, || self.is_ending())?;
        if status.is_some() {
            return Ok(status);
        }
        let is_over = || self.is_over.load(Relaxed);
        if !is_over() {
            process::signal(child.id() as libc::pid_t, self.last_signal());
        }
        if wait_until(child, Instant::now() + LAST_WORDS, is_over)?.is_none() {
            child.kill()?;
            child.wait()?;
        }
        Ok(None)
    }
}

/// The requests that the first rule of a process's report counted.
fn requests_of(report: &Path, process: u32) -> Option<u64> {
    let name = report.to_str()?.replace("%p", &process.to_string());
    let report: Value = serde_json::from_str(&std::fs::read_to_string(name).ok()?).ok()?;
    report["faults"]["rules"].as_array()?.first()?["requests"].as_u64()
}

/// Waits until the child has ended, the time has come, or `stops` says so.
fn wait_until(
    child: &mut Child,
    end: Instant,
    stops: impl Fn() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end || stops() {
            return Ok(status);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Whether the process was started with a signal ignored, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}
