//! `pyhost.expect_freed()`: what keeps an object that should be freed, asked for and by itself, under the host and in a
//! plain Python where the wheel is installed.

use crate::free_threaded::is_free_threaded;
use crate::host::{Outcome, Run, folder, script};
use std::path::{Path, PathBuf};

/// A folder with the wheel's package as it is in a Python without the host.
pub fn plain_package() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let place = folder("wheel");
    let package = place.join("pyhost");
    std::fs::create_dir(&package).unwrap();
    for file in std::fs::read_dir(root.join("src/wheel/pyhost")).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).unwrap();
        }
    }
    // As the wheel's build puts them there.
    let project = std::fs::read_to_string(root.join("pyproject.toml")).unwrap();
    let mut parts = 0;
    for line in project.lines() {
        let Some((from, to)) = line.split_once(" = ") else {
            continue;
        };
        let (from, to) = (from.trim_matches('"'), to.trim_matches('"'));
        if from.starts_with("src/host/python/module/library/") {
            std::fs::copy(root.join(from), place.join(to)).unwrap();
            parts += 1;
        }
    }
    assert!(parts >= 4, "{project}");
    place
}

fn says(outcome: &Outcome, words: &str) {
    assert_eq!(
        (outcome.code(), outcome.last_line()),
        (0, words),
        "{outcome:#?}"
    );
}

#[test]
fn whatever_keeps_an_object_is_named() {
    for options in [
        &[][..],
        &["-I", "-S"],
        &["--lines=1", "--stats=off"],
        &["--debug-hooks", "-X", "dev"],
    ] {
        let run = Run::host().args(options).arg(script("expected_freed.py"));
        let outcome = run.timeout(120).run();
        says(&outcome, "expected");
        let told = match options.first() {
            Some(&"--debug-hooks") if is_free_threaded() => {
                "pyhost: --debug-hooks: a free-threaded Python has CPython's own hooks alone\n"
            }
            _ => "",
        };
        assert_eq!(outcome.stderr, told, "{options:?}");
    }
}

#[test]
fn a_plain_python_finds_the_same() {
    let run = Run::stock().env("PYTHONPATH", plain_package());
    let outcome = run.arg(script("expected_freed.py")).timeout(120).run();
    says(&outcome, "expected");
    assert_eq!(outcome.stderr, "");
}

const AT_END: &str = "import atexit, os, pyhost
class Session: pass
cache, late = {}, [Session()]
for number in range(2):
    cache[number] = Session()
    pyhost.expect_freed(cache[number], f'session {number}')
pyhost.expect_freed(late[0])
atexit.register(late.clear)
gone = Session()
pyhost.expect_freed(gone)
del gone
known = Session()
assert pyhost.expect_freed(known).check()
print('ran', flush=True)
if hasattr(os, 'fork') and os.fork() == 0:
    raise SystemExit(7)
assert os.wait()[1] == 7 << 8
raise SystemExit(3)";

#[test]
fn at_the_end_of_the_script_it_reports_what_still_lives() {
    let host = Run::host().env("PYHOST_STATS", "json").code(AT_END).run();
    let plain = Run::stock()
        .env("PYTHONPATH", plain_package())
        .code(AT_END)
        .run();
    for outcome in [&host, &plain] {
        assert_eq!(outcome.code(), 3, "{outcome:#?}");
        assert_eq!(outcome.stdout, "ran\n");
        let told = outcome.stderr.lines();
        let told: Vec<&str> = told
            .skip_while(|line| !line.starts_with("pyhost: "))
            .take_while(|line| !line.starts_with('{'))
            .collect();
        let first = "pyhost: 2 objects live that should be freed";
        assert_eq!(told.first(), Some(&first), "{outcome:#?}");
        assert_eq!(told.len(), 9, "{told:#?}");
        assert!(
            told[1].starts_with("  'session 0', Session, expected to be freed "),
            "{told:#?}"
        );
        assert!(told[1].ends_with(" at <string>:6, is kept by"), "{told:#?}");
        assert_eq!(told[2], "    __main__.cache[0] -> Session");
        assert_eq!(told[6], "    __main__.cache[1] -> Session");
    }
}

#[test]
fn a_full_collection_long_after_reports_an_object_once() {
    let code = "import gc, os, pyhost
class Session: pass
class Owner: pass
owner = Owner()
owner.session = Session()
handle = pyhost.expect_freed(owner.session, after=0)
pyhost.expect_freed(owner, after=3600)
gc.collect(0)
print('young', flush=True)
os.write(2, b'full\\n')
gc.collect()
os.write(2, b'again\\n')
gc.collect()
os.write(2, b'end\\n')
os._exit(0)";
    let outcome = Run::host().code(code).ok();
    let (before, after) = outcome.stderr.split_once("full\n").unwrap();
    let (told, after) = after.split_once("again\n").unwrap();
    assert_eq!(before, "");
    assert_eq!(after, "end\n");
    assert!(
        told.starts_with("pyhost: 1 object lives that should be freed\n  Session, expected "),
        "{told}"
    );
    assert!(told.contains("\n    __main__.owner.session -> Session\n"));
}

#[test]
fn a_block_reports_at_its_end_and_the_script_goes_on() {
    let code = "import pyhost
class Session: pass
kept = []
def work(keeps):
    session = Session()
    if keeps: kept.append(session)
    return pyhost.expect_freed(session)
with work(True): pass
with work(False): pass
try:
    with work(True): raise ValueError
except ValueError: print('its own error')";
    let outcome = Run::host().code(code).ok();
    assert_eq!(outcome.stdout, "its own error\n");
    let told = outcome.stderr.matches("pyhost: 1 object lives").count();
    assert_eq!(told, 2, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("    __main__.kept[0] -> Session\n"),
        "{outcome:#?}"
    );
}

#[test]
fn below_a_cap_and_with_failing_requests_the_script_ends_as_it_would() {
    let code = "import pyhost
class Session: pass
kept = [Session() for _ in range(50)]
for session in kept: pyhost.expect_freed(session)
kept.append(bytearray(20 << 20))
print('ran')";
    for options in [&["--cap", "32M"][..], &["--fail", "obj=p=0.001,seed=4"]] {
        let outcome = Run::host().args(options).code(code).run();
        assert!(
            outcome.code() == 0 || options[0] == "--fail" && outcome.code() == 1,
            "{outcome:#?}"
        );
    }
    let outcome = Run::host().code(code).ok();
    let told = &outcome.stderr;
    assert!(
        told.starts_with("pyhost: 50 objects live that should be freed\n"),
        "{told}"
    );
    assert!(told.ends_with("  and 30 more\n"), "{told}");
}
