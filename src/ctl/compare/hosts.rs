//! The hosts that are installed, by the Python that each runs.

use crate::output::Failure;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, ffi::OsStr};

/// A host, and the Python that it runs.
pub struct Host {
    /// The host itself, or an interpreter whose module `pyhost` starts it.
    pub path: PathBuf,
    /// Such as `3.13.0`, or `3.13.0t` if it is free-threaded.
    pub python: String,
}

impl Host {
    /// The host that a word of `--python` names.
    pub fn find(word: &str) -> Result<Self, Failure> {
        if word.contains('/') {
            let path = Path::new(word);
            let nothing = "runs no host; expected one, or an interpreter that has the wheel";
            return Host::at(path).ok_or_else(|| Failure::of(path, nothing));
        }
        let own = pyhost_os::process::executable();
        let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = beside.into_iter().chain(env::split_paths(&path));
        let names = [&format!("pyhost{word}"), "pyhost", &format!("python{word}")];
        let mut places = folders.flat_map(|folder| names.map(|name| folder.join(name)));
        let found = places.find_map(|place| Host::at(&place).filter(|host| host.is(word)));
        found.ok_or_else(|| {
            Failure(format!(
                "--python: no host of Python {word} beside pyhostctl or in PATH; expected pyhost{word}, pyhost, \
                 python{word} with the wheel, or a path"
            ))
        })
    }

    /// The host of a path, if it says which Python it runs.
    fn at(path: &Path) -> Option<Self> {
        let path = path.is_file().then(|| path.to_owned())?;
        let python = String::new();
        let mut host = Host { path, python };
        let output = host.command().arg("-VV").stdin(Stdio::null()).output();
        let output = output.ok().filter(|output| output.status.success())?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (version, build) = text.strip_prefix("Python ")?.split_once(' ')?;
        let is_free_threaded = build.contains("free-threading");
        host.python = format!("{version}{}", if is_free_threaded { "t" } else { "" });
        Some(host)
    }

    /// Whether it runs a version, such as `3.13`, `3.13.0` or `3.13t`.
    fn is(&self, version: &str) -> bool {
        let [(own, of_own), (wanted, of_wanted)] = [&self.python, version].map(|text| {
            (
                text.trim_end_matches('t').to_owned() + ".",
                text.ends_with('t'),
            )
        });
        own.starts_with(&wanted) && of_own == of_wanted
    }

    /// A command that starts it, without options and a script.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        let name = self.path.file_name().and_then(OsStr::to_str);
        let is_interpreter = name.is_some_and(|name| name.starts_with("python"));
        command.args(
            is_interpreter
                .then_some(["-m", "pyhost"])
                .into_iter()
                .flatten(),
        );
        command
    }
}
