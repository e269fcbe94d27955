//! What a scrape finds: the hosts that run, and how many files of the directory are no ledger.
//!
//! The directory is its user's, but its files may be torn, of another version, or forged: no file
//! stops a scrape, and no two processes get the same labels.

use crate::Failure;
use crate::report::resident;
use pyhost_ledger::card::Card;
use pyhost_ledger::{REPORTED, Scope};
use pyhost_record::directory::{self, Entry, Here, SUFFIX};
use pyhost_record::metrics::{About, Machine, Pid, Process};
use pyhost_record::{Record, Unreadable};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long a host may take to fill the file that it has just made.
const FILLING: Duration = Duration::from_millis(2);

/// The strings of a card.
struct Texts {
    command: String,
    host: String,
    python: String,
    mimalloc: String,
    allocator: String,
    native: String,
    profile: String,
}

impl Texts {
    fn of(card: &Card) -> Self {
        Texts {
            command: card.script.get(),
            host: card.host.get(),
            python: card.python.get(),
            mimalloc: card.mimalloc.get(),
            allocator: card.allocator.get(),
            native: card.native.get(),
            profile: card.profile.get(),
        }
    }
}

/// A host that runs.
struct Host {
    pid: Pid,
    record: Record,
    texts: Texts,
    resident: Option<(u64, u64)>,
    cpu_seconds: Option<f64>,
}

/// What a look at the directory found.
pub struct Found {
    hosts: Vec<Host>,
    unreadable_files: u64,
}

impl Found {
    /// The processes, by their ids.
    pub fn processes(&self) -> Vec<Process<'_>> {
        self.hosts.iter().map(Host::process).collect()
    }

    /// The machine's figures.
    pub fn machine(&self) -> Machine {
        Machine {
            hosts: self.hosts.len() as u64,
            unreadable_files: self.unreadable_files,
        }
    }
}

impl Host {
    fn process(&self) -> Process<'_> {
        let mut active = [false; REPORTED.len()];
        for &account in REPORTED {
            active[account as usize] = self.record.is_active(account);
        }
        let mut caps = [None; Scope::COUNT];
        for cap in &self.record.caps {
            caps[cap.scope.index()] = Some(cap.bytes);
        }
        let texts = &self.texts;
        Process {
            pid: Some(self.pid),
            about: About {
                command: &texts.command,
                host: &texts.host,
                python: &texts.python,
                mimalloc: &texts.mimalloc,
                allocator: &texts.allocator,
                native: &texts.native,
                profile: &texts.profile,
            },
            now: &self.record.snapshot,
            live: &self.record.snapshot,
            active,
            caps,
            inherited: (self.record.card().forked.load(Relaxed) == 1)
                .then(|| self.record.card().inherited.load(Relaxed)),
            resident: self.resident.map(|(now, _)| now),
            peak_resident: self.resident.map(|(_, peak)| peak),
            started: self.record.card().started.load(Relaxed),
            cpu_seconds: self.cpu_seconds,
            wall_seconds: None,
            exit_status: None,
        }
    }
}

/// Looks at the hosts of a directory; one that is not there has none.
///
/// # Errors
/// The directory cannot be read.
pub fn look(directory: &Path) -> Result<Found, Failure> {
    let names = match names(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Failure(format!(
                "'{}' cannot be read ({error})",
                directory.display()
            )));
        }
        found => found.unwrap_or_default(),
    };
    let here = Here::find();
    let namespace = directory::pid_namespace();
    let (mut hosts, mut again) = (Vec::new(), Vec::new());
    for path in names {
        match Record::read(&path) {
            Ok(record) => hosts.extend(host(path, record, &here, namespace)),
            Err(error) if is_gone(&error) => {}
            Err(_) => again.push(path),
        }
    }
    let mut unreadable_files = 0;
    if !again.is_empty() {
        std::thread::sleep(FILLING);
    }
    for path in again {
        match Record::read(&path) {
            Ok(record) => hosts.extend(host(path, record, &here, namespace)),
            Err(error) if is_gone(&error) => {}
            Err(_) => unreadable_files += 1,
        }
    }
    hosts.sort_by_key(|host| host.pid);
    hosts.dedup_by_key(|host| host.pid);
    Ok(Found {
        hosts,
        unreadable_files,
    })
}

/// The files of a directory that are called as ledgers are.
fn names(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for found in std::fs::read_dir(directory)? {
        let path = found?.path();
        if path.as_os_str().as_bytes().ends_with(SUFFIX.as_bytes()) {
            paths.push(path);
        }
    }
    Ok(paths)
}

fn is_gone(error: &Unreadable) -> bool {
    matches!(error, Unreadable::System(error) if error.kind() == io::ErrorKind::NotFound)
}

/// The host of a record, where its process runs. That is asked last, so that what was read of `/proc`
/// before is the same process's.
fn host(path: PathBuf, record: Record, here: &Here, namespace: u64) -> Option<Host> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let identity = directory::Identity::of_file_name(name)?;
    if !record.is_running() {
        return None;
    }
    let is_here = identity.pid_namespace == namespace;
    let pid = Pid {
        namespace: (!is_here).then_some(identity.pid_namespace),
        id: identity.pid,
    };
    let host = Host {
        pid,
        resident: is_here.then(|| resident(pid.id)).flatten(),
        cpu_seconds: is_here.then(|| cpu_seconds(pid.id)).flatten(),
        texts: Texts::of(record.card()),
        record,
    };
    let entry = Entry { path, identity };
    entry.is_alive(here).then_some(host)
}

/// Seconds of processor time that a process has taken: fields 14 and 15 of `/proc/PID/stat`.
fn cpu_seconds(pid: i32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some((ticks()? + ticks()?) as f64 / super::system::ticks_per_second())
}
