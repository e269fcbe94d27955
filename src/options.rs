//! From the process's arguments and environment to checked options. The only place that reads
//! the host's variables.

#![allow(unsafe_code)]

use crate::allocator::Allocator;
use crate::cli::Cli;
use crate::error::Error;
use crate::native::Mode;
use crate::process;
use crate::report::Format;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, ValueEnum};
use std::cell::LazyCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Python's own long options: where one appears, Python's arguments begin.
const PYTHON_OPTIONS: [&[u8]; 5] = [
    b"--version",
    b"--help-all",
    b"--help-env",
    b"--help-xoptions",
    b"--check-hash-based-pycs",
];

/// Names the outermost host of a family of processes, by its process id.
const OUTERMOST: &str = "PYHOST_OUTERMOST";

/// Where a report goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard error.
    Stderr,
    /// An open descriptor.
    Descriptor(i32),
    /// A file: an absolute path, in which `%p` stands for the process id and `%%` for `%`.
    File(Vec<u8>),
}

/// The report that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Its format, not [`Format::Off`].
    pub format: Format,
    /// Where it goes.
    pub to: Destination,
}

/// What the host shall do.
#[derive(Debug)]
pub struct Options {
    /// `--allocator`, where given.
    pub allocator: Option<Allocator>,
    /// `--debug-hooks`.
    pub debug_hooks: bool,
    /// `--native`, where given.
    pub native: Option<Mode>,
    /// The report that this process shall write; None where another process does, or none.
    pub stats: Option<Stats>,
    /// Whether an interactive run ends with one line.
    pub closing_line: bool,
    /// All arguments of the process.
    pub argv: Vec<OsString>,
    /// The program's name, then Python's arguments.
    pub python_argv: Vec<OsString>,
    /// Variables to set, so that children inherit what the command line gave.
    pub exports: Vec<(String, OsString)>,
}

/// What the arguments ask for.
pub enum Request {
    /// Run Python.
    Run(Box<Options>),
    /// Print the host's help on stdout and end with status 0.
    Help(String),
    /// Print the host's version on stdout and end with status 0.
    Version,
}

/// Reads `argv` and the environment.
///
/// # Errors
/// A bad host option or variable; the text names it and what was expected.
pub fn read(argv: Vec<OsString>) -> Result<Request, Error> {
    let as_python = argv.first().is_some_and(|name| is_python_name(name));
    let host_count = if as_python { 0 } else { host_arguments(&argv)? };
    let cli = match host_count {
        0 => Cli::default(), // no need to build clap's command
        count => parse(&argv[..=count])?,
    };
    if cli.help {
        return Ok(Request::Help(Cli::command().render_help().to_string()));
    }
    if cli.host_version {
        return Ok(Request::Version);
    }
    let variables = Variables::read(!process::is_privileged_start())?;
    let exports = exports(&cli)?;
    let stats = stats(&cli, &variables)?;
    let stderr_is_terminal = is_terminal(libc::STDERR_FILENO);
    let off = cli.stats.or(variables.stats) == Some(Format::Off);
    let mut python_argv: Vec<OsString> = argv.iter().take(1).cloned().collect();
    python_argv.extend(argv.iter().skip(1 + host_count).cloned());
    let mut options = Options {
        allocator: cli.allocator.or(variables.allocator),
        debug_hooks: cli.debug_hooks || variables.debug_hooks,
        native: cli.native.or(variables.native),
        closing_line: stderr_is_terminal
            && !as_python
            && !off
            && stats.is_none()
            && variables.outermost.is_none(),
        stats,
        argv,
        python_argv,
        exports,
    };
    if options.native == Some(Mode::Off) && conflicts_with_off(&options) {
        return Err(Error::option(
            "--native off: leaves no domain on mimalloc, but --allocator asks for it; expected \
             --allocator system",
        ));
    }
    let asked = options.stats.is_some() || stderr_is_terminal;
    if asked && variables.outermost.is_none() {
        let own = process::id().to_string().into();
        options.exports.push((OUTERMOST.to_owned(), own));
    }
    Ok(Request::Run(Box::new(options)))
}

fn conflicts_with_off(options: &Options) -> bool {
    matches!(
        options.allocator,
        Some(Allocator::Mimalloc | Allocator::Pymalloc)
    )
}

fn is_python_name(argv0: &OsStr) -> bool {
    let name = Path::new(argv0).file_name().unwrap_or_default();
    name.as_bytes().starts_with(b"python")
}

fn is_terminal(descriptor: i32) -> bool {
    // SAFETY: a query of a descriptor.
    unsafe { libc::isatty(descriptor) == 1 }
}

/// How many arguments after the program's name are the host's.
fn host_arguments(argv: &[OsString]) -> Result<usize, Error> {
    let command = LazyCell::new(Cli::command);
    let mut count = 0;
    while let Some(argument) = argv.get(1 + count) {
        let bytes = argument.as_bytes();
        let name = bytes.split(|&byte| byte == b'=').next().unwrap_or(bytes);
        if !bytes.starts_with(b"--") || bytes == b"--" || PYTHON_OPTIONS.contains(&name) {
            break;
        }
        count += 1;
        let known = command.get_arguments().find(|known| {
            known
                .get_long()
                .is_some_and(|long| long.as_bytes() == &name[2..])
        });
        let takes_next = known.is_some_and(|known| {
            known.get_action().takes_values() && !known.is_require_equals_set()
        });
        let value_follows = argv
            .get(1 + count)
            .is_some_and(|next| !next.as_bytes().starts_with(b"-"));
        if takes_next && name.len() == bytes.len() && value_follows {
            count += 1;
        }
    }
    Ok(count)
}

fn parse(argv: &[OsString]) -> Result<Cli, Error> {
    Cli::try_parse_from(argv).map_err(|error| Error::option(describe(&error)))
}

/// One line for a clap error.
fn describe(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    };
    let argument = text(ContextKind::InvalidArg);
    let option = argument.split([' ', '=', '[']).next().unwrap_or_default();
    let value = text(ContextKind::InvalidValue);
    let expected = text(ContextKind::ValidValue);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let suggestion = text(ContextKind::SuggestedArg);
            if suggestion.is_empty() {
                format!(
                    "{option}: unknown option; expected one of the host's (pyhost --help) or of Python's (pyhost -h)"
                )
            } else {
                format!("{option}: unknown option; did you mean {suggestion}?")
            }
        }
        ErrorKind::InvalidValue if value.is_empty() && expected.is_empty() => {
            format!("{option}: expected a value")
        }
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("{option}: expected a value, one of {expected}")
        }
        ErrorKind::InvalidValue => bad_value(option, &value, &one_of(&expected)),
        ErrorKind::ValueValidation => bad_value(option, &value, "a number"),
        ErrorKind::TooManyValues => format!("{option}: takes no value"),
        ErrorKind::ArgumentConflict => format!("{option}: given more than once"),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    }
}

fn bad_value(name: &str, value: &str, expected: &str) -> String {
    format!("{name}: bad value '{value}'; expected {expected}")
}

/// What a choice expects.
fn one_of(names: &str) -> String {
    format!("one of {names}")
}

/// The host's variables.
#[derive(Default)]
struct Variables {
    allocator: Option<Allocator>,
    debug_hooks: bool,
    native: Option<Mode>,
    stats: Option<Format>,
    stats_file: Option<OsString>,
    stats_fd: Option<i32>,
    outermost: Option<OsString>,
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn choice<T: ValueEnum>(name: &str) -> Result<Option<T>, Error> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    match T::from_str(&value, false) {
        Ok(choice) => Ok(Some(choice)),
        Err(_) => {
            let names: Vec<String> = T::value_variants()
                .iter()
                .filter_map(|variant| variant.to_possible_value())
                .map(|possible| possible.get_name().to_owned())
                .collect();
            Err(Error::option(bad_value(
                name,
                &value,
                &one_of(&names.join(", ")),
            )))
        }
    }
}

impl Variables {
    fn read(trusted: bool) -> Result<Self, Error> {
        if !trusted {
            return Ok(Variables::default());
        }
        let debug_hooks = match variable("PYHOST_DEBUG_HOOKS") {
            None => false,
            Some(value) if value == "0" => false,
            Some(value) if value == "1" => true,
            Some(value) => {
                let value = value.to_string_lossy();
                return Err(Error::option(bad_value(
                    "PYHOST_DEBUG_HOOKS",
                    &value,
                    &one_of("1, 0"),
                )));
            }
        };
        let stats_fd =
            match variable("PYHOST_STATS_FD") {
                None => None,
                Some(value) => {
                    let value = value.to_string_lossy();
                    let number = value.parse();
                    Some(number.map_err(|_| {
                        Error::option(bad_value("PYHOST_STATS_FD", &value, "a number"))
                    })?)
                }
            };
        Ok(Variables {
            allocator: choice("PYHOST_ALLOCATOR")?,
            debug_hooks,
            native: choice("PYHOST_NATIVE")?,
            stats: choice("PYHOST_STATS")?,
            stats_file: variable("PYHOST_STATS_FILE"),
            stats_fd,
            // An exec keeps the process id: then this is still the outermost host.
            outermost: variable(OUTERMOST)
                .filter(|pid| pid.to_str() != Some(process::id().to_string().as_str())),
        })
    }
}

/// The report that this process writes. What only variables ask for, and would go to one place
/// for all processes, is the outermost host's to write.
fn stats(cli: &Cli, variables: &Variables) -> Result<Option<Stats>, Error> {
    let format = cli.stats.or(variables.stats);
    if format == Some(Format::Off) {
        return Ok(None);
    }
    let inherited = variables.outermost.is_some();
    if let Some(path) = cli.stats_file.as_ref().or(variables.stats_file.as_ref()) {
        let path = absolute("--stats-file", path)?;
        if cli.stats_file.is_none() && inherited && !names_process(&path) {
            return Ok(None);
        }
        let format = format.unwrap_or(Format::Json);
        return Ok(Some(Stats {
            format,
            to: Destination::File(path),
        }));
    }
    if let Some(descriptor) = cli.stats_fd.or(variables.stats_fd) {
        if cli.stats_fd.is_none() && inherited {
            return Ok(None);
        }
        // SAFETY: a query of a descriptor.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            return Err(Error::option(format!(
                "--stats-fd: {descriptor} is no open descriptor; expected one that the caller opened"
            )));
        }
        let format = format.unwrap_or(Format::Json);
        return Ok(Some(Stats {
            format,
            to: Destination::Descriptor(descriptor),
        }));
    }
    match format {
        Some(_) if cli.stats.is_none() && inherited => Ok(None),
        Some(format) => Ok(Some(Stats {
            format,
            to: Destination::Stderr,
        })),
        None => Ok(None),
    }
}

/// Whether a path template holds `%p`.
pub fn names_process(template: &[u8]) -> bool {
    let mut bytes = template.iter();
    while let Some(&byte) = bytes.next() {
        if byte == b'%' && bytes.next() == Some(&b'p') {
            return true;
        }
    }
    false
}

/// The absolute form of a report's path, whose directory must exist.
fn absolute(option: &str, path: &OsStr) -> Result<Vec<u8>, Error> {
    let shown = path.to_string_lossy();
    let path = std::path::absolute(path)
        .map_err(|_| Error::option(format!("{option}: '{shown}' is no path")))?;
    if path.is_dir() {
        return Err(Error::option(format!(
            "{option}: '{shown}' is a directory; expected a file"
        )));
    }
    if !path.parent().is_some_and(Path::is_dir) {
        return Err(Error::option(format!(
            "{option}: no directory for '{shown}'; expected a file in one that exists"
        )));
    }
    Ok(path.into_os_string().into_vec())
}

/// The variables that stand for what the command line gave.
fn exports(cli: &Cli) -> Result<Vec<(String, OsString)>, Error> {
    fn name<T: ValueEnum>(value: &T) -> OsString {
        let possible = value.to_possible_value();
        possible
            .map(|value| value.get_name().to_owned().into())
            .unwrap_or_default()
    }
    let mut exports = Vec::new();
    let mut export = |variable: &str, value: Option<OsString>| {
        if let Some(value) = value {
            exports.push((variable.to_owned(), value));
        }
    };
    export("PYHOST_ALLOCATOR", cli.allocator.as_ref().map(name));
    export("PYHOST_DEBUG_HOOKS", cli.debug_hooks.then(|| "1".into()));
    export("PYHOST_NATIVE", cli.native.as_ref().map(name));
    export("PYHOST_STATS", cli.stats.as_ref().map(name));
    if let Some(path) = &cli.stats_file {
        let path = absolute("--stats-file", path)?;
        export("PYHOST_STATS_FILE", Some(OsString::from_vec(path)));
    }
    export(
        "PYHOST_STATS_FD",
        cli.stats_fd.map(|number| number.to_string().into()),
    );
    Ok(exports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(arguments: &[&str]) -> usize {
        let argv: Vec<OsString> = std::iter::once("pyhost")
            .chain(arguments.iter().copied())
            .map(OsString::from)
            .collect();
        host_arguments(&argv).unwrap()
    }

    #[test]
    fn host_options_end_where_pythons_begin() {
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&["script.py", "--stats"]), 0);
        assert_eq!(count(&["--stats", "script.py"]), 1);
        assert_eq!(
            count(&["--stats=json", "--stats-file", "R", "-c", "pass"]),
            3
        );
        assert_eq!(count(&["--stats-file=R", "--version"]), 1);
        assert_eq!(count(&["--check-hash-based-pycs", "always", "s.py"]), 0);
        assert_eq!(count(&["-V"]), 0);
        assert_eq!(count(&["--", "--stats"]), 0);
        assert_eq!(count(&["--wrong", "s.py"]), 1);
        assert_eq!(count(&["--allocator"]), 1);
    }

    #[test]
    fn only_percent_p_names_the_process() {
        assert!(names_process(b"/r/%p.json"));
        assert!(names_process(b"/r/%%%p"));
        assert!(!names_process(b"/r/%%p"));
        assert!(!names_process(b"/r/p%"));
    }
}
