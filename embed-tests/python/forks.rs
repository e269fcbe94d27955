//! Forks from a process whose threads start, end and allocate.

use crate::host::{Run, compile, script};

#[test]
fn forks_from_a_busy_process_neither_crash_nor_hang() {
    let library = compile("churn.c", "churn.so", &["-shared", "-fPIC"]);
    let forks = if std::env::var_os("PYHOST_TEST_FULL").is_some() {
        2000
    } else {
        50
    };
    for hooks in ["0", "1"] {
        let (outcome, report) = Run::host()
            .env("PYHOST_DEBUG_HOOKS", hooks)
            .arg(script("busy_forks.py"))
            .arg(&library)
            .arg(forks.to_string())
            .timeout(600)
            .reported();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "done"),
            "{outcome:#?}"
        );
        assert_eq!(report["children"]["forks"], forks);
        assert_eq!(report["partial"], false);
    }
}

#[test]
fn forks_from_several_threads_at_once_wait_for_each_other() {
    let code = "import os, threading
def work():
    for _ in range(30):
        pid = os.fork()
        if pid == 0:
            keep = [bytearray(n) for n in range(0, 20000, 100)]
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print('done')";
    assert_eq!(
        Run::host().args(["-W", "ignore", "-c", code]).ok().stdout,
        "done\n"
    );
}
