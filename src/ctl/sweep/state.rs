//! `--resume`: a file with the result of each run, so that a sweep that was ended goes on where it stopped.
//!
//! Lines of JSON: the command first, then a run each. A line is written when its run has ended; one that the end of
//! the sweep has cut is taken away by the next sweep. The file belongs to its command: another's is refused.

use super::{SweepOptions, run::Run};
use crate::output::Failure;
use pyhost_os::file;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::{fs::File, os::unix::fs::MetadataExt};

const SCHEMA: &str = "pyhost-sweep/1";

/// The results that are known, and the file that they are kept in.
#[derive(Default)]
pub struct State {
    file: Option<(PathBuf, File)>,
    /// Whether this sweep has made the file.
    is_made: bool,
    /// The first line, until it is written.
    command: Option<Value>,
    known: HashMap<u64, Run>,
}

#[derive(Serialize, Deserialize)]
struct Line<R> {
    /// The request that failed; 0 for the run in which none did.
    n: u64,
    #[serde(flatten)]
    run: R,
}

impl State {
    /// Reads the file of an earlier sweep of this command, or begins one.
    pub fn open(path: &Path, command: &Value) -> Result<Self, Failure> {
        let refuse = |what: String| Failure(format!("--resume: '{}' {what}", path.display()));
        let cannot = |error: io::Error| refuse(format!("cannot be read and written ({error})"));
        let mut options = File::options();
        options.read(true).append(true);
        let made = options.clone().create_new(true).open(path);
        let is_made = made.is_ok();
        let file = made.or_else(|_| options.create(true).open(path));
        let mut file = file.map_err(cannot)?;
        if !file.metadata().map_err(cannot)?.is_file() {
            return Err(refuse(
                "is not a regular file; expected a new one".to_owned(),
            ));
        }
        file::lock(&file, libc::LOCK_EX).map_err(|error| match error.0 {
            libc::EWOULDBLOCK => refuse("is in use by another sweep".to_owned()),
            _ => refuse(format!("cannot be locked ({error})")),
        })?;
        if file.metadata().map_err(cannot)?.nlink() == 0 {
            return Err(refuse("was removed by another sweep just now".to_owned()));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(cannot)?;
        let is_new = bytes.is_empty();
        let mut known = HashMap::new();
        if !is_new {
            let end = bytes.iter().rposition(|&byte| byte == b'\n');
            let whole = end.map_or(0, |end| end + 1);
            known = read(&bytes[..whole], command).map_err(refuse)?;
            file.set_len(whole as u64).map_err(cannot)?;
        }
        Ok(State {
            file: Some((path.to_owned(), file)),
            is_made,
            command: is_new.then(|| command.clone()),
            known,
        })
    }

    pub fn is_in(&self, path: &Path) -> bool {
        let own = self.file.as_ref().map(|(_, file)| file.metadata());
        match (own, path.metadata()) {
            (Some(Ok(own)), Ok(other)) => (own.dev(), own.ino()) == (other.dev(), other.ino()),
            _ => false,
        }
    }

    /// The result of a run of an earlier sweep, which is given away.
    pub fn take(&mut self, number: u64) -> Option<Run> {
        self.known.remove(&number)
    }

    pub fn keep(&mut self, number: u64, run: &Run) -> Result<(), Failure> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let command = self.command.take();
        let begun = command.map_or(Ok(()), |command| write_line(file, &command));
        let written = begun.and_then(|()| write_line(file, &Line { n: number, run }));
        let path = path.display();
        let failed = |error| format!("--resume: '{path}' cannot be written ({error})");
        written.map_err(|error| Failure(failed(error)))
    }
}

impl Drop for State {
    /// A sweep that keeps nothing, such as one that the host refuses, leaves no file: while the lock is held, so that the
    /// file is not another sweep's. One that was there before stays, also if it is empty.
    fn drop(&mut self) {
        if let Some((path, _)) = &self.file
            && self.is_made
            && self.command.is_some()
            && self.is_in(path)
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn write_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

/// The results in a file, or what is wrong with it.
fn read(bytes: &[u8], command: &Value) -> Result<HashMap<u64, Run>, String> {
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let first: Value = serde_json::from_slice(first).unwrap_or_default();
    if first["schema"] != SCHEMA {
        return Err("exists, and pyhostctl sweep did not write it; expected a new file".to_owned());
    }
    let fields = command.as_object().into_iter().flatten();
    for (name, value) in fields {
        if first[name] != *value {
            return Err(format!(
                "is of another sweep: its {name} is {}, not {value}; expected a new file",
                first[name]
            ));
        }
    }
    let runs = lines.zip(2..).map(|(line, number)| {
        let line: Result<Line<Run>, _> = serde_json::from_slice(line);
        let line = line.map(|line| (line.n, line.run));
        line.map_err(|error| format!("is damaged in line {number}: {error}; expected a new file"))
    });
    runs.collect()
}

/// What the results of a sweep depend on, as far as that can be known: the file's first line.
pub fn command(options: &SweepOptions, host: &Path) -> Value {
    let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(&name), text(&value)));
    let variables =
        variables.filter(|(name, _)| name.starts_with("PYHOST") || name.starts_with("PYTHON"));
    let variables: BTreeMap<String, String> = variables.collect();
    let words = options.program.words.iter();
    let program: Vec<String> = words.map(|word| text(word)).collect();
    json!({
        "schema": SCHEMA,
        "version": env!("CARGO_PKG_VERSION"),
        "program": program,
        "folder": std::env::current_dir().unwrap_or_default().to_string_lossy(),
        "host": host.to_string_lossy(),
        "timeout": options.timeout,
        "variables": variables,
        "rule": options.rule,
    })
}

#[cfg(test)]
mod tests {
    use super::super::ending::End;
    use super::*;

    fn run(end: End) -> Run {
        Run {
            injected: vec!["7 mem 100 script.py:1 in <module>".to_owned()],
            errors: vec!["\u{1b}[31mred".to_owned()],
            errors_left_out: 3,
            ..Run::of(end)
        }
    }

    /// A folder, the path of a state in it, and the state's command.
    fn place() -> (tempfile::TempDir, PathBuf, Value) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        (folder, path, json!({"schema": SCHEMA, "program": ["a.py"]}))
    }

    #[test]
    fn results_come_back_and_a_line_that_was_cut_is_taken_away() {
        let (_folder, path, command) = place();
        let mut state = State::open(&path, &command).ok().unwrap();
        for (number, end) in [(0, End::Status(0)), (7, End::Signal(11)), (8, End::Hang)] {
            assert!(state.keep(number, &run(end)).is_ok());
        }
        // Two sweeps cannot write to it at once.
        let Failure(text) = State::open(&path, &command).err().unwrap();
        assert!(text.ends_with("is in use by another sweep"), "{text}");
        drop(state);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"{\"n\":9,\"en"].concat()).unwrap();
        let mut state = State::open(&path, &command).ok().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
        let back = state.take(7).unwrap();
        assert_eq!((back.end, back.errors_left_out), (End::Signal(11), 3));
        assert_eq!(back.errors, ["\u{1b}[31mred"]);
        assert_eq!(state.take(8).unwrap().end, End::Hang);
        assert!(state.take(9).is_none() && state.take(7).is_none());
    }

    #[test]
    fn a_sweep_that_keeps_nothing_leaves_no_file_and_removes_none() {
        let (folder, path, command) = place();
        let open = || State::open(&path, &command).ok().unwrap();
        let state = open();
        assert!(state.is_in(&folder.path().join(".").join("state")));
        assert!(!state.is_in(&folder.path().join("none")) && !State::default().is_in(&path));
        drop(state);
        assert!(!path.exists());
        // Another's file that has taken its place.
        let state = open();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        drop(state);
        assert!(path.exists());
        // One that was there and empty.
        drop(open());
        assert!(path.exists());
        assert!(open().keep(0, &run(End::Status(0))).is_ok());
        assert_eq!(open().take(0).unwrap().end, End::Status(0));
    }

    #[test]
    fn a_file_that_is_damaged_is_refused_and_stays() {
        let (_folder, path, command) = place();
        let content = "{\"schema\":\"pyhost-sweep/1\",\"program\":[\"a.py\"]}\n{}\n";
        std::fs::write(&path, content).unwrap();
        let Failure(text) = State::open(&path, &command).err().unwrap();
        let reason =
            "is damaged in line 2: missing field `n` at line 1 column 2; expected a new file";
        assert_eq!(text, format!("--resume: '{}' {reason}", path.display()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    }
}
