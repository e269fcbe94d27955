//! `--fail sweep`: runs the program again and again as a child process, each time with the next
//! request failing, until one passes because it made no such request.
//!
//! The children are this same executable with the host's options as variables, CPython's
//! `faulthandler` on, and a log that says whether and where the failure was injected. Runs in a
//! process that never starts Python.

use super::Spec;
use crate::descriptor::notice;
use crate::error::Error;
use crate::list;
use pyhost_os::signals::signal_name;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Exit status where a run crashed or hung.
pub const FOUND: i32 = 24;
/// Exit status where the program made no request that the rule counts: nothing was tested.
pub const NOTHING: i32 = 25;
/// How long a run may take where `--fail-timeout` is not given.
const DEFAULT_TIMEOUT: u64 = 60;
/// How long a run that hangs may take to print where it is.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Between two lines that say how far the sweep is.
const PROGRESS: Duration = Duration::from_secs(5);
/// Lines of a bad run's standard error that are shown.
const SHOWN_LINES: usize = 40;

/// What to run.
pub struct Program {
    /// The program's name, then Python's arguments.
    pub argv: Vec<OsString>,
    /// The host's options, as variables.
    pub variables: Vec<(String, OsString)>,
    /// All rules, of which one is swept.
    pub rules: Vec<Spec>,
    /// How long a run may take, in seconds.
    pub timeout: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Status(i32),
    MemoryError(i32),
    Signal(i32),
    Fatal,
    Hang,
}

impl End {
    fn is_bad(self) -> bool {
        matches!(self, End::Signal(_) | End::Fatal | End::Hang)
    }

    fn of(status: Option<ExitStatus>, errors: &str) -> Self {
        let Some(status) = status else {
            return End::Hang;
        };
        let unhandled = errors.lines().rev().take(3).any(|line| {
            let kind = line.split(':').next().unwrap_or_default();
            kind.rsplit('.')
                .next()
                .unwrap_or_default()
                .ends_with("MemoryError")
        });
        match (status.code(), status.signal()) {
            (Some(0), _) => End::Status(0),
            (Some(status), _) if unhandled => End::MemoryError(status),
            (Some(status), _) => End::Status(status),
            (None, Some(libc::SIGABRT))
                if errors.contains("Fatal Python error: ")
                    && !errors.contains("Fatal Python error: Aborted") =>
            {
                End::Fatal
            }
            (None, signal) => End::Signal(signal.unwrap_or_default()),
        }
    }

    fn text(self) -> String {
        match self {
            End::Status(status) => format!("status {status}"),
            End::MemoryError(status) => format!("MemoryError, status {status}"),
            End::Signal(signal) => format!("crash by {}", signal_name(signal)),
            End::Fatal => "fatal error".to_owned(),
            End::Hang => "hang".to_owned(),
        }
    }
}

/// Files of one sweep, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        // One of that name may be there still, of a sweep that was killed.
        let mut names =
            (0..100).map(|count| format!("pyhost-sweep-{}-{count}", std::process::id()));
        let made = names.find_map(|name| {
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).ok().map(|()| path)
        });
        let path = made.ok_or(std::io::ErrorKind::NotFound)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Run {
    end: End,
    /// What was injected into the process itself: number, account, size, place.
    injected: Vec<String>,
    errors: String,
}

/// Runs the sweep and reports it on standard output; the exit status.
///
/// # Errors
/// There is no room for the runs' files, or no such program.
#[cold]
#[inline(never)]
pub fn run(program: &Program) -> Result<i32, Error> {
    let swept = program
        .rules
        .iter()
        .find_map(|rule| Some((rule, rule.sweep()?)));
    let Some((swept, range)) = swept else {
        return Err(Error::start("there is no rule to sweep"));
    };
    let folder =
        Folder::new().map_err(|_| Error::start("no folder for the runs of --fail sweep"))?;
    let mut out = BufWriter::new(std::io::stdout());
    let mut ends: BTreeMap<End, u64> = BTreeMap::new();
    let (mut number, mut runs) = (range.first, 0);
    let mut progress = Progress::new(swept.subject());
    let run_once = |number| {
        run_once(program, number, &folder.0)
            .map_err(|_| Error::start("a run of --fail sweep cannot be started"))
    };
    let passed = loop {
        if range.end.is_some_and(|end| number >= end) {
            break None;
        }
        let run = run_once(number)?;
        runs += 1;
        if run.injected.is_empty() && !run.end.is_bad() {
            let requests_nothing = runs == 1 && (number == 1 || run_once(1)?.injected.is_empty());
            if requests_nothing {
                let subject = swept.subject();
                let _ = writeln!(
                    out,
                    "pyhost: sweep of {subject}: nothing was tested: the program, {}, makes no such request",
                    run.end.text()
                );
                let _ = out.flush();
                return Ok(NOTHING);
            }
            break Some((number, run.end));
        }
        *ends.entry(run.end).or_default() += 1;
        if run.end.is_bad() {
            let _ = tell(&mut out, number, &run);
            let _ = out.flush();
        }
        if run.injected.is_empty() {
            break None; // so it ends without a failure, too: there is nothing to search on
        }
        progress.show(number, runs, &ends);
        number = number.saturating_add(range.step);
    };
    let bad = bad_ends(&ends);
    let listed: Vec<String> = ends
        .iter()
        .map(|(end, count)| format!("{count} {}", end.text()))
        .collect();
    let _ = write!(out, "pyhost: sweep of {}: {runs} runs", swept.subject());
    if !listed.is_empty() {
        let _ = write!(out, "; {}", listed.join(", "));
    }
    let _ = match passed {
        Some((number, end)) => writeln!(out, "; N = {number} passed, {}", end.text()),
        None => writeln!(out, "; none passed"),
    };
    let _ = out.flush();
    Ok(if bad > 0 { FOUND } else { 0 })
}

/// How many runs crashed or hung.
fn bad_ends(ends: &BTreeMap<End, u64>) -> u64 {
    let bad = ends.iter().filter(|(end, _)| end.is_bad());
    bad.map(|(_, count)| count).sum()
}

/// Says on standard error how far the sweep is, now and then.
struct Progress {
    subject: String,
    start: Instant,
    shown: Instant,
}

impl Progress {
    fn new(subject: impl ToString) -> Self {
        let now = Instant::now();
        Progress {
            subject: subject.to_string(),
            start: now,
            shown: now,
        }
    }

    fn show(&mut self, number: u64, runs: u64, ends: &BTreeMap<End, u64>) {
        if self.shown.elapsed() < PROGRESS {
            return;
        }
        self.shown = Instant::now();
        notice(format_args!(
            "sweep of {}: N = {number}, {runs} runs, {} of them bad, {} s so far",
            self.subject,
            bad_ends(ends),
            self.start.elapsed().as_secs()
        ));
    }
}

/// Reports a run that crashed or hung.
fn tell(out: &mut impl Write, number: u64, run: &Run) -> std::io::Result<()> {
    writeln!(out, "N = {number}: {}", run.end.text())?;
    for line in &run.injected {
        writeln!(out, "  injected: {line}")?;
    }
    let lines: Vec<&str> = run.errors.lines().collect();
    let skipped = lines.len().saturating_sub(SHOWN_LINES);
    if skipped > 0 {
        writeln!(out, "  | ({skipped} lines)")?;
    }
    lines[skipped..]
        .iter()
        .try_for_each(|line| writeln!(out, "  | {line}"))
}

fn run_once(program: &Program, number: u64, folder: &Path) -> std::io::Result<Run> {
    let log = folder.join("log");
    let _ = std::fs::remove_file(&log);
    let mut errors = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(folder.join("stderr"))?;
    let rules: Vec<Spec> = program
        .rules
        .iter()
        .map(|rule| match rule.sweep() {
            Some(_) => rule.with_nth(number),
            None => *rule,
        })
        .collect();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = program.argv.first() {
        command.arg0(name);
    }
    let mut child = command
        .envs(program.variables.iter().map(|(name, value)| (name, value)))
        .env("PYHOST_FAIL", list::show(&rules))
        .env("PYHOST_FAIL_LOG", &log)
        .args(["-X", "faulthandler"])
        .args(program.argv.iter().skip(1))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors.try_clone()?)
        .spawn()?;
    let pid = child.id();
    let timeout = Duration::from_secs(program.timeout.unwrap_or(DEFAULT_TIMEOUT));
    let status = wait(&mut child, timeout)?;
    let mut bytes = Vec::new();
    errors.rewind()?;
    errors.read_to_end(&mut bytes)?;
    let errors = String::from_utf8_lossy(&bytes).into_owned();
    let log = std::fs::read(&log).unwrap_or_default();
    let own = format!("{pid} ");
    let injected = String::from_utf8_lossy(&log)
        .lines()
        .filter_map(|line| line.strip_prefix(&own))
        .map(str::to_owned)
        .collect();
    Ok(Run {
        end: End::of(status, &errors),
        injected,
        errors,
    })
}

/// Waits for a run; None where it took too long and was ended.
fn wait(child: &mut Child, timeout: Duration) -> std::io::Result<Option<ExitStatus>> {
    if let Some(status) = wait_until(child, Instant::now() + timeout)? {
        return Ok(Some(status));
    }
    signal(child, libc::SIGABRT); // faulthandler prints where each thread is
    if wait_until(child, Instant::now() + LAST_WORDS)?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(None)
}

fn wait_until(child: &mut Child, end: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

fn signal(child: &Child, signal: libc::c_int) {
    crate::process::signal(child.id() as libc::pid_t, signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_by_its_status_and_its_last_lines() {
        let ended = |raw| Some(ExitStatus::from_raw(raw));
        for (status, errors, end) in [
            (ended(0), "", End::Status(0)),
            (
                ended(0),
                "Exception ignored in x\nMemoryError\n",
                End::Status(0),
            ),
            (
                ended(1 << 8),
                "Traceback\nMemoryError\n",
                End::MemoryError(1),
            ),
            (
                ended(1 << 8),
                "numpy.core._exceptions._ArrayMemoryError: Unable\n",
                End::MemoryError(1),
            ),
            (ended(1 << 8), "ValueError: MemoryError\n", End::Status(1)),
            (ended(3 << 8), "", End::Status(3)),
            (
                ended(libc::SIGSEGV),
                "Fatal Python error: Segmentation fault\n",
                End::Signal(libc::SIGSEGV),
            ),
            (
                ended(libc::SIGABRT),
                "Fatal Python error: Aborted\n",
                End::Signal(libc::SIGABRT),
            ),
            (
                ended(libc::SIGABRT),
                "Fatal Python error: f: no memory\n",
                End::Fatal,
            ),
            (None, "", End::Hang),
        ] {
            assert_eq!(End::of(status, errors), end, "{errors}");
        }
    }
}
