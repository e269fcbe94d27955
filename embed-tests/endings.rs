//! The report is written however the script ends.

use crate::host::{Run, folder};
use serde_json::Value;

fn ended(code: &str) -> (i32, Value) {
    let (outcome, report) = Run::host().code(code).reported();
    (outcome.code(), report)
}

#[test]
fn each_ending_is_named_with_its_status() {
    let cases = [
        ("pass", 0, "exit", false),
        ("raise ValueError", 1, "exit", false),
        ("import sys; sys.exit(7)", 7, "exit", false),
        ("raise KeyboardInterrupt", 130, "SIGINT", false),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
            130,
            "SIGINT",
            false,
        ),
        ("import os; os._exit(9)", 9, "_exit", false),
        (
            "import ctypes; ctypes.CDLL(None).exit(11)",
            11,
            "exit",
            false,
        ),
        (
            "import ctypes; ctypes.CDLL(None)._Exit(12)",
            12,
            "_exit",
            false,
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
            143,
            "SIGTERM",
            true,
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGHUP)",
            129,
            "SIGHUP",
            true,
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            137,
            "SIGKILL",
            false,
        ),
        ("import os; os.abort()", 134, "SIGABRT", true),
        (
            "import ctypes; ctypes.CDLL(None).abort()",
            134,
            "SIGABRT",
            true,
        ),
        ("import ctypes; ctypes.string_at(0)", 139, "SIGSEGV", true),
        (
            "import faulthandler; faulthandler.enable(); faulthandler._sigsegv()",
            139,
            "SIGSEGV",
            true,
        ),
        (
            "import faulthandler; faulthandler.dump_traceback_later(0.01, exit=True); import time; time.sleep(20)",
            1,
            "_exit",
            false,
        ),
        (
            "import signal; signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()",
            142,
            "SIGALRM",
            true,
        ),
        (
            "import threading, os; threading.Thread(target=os._exit, args=(5,)).start(); import time; time.sleep(20)",
            5,
            "_exit",
            false,
        ),
    ];
    for (code, status, ending, partial) in cases {
        let (code_seen, report) = ended(code);
        assert_eq!(code_seen, status, "{code}");
        assert_eq!(report["process"]["ended_by"], ending, "{code}");
        assert_eq!(report["partial"], partial, "{code}");
        assert!(
            report["accounts"]["obj"]["live_bytes"].as_i64().unwrap() > 100_000,
            "{code}"
        );
    }
}

#[test]
fn faulthandler_asked_for_on_the_command_line_still_dumps() {
    let run = Run::host().args([
        "-X",
        "faulthandler",
        "-c",
        "import ctypes; ctypes.string_at(0)",
    ]);
    let (outcome, report) = run.reported();
    assert_eq!(outcome.code(), 139);
    assert_eq!(report["process"]["ended_by"], "SIGSEGV");
    assert!(
        outcome
            .stderr
            .contains("Fatal Python error: Segmentation fault"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn an_exec_is_reported_and_a_failed_one_is_reported_anew() {
    let (status, report) = ended("import os; os.execv('/bin/true', ['true'])");
    assert_eq!(
        (status, &report["process"]["ended_by"]),
        (0, &Value::from("exec"))
    );
    let (status, report) = ended(
        "import os
try: os.execv('/no/such/program', ['x'])
except FileNotFoundError: raise SystemExit(21)",
    );
    assert_eq!(
        (status, &report["process"]["ended_by"]),
        (21, &Value::from("exit"))
    );
    // To stderr only the last program speaks.
    let outcome = Run::host()
        .arg("--stats")
        .code("import os; os.execv('/bin/true', ['true'])")
        .ok();
    assert_eq!(outcome.stderr, "");
    // An exec of the host itself is the same process, which goes on reporting.
    let (outcome, report) = Run::host()
        .code("import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'raise SystemExit(4)'])")
        .reported();
    assert_eq!(
        (outcome.code(), &report["process"]["exit_status"]),
        (4, &Value::from(4))
    );
}

#[test]
fn a_forked_child_never_writes_as_though_it_were_the_parent() {
    let code = "import os, subprocess, sys
for ending in (lambda: os._exit(1), lambda: sys.exit(2), os.abort, lambda: os.execv('/bin/true', ['true']), lambda: 1 / 0):
    pid = os.fork()
    if pid == 0:
        ending()
        os._exit(99)
    os.waitpid(pid, 0)
subprocess.run(['/bin/true'])
try: subprocess.run(['/no/such/program'])
except OSError: pass
print('parent', os.getpid())";
    let (outcome, report) = Run::host().code(code).reported();
    let pid: i64 = outcome
        .last_line()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(report["process"]["pid"], pid);
    assert_eq!(report["process"]["ended_by"], "exit");
    assert_eq!(report["process"]["exit_status"], 0);
    let on_stderr = Run::host().arg("--stats=json").code(code).ok().stderr;
    let reports = on_stderr
        .lines()
        .filter(|line| line.starts_with("{\"schema\""))
        .count();
    assert_eq!(reports, 1, "{on_stderr}");
}

#[test]
fn a_report_can_go_to_an_open_descriptor() {
    let line = "exec \"$0\" --stats-fd 5 -c 'print(1)' 5>&1 >/dev/null";
    let outcome = Run::program("/bin/sh")
        .args(["-c", line, crate::host::PYHOST])
        .ok();
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(report["schema"], "pyhost-report/1");
}

#[test]
fn a_file_that_cannot_be_written_is_complained_of_once_and_the_status_stays() {
    let folder = folder("full");
    let code = format!(
        "import shutil; shutil.rmtree({:?}); raise SystemExit(6)",
        folder
    );
    let outcome = Run::host()
        .arg("--stats-file")
        .arg(folder.join("r"))
        .code(&code)
        .run();
    assert_eq!(outcome.code(), 6);
    assert_eq!(
        outcome.stderr,
        format!(
            "pyhost: cannot write the report: '{}' is in no directory; expected a file in one that \
             exists\n",
            folder.join("r").display()
        )
    );
}

#[test]
fn live_bytes_are_the_scripts_and_what_finalisation_leaves_is_told_apart() {
    let (_, report) = ended("keep = bytes(30_000_000)");
    let obj = &report["accounts"]["obj"];
    assert!(obj["live_bytes"].as_i64().unwrap() > 30_000_000);
    assert!(obj["finalized_live_bytes"].as_i64().unwrap() < 2_000_000);
}
