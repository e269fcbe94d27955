//! The command line: where the host's part of it ends, what that says, and what is wrong with it in
//! one line.

use super::statuses::STATUSES;
use super::table::{Form, Given, ROWS, Row, row_of};
use crate::error::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Python's own long options: where one appears, Python's arguments begin.
const PYTHON_OPTIONS: [&[u8]; 5] = [
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

/// An option of the host among the arguments.
pub struct Found<'a> {
    /// Its name, as given.
    pub name: &'a [u8],
    /// Its value, in the same word or the next.
    pub value: Option<&'a [u8]>,
    /// The words that it takes, one or two.
    pub words: usize,
}

/// The host's options, with which the arguments after the program's name begin. Allocates nothing: it is used
/// before `main`, too.
pub fn host_options<'a>(
    mut rest: impl Iterator<Item = &'a [u8]> + Clone,
) -> impl Iterator<Item = Found<'a>> {
    std::iter::from_fn(move || {
        let word = rest.next()?;
        let mut parts = word.splitn(2, |&byte| byte == b'=');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next());
        if !word.starts_with(b"--") || word == b"--" || PYTHON_OPTIONS.contains(&name) {
            return None;
        }
        let next = rest.clone().next().filter(|next| !next.starts_with(b"-"));
        if value.is_none() && next.is_some() && takes_next_word(name) {
            rest.next();
            return Some(Found {
                name,
                value: next,
                words: 2,
            });
        }
        Some(Found {
            name,
            value,
            words: 1,
        })
    })
}

fn takes_next_word(name: &[u8]) -> bool {
    row_of(name).is_some_and(|row| matches!(row.form, Form::Next(_)))
}

/// How many arguments after the program's name are the host's.
pub fn host_arguments(argv: &[OsString]) -> usize {
    let words = argv.iter().skip(1).map(|word| word.as_bytes());
    host_options(words).map(|found| found.words).sum()
}

/// Refuses what CPython would refuse without a word about the host: of `rest`, the host's last option and what follows.
///
/// # Errors
/// An option of the host's among Python's, or the value of one in a word of its own, where it would be taken for the program.
pub fn check_rest(rest: &[OsString]) -> Result<(), Error> {
    let mut words = rest.iter().skip(1).map(|word| word.as_bytes());
    while let Some(word) = words.next() {
        match word {
            b"-W" | b"-X" | b"--check-hash-based-pycs" => {
                words.next();
            }
            // Python shows its help, and reads no further.
            b"" | b"-" | b"--" | b"-h" | b"-?" => break,
            _ if word.starts_with(b"--help") => break,
            _ if word.starts_with(b"--") => {
                let name = word.split(|&byte| byte == b'=').next().unwrap_or_default();
                if let Some(row) = row_of(name).filter(|row| !row.variable.is_empty()) {
                    return Err(Error::option(format!(
                        "{}: comes after an option of Python's; the host's options come first",
                        row.option
                    )));
                }
            }
            // Behind -c or -m, alone or among other letters, come the program's own arguments.
            _ if !word.starts_with(b"-") || word.contains(&b'c') || word.contains(&b'm') => break,
            _ => {}
        }
    }
    check_program(rest)
}

/// Refuses `--live DIR` or `--stats json`: a word that could be the value of the last option is not there while the word
/// after it is, or is a directory that holds no program.
fn check_program(rest: &[OsString]) -> Result<(), Error> {
    let [last, program, following @ ..] = rest else {
        return Ok(());
    };
    let row = row_of(last.as_bytes()).filter(|row| matches!(row.form, Form::Optional(..)));
    let Some(row) = row.filter(|_| !program.as_bytes().starts_with(b"-")) else {
        return Ok(());
    };
    let path = Path::new(program);
    let is_bare_directory = last == "--live" && path.is_dir() && !path.join("__main__.py").exists();
    let is_next_there = || {
        following
            .first()
            .is_some_and(|next| Path::new(next).exists())
    };
    let is_no_program = is_bare_directory || !path.exists() && is_next_there();
    let value = |each: &Row| match each.option == row.option {
        true => vec![program.clone()],
        false => Vec::new(),
    };
    let bad = |_: &Row, _: &OsStr, reason| Error::option(reason);
    match is_no_program && Given::read(&value, &bad).is_ok() {
        true => Err(Error::option(format!(
            "{0}: '{1}' is taken for the program and is not one; expected {0}={1}",
            last.display(),
            path.display()
        ))),
        false => Ok(()),
    }
}

/// The host's command line for clap.
fn command() -> Command {
    let arguments = ROWS.iter().map(|row| {
        let argument = Arg::new(row.option)
            .long(row.option.trim_start_matches('-'))
            .help(row.help);
        let argument = match row.form {
            Form::Alone => return argument.action(ArgAction::SetTrue),
            Form::Next(name) => argument.value_name(name),
            Form::Equals(name) => argument.value_name(name).require_equals(true),
            Form::Optional(name, missing) => argument
                .value_name(name)
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(missing),
        };
        argument
            .value_parser(value_parser!(OsString))
            .action(match row.is_list {
                true => ArgAction::Append,
                false => ArgAction::Set,
            })
    });
    Command::new("pyhost")
        .about(
            "Runs Python programs as python does, with every allocation on mimalloc and accounted for",
        )
        .disable_help_flag(true)
        .disable_version_flag(true)
        .override_usage(
            "pyhost [host options] [python options] [script.py | -c code | -m module | -] [args]",
        )
        .after_help(after_help())
        .args(arguments)
}

/// The text of `--help` below the options.
fn after_help() -> String {
    let mut text = "\
The host's options come first; the first argument that is none of them, and all that follow,
are Python's. Called by a name that starts with `python`, the host reads its variables alone.
Python's own help: pyhost -h

Each option that is about a run has a variable of its name, such as PYHOST_SOFT_CAP for --soft-cap,
which child processes inherit. An option wins over its variable. The variable of an option without a
value takes 1 or 0; that of an option that may be repeated takes values with ; between them.
PYTHONMALLOC, -X dev and PYTHONDEVMODE keep their meaning.

Exit status: the script's own, but
"
    .to_owned();
    for (status, when) in STATUSES {
        let _ = writeln!(text, "  {status:>2}  {when}");
    }
    text
}

/// The text of `--help`.
pub fn help() -> String {
    format!("{}\n", command().render_help().to_string().trim_end())
}

/// Reads the host's part of the arguments, the program's name first.
///
/// # Errors
/// One line for what clap refuses, and for a value that is wrong.
pub fn parse(argv: &[OsString]) -> Result<Given, Error> {
    let bad = |row: &Row, text: &OsStr, reason| match text.to_string_lossy() {
        word if word.contains(" -") => Error::option(several_options(&word)),
        _ => Error::option(format!("{}: {reason}", row.option)),
    };
    if let Some(plain) = plain(argv) {
        let texts = |row: &Row| {
            let own = plain.iter().filter(|(option, _)| *option == row.option);
            own.map(|(_, text)| text.to_os_string()).collect()
        };
        return Given::read(&texts, &bad);
    }
    let matches = command()
        .try_get_matches_from(argv)
        .map_err(|error| Error::option(describe(&error)))?;
    Given::read(&|row| texts(&matches, row), &bad)
}

/// The options and the texts of their values, if each is known and has a value just where one belongs.
///
/// So clap is left to say what is wrong. To read the same with it takes 0.2 MiB of memory for good, code and blocks of sizes that
/// nothing else has, and 2 MiB on pages of 64 KiB.
fn plain(argv: &[OsString]) -> Option<Vec<(&'static str, &OsStr)>> {
    let mut plain: Vec<(&str, &OsStr)> = Vec::new();
    for found in host_options(argv.iter().skip(1).map(|word| word.as_bytes())) {
        let row = row_of(found.name)?;
        let text = match (row.form, found.value) {
            (Form::Alone, None) => OsStr::new("1"),
            (Form::Optional(_, missing), None) => OsStr::new(missing),
            (Form::Alone, Some(_)) | (_, None) => return None,
            (_, Some(value)) => OsStr::from_bytes(value),
        };
        if !row.is_list && plain.iter().any(|(option, _)| *option == row.option) {
            return None;
        }
        plain.push((row.option, text));
    }
    Some(plain)
}

fn texts(matches: &ArgMatches, row: &Row) -> Vec<OsString> {
    if row.form == Form::Alone {
        let is_given = matches.get_flag(row.option);
        return is_given.then(|| "1".into()).into_iter().collect();
    }
    let values = matches.get_many::<OsString>(row.option);
    values.into_iter().flatten().cloned().collect()
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
    match error.kind() {
        ErrorKind::UnknownArgument if argument.contains(' ') => several_options(&argument),
        _ if value.contains(" -") => several_options(&value),
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
        ErrorKind::InvalidValue => {
            match row_of(option.as_bytes())
                .map(|row| (row.names)())
                .unwrap_or_default()
                .as_str()
            {
                "" => format!("{option}: expected a value"),
                names => format!("{option}: expected a value, one of {names}"),
            }
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

/// The line for options that the kernel passed as one word.
fn several_options(word: &str) -> String {
    format!(
        "'{word}': one word with several options, as the kernel passes them from a first line #!; \
         expected #!/usr/bin/env -S pyhost OPTIONS"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(arguments: &[&str]) -> Vec<OsString> {
        let words = std::iter::once("pyhost").chain(arguments.iter().copied());
        words.map(OsString::from).collect()
    }

    fn count(arguments: &[&str]) -> usize {
        host_arguments(&argv(arguments))
    }

    #[test]
    fn what_is_read_without_clap_is_what_clap_reads() {
        let mut read = 0;
        for row in ROWS {
            let option = row.option;
            let equals = |value| format!("{option}={value}");
            let (empty, one, other) = (equals(""), equals("1"), equals("a=-b c"));
            for words in [
                &[option] as &[&str],
                &[option, "1"],
                &[option, "-1"],
                &[option, ""],
                &[&empty],
                &[&one],
                &[&other],
                &[option, option],
                &[&one, &other],
                &[&other, option, "1"],
                &["--host-version", option],
                &["--cap=1G", option, "--cap", "2G"],
                &[&one, "--wrong"],
            ] {
                let argv = argv(words);
                let argv = &argv[..=host_arguments(&argv)];
                let plain = plain(argv);
                let matches = command().try_get_matches_from(argv);
                assert_eq!(plain.is_some(), matches.is_ok(), "{words:?}");
                let (Some(plain), Ok(matches)) = (plain, matches) else {
                    continue;
                };
                for row in ROWS {
                    let own = plain.iter().filter(|(option, _)| *option == row.option);
                    let own: Vec<&OsStr> = own.map(|&(_, text)| text).collect();
                    assert_eq!(own, texts(&matches, row), "{words:?}");
                    read += own.len();
                }
            }
        }
        assert!(read > 5 * ROWS.len());
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
