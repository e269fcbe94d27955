//! `pyhostctl sweep`: a program that runs once for each of its requests for memory.

use crate::host::{PYHOST, PYHOSTCTL, Run, folder, until};
use std::path::Path;

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
    assert_eq!(outcome.stderr, "");
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
            && line.ends_with(" s so far"),
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
fn variables_give_the_hosts_other_options_and_its_refusal_is_shown() {
    let code = "for _ in range(3): [None] * 50_000";
    let swept = ["--accounts=mem", "--above=300K", "-I", "-S", "-c", code];
    // A rule of the variable fails in each run; the program makes no ninth request.
    let outcome = sweep()
        .env("PYHOST_FAIL", "mem=above=300K,1")
        .arg("--range=9:10")
        .args(swept)
        .ok();
    assert_eq!(
        outcome.stdout,
        "pyhostctl: sweep of mem above 300.0 KiB: 1 runs; 1 MemoryError, status 1; none passed\n"
    );
    // Reports that variables ask for are not written by the runs.
    let report = folder("sweep").join("report.json");
    let outcome = sweep()
        .env("PYHOST_STATS", "json")
        .env("PYHOST_STATS_FILE", &report)
        .args(swept)
        .ok();
    assert!(
        outcome.stdout.contains("4 runs; 3 MemoryError, status 1;"),
        "{outcome:#?}"
    );
    assert!(!report.exists());
    let outcome = sweep().env("PYHOST_CAP", "x").args(swept).run();
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (2, ""));
    assert!(
        outcome
            .stderr
            .starts_with("pyhost: PYHOST_CAP: bad value 'x'"),
        "{outcome:#?}"
    );
}

#[test]
fn a_sweep_takes_the_host_that_is_named_and_refuses_a_bad_command_line() {
    let outcome = sweep()
        .args(["--host", "/nowhere/pyhost", "-c", "pass"])
        .run();
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
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
