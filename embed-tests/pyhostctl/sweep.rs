//! `pyhostctl sweep`: a program that runs once for each of its requests for memory.

use crate::environments::named;
use crate::host::{PYHOST, PYHOSTCTL, Run, folder, until};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn sweep() -> Run {
    Run::program(PYHOSTCTL).arg("sweep")
}

#[test]
fn a_sweep_ends_where_the_program_passes() {
    let code = "for _ in range(7): [None] * 50_000";
    let outcome = sweep()
        .args(["--accounts=mem", "--above=300K", "-I", "-S", "-c", code])
        .ok();
    assert_eq!(
        outcome.stdout,
        "pyhostctl: sweep of mem above 300.0 KiB: 8 runs; 7 MemoryError, status 1; N = 8 passed, \
         status 0\n"
    );
    // A sweep of some seconds says how far it is.
    let is_progress = |line: &str| line.contains(" findings, ") && line.contains(" so far");
    assert!(outcome.stderr.lines().all(is_progress), "{outcome:#?}");
    // From the request that passes on there is nothing to do.
    let outcome = sweep()
        .args(["--accounts=mem", "--above", "300K", "--range=9"])
        .args(["-I", "-S", "-c", code])
        .ok();
    assert_eq!(
        outcome.stdout,
        "pyhostctl: sweep of mem above 300.0 KiB: 1 runs; N = 9 passed, status 0\n"
    );
}

#[test]
fn a_sweep_whose_program_requests_nothing_says_so_and_fails() {
    for range in ["1", "5"] {
        let outcome = sweep()
            .args(["--accounts=mem", "--above=300K", "--range", range])
            .args(["-I", "-S", "-c", "pass"])
            .run();
        assert_eq!(outcome.code(), 25, "{outcome:?}");
        assert_eq!(
            outcome.stdout,
            "pyhostctl: sweep of mem above 300.0 KiB: nothing was tested: the program, status 0, makes no \
             such request\n"
        );
    }
}

#[test]
fn a_program_that_fails_by_itself_is_not_swept_and_its_words_are_shown() {
    let state = folder("fails").join("state");
    let run = sweep().arg("--resume").arg(&state);
    let outcome = run.args(["-c", "import no_such_module"]).run();
    assert!(!state.exists(), "there is nothing to go on with");
    assert_eq!(outcome.code(), 25, "{outcome:#?}");
    let said = &outcome.stdout;
    assert!(said.contains("No module named 'no_such_module'"), "{said}");
    let end = ": nothing was tested: the program ends with status 1 by itself\n";
    assert!(said.ends_with(end), "{said}");
}

#[test]
fn a_long_sweep_says_on_standard_error_how_far_it_is() {
    let code = "import time
for _ in range(12): [None] * 50_000
time.sleep(1)";
    let outcome = sweep()
        .args(["--accounts=mem", "--above=300K", "-I", "-S", "-c"])
        .arg(format!(
            "try:\n  {}\nexcept MemoryError: time.sleep(1)",
            code.replace('\n', "\n  ")
        ))
        .ok();
    let line = outcome.stderr.lines().next().unwrap_or_default();
    assert!(
        line.starts_with("pyhostctl: sweep of mem above 300.0 KiB: N = ")
            && line.contains(" of about 13 runs, 0 findings, ")
            && line.ends_with(" s left"),
        "{outcome:?}"
    );
    assert!(
        outcome.stdout.contains("12 status 0; N = 13 passed"),
        "{outcome:?}"
    );
}

#[test]
fn a_sweep_has_a_first_an_end_and_a_step_and_tells_what_crashed() {
    // A block that fails is used nevertheless, in the third run of four. No other request is as large.
    let code = "import ctypes
ctypes.pythonapi.PyMem_Malloc.restype = ctypes.c_void_p
for i in range(50):
    block = ctypes.pythonapi.PyMem_Malloc(2_000_000)
    if block is None and i == 24:
        ctypes.memset(0, 0, 8)
    if block is None and i == 34:
        import time; time.sleep(100)
    ctypes.pythonapi.PyMem_Free(ctypes.c_void_p(block))";
    let file = folder("sweep").join("crashes.py");
    std::fs::write(&file, code).unwrap();
    let outcome = sweep()
        .args(["--accounts=mem", "--above=1M", "--range=5:45:10"])
        .args(["--timeout", "3"])
        .arg(&file)
        .run();
    assert_eq!(outcome.code(), 24, "{outcome:#?}");
    let line = outcome.last_line();
    assert_eq!(
        line,
        "pyhostctl: sweep of mem above 1.0 MiB: 4 runs; 2 status 0, 1 crash by SIGSEGV, 1 hang; \
         none passed"
    );
    let told: Vec<&str> = outcome.stdout.lines().collect();
    assert!(told.contains(&"N = 25: crash by SIGSEGV"), "{outcome:#?}");
    assert!(told.contains(&"N = 35: hang"), "{outcome:#?}");
    assert!(
        told.iter()
            .any(|line| line.starts_with("  injected: 25 mem 2000000 ")),
        "{outcome:#?}"
    );
    // faulthandler's lines of both.
    assert!(
        told.iter()
            .any(|line| line.starts_with("  | ")
                && line.contains("crashes.py\", line 6 in <module>")),
        "{outcome:#?}"
    );
    assert!(
        told.iter()
            .any(|line| line.starts_with("  | ")
                && line.contains("crashes.py\", line 8 in <module>")),
        "{outcome:#?}"
    );
}

#[test]
fn runs_that_are_forked_where_failures_open_end_as_those_of_fresh_processes() {
    // How often the program was started is in a file. The sweep passes with the fifth request.
    let code = "import ctypes, os, pyhost, sys, threading, time
with open('starts', 'a') as file: file.write('.')
print('before', file=sys.stderr)
ctypes.pythonapi.PyMem_Malloc.restype = ctypes.c_void_p
fails = lambda: ctypes.pythonapi.PyMem_Malloc(2_000_000) is None
if 'thread' in sys.argv: threading.Thread(target=time.sleep, args=(0.5,), daemon=True).start()
with pyhost.fail():
    if fails(): raise SystemExit(7)
    if fails(): ctypes.memset(0, 0, 8)
    if fails(): time.sleep(100)
    if fails(): raise SystemError('<function f> returned NULL without setting an exception')
assert 'PYHOST_SWEEP' not in os.environ";
    let folder = folder("forked");
    std::fs::write(folder.join("opened.py"), code).unwrap();
    let swept = |options: &[&str], arguments: &[&str]| {
        let run = sweep().args(["--accounts=mem", "--above=1M", "--when-open", "--timeout=3"]);
        let run = run.args(options).arg("opened.py").args(arguments);
        let outcome = run.folder(&folder).run();
        assert_eq!(outcome.code(), 24, "{outcome:#?}");
        let starts = std::fs::read(folder.join("starts")).unwrap().len();
        std::fs::remove_file(folder.join("starts")).unwrap();
        // From 3.14 on there are addresses of C code, too.
        let has_address = |line: &str| line.contains("hread 0x") || line.contains("Binary file");
        let said = outcome.stdout.lines().filter(|line| !has_address(line));
        let said: Vec<&str> = said.collect();
        (said.join("\n"), starts)
    };
    let (fresh, starts) = swept(&["--fresh"], &[]);
    assert_eq!(starts, 6, "{fresh}");
    let line = "pyhostctl: sweep of mem above 1.0 MiB: 5 runs; 1 status 7, 1 SystemError, status 1, 1 crash by SIGSEGV, \
                1 hang; N = 5 passed, status 0";
    assert_eq!(fresh.lines().last(), Some(line));
    let is_before = |line: &&str| *line == "  | before";
    assert_eq!(fresh.lines().filter(is_before).count(), 3, "{fresh}");
    assert_eq!(swept(&[], &[]), (fresh.clone(), 2));
    assert_eq!(swept(&["--jobs=2"], &[]), (fresh, 3));
    // Another thread would not be in a forked process.
    let (fresh, _) = swept(&["--fresh"], &["thread"]);
    assert_eq!(swept(&[], &["thread"]), (fresh, 7));
}

#[test]
fn variables_give_the_hosts_other_options_and_its_refusal_is_shown() {
    let code = "for _ in range(3): [None] * 50_000";
    let swept = ["--accounts=mem", "--above=300K", "-I", "-S", "-c", code];
    // A rule of the variable fails in each run, and that is not the sweep's; the program makes no ninth request.
    let outcome = sweep()
        .env("PYHOST_FAIL", "mem=above=300K,1")
        .arg("--range=9:10")
        .args(swept)
        .ok();
    assert_eq!(
        outcome.stdout,
        "pyhostctl: sweep of mem above 300.0 KiB: 1 runs; N = 9 passed, MemoryError, status 1\n"
    );
    // Reports that variables ask for are not written by the runs.
    let report = folder("sweep").join("report.json");
    let outcome = sweep()
        .env_at("PYHOST_STATS", "file=", &report)
        .args(swept)
        .ok();
    assert!(
        outcome.stdout.contains("4 runs; 3 MemoryError, status 1;"),
        "{outcome:#?}"
    );
    assert!(!report.exists());
    let outcome = sweep().env("PYHOST_CAP", "x").args(swept).run();
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (2, ""));
    let line = "pyhost: PYHOST_CAP: bad value 'x'";
    assert!(outcome.stderr.starts_with(line), "{outcome:#?}");
}

#[test]
fn failures_of_other_rules_are_not_the_sweeps() {
    let place = folder("sweep");
    let code = "import ctypes, pyhost
malloc = ctypes.pythonapi.PyMem_Malloc
malloc.restype = ctypes.c_void_p
try:
    with pyhost.fail('obj=above=3M,1'): bytes(4_000_000)
except MemoryError: pass
for _ in range(2): malloc(ctypes.c_size_t(2_000_000))";
    std::fs::write(place.join("own.py"), code).unwrap();
    // The program's own, and a rule of the variable for the second and the fourth request of mem.
    for rules in ["when=open", "mem=above=1M,every=2"] {
        let run = sweep().folder(&place).env("PYHOST_FAIL", rules);
        let run = run.args(["--accounts=mem", "--above=1M", "--range=1:8"]);
        let outcome = run.args(["--junit=junit.xml", "own.py"]).ok();
        assert_eq!(
            outcome.stdout,
            "pyhostctl: sweep of mem above 1.0 MiB: 3 runs; 2 status 0; N = 3 passed, status 0\n"
        );
        let cases = std::fs::read_to_string(place.join("junit.xml")).unwrap();
        let named = |text: &str| cases.contains(text);
        assert!(
            named("tests=\"2\"") && named("own.py:7 in ") && named("no request fails"),
            "{cases}"
        );
    }
    // Where both fail the same request its number is the sweep's: it is the second of the other rule.
    let run = sweep().folder(&place);
    let run = run.env("PYHOST_FAIL", "mem+obj=above=1M,every=2");
    let run = run.args(["--accounts=mem", "--above=1M"]);
    let outcome = run.args(["--range=1:8", "own.py"]).ok();
    assert!(
        outcome
            .stdout
            .ends_with(": 3 runs; 2 status 0; N = 3 passed, status 0\n"),
        "{outcome:#?}"
    );
}

#[test]
fn a_sweep_takes_the_host_that_is_named_and_refuses_a_bad_command_line() {
    let state = folder("sweep").join("state");
    let outcome = sweep()
        .arg("--resume")
        .arg(&state)
        .args(["--host", "/nowhere/pyhost", "-c", "pass"])
        .run();
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    assert!(!state.exists());
    assert_eq!(
        outcome.stderr,
        "pyhostctl: '/nowhere/pyhost' cannot be run (No such file or directory (os error 2))\n"
    );
    let outcome = sweep()
        .args(["--host", PYHOST, "--accounts=mem", "--above=300K"])
        .args(["-I", "-S", "-c", "[None] * 50_000"])
        .ok();
    assert!(outcome.stdout.contains("2 runs;"), "{outcome:#?}");
    for arguments in [
        vec![],
        vec!["--accounts=x", "s.py"],
        vec!["--above=x", "s.py"],
        vec!["--range=5:5", "s.py"],
        vec!["--timeout=0", "s.py"],
    ] {
        let outcome = sweep().args(&arguments).run();
        assert_eq!(outcome.code(), 2, "{arguments:?}: {outcome:#?}");
        assert_eq!(outcome.stdout, "");
    }
}

#[test]
fn a_sweep_that_a_signal_ends_ends_its_run_and_leaves_no_file() {
    let temporary = folder("sweep");
    let begun = temporary.join("begun");
    // The script ends its own sweep, and would go on for minutes.
    let code = format!(
        "import os, signal, time
open({begun:?}, 'w').write(str(os.getpid()))
os.kill(os.getppid(), signal.SIGTERM)
time.sleep(100)"
    );
    let outcome = sweep()
        .env("TMPDIR", &temporary)
        .args(["-I", "-S", "-c", &code])
        .run();
    assert_eq!(outcome.code(), 128 + libc::SIGTERM, "{outcome:#?}");
    let process = std::fs::read_to_string(&begun).unwrap();
    until("the run's end", || {
        (!Path::new("/proc").join(&process).exists()).then_some(())
    });
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// A sweep of blocks of 2,000,000 bytes in `mem`, of which the program makes as many as `count` says. It does `work` with
/// the index of the block that failed, or -1.
fn blocks(count: u32, work: &str) -> (Run, PathBuf) {
    let code = format!(
        "import ctypes, os, signal, sys, time
api, void = ctypes.pythonapi, ctypes.c_void_p
api.PyMem_Malloc.restype = void
blocks = [api.PyMem_Malloc(ctypes.c_size_t(2_000_000)) for _ in range({count})]
for block in blocks:
    api.PyMem_Free(void(block))
failed = blocks.index(None) if None in blocks else -1
{work}"
    );
    let folder = folder("sweep");
    let script = folder.join("blocks.py");
    std::fs::write(&script, code).unwrap();
    let run = sweep().args(["--accounts=mem", "--above=1M"]);
    (run.folder(&folder), script)
}

#[test]
fn a_run_that_leaks_is_a_finding() {
    let leaks =
        "if failed in (1, 2): api.PyMem_Malloc(ctypes.c_size_t(5000))\nsys.exit(failed == 2)";
    let (run, script) = blocks(4, leaks);
    let outcome = run.env("PYHOST_LEAK_CHECK", "python").arg(&script).run();
    assert_eq!(outcome.code(), 24, "{outcome:#?}");
    assert_eq!(
        outcome.last_line(),
        "pyhostctl: sweep of mem above 1.0 MiB: 5 runs; 2 status 0, 1 leak, status 1, 1 leak, status 23; N = 5 \
         passed, status 0",
        "{outcome:#?}"
    );
    for said in [
        "N = 2: leak, status 23\n  injected: 2 mem 2000000 ",
        "N = 3: leak, status 1\n",
        "  | pyhost: 1 block leaked, 5.0 KiB: ",
    ] {
        assert!(outcome.stdout.contains(said), "{said}: {outcome:#?}");
    }
    // Without the check a leak is no finding.
    let (run, script) = blocks(4, leaks);
    let outcome = run.arg(&script).ok();
    assert!(
        outcome.stdout.contains("3 status 0, 1 status 1; N = 5"),
        "{outcome:#?}"
    );
    // It leaks whatever fails.
    let (run, script) = blocks(4, "api.PyMem_Malloc(ctypes.c_size_t(5000))");
    let outcome = run.env("PYHOST_LEAK_CHECK", "python").arg(&script).run();
    assert_eq!(outcome.code(), 24, "{outcome:#?}");
    assert!(
        outcome
            .stdout
            .starts_with("No request fails: leak, status 23\n"),
        "{outcome:#?}"
    );
    assert_eq!(
        outcome.last_line(),
        "pyhostctl: sweep of mem above 1.0 MiB: nothing was tested: the program ends with leak, status 23 by itself",
    );
}

#[test]
fn in_a_terminal_one_line_says_how_far_the_sweep_is() {
    let (_, script) = blocks(6, "time.sleep(0.15)");
    let code = "import os, pty, sys\nsys.exit(os.WEXITSTATUS(pty.spawn(sys.argv[1:])))";
    let run = Run::stock().code(code).arg(PYHOSTCTL);
    let run = run.args(["sweep", "--accounts=mem", "--above=1M"]);
    let outcome = run.arg(&script).ok();
    let states: Vec<&str> = outcome.stdout.split("\r\x1b[K").collect();
    assert!(states.len() > 3, "{outcome:#?}");
    // How long the rest takes is known when a run has ended.
    let with_rest = states.iter().find(|state| state.ends_with(" left"));
    let is_whole = |state: &&str| {
        state.starts_with("N = ") && state.contains(" of about 7 runs, 0 findings, ")
    };
    assert!(
        is_whole(&states[1]) && with_rest.is_some_and(is_whole),
        "{outcome:#?}"
    );
    // It is gone before anything else is said.
    let last = states.last().unwrap();
    assert!(last.starts_with("pyhostctl: sweep of "), "{outcome:#?}");
}

#[test]
fn a_sweep_that_was_ended_goes_on_where_it_stopped() {
    // Each run adds a byte; the fourth, in which the third block fails, ends the sweep.
    let work = "with open('runs', 'ab', 0) as file: file.write(b'x')
if os.path.getsize('runs') == 4:
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(100)
if failed == 0: os.abort()";
    let (run, script) = blocks(6, work);
    let place = script.parent().unwrap();
    let state = place.join("state");
    let again = || {
        let run = sweep().folder(place);
        run.args(["--accounts=mem", "--above=1M", "--resume=state"])
    };
    let outcome = run.arg("--resume").arg(&state).arg(&script).run();
    assert_eq!(outcome.code(), 128 + libc::SIGTERM, "{outcome:#?}");
    assert!(
        outcome.stdout.contains("N = 1: crash by SIGABRT"),
        "{outcome:#?}"
    );
    for earlier in [2, 7] {
        let outcome = again().arg(&script).run();
        assert_eq!(outcome.code(), 24, "{outcome:#?}");
        // Findings of before are shown again.
        let finding = "N = 1: crash by SIGABRT\n  injected: 1 mem ";
        assert!(outcome.stdout.contains(finding), "{outcome:#?}");
        let line = format!(
            "pyhostctl: sweep of mem above 1.0 MiB: 7 runs ({earlier} of them earlier); 5 status 0, 1 crash by \
             SIGABRT; N = 7 passed, status 0"
        );
        assert_eq!(outcome.last_line(), line);
        assert_eq!(std::fs::metadata(place.join("runs")).unwrap().len(), 9);
    }
    // It goes with its command alone.
    let before = std::fs::read(&state).unwrap();
    let outcome = again().args(["-c", "pass"]).run();
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (2, ""));
    assert!(
        outcome
            .stderr
            .contains("state' is of another sweep: its program is [\"")
            && outcome.stderr.lines().count() == 1,
        "{outcome:#?}"
    );
    let outcome = again().env("PYTHONHASHSEED", "1").arg(&script).run();
    assert_eq!(outcome.code(), 2, "{outcome:#?}");
    assert!(
        outcome
            .stderr
            .contains("its variables is {}, not {\"PYTHONHASHSEED\":\"1\"}"),
        "{outcome:#?}"
    );
    assert_eq!(std::fs::read(&state).unwrap(), before);
}

#[test]
fn files_of_others_are_not_written_over() {
    let (_, script) = blocks(1, "");
    let place = script.parent().unwrap();
    let notes = place.join("notes");
    std::fs::write(&notes, "mine\n").unwrap();
    for (option, reason) in [
        (
            "--resume=notes",
            "--resume: 'notes' exists, and pyhostctl sweep did not write it; expected a new file",
        ),
        (
            "--junit=notes",
            "--junit: 'notes' exists, and pyhost did not write it; expected a new file, an empty one, or one that pyhost wrote",
        ),
        (
            "--resume=none/a",
            "--resume: 'none/a' cannot be read and written (No such file or directory (os error 2))",
        ),
        (
            "--junit=none/a",
            "--junit: 'none/a' is in no directory; expected a file in one that exists",
        ),
    ] {
        let outcome = sweep().folder(place).arg(option).arg(&script).run();
        assert_eq!(
            (outcome.code(), outcome.stdout.as_str()),
            (2, ""),
            "{outcome:#?}"
        );
        assert_eq!(outcome.stderr, format!("pyhostctl: {reason}\n"));
        assert_eq!(std::fs::read_to_string(&notes).unwrap(), "mine\n");
    }
    // One file cannot be both.
    let both = ["--resume=both", "--junit=./both"];
    let outcome = sweep().folder(place).args(both).arg(&script).run();
    assert_eq!(
        (outcome.code(), outcome.stderr.as_str()),
        (
            2,
            "pyhostctl: --junit: './both' is the file of --resume; expected another one\n"
        ),
        "{outcome:#?}"
    );
    assert!(!place.join("both").exists());
}

#[test]
fn a_file_that_cannot_be_written_at_the_end_hides_no_finding() {
    let removed = "os.path.exists('out') and os.rmdir('out')";
    let crash = format!("{removed}\nif failed == 0: os.abort()");
    for (work, status, ending) in [
        (
            crash.as_str(),
            24,
            ": 2 runs; 1 crash by SIGABRT; N = 2 passed, status 0",
        ),
        (removed, 2, ": 2 runs; 1 status 0; N = 2 passed, status 0"),
        (
            "os.rmdir('out')\nos.abort()",
            24,
            ": nothing was tested: the program ends with crash by SIGABRT by itself",
        ),
    ] {
        let (run, script) = blocks(1, work);
        std::fs::create_dir(script.parent().unwrap().join("out")).unwrap();
        let outcome = run.arg("--junit=out/junit.xml").arg(&script).run();
        assert_eq!(outcome.code(), status, "{outcome:#?}");
        assert!(outcome.last_line().ends_with(ending), "{outcome:#?}");
        // A sweep of more than 5 s also says how far it is.
        assert_eq!(
            outcome.stderr.lines().last(),
            Some(
                "pyhostctl: --junit: 'out/junit.xml' is in no directory; expected a file in one that exists"
            )
        );
    }
}

#[test]
fn several_runs_go_at_once_and_are_reported_in_order() {
    // The runs of the first two blocks wait for each other; the first crashes later than the second.
    let work = "if failed in (0, 1):
    open(str(failed), 'w').close()
    for _ in range(1000):
        if os.path.exists(str(1 - failed)): break
        time.sleep(0.01)
    else: sys.exit(9)
    if failed == 0: time.sleep(0.5)
    os.abort()";
    let (run, script) = blocks(5, work);
    let outcome = run.arg("--jobs=2").arg(&script).run();
    assert_eq!(outcome.code(), 24, "{outcome:#?}");
    let found: Vec<&str> = outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with("N = "))
        .collect();
    assert_eq!(
        found,
        ["N = 1: crash by SIGABRT", "N = 2: crash by SIGABRT"]
    );
    assert_eq!(
        outcome.last_line(),
        "pyhostctl: sweep of mem above 1.0 MiB: 6 runs; 3 status 0, 2 crash by SIGABRT; N = 6 passed, status 0"
    );
}

#[test]
fn a_file_for_ci_has_a_case_for_each_line_whose_requests_failed() {
    let work = "def more():
    for _ in range(2):
        api.PyMem_Free(void(api.PyMem_Malloc(ctypes.c_size_t(2_000_000))))
more()
if failed == 2:
    os.write(2, b'\\x1b[31m<red>&\\xff\\n')
    os.abort()";
    let (run, script) = blocks(3, work);
    let place = script.parent().unwrap().to_owned();
    let outcome = run.arg("--junit=junit.xml").arg(&script).run();
    assert_eq!(outcome.code(), 24, "{outcome:#?}");
    // A reader of such files.
    let code = "import json, sys
from junitparser import JUnitXml
report = JUnitXml.fromfile(sys.argv[1])
[suite] = report
cases = [[case.classname, case.name, case.time, [[type(r).__name__, r.type, r.message, r.text] for r in case.result]]
         for case in suite]
print(json.dumps([report.tests, report.failures, report.errors, suite.name, cases]))";
    let read = |file: &Path| -> Value {
        let run = Run::stock().env("PYTHONPATH", named("junit").site_packages);
        let outcome = run.code(code).arg(file).ok();
        serde_json::from_str(&outcome.stdout).unwrap()
    };
    let file = place.join("junit.xml");
    let report = read(&file);
    assert_eq!(report[0], 3, "{report:#}");
    assert_eq!((&report[1], &report[2]), (&Value::from(1), &Value::from(0)));
    assert_eq!(report[3], "pyhostctl sweep of mem above 1.0 MiB");
    let cases = report[4].as_array().unwrap();
    let named = |part: &str| {
        let mut cases = cases.iter();
        cases
            .find(|case| case[1].as_str().unwrap().contains(part))
            .unwrap_or_else(|| panic!("{part}: {report:#}"))
    };
    assert_eq!(named("no request fails")[3], Value::Array(Vec::new()));
    let passed = named("in more");
    assert_eq!(
        (&passed[0], &passed[3]),
        (&"sweep.mem".into(), &Value::Array(Vec::new())),
        "{report:#}"
    );
    let failed = named(":4 in ");
    assert_eq!(failed[3][0][0], "Failure", "{report:#}");
    assert_eq!(failed[3][0][2], "1 of 3 runs: crash by SIGABRT");
    let text = failed[3][0][3].as_str().unwrap();
    assert!(
        text.contains("N = 3: crash by SIGABRT\n  injected: 3 mem 2000000 ")
            && text.contains("  | \u{fffd}[31m<red>&\u{fffd}\n"),
        "{text}"
    );
    // It is written again, also where nothing was tested.
    let run = sweep()
        .folder(&place)
        .args(["--accounts=mem", "--above=100M", "--junit=junit.xml"]);
    let outcome = run.arg(&script).run();
    assert_eq!(outcome.code(), 25, "{outcome:#?}");
    let report = read(&file);
    assert_eq!(
        (&report[0], &report[2]),
        (&Value::from(1), &Value::from(1)),
        "{report:#}"
    );
    assert_eq!(
        report[4][0][3][0][2],
        "the program, status 0, makes no such request"
    );
}
