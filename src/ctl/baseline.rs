//! `pyhostctl baseline`: keeps the accounts of a process, to compare with later.
//!
//! A baseline is a report in JSON, named like the process's file, in a folder of the directory of
//! `--live`: it goes when the process's file has gone (see `directory::forget_baselines`). A later
//! one takes the place of an earlier, whole or not at all.

use crate::document::Document;
use crate::failure::{Failure, print};
use crate::find::{self, Name};
use clap::Args;
use pyhost_record::directory::{self, BASELINES, Identity};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The options of `baseline`.
#[derive(Debug, Args)]
pub struct BaselineOptions {
    /// A process id; NAMESPACE:PID where processes of several pid namespaces have it
    #[arg(value_name = "PID")]
    pub pid: Name,
}

/// Keeps the accounts of a process that runs.
///
/// # Errors
/// It does not run, or its accounts cannot be kept.
pub fn run(options: &BaselineOptions, directory: &Path) -> Result<(), Failure> {
    let pid = &options.pid;
    let path = find::of_process(pid, directory)?;
    let document = Document::read(&path)?;
    if !document.is_running() {
        return Err(find::runs_no_more(pid));
    }
    directory::forget_baselines(directory);
    let kept = place(&path, directory)?;
    keep(&kept, &document.into_report().1)
        .map_err(|error| Failure(format!("'{}' cannot be written ({error})", kept.display())))?;
    print(&format!(
        "process {pid}: its baseline is '{}'\n",
        kept.display()
    ))
}

/// Where the baseline of the process is whose file is at `path`.
fn place(path: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    let name = path.file_name().and_then(|name| name.to_str());
    let identity = name.and_then(Identity::of_file_name);
    let place = identity.map(|identity| directory::baseline(directory, &identity));
    place.ok_or_else(|| {
        Failure(format!(
            "'{}' is not named like a file of --live; expected a second report or process id",
            path.display()
        ))
    })
}

/// The baseline of a process, which `word` named and whose file is at `path`.
///
/// # Errors
/// The process has no baseline.
pub fn of(word: &str, path: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    let place = place(path, directory)?;
    match place.exists() {
        true => Ok(place),
        false => Err(Failure(format!(
            "'{word}' has no baseline in '{}'; expected `pyhostctl baseline PID` before, or a second \
             report or process id",
            directory.display()
        ))),
    }
}

fn keep(place: &Path, text: &str) -> io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new(BASELINES));
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Where the directory is another user's, no link of theirs leads elsewhere.
    if !fs::symlink_metadata(folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let new = place.with_extension("json.new");
    let _ = fs::remove_file(&new);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| fs::rename(&new, place));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
