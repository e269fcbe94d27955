//! The command line: where the host's part of it ends, and what is wrong with it in one line.

use crate::bytes::Expected;
use crate::cli::Cli;
use crate::error::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use std::cell::LazyCell;
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Python's own long options: where one appears, Python's arguments begin.
pub const PYTHON_OPTIONS: [&[u8]; 5] = [
    b"--version",
    b"--help-all",
    b"--help-env",
    b"--help-xoptions",
    b"--check-hash-based-pycs",
];

/// Whether the program is called by a name of Python's: then all arguments are Python's.
pub fn is_python_name(argv0: &OsStr) -> bool {
    let name = Path::new(argv0).file_name().unwrap_or_default();
    name.as_bytes().starts_with(b"python")
}

/// How many arguments after the program's name are the host's.
pub fn host_arguments(argv: &[OsString]) -> Result<usize, Error> {
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

/// Reads the host's part of the arguments.
///
/// # Errors
/// One line for what clap refuses.
pub fn parse(argv: &[OsString]) -> Result<Cli, Error> {
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
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    if is_unknown && argument.contains(' ') || value.contains(" -") {
        let word = if is_unknown { &argument } else { &value };
        return format!(
            "'{word}': one word with several options, as the kernel passes them from a first line \
             #!; expected #!/usr/bin/env -S pyhost OPTIONS"
        );
    }
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
        ErrorKind::ValueValidation => {
            let expected = error.source().and_then(|source| source.downcast_ref());
            let Expected(expected) = expected.copied().unwrap_or(Expected("a number"));
            bad_value(option, &value, expected)
        }
        ErrorKind::NoEquals => {
            let form = argument.replace(['<', '>'], "");
            format!("{option}: takes its value after '='; expected {form}")
        }
        ErrorKind::TooManyValues => format!("{option}: takes no value"),
        ErrorKind::ArgumentConflict => format!("{option}: given more than once"),
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            line.trim_start_matches("error: ").to_owned()
        }
    }
}

/// A line for a bad value.
pub fn bad_value(name: &str, value: &str, expected: &str) -> String {
    format!("{name}: bad value '{value}'; expected {expected}")
}

/// What a choice expects.
pub fn one_of(names: &str) -> String {
    format!("one of {names}")
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
        assert_eq!(count(&["--timeline", "s.py"]), 1);
        assert_eq!(count(&["--timeline=T", "s.py"]), 1);
        assert_eq!(count(&["--check-hash-based-pycs", "always", "s.py"]), 0);
        assert_eq!(count(&["-V"]), 0);
        assert_eq!(count(&["--", "--stats"]), 0);
        assert_eq!(count(&["--wrong", "s.py"]), 1);
        assert_eq!(count(&["--allocator"]), 1);
    }
}
