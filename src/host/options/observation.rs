//! The options of looking on from outside, from the command line or the variables.

use super::outputs::{LEDGER_FILE, Output, Outputs, STATS_BRIEF, TIMELINE, absolute};
use super::variables::{checked, variable};
use crate::cli::Cli;
use crate::error::Error;
use crate::live::Place;
use crate::template::names_process;
use crate::timeline::{Interval, Settings};
use pyhost_record::directory::Setting;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// The variable of `--live`.
pub const LIVE: &str = "PYHOST_LIVE";

/// The variables of looking on from outside.
#[derive(Default)]
pub struct Variables {
    live: Option<Setting>,
    ledger_file: Option<OsString>,
    timeline: Option<OsString>,
    interval: Option<Interval>,
    brief: Option<OsString>,
}

impl Variables {
    /// Reads the variables.
    ///
    /// # Errors
    /// One whose value is not what it should be.
    pub fn read() -> Result<Self, Error> {
        // One file for all processes would be written by each.
        let of_process = |path: &OsString| names_process(path.as_encoded_bytes());
        Ok(Variables {
            live: variable(LIVE).and_then(|value| Setting::of(&value)),
            ledger_file: variable("PYHOST_LEDGER_FILE").filter(of_process),
            timeline: variable("PYHOST_TIMELINE"),
            interval: checked("PYHOST_TIMELINE_INTERVAL")?,
            brief: variable("PYHOST_STATS_BRIEF"),
        })
    }
}

/// What `--live` says; `None` where it is not given.
///
/// # Errors
/// An empty value.
fn live(cli: &Cli) -> Result<Option<Setting>, Error> {
    let Some(value) = &cli.observation.live else {
        return Ok(None);
    };
    let expected = "--live: expected on, off or a directory after '='";
    let setting = Setting::of(value).ok_or_else(|| Error::option(expected))?;
    Ok(Some(setting))
}

/// Where the ledger is to be kept.
///
/// # Errors
/// Two places, or a path that is wrong.
pub fn place(cli: &Cli, variables: &Variables, outputs: &mut Outputs) -> Result<Place, Error> {
    let given = live(cli)?;
    let is_on = |setting: &Setting| *setting != Setting::Off;
    let ledger_file = &cli.observation.ledger_file;
    if given.as_ref().is_some_and(is_on) && ledger_file.is_some() {
        return Err(Error::option(
            "--ledger-file: --live keeps the ledger already; expected one of them",
        ));
    }
    if let Some(path) = ledger_file {
        let path = outputs.choose(LEDGER_FILE, path, true, false)?;
        return Ok(path.map_or(Place::Own, Place::File));
    }
    let is_required = matches!(given, Some(Setting::At(_)));
    match given.as_ref().or(variables.live.as_ref()) {
        Some(Setting::Off) | None => {}
        Some(setting) => {
            return Ok(Place::Directory {
                path: setting.directory(),
                is_required,
            });
        }
    }
    match &variables.ledger_file {
        // Only a path with `%p`, which an outer host may have handed on.
        Some(path) => {
            let path = outputs.choose(LEDGER_FILE, path, true, true)?;
            Ok(path.map_or(Place::Own, Place::File))
        }
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
            "--live: '{0}' is taken for the program and is not one; expected --live={0}",
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
pub fn settings(
    cli: &Cli,
    variables: &Variables,
    inherited: bool,
    outputs: &mut Outputs,
) -> Result<Settings, Error> {
    let given = &cli.observation;
    let mut file = |output: Output, path: &Option<OsString>, variable: &Option<OsString>| {
        let Some(found) = path.as_ref().or(variable.as_ref()) else {
            return Ok(None);
        };
        let is_inherited = path.is_none() && inherited;
        if is_inherited && !names_process(found.as_encoded_bytes()) {
            return Ok(None);
        }
        outputs.choose(output, found, true, is_inherited)
    };
    check_timeline(given.timeline.as_ref())?;
    let timeline = file(TIMELINE, &given.timeline, &variables.timeline)?;
    let brief = file(STATS_BRIEF, &given.stats_brief, &variables.brief)?;
    let is_asked = given.timeline.is_some() || variables.timeline.is_some();
    if given.timeline_interval.is_some() && !is_asked {
        return Err(Error::option(
            "--timeline-interval: there is no timeline; expected --timeline=FILE",
        ));
    }
    Ok(Settings {
        timeline,
        interval: given
            .timeline_interval
            .or(variables.interval)
            .unwrap_or_default(),
        brief,
    })
}

/// Refuses `--timeline=INTERVAL FILE`, the form of earlier versions, which would run the file.
fn check_timeline(value: Option<&OsString>) -> Result<(), Error> {
    let Some(text) = value.and_then(|value| value.to_str()) else {
        return Ok(());
    };
    match text.parse::<Interval>() {
        Ok(_) => Err(Error::option(format!(
            "--timeline: '{text}' is an interval; expected --timeline-interval={text} and \
             --timeline=FILE"
        ))),
        Err(_) => Ok(()),
    }
}

/// The variables that stand for what the command line gave.
///
/// # Errors
/// What is no path.
pub fn exports(cli: &Cli) -> Result<Vec<(&'static str, OsString)>, Error> {
    let given = &cli.observation;
    let mut exports = Vec::new();
    if let Some(setting) = live(cli)? {
        let value = match &setting {
            Setting::Off => OsString::from("off"),
            setting => setting.directory().into_os_string(),
        };
        exports.push((LIVE, value));
    }
    for (output, path) in [
        (LEDGER_FILE, &given.ledger_file),
        (TIMELINE, &given.timeline),
        (STATS_BRIEF, &given.stats_brief),
    ] {
        if let Some(path) = path {
            let path = absolute(output.option, path)?;
            exports.push((output.variable, OsString::from_vec(path)));
        }
    }
    if let Some(interval) = given.timeline_interval {
        exports.push(("PYHOST_TIMELINE_INTERVAL", interval.to_string().into()));
    }
    Ok(exports)
}
