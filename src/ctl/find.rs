//! Finds the files of hosts: by process id, or all of those that run.

use crate::Failure;
use pyhost_shared::directory::{self, Entry, Here};
use pyhost_shared::record::Record;
use std::path::{Path, PathBuf};

/// A host that runs.
pub struct Host {
    /// Its file.
    pub entry: Entry,
    /// What the file said.
    pub record: Record,
}

/// The hosts of a directory that run, by process id. A file that is torn or another's is left out;
/// a directory that is not there has none.
///
/// # Errors
/// The directory cannot be read.
pub fn running(directory: &Path) -> Result<Vec<Host>, Failure> {
    let here = Here::find();
    let entries = match directory::entries(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return Err(Failure(format!(
                "'{}' cannot be read ({error})",
                directory.display()
            )));
        }
    };
    let mut hosts: Vec<Host> = entries
        .into_iter()
        .filter(|entry| entry.is_alive(&here))
        .filter_map(|entry| {
            let record = entry.read().ok()?;
            // It has said good-bye and is about to go.
            record.is_running().then_some(Host { entry, record })
        })
        .collect();
    hosts.sort_by_key(|host| host.entry.identity.pid);
    Ok(hosts)
}

/// The file of a process id: of the host that runs, else of the one that was killed last.
///
/// # Errors
/// There is none.
pub fn of_process(pid: i32, directory: &Path) -> Result<PathBuf, Failure> {
    let here = Here::find();
    let mut found: Vec<Entry> = directory::entries(directory).unwrap_or_default();
    found.extend(directory::archived(directory));
    found.retain(|entry| entry.identity.pid == pid);
    found.sort_by_key(|entry| (entry.is_alive(&here), entry.identity.start_ticks));
    match found.pop() {
        Some(entry) => Ok(entry.path),
        None => Err(Failure(format!(
            "no host with process id {pid} in '{}'; expected one that was started with --live",
            directory.display()
        ))),
    }
}
