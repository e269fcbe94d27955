//! Forced failures: `--fail`, `pyhost.fail`, the log and the report. Each case is a run of
//! the host on code of CPython's own modules or NumPy's.

use crate::environments::newest_numpy;
use crate::free_threaded::is_free_threaded;
use crate::host::{Outcome, Run, figure, folder, script, version};
use crate::skipping::skipped;
use serde_json::Value;
use std::path::PathBuf;

/// The host with a log of injected failures.
fn logged(rules: &[&str]) -> (Run, PathBuf) {
    let log = folder("faults").join("log");
    let run = Run::host()
        .args(rules.iter().flat_map(|rule| ["--fail", rule]))
        .at("--fail=log=", &log)
        .env("PYTHONHASHSEED", "0");
    (run, log)
}

/// The lines of a log without the process's id.
fn lines(log: &PathBuf) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap();
    let strip = |line: &str| line.split_once(' ').unwrap().1.to_owned();
    text.lines().map(strip).collect()
}

const JSON: &str = "import json
value = {'rows': [{'id': i, 'name': str(i)} for i in range(200)]}
for _ in range(20):
    assert json.loads(json.dumps(value)) == value
print('ok')";

fn ends_with_memory_error(outcome: &Outcome) -> bool {
    let last = outcome.stderr.lines().last().unwrap_or_default();
    outcome.code() == 1 && last.starts_with("MemoryError")
}

#[test]
fn the_nth_request_fails_once_and_is_told() {
    let (run, log) = logged(&["obj=40000"]);
    let (outcome, report) = run.code(JSON).reported();
    assert!(ends_with_memory_error(&outcome), "{outcome:#?}");
    assert_eq!(figure(&report, "obj", "injected"), 1);
    assert_eq!(figure(&report, "obj", "failed"), 0);
    for other in ["raw", "mem", "arena", "numpy", "native"] {
        assert_eq!(figure(&report, other, "injected"), 0, "{other}");
    }
    let rule = &report["faults"]["rules"][0];
    assert_eq!(rule["rule"], "obj=40000");
    assert_eq!(rule["injected"], 1);
    assert!(rule["requests"].as_i64().unwrap() >= 40000);
    let told = lines(&log);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("40000 obj "), "{told:?}");
    if version() < (3, 14) {
        assert!(told[0].contains(" < <string>:4 in <module>"), "{told:?}");
    }
}

#[test]
fn the_place_in_the_log_is_that_of_the_traceback() {
    if version() >= (3, 14) {
        return skipped("the log of failures names no calls on 3.14 and later");
    }
    let code = "def f():
    with pyhost.fail('raw+mem+obj=1'):
        return bytearray(5000)
def g():
    return f()
import pyhost
try:
    g()
except MemoryError:
    print('caught')";
    let (run, log) = logged(&["when=open"]);
    assert_eq!(run.code(code).ok().stdout, "caught\n");
    let told = lines(&log);
    let place = "<string>:3 in f < <string>:5 in g < <string>:8 in <module>";
    assert!(told[0].ends_with(place), "{told:?}");
}

#[test]
fn a_seed_gives_the_same_failures_and_another_one_others() {
    let failures = |seed: u32| {
        let (run, log) = logged(&[&format!(
            "obj+mem+raw=p=0.0002,seed={seed},above=32,when=open"
        )]);
        // Whatever fails is caught, so that there is more than one.
        let code = "import json, pyhost
value = {'rows': [{'id': i, 'name': str(i)} for i in range(200)]}
for _ in range(60):
    try:
        with pyhost.fail():
            json.loads(json.dumps(value))
    except MemoryError:
        pass";
        run.code(code).ok();
        lines(&log)
    };
    let first = failures(7);
    assert!(first.len() > 3, "{first:?}");
    assert_eq!(first, failures(7));
    assert_ne!(first, failures(8));
}

#[test]
fn every_nth_request_above_a_size_fails() {
    let code = "caught = 0
for i in range(100):
    try:
        bytes(100_000); bytes(1000)
    except MemoryError:
        caught += 1
print(caught)";
    let run = Run::host().args(["--fail", "obj=above=64K,every=5"]);
    let (outcome, report) = run.code(code).reported();
    let caught: i64 = outcome.stdout.trim().parse().unwrap();
    assert_eq!(caught, 20, "{outcome:#?}");
    assert_eq!(figure(&report, "obj", "injected"), 20);
    // Alone, a size lets each request above it fail.
    let outcome = Run::host()
        .args(["--fail", "obj=above=64K"])
        .code(code)
        .ok();
    assert_eq!(outcome.stdout, "100\n");
}

#[test]
fn rules_add_up_and_a_text_report_tells_them() {
    let code = "import pyhost
sizes = [('raw', 500000), ('mem', 500000), ('mem', 500000), ('native', 700000)]
for account, size in sizes:
    try:
        pyhost.buffer(size, account=account)
    except MemoryError:
        print(account)";
    let rules = [
        "--fail",
        "raw=above=400K,1",
        "--fail",
        "mem=above=400K,2",
        "--fail",
        "native=above=600K",
    ];
    let outcome = Run::host().args(rules).arg("--stats").code(code).ok();
    assert_eq!(outcome.stdout, "raw\nmem\nnative\n", "{outcome:#?}");
    let told = outcome.stderr.matches("made to fail (--fail)").count();
    assert_eq!(told, 3, "{outcome:#?}");
}

#[test]
fn native_memory_fails_for_sqlite_and_never_for_the_host() {
    let code = "import pyhost, sqlite3
base = sqlite3.connect(':memory:')
base.execute('create table t (x)')
rows = [(bytes(3000),)] * 50
with pyhost.fail('native=above=1K') as fault:
    try:
        base.executemany('insert into t values (?)', rows)
    except MemoryError:
        print('caught')
    # Rust's own memory is not made to fail: it would end the process.
    summary = pyhost.memory_summary()
assert fault.injected > 0, fault.injected
base.executemany('insert into t values (?)', rows)
print(base.execute('select count(*) from t').fetchone()[0] >= 50, 'native' in summary)";
    let outcome = Run::host().args(["--fail", "when=open"]).code(code).ok();
    assert_eq!(outcome.stdout, "caught\nTrue True\n");
}

#[test]
fn array_data_fails_as_numpy_says_it() {
    let code = "import numpy as np, pyhost
with pyhost.fail('numpy=above=1M,every=2') as fault:
    kept = []
    for _ in range(10):
        try:
            kept.append(np.ones(1_000_000))
        except MemoryError as error:
            assert 'Unable to allocate' in str(error), error
print(len(kept), fault.requests, fault.injected)";
    for store in ["mimalloc", "pool", "bfc", "system"] {
        let run = newest_numpy().host().args(["--numpy", store]);
        let (outcome, report) = run.args(["--fail", "when=open"]).code(code).reported();
        assert_eq!(outcome.stdout, "5 10 5\n", "{store}: {outcome:#?}");
        assert_eq!(figure(&report, "numpy", "injected"), 5, "{store}");
    }
    let rule = ["--fail", "numpy=3", "--debug-hooks"];
    let code = "import numpy as np\nfor i in range(100): np.ones(1000 + i)";
    let outcome = newest_numpy().host().args(rule).code(code).run();
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    assert!(outcome.stderr.contains("MemoryError"), "{outcome:#?}");
}

#[test]
fn each_allocator_and_the_debug_hooks_can_be_made_to_fail() {
    for allocator in ["mimalloc", "pymalloc", "system"] {
        for hooks in ["0", "1"] {
            let run = Run::host().args(["--allocator", allocator, "--fail", "obj=20000"]);
            let (outcome, report) = run.env("PYHOST_DEBUG_HOOKS", hooks).code(JSON).reported();
            assert!(
                ends_with_memory_error(&outcome),
                "{allocator}: {outcome:#?}"
            );
            assert_eq!(figure(&report, "obj", "injected"), 1, "{allocator}");
        }
    }
}

#[test]
fn failures_begin_after_initialisation_and_end_before_finalisation() {
    // Every request of CPython fails while the script runs. Requests of its start and end do not, which
    // would crash, nor those of the functions that end the script. Larger ones than what 3.14 reads to run `-c`.
    let code = "import atexit, os
atexit.register(lambda: os.write(1, b'ends\\n'))
class Late:
    def __del__(self): os.write(1, b'%d bytes\\n' % len(bytes(1_000_000)))
late = Late()
late.itself = late
try:
    bytes(500_000)
except MemoryError:
    os.write(1, b'caught\\n')";
    let outcome = Run::host().args(["--fail", "above=400K"]).code(code).ok();
    assert_eq!(outcome.stdout, "caught\nends\n1000000 bytes\n");
}

#[test]
fn a_block_has_its_own_rule_nests_and_restores() {
    let outcome = Run::host()
        .args(["--fail", "obj=above=1M,when=open"])
        .arg(script("fail_blocks.py"))
        .ok();
    assert_eq!(outcome.last_line(), "all as expected", "{outcome:#?}");
}

#[test]
fn a_loop_over_n_meets_each_request_of_a_piece_of_work() {
    // Makes no function: 3.13.0 crashes where that fails, as stock Python does.
    let code = "import itertools, pyhost
def work():
    rows = []
    for number in range(1000, 1010):
        rows.append(dict(zip('abc', (number, str(number), [number], {number}))))
    return rows
value = work()
work()
for n in itertools.count(1):
    try:
        with pyhost.fail(f'mem+obj={n}') as fault:
            result = work()
    except MemoryError:
        assert fault.injected == 1
        continue
    assert result == value
    if not fault.injected:
        break
assert n > 50 and fault.requests == n - 1, (n, fault.requests)
print('ok')";
    // PyList_New frees a list whose array it was refused (cpython issue 152125).
    let code = if is_free_threaded() {
        &code.replace("[number]", "(number, number)")
    } else {
        code
    };
    let outcome = Run::host().args(["--fail", "when=open"]).code(code).ok();
    assert_eq!(outcome.stdout, "ok\n");
}

#[test]
fn without_fail_a_block_says_what_is_missing() {
    let code = "import pyhost
try:
    pyhost.fail('3')
except RuntimeError as error:
    print(error)";
    let (outcome, report) = Run::host().code(code).reported();
    assert!(outcome.stdout.contains("--fail when=open"), "{outcome:#?}");
    assert_eq!(report["faults"], Value::Null);
}

#[test]
fn children_inherit_the_rules_and_the_log() {
    let code = "import subprocess, sys
child = 'bytes(3_000_000)'
subprocess.run([sys.executable, '-c', child], stderr=subprocess.DEVNULL)
import os
if os.fork() == 0:
    try:
        bytes(4_000_000)
    except MemoryError:
        os._exit(5)
print(os.waitstatus_to_exitcode(os.wait()[1]))";
    let (run, log) = logged(&["obj=above=2M"]);
    let outcome = run.code(code).ok();
    assert_eq!(outcome.stdout, "5\n");
    let told = std::fs::read_to_string(&log).unwrap();
    let mut processes: Vec<&str> = told
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(processes.len(), 2, "{told}");
    processes.dedup();
    assert_eq!(processes.len(), 2, "{told}");
    let variable = Run::host()
        .env("PYHOST_FAIL", "obj=above=2M;mem=99999999")
        .code(
            "try: bytes(3_000_000)
except MemoryError: print('caught')",
        );
    assert_eq!(variable.ok().stdout, "caught\n");
}

#[test]
fn free_lists_are_empty_when_a_block_opens() {
    let code = "import gc, pyhost
kept = [(n,) for n in range(100)]
del kept
def block(makes):
    with pyhost.fail('obj=1000') as fault:
        if makes: one = (gc,)
    return fault.requests
assert block(True) == block(False) + 1
kept = [(n,) for n in range(100)]
del kept
gc.freeze()
with pyhost.fail('obj=1000'): pass
assert gc.get_freeze_count() > 0";
    Run::host().args(["--fail", "when=open"]).code(code).ok();
}
