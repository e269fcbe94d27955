//! The baselines of `pyhostctl diff`: the accounts of a process at one moment, to compare with later.
//!
//! A baseline is a report in JSON, named like the process's file, in a folder of the directory of
//! `--live`: it goes when the process's file has gone (see `directory::forget_baselines`). A later
//! one takes the place of an earlier, whole or not at all.

use crate::document::Document;
use crate::find::{self, Directories};
use crate::output::{Failure, print};
use pyhost_os::errno::Errno;
use pyhost_os::file::{self, Fd};
use pyhost_record::directory::{self, ARCHIVE, Identity};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Keeps the accounts of a process that runs.
pub fn keep(word: &str, directories: &Directories) -> Result<(), Failure> {
    let path = find::path_of(word, directories)?;
    let directory = directory_of(&path);
    let document = Document::read(&path)?;
    let identity = identity_of(&path)?;
    if !document.is_running() {
        return Err(find::runs_no_more(word));
    }
    let kept = directory::baseline(directory, &identity);
    let folder = directory::open(directory).map_err(|error| Failure::of(&kept, error))?;
    directory::forget_baselines(&folder);
    write(&folder, &kept, &document.into_report().1)
        .map_err(|error| Failure::of(&kept, format!("cannot be written ({error})")))?;
    let kept = kept.display();
    print(&format!("process {word}: its baseline is '{kept}'\n"))
}

/// Writes a baseline into its folder in an open directory: in that one, whatever its path leads to.
fn write(directory: &Fd, kept: &Path, text: &str) -> io::Result<()> {
    let system = |Errno(error)| io::Error::from_raw_os_error(error);
    file::make_folder_in(directory, c"baselines").map_err(system)?;
    let folder = Fd::folder_in(directory, c"baselines").map_err(system)?;
    let folder = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    let name = kept.file_name().unwrap_or_default();
    // What is left of it goes with the baseline, whose name it begins with.
    let mut draft = tempfile::Builder::new().prefix(name).tempfile_in(&folder)?;
    draft.write_all(text.as_bytes())?;
    draft.persist(folder.join(name))?;
    Ok(())
}

/// The directory that a host's file is in, or whose archive has it.
fn directory_of(path: &Path) -> &Path {
    let mut folders = path.ancestors().skip(1);
    let is_archive = |folder: &&Path| folder.ends_with(ARCHIVE);
    match folders.find(|folder| !is_archive(folder)) {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn identity_of(path: &Path) -> Result<Identity, Failure> {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(Identity::of_file_name).ok_or_else(|| {
        let what = "is not named like a file of --live; expected a second report or process id";
        Failure::of(path, what)
    })
}

/// The baseline of a process, which `word` named and whose file is at `path`.
pub fn of(word: &str, path: &Path) -> Result<PathBuf, Failure> {
    let directory = directory_of(path);
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

#[cfg(test)]
mod tests {
    use super::*;
    use pyhost_record::directory::BASELINES;
    use std::fs;

    #[test]
    fn a_link_in_the_place_of_the_baselines_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [own, others] = ["own", "others"].map(|name| folder.path().join(name));
        fs::create_dir_all(own.join(BASELINES)).unwrap();
        fs::create_dir_all(&others).unwrap();
        std::os::unix::fs::symlink(own.join(BASELINES), others.join(BASELINES)).unwrap();
        let process = Identity::own();
        let opened = directory::open(&own).unwrap();
        let kept = directory::baseline(&own, &process);
        write(&opened, &kept, "[]").unwrap();
        assert_eq!(fs::read_to_string(&kept).unwrap(), "[]");
        let opened = directory::open(&others).unwrap();
        directory::forget_baselines(&opened);
        assert!(kept.exists());
        assert!(write(&opened, &kept, "").is_err());
        assert_eq!(fs::read_to_string(&kept).unwrap(), "[]");
    }
}
