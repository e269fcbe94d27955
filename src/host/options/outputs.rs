//! Where the options that name an output lead, looked at before anything runs.
//!
//! A path that is wrong is an error: nothing that exists is destroyed. A place that cannot be written
//! to for want of a resource, such as a read-only directory, is a notice, and the script runs without
//! that output. So is any trouble with a path that an outer host handed on: its child processes may
//! live in another directory tree, or belong to another user.

use super::kinds::absolute;
use super::variables::LIVE;
use crate::error::Error;
use crate::output::{self, OutputError, Target};
use crate::process;
use crate::template::PathBuffer;
use std::ffi::OsStr;

/// The outputs, looked at before the script starts.
#[derive(Default)]
pub struct Outputs {
    /// Lines to be shown before the script runs.
    pub notices: Vec<String>,
    /// Variables that child processes shall not inherit: their outputs cannot be written.
    pub missing: Vec<&'static str>,
    /// The files that were chosen, with links followed, and by which option.
    files: Vec<(Vec<u8>, &'static str)>,
}

/// An option that names an output.
#[derive(Clone, Copy)]
pub struct Output {
    /// Its name.
    pub option: &'static str,
    /// Its variable.
    pub variable: &'static str,
    /// Whether its file is mapped into memory, which only a regular file can be.
    pub is_mapped: bool,
}

/// `--stats-file`.
pub const STATS_FILE: Output = Output {
    option: "--stats-file",
    variable: "PYHOST_STATS_FILE",
    is_mapped: false,
};
/// `--stats-brief`.
pub const STATS_BRIEF: Output = Output {
    option: "--stats-brief",
    variable: "PYHOST_STATS_BRIEF",
    is_mapped: false,
};
/// `--timeline`.
pub const TIMELINE: Output = Output {
    option: "--timeline",
    variable: "PYHOST_TIMELINE",
    is_mapped: false,
};
/// `--fail-log`.
pub const FAIL_LOG: Output = Output {
    option: "--fail-log",
    variable: "PYHOST_FAIL_LOG",
    is_mapped: false,
};
/// `--live`, where it names a file.
pub const LIVE_FILE: Output = Output {
    option: "--live",
    variable: LIVE,
    is_mapped: true,
};

impl Output {
    /// The same, by the name that the path was given by.
    pub fn given_by(self, is_option: bool) -> Output {
        let option = match is_option {
            true => self.option,
            false => self.variable,
        };
        Output { option, ..self }
    }
}

impl Outputs {
    /// Looks at the path that an option or its variable names; its absolute form, in which `%p`
    /// stands for the process id where `is_template`. `None` where it cannot be written to, which is
    /// then one of the notices. `is_inherited`: an outer host handed the path on.
    ///
    /// # Errors
    /// A path that output must not go to.
    pub fn choose(
        &mut self,
        output: Output,
        path: &OsStr,
        is_template: bool,
        is_inherited: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let path = absolute(output.option, path)?;
        let refusal = match look(&path, is_template, output.is_mapped) {
            Ok(file) => {
                self.claim(output.option, &path, file)?;
                return Ok(Some(path));
            }
            Err(refusal) => refusal,
        };
        let text = describe(output.option, &path, refusal);
        if refusal.is_wrong_path() && !is_inherited {
            return Err(Error::option(text));
        }
        self.notices
            .push(format!("{text}; the script runs without it"));
        self.missing.push(output.variable);
        Ok(None)
    }

    /// Notes that an option writes a file.
    ///
    /// # Errors
    /// Another option writes it: the one would take the place of the other.
    fn claim(
        &mut self,
        option: &'static str,
        path: &[u8],
        file: Option<Vec<u8>>,
    ) -> Result<(), Error> {
        let Some(file) = file else { return Ok(()) };
        if let Some((_, other)) = self.files.iter().find(|(known, _)| *known == file) {
            return Err(Error::option(format!(
                "{option}: '{}' is the file of {other}; expected another",
                String::from_utf8_lossy(path)
            )));
        }
        self.files.push((file, option));
        Ok(())
    }
}

/// Whether output may go to the path of this process, and can as far as is known now; the regular file
/// that it is, with links followed.
fn look(path: &[u8], is_template: bool, is_mapped: bool) -> Result<Option<Vec<u8>>, OutputError> {
    let buffer = match is_template {
        true => PathBuffer::expand(path, process::id(), b""),
        false => PathBuffer::of(path),
    };
    let mut buffer = buffer.ok_or(OutputError::TooLong)?;
    let target = output::look(&mut buffer)?;
    if is_mapped && !matches!(target, Target::New | Target::Old) {
        return Err(OutputError::NotMapped);
    }
    output::check(&buffer, target)?;
    let is_file = matches!(target, Target::New | Target::Old);
    Ok(is_file.then(|| buffer.as_bytes().to_vec()))
}

fn describe(option: &str, path: &[u8], refusal: OutputError) -> String {
    let shown = String::from_utf8_lossy(path);
    match refusal {
        OutputError::NoDirectory => {
            format!("{option}: no directory for '{shown}'; expected a file in one that exists")
        }
        refusal => format!("{option}: '{shown}' {refusal}"),
    }
}
