//! The hosts that are installed, by the Python that each runs.

use crate::output::Failure;
use std::path::{Path, PathBuf};
use std::{env, process::Command};

/// Prints the version, under a host alone.
const WHICH: &str = "import sys, pyhost
if pyhost.active: print('%d.%d.%d' % sys.version_info[:3] + sys.abiflags)";

/// A host, and the Python that it runs, such as `3.13.0`, or `3.13.0t` if it is free-threaded.
pub struct Host {
    pub path: PathBuf,
    pub python: String,
}

impl Host {
    /// The host that a word of `--python` names: the path of one, or a version.
    pub fn find(word: &str) -> Result<Self, Failure> {
        let refuse = || {
            Failure(format!(
                "--python: no host '{word}'; expected the path of one, or a version, such as 3.13 if pyhost3.13, or a pyhost of \
                 that version, is beside pyhostctl or in PATH"
            ))
        };
        if word.contains('/') {
            return Host::at(word.into()).ok_or_else(refuse);
        }
        let own = pyhost_os::process::executable();
        let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = beside.into_iter().chain(env::split_paths(&path));
        let names = [&format!("pyhost{word}"), "pyhost"];
        let places = folders.flat_map(|folder| names.map(|name| folder.join(name)));
        let mut hosts = places.filter_map(Host::at);
        hosts.find(|host| host.is(word)).ok_or_else(refuse)
    }

    fn at(path: PathBuf) -> Option<Self> {
        let mut command = Command::new(&path);
        let output = command.args(["-I", "-S", "-c", WHICH]).output().ok()?;
        let python = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        python.starts_with('3').then_some(Host { path, python })
    }

    /// Whether it runs a version, such as `3.13`, `3.13.0` or `3.13t`.
    fn is(&self, version: &str) -> bool {
        let number = |text: &str| text.trim_end_matches('t').to_owned() + ".";
        let is_threaded = |text: &str| text.ends_with('t');
        let own = &self.python;
        is_threaded(own) == is_threaded(version) && number(own).starts_with(&number(version))
    }
}
