//! The options of looking on from outside, from the command line or the variables.

use super::absolute;
use super::variables::{checked, variable};
use crate::cli::Cli;
use crate::error::Error;
use crate::live::Place;
use crate::template::names_process;
use crate::timeline::{Interval, Settings};
use pyhost_shared::directory;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The variables of looking on from outside.
#[derive(Default)]
pub struct Variables {
    live: Option<OsString>,
    ledger_file: Option<OsString>,
    timeline: Option<OsString>,
    interval: Option<Interval>,
    brief: Option<OsString>,
}

/// What a variable says where it only says yes, and names no directory.
const YES: &str = "1";
/// And where it says no.
const NO: &str = "0";

impl Variables {
    /// Reads the variables.
    ///
    /// # Errors
    /// One whose value is not what it should be.
    pub fn read() -> Result<Self, Error> {
        // One file for all processes would be written by each.
        let of_process = |path: &OsString| names_process(path.as_encoded_bytes());
        Ok(Variables {
            live: variable("PYHOST_LIVE").filter(|value| value != NO),
            ledger_file: variable("PYHOST_LEDGER_FILE").filter(of_process),
            timeline: variable("PYHOST_TIMELINE"),
            interval: checked("PYHOST_TIMELINE_INTERVAL")?,
            brief: variable("PYHOST_STATS_BRIEF"),
        })
    }
}

/// The directory that a value of `--live` names.
fn directory_of(value: &OsStr) -> Result<PathBuf, Error> {
    if value.is_empty() || value == YES {
        return Ok(directory::default_directory());
    }
    std::path::absolute(value).map_err(|_| {
        let shown = Path::new(value).display();
        Error::option(format!("--live: '{shown}' is no path"))
    })
}

/// Where the ledger is to be kept.
///
/// # Errors
/// Two places, or what is no path.
pub fn place(cli: &Cli, variables: &Variables) -> Result<Place, Error> {
    let given = &cli.observation;
    if given.live.is_some() && given.ledger_file.is_some() {
        return Err(Error::option(
            "--ledger-file: --live keeps the ledger already; expected one of them",
        ));
    }
    if let Some(path) = &given.ledger_file {
        return Ok(Place::File(path.clone()));
    }
    if let Some(value) = given.live.as_ref().or(variables.live.as_ref()) {
        return directory_of(value).map(Place::Directory);
    }
    match &variables.ledger_file {
        Some(path) => Ok(Place::File(path.clone())),
        None => Ok(Place::Own),
    }
}

/// Refuses `--live DIR`, where the directory would be taken for the program: of `rest`, the host's last
/// option and what follows.
///
/// # Errors
/// The word after a last `--live` is a directory that holds no program, or is not there and something
/// that is follows.
pub fn check_live(rest: &[OsString]) -> Result<(), Error> {
    let [last, program, following @ ..] = rest else {
        return Ok(());
    };
    if last != "--live" || program.as_encoded_bytes().starts_with(b"-") {
        return Ok(());
    }
    let path = Path::new(program);
    let is_bare_directory = path.is_dir() && !path.join("__main__.py").exists();
    let is_made_later = !path.exists()
        && following
            .first()
            .is_some_and(|next| Path::new(next).exists());
    match is_bare_directory || is_made_later {
        true => Err(Error::option(format!(
            "--live: '{0}' follows as the program and is none; expected --live={0}",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// What is to be sampled. What only variables ask for, and would go to one file for all processes,
/// is the outermost host's.
///
/// # Errors
/// A file that cannot be, or an interval of no timeline.
pub fn settings(cli: &Cli, variables: &Variables, inherited: bool) -> Result<Settings, Error> {
    let given = &cli.observation;
    let file = |option, path: &Option<OsString>, variable: &Option<OsString>| {
        let Some(found) = path.as_ref().or(variable.as_ref()) else {
            return Ok(None);
        };
        let found = absolute(option, found)?;
        let other = path.is_none() && inherited && !names_process(&found);
        Ok((!other).then_some(found))
    };
    let timeline = file("--timeline", &given.timeline, &variables.timeline)?;
    let brief = file("--stats-brief", &given.stats_brief, &variables.brief)?;
    if given.timeline_interval.is_some() && timeline.is_none() {
        return Err(Error::option(
            "--timeline-interval: there is no timeline; expected --timeline FILE",
        ));
    }
    Ok(Settings {
        timeline,
        interval: given
            .timeline_interval
            .or(variables.interval)
            .unwrap_or_default(),
        brief: brief.map(|path| OsString::from_vec(path).into()),
    })
}

/// The variables that stand for what the command line gave.
///
/// # Errors
/// What is no path.
pub fn exports(cli: &Cli) -> Result<Vec<(&'static str, OsString)>, Error> {
    let given = &cli.observation;
    let mut exports = Vec::new();
    if let Some(value) = &given.live {
        exports.push(("PYHOST_LIVE", directory_of(value)?.into_os_string()));
    }
    for (variable, option, path) in [
        ("PYHOST_LEDGER_FILE", "--ledger-file", &given.ledger_file),
        ("PYHOST_TIMELINE", "--timeline", &given.timeline),
        ("PYHOST_STATS_BRIEF", "--stats-brief", &given.stats_brief),
    ] {
        if let Some(path) = path {
            exports.push((variable, OsString::from_vec(absolute(option, path)?)));
        }
    }
    if let Some(interval) = given.timeline_interval {
        exports.push(("PYHOST_TIMELINE_INTERVAL", interval.to_string().into()));
    }
    Ok(exports)
}
