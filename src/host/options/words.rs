//! What is wrong with the words of the command line, in one line each, and the text of `--help`. clap makes the help
//! and the suggestions; it does not run if nothing is wrong: it takes 0.2 MiB of memory for good, code and blocks of
//! sizes that nothing else has, and 2 MiB on pages of 64 KiB.

use super::kinds::Help;
use super::reader::{host_options, parts_of};
use super::table::{Form, ROWS, Values, row_of};
use crate::error::{BAD_OPTION, CANNOT_START, CAP_EXHAUSTED, Error, Result, UNGUARDED};
use crate::{check::leaks::DEFAULT_STATUS, observe::report::command::program};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};
use std::{ffi::OsString, fmt::Write, os::unix::ffi::OsStrExt, path::Path};

/// The exit statuses that are the host's own, and when a process ends with each.
pub const STATUSES: [(i32, &str); 5] = [
    (CANNOT_START, "the host cannot start; nothing was run"),
    (
        BAD_OPTION,
        "an option or a variable is wrong; nothing was run",
    ),
    (
        DEFAULT_STATUS as i32,
        "--leak-check found a leak, and the script's status was 0",
    ),
    (
        UNGUARDED,
        "--guard left most blocks out, and the script's status was 0",
    ),
    (CAP_EXHAUSTED, "the script has used up the reserve of a cap"),
];

/// Whether a word holds several options, of the host's or of a letter. A command and a path may have spaces and dashes, too.
fn is_of_first_line(word: &str) -> bool {
    let is_option = |rest: &str| {
        let name = rest.split([' ', '=']).next().unwrap_or_default();
        name.len() == 1 || row_of(format!("-{name}").as_bytes()).is_some()
    };
    let is_known = |option: &str| row_of(option.as_bytes()).is_some();
    let is_with_value = || {
        word.split_once(' ')
            .is_some_and(|(option, _)| is_known(option))
    };
    let is_command = word.starts_with("--at-exhausted=");
    let is_several = || !is_command && word.split(" -").skip(1).any(is_option);
    word.starts_with("--") && (is_with_value() || is_several())
}

/// Checks the host's words, which follow the program's name: each is an option of the host's that has a value if and only
/// if it takes one.
pub fn check<'a>(words: impl Iterator<Item = &'a [u8]> + Clone) -> Result<()> {
    let first = String::from_utf8_lossy(words.clone().next().unwrap_or_default());
    if is_of_first_line(&first) {
        return Err(Error::option(format!(
            "'{first}': one word with several options, as the kernel passes them from a first line #!; \
             expected #!/usr/bin/env -S pyhost OPTIONS"
        )));
    }
    for found in host_options(words) {
        let name = String::from_utf8_lossy(found.name);
        let row = row_of(found.name).ok_or_else(|| Error::option(unknown(&name)))?;
        let refuse = |reason: &str| Err(Error::option(format!("{name}: {reason}")));
        match (row.form, found.value) {
            (Form::Alone, Some(_)) => return refuse("takes no value"),
            (Form::Next(form), None) => {
                let expected = match (row.parts[0].names)().as_str() {
                    "" => form.to_owned(),
                    names => format!("one of {names}"),
                };
                return refuse(&format!("expected a value, {expected}"));
            }
            _ if row.option == "--python" => {
                return refuse(
                    "expected before all other options, and only with the command of a wheel",
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// The line for an option that the host does not have.
fn unknown(name: &str) -> String {
    let read = command(Help::Short).try_get_matches_from(["pyhost", name]);
    let suggestion = read
        .err()
        .and_then(|error| match error.get(ContextKind::SuggestedArg) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            _ => None,
        });
    match suggestion {
        Some(suggestion) => format!("{name}: unknown option; did you mean {suggestion}?"),
        None => format!(
            "{name}: unknown option; expected one of the host's (pyhost --help) or of Python's (pyhost -h)"
        ),
    }
}

/// Refuses what CPython would refuse without a word about the host: of `rest`, the host's last option and what follows.
///
/// # Errors
/// An option of the host's among Python's, or the value of one in a word of its own, where it would be taken for the program.
pub fn check_rest(rest: &[OsString]) -> Result<()> {
    let mut late = None;
    program(rest.get(1..).unwrap_or_default(), |word| {
        let name = word.split(|&byte| byte == b'=').next().unwrap_or_default();
        late = late.or(row_of(name).filter(|row| !row.variable.is_empty()));
    });
    if let Some(row) = late {
        return Err(Error::option(format!(
            "{}: comes after an option of Python's; the host's options come first",
            row.option
        )));
    }
    check_program(rest)
}

/// Refuses `--live DIR` or `--stats json`: a word that could be the value of the last option is not there while the word
/// after it is, or is a directory that holds no program.
fn check_program(rest: &[OsString]) -> Result<()> {
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
        let next = following.first();
        next.is_some_and(|next| Path::new(next).exists())
    };
    let is_no_program = is_bare_directory || !path.exists() && is_next_there();
    let word = [row.option.as_bytes(), b"=", program.as_bytes()].concat();
    let given = parts_of(row, std::iter::once(word.as_slice()), None);
    match is_no_program && Values::default().read(row, given).is_ok() {
        true => Err(Error::option(format!(
            "{0}: '{1}' is taken for the program and is not one; expected {0}={1}",
            row.option,
            path.display()
        ))),
        false => Ok(()),
    }
}

/// The host's command line for clap.
pub fn command(help: Help) -> Command {
    let arguments = ROWS.iter().map(|row| {
        let short = row.help.lines().next().unwrap_or_default();
        let argument = Arg::new(row.option)
            .long(row.option.trim_start_matches('-'))
            .help_heading(row.group)
            .help(if help == Help::All { row.help } else { short });
        match row.form {
            Form::Alone => argument.action(ArgAction::SetTrue),
            Form::Next(name) => argument.value_name(name),
            Form::Optional(name, _) => {
                let argument = argument.value_name(name);
                argument.num_args(0..=1).require_equals(true)
            }
        }
    });
    Command::new("pyhost")
        .about("Runs Python programs as python does, with every allocation accounted for")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .override_usage("pyhost [options] [python options] [script | -c code | -m module] [args]")
        .next_line_help(help == Help::All)
        .after_help(after_help(help))
        .args(arguments)
}

/// The text of `--help` below the options.
fn after_help(help: Help) -> String {
    if help == Help::Short {
        return "\
The host's options come first; the first word that is none of them, and all
that follow, are Python's. PYHOST_STATS is the variable of --stats, and so on:
child processes inherit it.

All values and keys: pyhost --help=all. Python's own help: pyhost -h"
            .to_owned();
    }
    let mut text = "\
The host's options come first; the first argument that is none of them, and
all that follow, are Python's. Called by a name that starts with `python`, the
host reads its variables alone. Python's own help: pyhost -h

`,...` stands for keys, with commas before them. A comma that belongs to a
path is written twice there: --stats=json,file=a,,b.json is the file a,b.json.

Each option that is about a run has a variable of its name, such as
PYHOST_SOFT_CAP for --soft-cap, which child processes inherit. An option takes
the place of its variable, keys included. The variable of an option without a
value takes 1 or 0; that of an option that may be repeated takes values with
; between them. PYTHONMALLOC, -X dev and PYTHONDEVMODE keep their meaning.

Exit status: the script's own, but
"
    .to_owned();
    for (status, when) in STATUSES {
        let _ = writeln!(text, "  {status:>2}  {when}");
    }
    text
}

pub fn help(which: Help) -> String {
    format!("{}\n", command(which).render_help().to_string().trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_of_the_hosts_among_pythons_is_refused() {
        let refused =
            " -u --stats| -W error --stats| -Xfrozen_modules=off --stats| -uX dev --stats=json";
        let taken = " -u a.py --stats| -uc pass --stats| -mjson.tool --stats| -h --stats| --help-env --stats| -- --stats";
        for (lines, is_refused) in [(refused, true), (taken, false)] {
            for words in lines.split('|') {
                let rest: Vec<OsString> = words.split(' ').map(OsString::from).collect();
                assert_eq!(check_rest(&rest).is_err(), is_refused, "{words}");
            }
        }
    }

    #[test]
    fn the_short_help_fits_on_a_screen() {
        let help = help(Help::Short);
        assert!(help.lines().count() <= 60, "{help}");
        for line in help.lines().chain(super::help(Help::All).lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(ROWS.iter().all(|row| help.contains(row.option)));
        assert!(ROWS.len() <= 24);
    }
}
