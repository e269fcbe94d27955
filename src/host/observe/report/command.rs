//! The script's name in metrics: the same for each run of it, whatever its arguments. Code of `-c` has no name of its
//! own: it is named by the script of the host that started it, which hosts hand on in a variable.

use derive_more::Display;
use pyhost_os::{bytes::Expected, terminal_text::whole_letters};
use pyhost_record::metrics::COMMAND_BYTES;
use std::ffi::{OsStr, OsString};
use std::{os::unix::ffi::OsStrExt, path::Path, str::FromStr};

const CODE: &str = "-c";
/// A program from standard input, or none.
const INPUT: &[u8] = b"-";
/// How the code begins by which `multiprocessing` starts its processes; a module's name follows.
const MULTIPROCESSING: &[u8] = b"from multiprocessing.";

/// Names the script of the host that started this one, or the one before: the last that had a name.
pub const SCRIPT: &str = "PYHOST_SCRIPT";

#[derive(Clone, Debug, PartialEq, Eq, Display)]
pub struct Service(pub String);

impl FromStr for Service {
    type Err = Expected;

    fn from_str(text: &str) -> Result<Self, Expected> {
        match text.len() {
            1..=COMMAND_BYTES => Ok(Service(text.to_owned())),
            _ => Err(Expected("a name of 1 to 64 bytes")),
        }
    }
}

/// The name of the program among Python's arguments: the last part of the script's path, the module
/// of `-m`, `-c`, or `-` for standard input and the REPL. At most 64 bytes. `service` is the script that
/// started it: `-c of serve.py`, `multiprocessing: spawn of serve.py`.
pub fn name(arguments: &[OsString], service: Option<&str>) -> String {
    let (name, code) = program(arguments, |_| {});
    let mut name = String::from_utf8_lossy(name).into_owned();
    if let Some(part) = code.and_then(part_of_multiprocessing) {
        name = format!("multiprocessing: {part}");
    }
    if let Some(service) = service.filter(|_| code.is_some()) {
        name = format!("{name} of {service}");
    }
    let most = name.len().min(COMMAND_BYTES);
    name.truncate(whole_letters(&name.as_bytes()[..most]).len());
    name
}

pub fn is_a_scripts(name: &str) -> bool {
    let is_code = name == CODE || name.starts_with("-c of ");
    !(is_code || name.as_bytes() == INPUT || name.starts_with("multiprocessing: "))
}

/// The module of `multiprocessing` that a process runs, such as `spawn`.
fn part_of_multiprocessing(code: &[u8]) -> Option<&str> {
    let rest = code.strip_prefix(MULTIPROCESSING)?;
    let length = rest.iter().position(|&byte| byte == b' ')?;
    std::str::from_utf8(&rest[..length]).ok()
}

/// The program that Python's arguments name, by its name, and the code of `-c`. The options before it that
/// begin with two dashes are given to `long`.
pub fn program<'a>(
    arguments: &'a [OsString],
    mut long: impl FnMut(&'a [u8]),
) -> (&'a [u8], Option<&'a [u8]>) {
    let mut rest = arguments.iter().map(|argument| argument.as_bytes());
    while let Some(word) = rest.next() {
        if word == b"--" {
            return (rest.next().map_or(INPUT, script), None);
        }
        if word.len() < 2 || word[0] != b'-' {
            return (script(word), None);
        }
        if word[1] == b'-' {
            match word {
                b"--check-hash-based-pycs" => _ = rest.next(),
                // Python shows its help, and reads no further.
                _ if word.starts_with(b"--help") => break,
                _ => long(word),
            }
            continue;
        }
        // Options of one letter may share a word; the value of one is the word's rest, or the next.
        for (index, letter) in word.iter().enumerate().skip(1) {
            let mut value = || match &word[index + 1..] {
                b"" => rest.next().unwrap_or_default(),
                value => value,
            };
            match letter {
                b'c' => return (CODE.as_bytes(), Some(value())),
                b'm' => return (value(), None),
                b'W' | b'X' => {
                    value();
                    break;
                }
                b'h' | b'?' => return (INPUT, None),
                _ => {}
            }
        }
    }
    (INPUT, None)
}

fn script(path: &[u8]) -> &[u8] {
    let name = Path::new(OsStr::from_bytes(path)).file_name();
    name.map_or(path, OsStrExt::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs, one a line: the arguments, the script that started the process, the name, and whether it is that of no script.
    const PROGRAMS: &str = "\
 | | - | no script
- | | - | no script
-i | | - | no script
/srv/jobs/night.py --all | | night.py
app/ | | app
. | | .
-u -X dev a.py | | a.py
-Xdev -Werror a.py | | a.py
-uW error a.py | | a.py
-m pytest -x | | pytest
-Im http.server | | http.server
-mjson.tool | | json.tool
-uc pass a.py | | -c | no script
--check-hash-based-pycs always a.py | | a.py
-- -odd.py | | -odd.py
-c SPAWN | | multiprocessing: spawn | no script
-c SPAWN | serve.py | multiprocessing: spawn of serve.py | no script
-Es -c TRACKER | uvicorn | multiprocessing: resource_tracker of uvicorn | no script
-c pass | serve.py | -c of serve.py | no script
-cpass | | -c | no script
-c | | -c | no script
tool.py | serve.py | tool.py
";

    #[test]
    fn a_program_is_called_by_its_last_part_and_code_by_the_script_that_started_it() {
        let spawn = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)";
        let tracker = "from multiprocessing.resource_tracker import main;main(5)";
        for program in PROGRAMS.lines() {
            let mut cells = program.split('|').map(str::trim);
            let words = cells.next().unwrap().split_ascii_whitespace();
            let words = words.map(|word| word.replace("SPAWN", spawn).replace("TRACKER", tracker));
            let words: Vec<OsString> = words.map(OsString::from).collect();
            let service = cells.next().filter(|service| !service.is_empty());
            let found = name(&words, service);
            assert_eq!(Some(&*found), cells.next(), "{program}");
            assert_eq!(is_a_scripts(&found), cells.next().is_none(), "{program}");
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let long = OsString::from(format!("{}\u{e9}.py", "x".repeat(63)));
        assert_eq!(name(&[long], None), "x".repeat(63));
    }
}
