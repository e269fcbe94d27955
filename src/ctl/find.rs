//! Finds the files of hosts: by process id, or all of those that run.

use crate::{output::Failure, process::Usage};
use pyhost_record::directory::{self, ARCHIVE, Entry, Here, Identity, SUFFIX, pid_namespace};
use pyhost_record::{Record, Unreadable, metrics::Pid};
use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{borrow::Cow, collections::HashSet, ffi::OsStr, io, os::unix::ffi::OsStrExt};

/// How long a host may take to fill the file that it has just created.
const FILLING: Duration = Duration::from_millis(2);

/// Where the files of hosts are.
#[derive(Clone)]
pub enum Directories {
    These(Vec<PathBuf>),
    OfAllUsers,
}

impl Directories {
    /// Those that there are now.
    pub fn paths(&self) -> Cow<'_, [PathBuf]> {
        match self {
            Directories::These(paths) => paths.into(),
            Directories::OfAllUsers => directory::default_directories().into(),
        }
    }

    /// Those of other users that the caller may not read, with the system's reason.
    pub fn unreadable(&self) -> Vec<(PathBuf, io::Error)> {
        let error = |path: PathBuf| Some((path.clone(), std::fs::read_dir(path).err()?));
        match self {
            Directories::These(_) => Vec::new(),
            Directories::OfAllUsers => self.paths().iter().cloned().filter_map(error).collect(),
        }
    }

    /// The files of hosts: of those that run, and of some that were killed.
    pub fn files(&self) -> Vec<Entry> {
        Self::entries(self.paths().iter().cloned())
    }

    /// The same, and those of the archive.
    pub fn all_files(&self) -> Vec<Entry> {
        let paths = self.paths();
        Self::entries(paths.iter().flat_map(|it| [it.clone(), it.join(ARCHIVE)]))
    }

    /// All that is named like a ledger. A directory that does not exist has none, nor one of another user that cannot be read.
    pub fn ledgers(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut paths = Vec::new();
        for directory in self.paths().iter() {
            match (files(directory), self) {
                (Ok(found), _) => paths.extend(found),
                (Err(error), Directories::These(_)) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Failure::unreadable(directory, &error));
                }
                _ => {}
            }
        }
        Ok(paths)
    }

    fn entries(folders: impl Iterator<Item = PathBuf>) -> Vec<Entry> {
        let entries = folders.filter_map(|folder| directory::entries(&folder).ok());
        entries.flatten().collect()
    }
}

impl Display for Directories {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Directories::These(paths) = self else {
            return out.write_str("the default directories of all users");
        };
        let names = paths.iter().map(|it| format!("'{}'", it.display()));
        out.write_str(&names.collect::<Vec<_>>().join(" and "))
    }
}

pub struct FoundHost {
    /// Its file, and the process by the file's name.
    pub entry: Entry,
    /// As `pyhostctl` takes it: with the pid namespace if that is not the caller's, or if several have the id.
    pub name: Pid,
    pub record: Record,
    pub usage: Usage,
}

pub struct Found {
    /// The hosts that run, by process id.
    pub hosts: Vec<FoundHost>,
    /// Files that are named like a host's but hold no ledger.
    pub unreadable_files: u64,
}

/// Finds the hosts that run.
///
/// A directory is its user's, but its files may be torn, of another version, or forged: no file
/// stops the search, and no process is found twice.
pub fn running(directories: &Directories) -> Result<Found, Failure> {
    let paths = directories.ledgers()?;
    let here = Here::find();
    let mut hosts = Vec::new();
    let unreadable = read(paths, &here, &mut hosts);
    if !unreadable.is_empty() {
        std::thread::sleep(FILLING);
    }
    let unreadable_files = read(unreadable, &here, &mut hosts).len() as u64;
    hosts.sort_by_key(|host| (host.name.id, host.name.namespace));
    hosts.dedup_by_key(|host| host.name);
    let ids: Vec<i32> = hosts.iter().map(|host| host.name.id).collect();
    let own = pid_namespace();
    let count = |id| ids.iter().filter(|&&it| it == id).count();
    for Pid { namespace, id } in hosts.iter_mut().map(|host| &mut host.name) {
        *namespace = namespace.filter(|&namespace| namespace != own || count(*id) > 1);
    }
    Ok(Found {
        hosts,
        unreadable_files,
    })
}

/// The files of a directory that are named like ledgers.
fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for found in std::fs::read_dir(directory)? {
        let path = found?.path();
        if path.as_os_str().as_bytes().ends_with(SUFFIX.as_bytes()) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Adds the hosts of these files that run; returns the files that exist and hold no ledger.
fn read(paths: Vec<PathBuf>, here: &Here, hosts: &mut Vec<FoundHost>) -> Vec<PathBuf> {
    let is_gone = |error: &Unreadable| matches!(error, Unreadable::System(error) if error.kind() == io::ErrorKind::NotFound);
    let mut unreadable = Vec::new();
    for path in paths {
        match Record::read(&path) {
            Ok(record) => hosts.extend(host(path, record, here)),
            Err(error) if is_gone(&error) => {}
            Err(_) => unreadable.push(path),
        }
    }
    unreadable
}

/// The host of a record, if its process runs. That is checked last, so that what was read of `/proc`
/// before is the same process's.
fn host(path: PathBuf, record: Record, here: &Here) -> Option<FoundHost> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let identity = Identity::of_file_name(name)?;
    // A host whose header says that it has ended is about to remove its file.
    if !record.is_running() {
        return None;
    }
    let (name, usage) = (Pid::of(&identity), Usage::of(&identity, here));
    let entry = Entry { path, identity };
    entry.is_alive(here).then_some(FoundHost {
        entry,
        name,
        record,
        usage,
    })
}

/// That a process ended which must run.
pub fn runs_no_more(name: impl Display) -> Failure {
    Failure(format!(
        "process {name} runs no more; expected a host that runs"
    ))
}

/// Of the files that a process id may mean, the one of the process that started last; None without any.
pub fn choose(
    id: i32,
    mut found: Vec<Entry>,
    directories: &Directories,
) -> Result<Option<Entry>, Failure> {
    const NAMED: usize = 8;
    found.sort_by_key(|entry| std::cmp::Reverse(entry.identity.start_ticks));
    let mut namespaces = HashSet::new();
    let is_first = |entry: &&Entry| namespaces.insert(entry.identity.pid_namespace);
    let several: Vec<&Entry> = found.iter().filter(is_first).collect();
    if several.len() < 2 {
        return Ok(found.into_iter().next());
    }
    let named = several.iter().take(NAMED).map(|entry| {
        let command = Record::read(&entry.path).map(|record| record.header().command());
        let name = format!("{}:{id}", entry.identity.pid_namespace);
        format!("{name} ({})", command.unwrap_or_default())
    });
    let named: Vec<String> = named.collect();
    let more = match several.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Failure(format!(
        "process id {id} is ambiguous in {directories}: {}{more}; expected one of these names, or a file",
        named.join(", ")
    )))
}

/// The file of a process: of the host that runs, else of the one that was killed last.
pub fn of_process(name: &Pid, directories: &Directories) -> Result<PathBuf, Failure> {
    let here = Here::find();
    let found = directories.all_files().into_iter();
    let found = found.filter(|entry| name.fits(&entry.identity));
    let (alive, ended): (Vec<_>, Vec<_>) = found.partition(|entry| entry.is_alive(&here));
    let candidates = if alive.is_empty() { ended } else { alive };
    match choose(name.id, candidates, directories)? {
        Some(entry) => Ok(entry.path),
        None => Err(Failure(format!(
            "no host with process id {name} in {directories}; expected one that was started with --live"
        ))),
    }
}

pub fn process(word: &str) -> Result<Pid, Failure> {
    let found = word.parse();
    found.map_err(|expected| Failure(format!("'{word}' is no process; {expected}")))
}

/// The file that a word of the command line names: a process's, or a path.
pub fn path_of(word: &str, directories: &Directories) -> Result<PathBuf, Failure> {
    match word.parse() {
        Ok(name) => of_process(&name, directories),
        Err(_) => Ok(PathBuf::from(word)),
    }
}

#[test]
fn of_the_files_of_a_process_the_last_is_chosen() {
    let entry = |start: u64| {
        let path = PathBuf::from(format!("b-2-1-{start}.live"));
        let identity = Identity::of_file_name(path.to_str().unwrap()).unwrap();
        Entry { path, identity }
    };
    let nowhere = Directories::These(Vec::new());
    let last = choose(1, [5, 9, 7].map(entry).into(), &nowhere);
    assert!(last.is_ok_and(|last| last.unwrap().identity.start_ticks == 9));
}
