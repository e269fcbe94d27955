//! The baselines of `pyhostctl diff`: the accounts of a process at one moment, to compare with later.
//!
//! A baseline is a report in JSON, named like the process's file, in a folder of the directory of
//! `--live`: it goes when the process's file has gone (see `directory::forget_baselines`). A later
//! one takes the place of an earlier, whole or not at all.

use crate::document::Document;
use crate::failure::{Failure, print};
use crate::find;
use pyhost_record::directory::{self, Identity};
use std::path::{Path, PathBuf};

/// Keeps the accounts of a process that runs.
pub fn keep(word: &str, directory: &Path) -> Result<(), Failure> {
    let path = find::path_of(word, directory)?;
    let document = Document::read(&path)?;
    let identity = identity_of(&path)?;
    if !document.is_running() {
        return Err(find::runs_no_more(word));
    }
    let kept = directory::baseline(directory, &identity);
    let folder = directory::open(directory).map_err(|error| Failure::of(&kept, error))?;
    directory::forget_baselines(&folder);
    directory::keep_baseline(&folder, &identity, &document.into_report().1)
        .map_err(|error| Failure::of(&kept, format!("cannot be written ({error})")))?;
    print(&format!(
        "process {word}: its baseline is '{}'\n",
        kept.display()
    ))
}

fn identity_of(path: &Path) -> Result<Identity, Failure> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(Identity::of_file_name).ok_or_else(|| {
        let what = "is not named like a file of --live; expected a second report or process id";
        Failure::of(path, what)
    })
}

/// The baseline of a process, which `word` named and whose file is at `path`.
pub fn of(word: &str, path: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    let place = directory::baseline(directory, &identity_of(path)?);
    match place.exists() {
        true => Ok(place),
        false => Err(Failure(format!(
            "'{word}' has no baseline in '{}'; expected `pyhostctl diff --keep PID` before, or a second \
             report or process id",
            directory.display()
        ))),
    }
}
