//! The files that `sys.executable` and `sys._base_executable` name, if CPython would find others or none:
//! it looks for the host by the name that it was called by.

use crate::process;
use std::path::{Path, PathBuf};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, os::unix::fs::PermissionsExt};

/// The variable that names the active virtual environment.
const ACTIVE: &str = "VIRTUAL_ENV";

/// The python of a virtual environment of this Python's version that the host runs in, while the environment's own python is
/// another program: of the one that `argv0` leads to, else of the active one. `None` outside of such, and if the
/// host stands in an environment itself, unless a shell finds the active one's commands first. A host that is called by a
/// name of python's knows no active environment, as `python3` does not.
/// An error is a line: the active environment is not of this version.
pub fn of_venv(argv0: &OsStr, version: &str) -> Result<Option<PathBuf>, String> {
    let packages = |root: &Path| root.join(format!("lib/python{version}/site-packages"));
    let is_venv = |root: &Path| root.join("pyvenv.cfg").exists();
    let found = look_up(argv0);
    let is_own = |path: &Path| path.canonicalize().ok() == process::executable();
    let is_python = argv0.as_bytes().rsplit(|&byte| byte == b'/').next();
    let is_python = is_python.is_some_and(|name| name.starts_with(b"python"));
    let active = std::env::var_os(ACTIVE).filter(|path| !path.is_empty());
    let active = active.filter(|_| !is_python && !process::is_privileged_start());
    let is_ahead = |folder: &Path| {
        let commands = active.as_ref().map(|root| Path::new(root).join("bin"));
        commands.is_some_and(|commands| process::is_behind_in_path(argv0, folder, &commands))
    };
    if let Some(path) = &found
        && let Some(folder) = path.parent().filter(|folder| !is_ahead(folder))
        && let Some(root) = folder.parent().filter(|root| is_venv(root))
    {
        let is_other = is_executable(path) && !is_own(path) && packages(root).is_dir();
        return Ok(found.filter(|_| is_other));
    }
    let Some(root) = active else { return Ok(None) };
    let root = Path::new(&root);
    let python = ["python", "python3"].map(|name| root.join("bin").join(name));
    let python = python.into_iter().find(|path| is_executable(path));
    let is_fit = is_venv(root) && packages(root).is_dir() && root.is_absolute();
    match python.filter(|_| is_fit) {
        Some(python) => Ok(Some(python)),
        None => Err(format!(
            "{ACTIVE}: '{}' is no environment of Python {version}, which this host runs; the script runs outside of it",
            root.display()
        )),
    }
}

/// The host's own path if Python's look-up of `argv0` leads to another program: then `sys.executable` would name another
/// python. `None` if it leads to no file, as of a name that is made up (`exec -a NAME`): that is Python's to answer.
pub fn misnamed(argv0: &OsStr) -> Option<PathBuf> {
    let own = process::executable()?;
    // Python takes a name of its own for an empty one.
    let name = Some(argv0).filter(|name| !name.is_empty());
    let found = look_up(name.unwrap_or("python3".as_ref()))?;
    let found = found.canonicalize().ok()?;
    (Some(found) != own.canonicalize().ok()).then_some(own)
}

/// The file that a shell would run for `name`.
fn look_up(name: &OsStr) -> Option<PathBuf> {
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

/// The executable outside the venv, if CPython would name one that is not there. It takes the name of
/// the venv's python (`python`) in the folder of the python that made the venv, and the host is called
/// `pyhost` there. None outside a venv, and if that file exists.
///
/// `executable` is what `sys.executable` will be, if `argv0` does not name it.
pub fn base(executable: Option<PathBuf>, argv0: &OsStr) -> Option<PathBuf> {
    let program = executable.or_else(|| look_up(argv0))?;
    let folder = program.parent()?;
    let mut folders = [Some(folder), folder.parent()].into_iter().flatten();
    let read = |folder: &Path| std::fs::read_to_string(folder.join("pyvenv.cfg")).ok();
    let settings = folders.find_map(read)?;
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
