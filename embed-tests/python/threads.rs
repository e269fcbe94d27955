//! Threads that Python does not know of, through start, run and end.

use crate::host::{Run, compile, script};

/// Runs of the raw-domain hazard; `PYHOST_TEST_FULL=1` makes it the 100 of the project's claim.
fn rounds(short: usize, full: usize) -> usize {
    if std::env::var_os("PYHOST_TEST_FULL").is_some() {
        full
    } else {
        short
    }
}

#[test]
fn a_native_thread_on_the_raw_domain_survives_start_and_exit() {
    // Up to 3.13 CPython puts libc's malloc into RAW for moments of start and finalisation.
    let library = compile("raw_loop.c", "raw_loop.so", &["-shared", "-fPIC", "-ldl"]);
    for round in 0..rounds(20, 100) {
        let outcome = Run::host()
            .env("LD_PRELOAD", &library)
            .args([
                "-I",
                "-c",
                "import json, threading; print(sum(range(1000)))",
            ])
            .timeout(60)
            .run();
        assert_eq!(
            (outcome.code(), outcome.stdout.as_str()),
            (0, "499500\n"),
            "round {round}: {outcome:?}"
        );
    }
}

#[test]
fn native_threads_that_start_allocate_and_end_leave_the_ledger_exact() {
    let library = compile("churn.c", "churn.so", &["-shared", "-fPIC"]);
    let outcome = Run::host()
        .arg(script("native_threads.py"))
        .arg(library)
        .ok();
    assert_eq!(outcome.last_line(), "exact");
}

#[test]
fn tracemalloc_over_the_hosts_hooks_is_sound() {
    // A hook over the host's, installed and removed in order: tracemalloc, in threads.
    let code = "import threading, tracemalloc
def work():
    for i in range(200): [bytearray(100) for _ in range(100)]
for _ in range(3):
    tracemalloc.start(3)
    threads = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    assert tracemalloc.take_snapshot().statistics('lineno')
    tracemalloc.stop()
print('ok')";
    for hooks in ["0", "1"] {
        let outcome = Run::host().env("PYHOST_DEBUG_HOOKS", hooks).code(code).ok();
        assert_eq!(outcome.stdout, "ok\n");
    }
}
