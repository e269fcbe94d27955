//! One run of the program: the host with one request that fails, CPython's `faulthandler`, and a log
//! that says whether and where the failure was injected.

use pyhost_os::process;
use pyhost_os::signals::signal_name;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a run that hangs may take to print where it is, and one that a signal ends to end.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// With an exit status.
    Status(i32),
    /// With an exit status, after a `MemoryError` that nothing caught.
    MemoryError(i32),
    /// By a signal.
    Signal(i32),
    /// By a fatal error of CPython's.
    Fatal,
    /// It took too long.
    Hang,
}

impl End {
    /// Whether the program crashed or hung.
    pub fn is_bad(self) -> bool {
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

    /// For people: `crash by SIGSEGV`.
    pub fn text(self) -> String {
        match self {
            End::Status(status) => format!("status {status}"),
            End::MemoryError(status) => format!("MemoryError, status {status}"),
            End::Signal(signal) => format!("crash by {}", signal_name(signal)),
            End::Fatal => "fatal error".to_owned(),
            End::Hang => "hang".to_owned(),
        }
    }
}

/// The result of a run.
pub struct Run {
    /// How it ended.
    pub end: End,
    /// The failures that were injected into the process itself: number, account, size, place.
    pub injected: Vec<String>,
    /// Its standard error.
    pub errors: String,
}

/// Runs the program.
pub struct Runner {
    host: PathBuf,
    program: Vec<OsString>,
    timeout: Duration,
    /// The files of the runs.
    folder: TempDir,
    /// The signal that ends the sweep, or 0.
    ending: Arc<AtomicUsize>,
}

impl Runner {
    /// Makes a folder for the runs' files. From now on a signal that ends the sweep ends its run and removes the
    /// folder first.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(host: PathBuf, program: Vec<OsString>, timeout: Duration) -> io::Result<Self> {
        let ending = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            if !is_ignored(signal) {
                flag::register_usize(signal, Arc::clone(&ending), signal as usize)?;
            }
        }
        Ok(Runner {
            host,
            program,
            timeout,
            folder: tempfile::Builder::new().prefix("pyhost-sweep-").tempdir()?,
            ending,
        })
    }

    /// Runs the program with these rules of `--fail`.
    ///
    /// # Errors
    /// The host cannot be started, or a file of the run cannot be written.
    pub fn run(&mut self, rules: &str) -> io::Result<Run> {
        let log = self.folder.path().join("log");
        let _ = std::fs::remove_file(&log);
        let mut errors = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(self.folder.path().join("stderr"))?;
        let mut child = Command::new(&self.host)
            .env("PYHOST_FAIL", rules)
            .env("PYHOST_FAIL_LOG", &log)
            // Reports that variables ask for are the outermost host's: a run writes over no file.
            .env("PYHOST_OUTERMOST", std::process::id().to_string())
            .args(["-X", "faulthandler"])
            .args(&self.program)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors.try_clone()?)
            .spawn()?;
        let own = format!("{} ", child.id());
        let status = self.wait(&mut child)?;
        let mut bytes = Vec::new();
        errors.rewind()?;
        errors.read_to_end(&mut bytes)?;
        let errors = String::from_utf8_lossy(&bytes).into_owned();
        let log = std::fs::read(&log).unwrap_or_default();
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

    /// Waits for a run. Returns `None` if it took too long and was ended.
    fn wait(&mut self, child: &mut Child) -> io::Result<Option<ExitStatus>> {
        let status = self.wait_until(child, Instant::now() + self.timeout)?;
        let signal = match (status, self.ending.load(Relaxed)) {
            (Some(status), 0) => return Ok(Some(status)),
            (_, 0) => libc::SIGABRT, // faulthandler prints where each thread is
            (_, ending) => ending as i32,
        };
        if status.is_none() {
            process::signal(child.id() as libc::pid_t, signal);
            if wait_until(child, Instant::now() + LAST_WORDS, || false)?.is_none() {
                child.kill()?;
                child.wait()?;
            }
        }
        if signal != libc::SIGABRT {
            let _ = std::fs::remove_dir_all(self.folder.path());
            emulate_default_handler(signal)?;
        }
        Ok(None)
    }

    fn wait_until(&self, child: &mut Child, end: Instant) -> io::Result<Option<ExitStatus>> {
        wait_until(child, end, || self.ending.load(Relaxed) != 0)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_known_by_its_status_and_its_last_lines() {
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
