//! Runs that are forked off a host where `pyhost.fail` first opens, so that the program comes so far once. The other side is
//! `src/host/python/module/library/sweep.py`.

use pyhost_os::process;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs::File, fs::read, io, io::Write, os::unix::process::ExitStatusExt};
use tempfile::TempDir;

/// How long a run that hangs may take to print where it is, and one that a signal ends to end.
pub const LAST_WORDS: Duration = Duration::from_secs(3);

/// A host that waits where failures open.
pub struct Forks {
    host: Child,
    pub folder: TempDir,
    asked: File,
    /// The bytes of its answers that were read.
    read: usize,
    /// What it wrote to standard error before it was ready; `None` until it is.
    errors: Option<usize>,
}

/// A forked process: its status, or `None` if it took too long, and its standard error.
type Ended = (u32, Option<ExitStatus>, Vec<u8>);

impl Forks {
    pub fn start(mut command: Command, folder: TempDir) -> io::Result<Self> {
        let path = folder.path();
        let address = format!("{}:{}", std::process::id(), path.display());
        File::create_new(path.join("answered"))?;
        let errors = File::create_new(path.join("errors"))?;
        Ok(Forks {
            asked: File::create_new(path.join("asked"))?,
            host: command
                .env("PYHOST_SWEEP", address)
                .stderr(errors)
                .spawn()?,
            folder,
            read: 0,
            errors: None,
        })
    }

    /// The run in which the request of this number fails; `None` if the host forks none. `signal` is the one that ends a
    /// run which takes too long.
    pub fn run(
        &mut self,
        number: u64,
        patience: Duration,
        stops: &dyn Fn() -> bool,
        signal: &dyn Fn() -> i32,
    ) -> io::Result<Option<Ended>> {
        let errors = self.folder.path().join("errors");
        if self.errors.is_none() && self.answer(patience, stops)?.is_some() {
            self.errors = Some(read(&errors)?.len());
        }
        let (Some(before), written) = (self.errors, read(&errors)?.len()) else {
            return Ok(None);
        };
        writeln!(self.asked, "{number}")?;
        let Some(process) = self.answer(patience, stops)? else {
            return Ok(None);
        };
        let status = self.answer(patience, stops)?;
        if status.is_none() {
            process::signal(process, signal());
            if self.answer(LAST_WORDS, &|| false)?.is_none() {
                process::signal(process, libc::SIGKILL);
                self.answer(LAST_WORDS, &|| false)?;
            }
        }
        let mut errors = read(&errors)?;
        errors.drain(before..written);
        Ok(Some((
            process as u32,
            status.map(ExitStatus::from_raw),
            errors,
        )))
    }

    /// The next number that the host answers; `None` if none comes in time.
    fn answer(&mut self, patience: Duration, stops: &dyn Fn() -> bool) -> io::Result<Option<i32>> {
        let end = Instant::now() + patience;
        loop {
            let text = std::fs::read_to_string(self.folder.path().join("answered"))?;
            if let Some((line, _)) = text[self.read..].split_once('\n') {
                self.read += line.len() + 1;
                return Ok(line.parse().ok());
            }
            if self.host.try_wait()?.is_some() || Instant::now() >= end || stops() {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Forks {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.host.kill();
        let _ = self.host.wait();
    }
}
