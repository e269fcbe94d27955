//! The command `pyhost` of a wheel: starts the interpreter of its own environment, or the one of `--python PATH`,
//! with the host inside. The interpreter is the one beside this program, else `pythonX.Y` of `PATH`.
//!
//! It preloads `lib/pyhost/libpyhost.so`, which stands beside the folder that this program is in, before the user's own
//! preloaded libraries, and names the interpreter in a variable: see `src/inside/lib.rs`. The first word of the command
//! line becomes the interpreter's path, as under python; the host reads its options in the rest. The process stays the same:
//! no child, no wait.
//!
//! There is no Rust `main`: the standard library's would reopen closed descriptors and ignore SIGPIPE, which the script
//! would inherit.

#![no_main]
#![allow(unsafe_code)]

mod interpreter;

use pyhost_os::{process, sanitizers, strings::Strings};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{os::unix::fs::MetadataExt, ptr::null};

const BAD_OPTION: i32 = 2;
const CANNOT_START: i32 = 1;
/// The variables that it sets.
const PRELOAD: &str = "LD_PRELOAD=";
const HANDSHAKE: &str = "PYHOST_INSIDE=";
/// The Python that the library is for, such as 3.11: see tools/build-inside.
const VERSION: &str = match option_env!("PYHOST_INSIDE_VERSION") {
    Some(version) => version,
    None => "3",
};

/// An exit status and a line without a full stop.
struct Failure(i32, String);

fn cannot_start(line: String) -> Failure {
    Failure(CANNOT_START, line)
}

#[unsafe(no_mangle)]
extern "C" fn main(_argc: i32, arguments: Strings<'_>) -> i32 {
    let words = arguments
        .iter()
        .map(|word| OsString::from_vec(word.to_vec()));
    let Failure(status, line) = start(words.collect());
    say(format_args!("{line}"));
    status
}

/// Prints a line; nothing if standard error is closed.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "pyhost: {line}");
}

/// Becomes the interpreter; returns only if that fails.
fn start(mut words: Vec<OsString>) -> Failure {
    let (python, added) = match prepare(&mut words) {
        Ok(prepared) => prepared,
        Err(failure) => return failure,
    };
    let words: Vec<CString> = words.into_iter().map(terminated).collect();
    let path = terminated(python.clone().into_os_string());
    // In its order, with what is no variable: the script sees it.
    // SAFETY: this program has one thread, and sets no variable.
    let given = unsafe { Strings::environment() };
    let begins = |text: &CStr, name: &str| text.to_bytes().starts_with(name.as_bytes());
    let is_others = |text: &&CStr| !begins(text, PRELOAD) && !begins(text, HANDSHAKE);
    let added = added.map(terminated);
    let arguments = words.iter().map(|word| word.as_ptr());
    let environment = given.texts().filter(is_others).map(CStr::as_ptr);
    let environment = environment.chain(added.iter().map(|text| text.as_ptr()));
    let arguments: Vec<_> = arguments.chain([null()]).collect();
    let environment: Vec<_> = environment.chain([null()]).collect();
    // SAFETY: strings, and arrays of such that end with null.
    unsafe { libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    let error = io::Error::last_os_error();
    let python = python.display();
    cannot_start(format!("'{python}' cannot be started ({error})"))
}

/// A text of the command line or the environment, none of which has a zero byte, with one at its end.
fn terminated(text: OsString) -> CString {
    CString::new(text.into_vec()).unwrap_or_default()
}

/// The interpreter, and the two variables that it is given.
fn prepare(words: &mut Vec<OsString>) -> Result<(PathBuf, [OsString; 2]), Failure> {
    let asked = take_python(words)?;
    let name = words.first().cloned().unwrap_or_default();
    let called = look_up(&name);
    let own = own_file(called.as_deref())?;
    let library = library(&own)?;
    let (python, is_asked) = match asked {
        Some(path) => (look_up(path.as_os_str()).unwrap_or(path), true),
        None => (found(&own, &name, called.as_deref())?, false),
    };
    let status = if is_asked { BAD_OPTION } else { CANNOT_START };
    let file = interpreter::check(&python)
        .map_err(|reason| Failure(status, format!("'{}' {reason}", python.display())))?;
    let others = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let added = [preload(&library, &others)?, handshake(&file, &name)];
    if let Some(word) = words.first_mut() {
        python.as_os_str().clone_into(word); // as under python: libraries and the system show it
    }
    Ok((python, added))
}

/// Takes `--python PATH` or `--python=PATH` out of the command line, if it comes first.
fn take_python(words: &mut Vec<OsString>) -> Result<Option<PathBuf>, Failure> {
    match words.get(1).map(|word| word.as_bytes()) {
        Some(b"--python") if words.len() < 3 => {
            let line = "--python: no value; expected the path of an interpreter".to_owned();
            Err(Failure(BAD_OPTION, line))
        }
        Some(b"--python") => Ok(words.drain(1..3).nth(1).map(PathBuf::from)),
        Some(word) if word.starts_with(b"--python=") => {
            let word = words.remove(1).into_vec();
            let path = OsStr::from_bytes(&word["--python=".len()..]);
            Ok(Some(PathBuf::from(path)))
        }
        _ => Ok(None),
    }
}

/// The path that a command stands for, links and all.
fn look_up(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return std::path::absolute(name).ok();
    }
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).map(|folder| folder.join(name));
    all.find(|path| path.is_file())
}

/// This program's file, with no links in its path. If the loader was named on the command line, the kernel says that
/// the process runs the loader.
fn own_file(called: Option<&Path>) -> Result<PathBuf, Failure> {
    let unreadable = |error| cannot_start(format!("/proc/self/exe cannot be read ({error})"));
    std::fs::metadata("/proc/self/exe").map_err(unreadable)?; // the library knows its program by it
    let is_own = |path: &io::Result<PathBuf>| path.as_ref().is_ok_and(|path| library(path).is_ok());
    let runs = std::fs::canonicalize("/proc/self/exe");
    let found = match called.map(std::fs::canonicalize) {
        Some(called) if !is_own(&runs) && is_own(&called) => called,
        _ => runs,
    };
    found.map_err(unreadable)
}

/// The library that belongs to this program.
fn library(own: &Path) -> Result<PathBuf, Failure> {
    let root = own.ancestors().nth(2).unwrap_or(own);
    let path = root.join("lib/pyhost/libpyhost.so");
    match path.is_file() {
        true => Ok(path),
        false => Err(cannot_start(format!(
            "'{}' is missing; expected what pip installs with it",
            path.display()
        ))),
    }
}

/// The interpreter of the venv in which this program or a link to it stands, else of the active one, else the one beside this
/// program, else that of `PATH`. The active one comes first if a shell finds its commands first. Not resolved: Python
/// finds its venv by this name.
fn found(own: &Path, name: &OsStr, called: Option<&Path>) -> Result<PathBuf, Failure> {
    let is_venv = |folder: &&Path| {
        folder
            .parent()
            .is_some_and(|root| root.join("pyvenv.cfg").exists())
    };
    let python = format!("python{VERSION}");
    // Elsewhere than in a venv, `python` may be one of another version.
    let names = |folder: &Path| match is_venv(&folder) {
        true => ["python", "python3", &python].map(|name| folder.join(name)),
        false => [&python, "python", "python3"].map(|name| folder.join(name)),
    };
    let root = std::env::var_os("VIRTUAL_ENV").filter(|path| !path.is_empty());
    let root = root.map(PathBuf::from);
    let is_ahead = |folder: &Path| {
        let commands = root.as_ref().map(|root| root.join("bin"));
        commands.is_some_and(|commands| process::is_behind_in_path(name, folder, &commands))
    };
    let linked = called.and_then(Path::parent).filter(is_venv);
    let linked = linked.filter(|folder| !is_ahead(folder));
    let active = linked.map_or_else(|| root.as_deref().and_then(commands), |_| None);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = linked.into_iter().chain(active.as_deref());
    let folders = folders.chain(own.parent());
    let beside = folders.flat_map(names);
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(&python));
    let in_path = in_path.filter(|path| interpreter::check(path).is_ok()); // pyenv's are scripts
    let is_another = |path: &PathBuf| std::fs::canonicalize(path).is_ok_and(|path| path != own);
    beside.chain(in_path).find(is_another).ok_or_else(|| {
        cannot_start(format!(
            "there is no python beside '{}' and no {python} in PATH; expected --python PATH",
            own.display()
        ))
    })
}

/// The folder of the commands of the active virtual environment. A line says if it is of another Python.
fn commands(root: &Path) -> Option<PathBuf> {
    let packages = root.join(format!("lib/python{VERSION}/site-packages"));
    let is_venv = root.is_absolute() && root.join("pyvenv.cfg").exists();
    let is_fit = is_venv && (VERSION == "3" || packages.is_dir());
    if !is_fit {
        say(format_args!(
            "VIRTUAL_ENV: '{}' is no environment of Python {VERSION}, which this host is for; the script runs outside of it",
            root.display()
        ));
    }
    is_fit.then(|| root.join("bin"))
}

/// The libraries to preload: ours, then those that the user named.
fn preload(library: &Path, others: &OsStr) -> Result<OsString, Failure> {
    let library_bytes = library.as_os_str().as_bytes();
    let mut list = [PRELOAD.as_bytes(), library_bytes].concat();
    if library_bytes.iter().any(|byte| b": ".contains(byte)) {
        return Err(cannot_start(format!(
            "'{}' has a space or a colon, which LD_PRELOAD cannot have in a name; \
             expected an environment in another folder",
            library.display()
        )));
    }
    if let Some(name) = sanitizers::named_in(others.as_bytes()) {
        return Err(cannot_start(format!(
            "{} is preloaded and must be the first library; expected the host that cargo builds, or python",
            OsStr::from_bytes(name).display()
        )));
    }
    if !others.is_empty() {
        list.push(b':');
        list.extend(others.as_bytes());
    }
    Ok(OsString::from_vec(list))
}

/// Which program is meant, and the name that this one was called by.
fn handshake(found: &std::fs::Metadata, name: &OsStr) -> OsString {
    let mut text = OsString::from(format!("{HANDSHAKE}{}:{}:", found.dev(), found.ino()));
    text.push(match name.is_empty() {
        true => OsStr::new("pyhost"),
        false => name,
    });
    text
}
