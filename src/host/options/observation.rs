//! The options of looking on from outside, from the command line or the variables.

use super::outputs::{LIVE_FILE, Output, Outputs, STATS_BRIEF, TIMELINE};
use super::table::Given;
use crate::error::Error;
use crate::observe::live::LedgerPlace;
use crate::observe::timeline::{Interval, TimelineSettings};
use crate::template::names_process;
use pyhost_record::directory::Setting;
use std::ffi::OsString;

/// Where the ledger is to be kept. A file that only the variable names is for one process alone if its name
/// has the process id: each process would write one for all.
///
/// # Errors
/// A path that is wrong.
pub fn place(cli: &Given, variables: &Given, outputs: &mut Outputs) -> Result<LedgerPlace, Error> {
    let is_given = cli.live.is_some();
    match cli.live.as_ref().or(variables.live.as_ref()) {
        Some(Setting::Off) | None => Ok(LedgerPlace::Own),
        Some(Setting::File(path)) => {
            let path = path.as_os_str();
            if !is_given && !names_process(path.as_encoded_bytes()) {
                return Ok(LedgerPlace::Own);
            }
            let path = outputs.choose(LIVE_FILE.given_by(is_given), path, true, !is_given)?;
            Ok(path.map_or(LedgerPlace::Own, LedgerPlace::File))
        }
        Some(setting) => Ok(LedgerPlace::Directory {
            path: setting.directory(),
            is_required: is_given && matches!(setting, Setting::At(_)),
        }),
    }
}

/// How often the process is sampled, and where to. One file that only variables name is the outermost host's.
///
/// # Errors
/// A file that cannot be, or an interval of no timeline.
pub fn settings(
    cli: &Given,
    variables: &Given,
    inherited: bool,
    outputs: &mut Outputs,
) -> Result<TimelineSettings, Error> {
    let mut file = |output: Output, path: &Option<OsString>, variable: &Option<OsString>| {
        let Some(found) = path.as_ref().or(variable.as_ref()) else {
            return Ok(None);
        };
        let is_inherited = path.is_none() && inherited;
        if is_inherited && !names_process(found.as_encoded_bytes()) {
            return Ok(None);
        }
        let output = output.given_by(path.is_some());
        outputs.choose(output, found, true, is_inherited)
    };
    check_timeline(cli.timeline.as_ref())?;
    let timeline = file(TIMELINE, &cli.timeline, &variables.timeline)?;
    let brief = file(STATS_BRIEF, &cli.stats_brief, &variables.stats_brief)?;
    let is_asked = cli.timeline.is_some() || variables.timeline.is_some();
    if cli.timeline_interval.is_some() && !is_asked {
        return Err(Error::option(
            "--timeline-interval: there is no timeline; expected --timeline=FILE",
        ));
    }
    Ok(TimelineSettings {
        timeline,
        interval: cli
            .timeline_interval
            .or(variables.timeline_interval)
            .unwrap_or_default(),
        brief,
        renderer: None,
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
