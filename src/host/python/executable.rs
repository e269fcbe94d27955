//! The files that `sys.executable` and `sys._base_executable` name, where CPython would find others or none:
//! it looks for the host by the name that it was called by.

use crate::process;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The host's own path, where looking up `argv0` as Python does leads to another file or to
/// none: then `sys.executable` would name another python.
pub fn misnamed(argv0: &OsStr) -> Option<PathBuf> {
    let own = process::executable()?;
    let found = look_up(argv0);
    let same = found.and_then(|path| path.canonicalize().ok()) == own.canonicalize().ok();
    (!same).then_some(own)
}

/// The file that a shell would run for `name`.
fn look_up(name: &OsStr) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The executable outside the venv, where CPython would name one that is not there. It takes the name of
/// the venv's python (`python`) in the folder of the python that made the venv, and the host is called
/// `pyhost` there. None outside a venv, and where that file exists.
///
/// `executable` is what `sys.executable` will be, if `argv0` does not name it.
pub fn base(executable: Option<PathBuf>, argv0: &OsStr) -> Option<PathBuf> {
    let program = executable.or_else(|| look_up(argv0))?;
    let folder = program.parent()?;
    let settings = [Some(folder), folder.parent()]
        .into_iter()
        .flatten()
        .find_map(|folder| std::fs::read_to_string(folder.join("pyvenv.cfg")).ok())?;
    let home = PathBuf::from(setting(&settings, "home")?);
    if is_executable(&home.join(program.file_name()?)) {
        return None;
    }
    if program.is_symlink() {
        return program.canonicalize().ok();
    }
    // A copy. venv (3.11 and later) and virtualenv say what it is a copy of.
    let named = ["executable", "base-executable"]
        .into_iter()
        .filter_map(|key| setting(&settings, key))
        .map(PathBuf::from)
        .filter(|path| path.file_name().is_some_and(is_hosts));
    let mut candidates = named.chain([home.join(NAME), program.clone()]);
    candidates.find(|path| is_executable(path))
}

/// The host's name.
const NAME: &str = "pyhost";

fn is_hosts(name: &OsStr) -> bool {
    name.as_bytes().starts_with(NAME.as_bytes())
}

/// The value of a key in a `pyvenv.cfg`.
fn setting<'a>(settings: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = settings.lines().filter_map(|line| line.split_once('='));
    pairs
        .find(|(name, _)| name.trim().eq_ignore_ascii_case(key))
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_whatever_its_case_and_its_spaces() {
        let settings = "home = /usr/bin\nBase-Executable=/opt/pyhost \n";
        assert_eq!(setting(settings, "home"), Some("/usr/bin"));
        assert_eq!(setting(settings, "base-executable"), Some("/opt/pyhost"));
        assert_eq!(setting(settings, "executable"), None);
    }
}
