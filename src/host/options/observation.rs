//! The options of looking on from outside.

use super::outputs::{BRIEF, LIVE_FILE, Outputs, TIMELINE};
use super::refuse_if;
use super::table::Values;
use crate::error::Result;
use crate::observe::live::LedgerPlace;
use crate::observe::timeline::TimelineSettings;
use crate::path_template::names_process;
use pyhost_record::directory::Setting;
use std::ffi::OsString;

/// Where the ledger is to be kept. A file that only the variable names is for one process alone if its name
/// has the process id: each process would write one for all. `--live` alone leaves the variable its directory, where `pyhostctl` looks.
pub fn place(
    values: &mut Values,
    variable: Option<OsString>,
    outputs: &mut Outputs,
) -> Result<LedgerPlace> {
    let mut is_given = values.is_given("--live");
    let named = variable.and_then(|text| Setting::of(&text));
    if values.live == Some(Setting::On) && matches!(named, Some(Setting::At(_))) {
        (values.live, is_given) = (named, false);
    }
    match values.live.clone() {
        Some(Setting::Off) | None => Ok(LedgerPlace::Own),
        Some(Setting::File(path)) => {
            let path = path.as_os_str();
            if !is_given && !names_process(path.as_encoded_bytes()) {
                return Ok(LedgerPlace::Own);
            }
            let path = outputs.choose(LIVE_FILE, path, values, !is_given)?;
            Ok(path.map_or(LedgerPlace::Own, LedgerPlace::File))
        }
        Some(setting) => Ok(LedgerPlace::Directory {
            path: setting.directory(),
            is_required: is_given && matches!(setting, Setting::At(_)),
        }),
    }
}

/// How often the process is sampled, and where to. One file that only variables name is the outermost host's.
pub fn settings(values: &mut Values, outputs: &mut Outputs) -> Result<TimelineSettings> {
    refuse_if(
        values.timeline_interval.is_some() && values.timeline.is_none(),
        "--timeline interval: there is no timeline; expected --timeline FILE,interval=TIME",
    )?;
    let interval = values.timeline_interval.unwrap_or_default();
    Ok(TimelineSettings {
        timeline: file(TIMELINE, values.timeline.clone(), values, outputs)?,
        brief: file(BRIEF, values.brief.clone(), values, outputs)?,
        interval,
        renderer: None,
    })
}

/// The file of an output. If only variables name it, it is the outermost host's, unless the name has the process id.
pub fn file(
    output: &'static str,
    path: Option<OsString>,
    values: &mut Values,
    outputs: &mut Outputs,
) -> Result<Option<Vec<u8>>> {
    let option = output.split(' ').next().unwrap_or_default();
    let is_inherited = outputs.is_inherited(option, values);
    match path {
        Some(path) if !is_inherited || names_process(path.as_encoded_bytes()) => {
            outputs.choose(output, &path, values, is_inherited)
        }
        _ => Ok(None),
    }
}
