//! The report is written however the script ends.

use crate::host::{Outcome, PYHOST, Run, compile, folder};
use crate::skipping::skipped;
use serde_json::Value;
use std::path::Path;

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
fn a_signal_put_back_to_its_default_is_reported_and_ends_the_process_by_itself() {
    // As uvicorn does at every SIGTERM, and scripts for SIGINT and SIGPIPE.
    for (name, signal) in [
        ("SIGTERM", libc::SIGTERM),
        ("SIGINT", libc::SIGINT),
        ("SIGPIPE", libc::SIGPIPE),
        ("SIGXFSZ", libc::SIGXFSZ),
        ("SIGUSR1", libc::SIGUSR1),
    ] {
        let code = format!(
            "import os, signal
number = {signal}
before = signal.getsignal(number)
assert signal.signal(number, lambda *_: None) == before
assert callable(signal.signal(number, signal.SIG_DFL))
assert signal.getsignal(number) == signal.SIG_DFL
os.kill(os.getpid(), number)"
        );
        let (status, report) = ended(&code);
        assert_eq!(status, 128 + signal, "{name}");
        assert_eq!(report["process"]["ended_by"], name);
    }
    // By C functions, too, which read back what they set.
    let (status, report) = ended(
        "import ctypes, os
libc = ctypes.CDLL(None)
libc.signal.restype = ctypes.c_void_p
libc.signal.argtypes = libc.sysv_signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: None)
address = ctypes.cast(handler, ctypes.c_void_p).value
assert libc.signal(15, address) is None
assert libc.signal(15, None) == address
assert libc.signal(15, None) is None
class Action(ctypes.Structure):
    _fields_ = [('handler', ctypes.c_void_p), ('mask', ctypes.c_ulong * 16), ('flags', ctypes.c_int), ('restorer', ctypes.c_void_p)]
libc.sigaction.argtypes = [ctypes.c_int, ctypes.POINTER(Action), ctypes.POINTER(Action)]
given, found = Action(flags=0x10000000), Action(handler=1)
given.mask[0] = 1 << 9
assert libc.sigaction(15, given, found) == 0 and found.handler is None
assert libc.sigaction(15, None, found) == 0
assert (found.handler, found.flags & 0x10000000, found.mask[0]) == (None, 0x10000000, 1 << 9)
assert libc.sigaction(15, found, found) == 0 and found.handler is None
assert libc.sigaction(99, given, None) == -1
os.kill(os.getpid(), 15)",
    );
    assert_eq!(
        (status, &report["process"]["ended_by"]),
        (143, &Value::from("SIGTERM"))
    );
    // Children have the default, a signal that is ignored stays so, and a blocked one waits.
    let (status, _) = ended(
        "import os, signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_DFL)
for options in ({}, {'preexec_fn': lambda: None}, {'close_fds': False}):
    assert subprocess.run(['/bin/sh', '-c', 'kill -TERM $$; exit 3'], **options).returncode == -15
spawned = os.posix_spawn('/bin/sh', ['sh', '-c', 'kill -TERM $$; exit 3'], os.environ, setsigdef=[15])
assert os.WTERMSIG(os.waitpid(spawned, 0)[1]) == 15
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.kill(os.getpid(), signal.SIGTERM)
assert signal.sigwait([signal.SIGTERM]) == signal.SIGTERM
raise SystemExit(9)",
    );
    assert_eq!(status, 9);
}

#[test]
fn every_signal_that_ends_a_process_is_reported() {
    let endless = [
        libc::SIGUSR2, // asks for the report of the moment
        libc::SIGKILL,
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    // Of real time the first, one of the others, and the last.
    for signal in (1..32).chain([34, 40, 64]) {
        if endless.contains(&signal) {
            continue;
        }
        let code = format!(
            "import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
signal.signal({signal}, signal.SIG_DFL)
os.kill(os.getpid(), {signal})"
        );
        let (status, report) = ended(&code);
        assert_eq!(status, 128 + signal);
        let name = report["process"]["ended_by"].as_str().unwrap();
        assert!(name.starts_with("SIG"), "{signal}: {name}");
    }
}

#[test]
fn a_handler_that_was_set_before_the_script_is_not_mistaken_for_the_default() {
    let folder = folder("site");
    let site = "import signal; signal.signal(signal.SIGTERM, lambda *_: print('handled'))";
    std::fs::write(folder.join("sitecustomize.py"), site).unwrap();
    let (outcome, report) = Run::host()
        .env("PYTHONPATH", &folder)
        .code("import os; os.kill(os.getpid(), 15)")
        .reported();
    assert_eq!(outcome.stdout, "handled\n", "{outcome:#?}");
    assert_eq!(report["process"]["ended_by"], "exit");
    assert_eq!(report["partial"], false);
}

#[test]
fn ends_past_exit_are_reported_with_their_status() {
    for (code, status) in [
        ("libc.quick_exit(0)", 0),
        ("libc.quick_exit(7)", 7),
        ("libc.syscall(number, 0)", 0),
        ("libc.syscall(number, 9)", 9),
    ] {
        let number = libc::SYS_exit_group;
        let code = format!("import ctypes; number = {number}; libc = ctypes.CDLL(None); {code}");
        let (seen, report) = ended(&code);
        assert_eq!(seen, status, "{code}");
        assert_eq!(report["process"]["ended_by"], "_exit", "{code}");
        assert_eq!(report["process"]["exit_status"], status, "{code}");
        // Nothing is left that says it was killed.
        let directory = folder("live").join("hosts");
        let live = format!("--live={}", directory.display());
        assert_eq!(Run::host().arg(&live).code(&code).run().code(), status);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "{code}");
    }
}

#[test]
fn every_process_that_is_started_is_counted() {
    let code = format!(
        "import ctypes, os, subprocess, threading
libc = ctypes.CDLL(None)
libc.popen.restype = ctypes.c_void_p
libc.pclose.argtypes = [ctypes.c_void_p]
os.system('true'); os.system('true')                    # 2
libc.pclose(libc.popen(b'true', b'r'))                  # 3
def child(pid):
    if pid == 0: os._exit(0)
    os.waitpid(pid, 0)
child(os.fork())                                        # 4
child(libc.fork())                                      # 5
child(libc.syscall({clone}, 17, 0, 0, 0, 0))            # 6
subprocess.run(['true'])                                # 7
subprocess.run(['true'], preexec_fn=lambda: None)       # 8
os.waitpid(os.posix_spawn('/bin/true', ['true'], {{}}), 0)  # 9
thread = threading.Thread(target=print); thread.start(); thread.join()
libc.syscall({getpid})",
        clone = libc::SYS_clone,
        getpid = libc::SYS_getpid
    );
    let (outcome, report) = Run::host().code(&code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(report["children"]["forks"], 9, "{report:#}");
}

/// The host as the first process of a pid namespace, with a report and a timeline of these names; None,
/// with a line that says so, where the system gives no namespace.
fn first_process(report: &Path, timeline: &Path, code: &str) -> Option<Outcome> {
    let namespace = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    let unshare = || Run::program("unshare").args(namespace);
    if unshare().arg("true").run().code() != 0 {
        skipped("no pid namespaces here");
        return None;
    }
    let run = unshare().env_at("PYHOST_STATS", "file=", report);
    let run = run.env("PYHOST_TIMELINE", timeline).arg(PYHOST);
    Some(run.code(code).run())
}

fn last_line_of(timeline: &Path) -> Value {
    let text = std::fs::read_to_string(timeline).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn the_first_process_of_a_namespace_outlives_signals_and_reports_its_own_end() {
    let place = folder("first");
    let (report, timeline) = (place.join("report.json"), place.join("timeline"));
    // Signals that the kernel ignores there stay ignored, and leave no trace.
    let code = "import os, signal
signals = [15, 9, 1, 12, 10, signal.SIGRTMIN, signal.SIGSEGV]
if os.getpid() != 1: raise SystemExit('not the first process')
for number in signals:
    if number != 9: signal.signal(number, signal.SIG_DFL)
    os.kill(1, number)
if os.fork() == 0:
    os.kill(1, 15); os.kill(1, 9); os._exit(0)
os.wait()
raise SystemExit(5)";
    let Some(outcome) = first_process(&report, &timeline, code) else {
        return;
    };
    assert_eq!(outcome.code(), 5, "{outcome:#?}");
    let read =
        || -> Value { serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap() };
    let found = read();
    assert_eq!(found["process"]["ended_by"], "exit");
    assert_eq!(found["process"]["exit_status"], 5);
    assert_eq!(found["partial"], false);
    let end = last_line_of(&timeline);
    assert_eq!(
        (&end["ended_by"], &end["exit_status"]),
        (&"exit".into(), &5.into())
    );

    // A fault ends it, as the kernel has it.
    let code = "import ctypes; ctypes.string_at(0)";
    let outcome = first_process(&report, &timeline, code).unwrap();
    assert!(!outcome.status.success(), "{outcome:#?}");
    assert_eq!(read()["process"]["ended_by"], "SIGSEGV");
    assert_eq!(last_line_of(&timeline)["ended_by"], "SIGSEGV");

    // A forked child may be the first of a namespace, with handlers that its parent had.
    let code = "import ctypes, os, signal
if ctypes.CDLL(None).unshare(0x20000000) != 0: raise SystemExit('no namespace')
pid = os.fork()
if pid == 0:
    signal.signal(15, signal.SIG_DFL)
    for number in (15, 1, 14): os.kill(1, number)
    os._exit(6)
raise SystemExit(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))";
    let template = place.join("%p");
    let outcome = Run::host().at("--stats=file=", &template).code(code).run();
    assert_eq!(outcome.code(), 6, "{outcome:#?}");
    let text = std::fs::read_to_string(place.join("1")).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["process"]["exit_status"], 6);
    assert_eq!(found["partial"], false);
}

#[test]
fn a_timeline_has_its_end_when_the_process_has_gone() {
    let timeline = folder("end").join("timeline");
    for (code, ended_by) in [
        ("pass", "exit"),
        ("import os; os._exit(3)", "exit"),
        ("import os; os.kill(os.getpid(), 15)", "SIGTERM"),
    ] {
        let run = Run::host().env_at("PYHOST_TIMELINE", "interval=10s,", &timeline);
        run.code(code).run();
        assert_eq!(last_line_of(&timeline)["ended_by"], ended_by, "{code}");
    }
}

#[test]
fn a_timeline_has_its_end_where_the_sampler_runs_later_than_the_script() {
    let late = compile("late_child.c", "late_child.so", &["-shared", "-fPIC"]);
    let timeline = folder("end").join("timeline");
    let run = Run::host().env("PYHOST_TIMELINE", &timeline);
    run.env("LD_PRELOAD", &late).code("pass").ok();
    assert_eq!(last_line_of(&timeline)["ended_by"], "exit");
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
fn a_fault_is_reported_into_a_file_on_the_small_signal_stack_that_a_script_has_set() {
    let path = folder("endings").join("small-stack.json");
    let code = "import ctypes, faulthandler; faulthandler.enable(); ctypes.string_at(0)";
    let outcome = Run::host().at("--stats=file=", &path).code(code).run();
    assert_eq!(outcome.code(), 139, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("Fatal Python error"),
        "{outcome:#?}"
    );
    let report = std::fs::read_to_string(&path).expect("a report");
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["process"]["ended_by"], "SIGSEGV");
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
    let line = "exec \"$0\" --stats=fd=5 -c 'print(1)' 5>&1 >/dev/null";
    let outcome = Run::program("/bin/sh").args(["-c", line, PYHOST]).ok();
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
        .at("--stats=file=", folder.join("r"))
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
