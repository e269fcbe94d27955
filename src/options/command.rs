//! What the script is called, as metrics name it: the same for each run of it, whatever its arguments.

use pyhost_shared::metrics::COMMAND_BYTES;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Code of the command line.
const CODE: &str = "-c";
/// A program from standard input, or none.
const INPUT: &str = "-";

/// The name of the program among Python's arguments: the last part of the script's path, the module
/// of `-m`, `-c`, or `-` for standard input and the REPL. At most 64 bytes.
pub fn name(arguments: &[OsString]) -> String {
    let mut name = full_name(arguments);
    let mut length = name.len().min(COMMAND_BYTES);
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    name.truncate(length);
    name
}

fn full_name(arguments: &[OsString]) -> String {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let bytes = argument.as_bytes();
        if bytes == b"--" {
            return rest.next().map_or(INPUT.to_owned(), script);
        }
        if bytes == b"--check-hash-based-pycs" {
            rest.next();
        }
        if bytes.len() < 2 || bytes[0] != b'-' {
            return script(argument);
        }
        if bytes[1] == b'-' {
            continue;
        }
        // Options of one letter may share a word; the value of one is the word's rest, or the next.
        for (index, letter) in bytes.iter().enumerate().skip(1) {
            let value = &bytes[index + 1..];
            match letter {
                b'c' => return CODE.to_owned(),
                b'm' => {
                    let next = || rest.next().map(|word| word.as_bytes());
                    let module = Some(value).filter(|value| !value.is_empty()).or_else(next);
                    return String::from_utf8_lossy(module.unwrap_or_default()).into_owned();
                }
                b'W' | b'X' => {
                    if value.is_empty() {
                        rest.next();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
    INPUT.to_owned()
}

fn script(path: &OsString) -> String {
    let name = Path::new(path).file_name().unwrap_or(path);
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_called_by_its_last_part() {
        for (arguments, expected) in [
            (&[] as &[&str], "-"),
            (&["-"], "-"),
            (&["-i"], "-"),
            (&["/srv/jobs/night.py", "--all"], "night.py"),
            (&["app/"], "app"),
            (&["."], "."),
            (&["-u", "-X", "dev", "a.py"], "a.py"),
            (&["-Xdev", "-Werror", "a.py"], "a.py"),
            (&["-uW", "error", "a.py"], "a.py"),
            (&["-m", "pytest", "-x"], "pytest"),
            (&["-Im", "http.server"], "http.server"),
            (&["-mjson.tool"], "json.tool"),
            (&["-uc", "pass", "a.py"], "-c"),
            (&["--check-hash-based-pycs", "always", "a.py"], "a.py"),
            (&["--", "-odd.py"], "-odd.py"),
        ] {
            let words: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            assert_eq!(name(&words), expected, "{arguments:?}");
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let long = OsString::from(format!("{}\u{e9}.py", "x".repeat(63)));
        assert_eq!(name(&[long]), "x".repeat(63));
    }
}
