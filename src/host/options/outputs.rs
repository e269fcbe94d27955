//! Where the options that name an output lead, looked at before anything runs.
//!
//! A path that is wrong is an error: nothing that exists is destroyed. A place that cannot be written
//! to for want of a resource, such as a read-only directory, is a notice, and the script runs without
//! that output. So is any trouble with a path that an outer host handed on: its child processes may
//! live in another directory tree, or belong to another user.

use super::{refuse_if, table::Values};
use crate::error::{Error, Result};
use crate::output::{self, OutputError, Target};
use crate::path_template::{PathBuffer, names_process};
use crate::{observe::live::LedgerPlace, observe::timeline::TimelineSettings, process};
use pyhost_record::directory::Setting;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The outputs, looked at before the script starts.
#[derive(Default)]
pub struct Outputs {
    /// Whether an outer host has started this process: what variables alone give may be from there.
    pub inherited: bool,
    pub notices: Vec<String>,
    /// Options with an output that cannot be written: child processes shall not inherit it.
    pub missing: Vec<&'static str>,
    /// The files that were chosen, with links followed, and by which option.
    pub(super) files: Vec<(Vec<u8>, &'static str)>,
}

/// The file of `--stats`. Outputs are named by their option and, behind a space, the key of their path.
pub const STATS_FILE: &str = "--stats file";
pub const BRIEF: &str = "--brief";
pub const TIMELINE: &str = "--timeline";
pub const PROFILE_FILE: &str = "--profile-lines file";
/// The log of `--fail`. Its path is no template: `%p` in it does not stand for the process id.
pub const FAIL_LOG: &str = "--fail log";
/// `--live`, if it names a file. That is mapped into memory, which only a regular file can be.
pub const LIVE_FILE: &str = "--live";

impl Outputs {
    /// Whether an outer host may have handed the values of an option on.
    pub fn is_inherited(&self, option: &str, values: &Values) -> bool {
        self.inherited && !values.is_given(option)
    }

    /// Looks at the path of an output, an absolute one. Returns `None` if it cannot be written to, which is then one of the
    /// notices. `is_inherited`: an outer host handed the path on.
    pub fn choose(
        &mut self,
        output: &'static str,
        path: &OsStr,
        values: &mut Values,
        is_inherited: bool,
    ) -> Result<Option<Vec<u8>>> {
        let option = output.split(' ').next().unwrap_or_default();
        let name = format!("{}{}", values.name(option), &output[option.len()..]);
        let path = path.as_bytes().to_vec();
        let refusal = match look(&path, output) {
            Ok(file) => {
                self.claim(option, &name, &path, file)?;
                return Ok(Some(path));
            }
            Err(refusal) => refusal,
        };
        let text = describe(&name, &path, refusal);
        if !matches!(refusal, OutputError::System(_)) && !is_inherited {
            return Err(Error::option(text));
        }
        self.notices
            .push(format!("{text}; the script runs without it"));
        self.missing.push(option);
        // The rules of `--fail` hold without their log, and tables are printed.
        let key = match output {
            FAIL_LOG => Some("log=PATH"),
            PROFILE_FILE => Some("file=PATH"),
            _ => None,
        };
        values.forget(option, key);
        Ok(None)
    }

    /// The file of an output. If only variables name it, it is the outermost host's, unless the name has the process id.
    pub fn file(
        &mut self,
        output: &'static str,
        path: Option<OsString>,
        values: &mut Values,
    ) -> Result<Option<Vec<u8>>> {
        let option = output.split(' ').next().unwrap_or_default();
        let is_inherited = self.is_inherited(option, values);
        match path {
            Some(path) if !is_inherited || names_process(path.as_encoded_bytes()) => {
                self.choose(output, &path, values, is_inherited)
            }
            _ => Ok(None),
        }
    }

    /// Notes that an option writes a file. An error if another option does: the one would take the place of the other.
    fn claim(
        &mut self,
        option: &'static str,
        name: &str,
        path: &[u8],
        file: Option<Vec<u8>>,
    ) -> Result<()> {
        let Some(file) = file else { return Ok(()) };
        if let Some((_, other)) = self.files.iter().find(|(known, _)| *known == file) {
            return Err(Error::option(format!(
                "{name}: '{}' is the file of {other}; expected another",
                String::from_utf8_lossy(path)
            )));
        }
        self.files.push((file, option));
        Ok(())
    }
}

/// Whether output may go to the path of this process, and can as far as is known now; the regular file
/// that it is, with links followed.
fn look(path: &[u8], output: &str) -> Result<Option<Vec<u8>>, OutputError> {
    let buffer = match output {
        FAIL_LOG => PathBuffer::of(path),
        _ => PathBuffer::expand(path, process::id(), b""),
    };
    let mut buffer = buffer.ok_or(OutputError::TooLong)?;
    let target = output::look(&mut buffer)?;
    let is_file = matches!(target, Target::New | Target::Old);
    if output == LIVE_FILE && !is_file {
        return Err(OutputError::NotMapped);
    }
    output::check(&buffer, target)?;
    Ok(is_file.then(|| buffer.as_bytes().to_vec()))
}

fn describe(name: &str, path: &[u8], refusal: OutputError) -> String {
    let shown = String::from_utf8_lossy(path);
    match refusal {
        OutputError::NoDirectory => {
            format!("{name}: no directory for '{shown}'; expected a file in one that exists")
        }
        refusal => format!("{name}: '{shown}' {refusal}"),
    }
}

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
pub fn observation(values: &mut Values, outputs: &mut Outputs) -> Result<TimelineSettings> {
    refuse_if(
        values.timeline_interval.is_some() && values.timeline.is_none(),
        "--timeline interval: there is no timeline; expected --timeline FILE,interval=TIME",
    )?;
    let interval = values.timeline_interval.unwrap_or_default();
    Ok(TimelineSettings {
        timeline: outputs.file(TIMELINE, values.timeline.clone(), values)?,
        brief: outputs.file(BRIEF, values.brief.clone(), values)?,
        interval,
        renderer: None,
    })
}
