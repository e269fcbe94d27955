//! `--lines`: what the threads of a library take is given to the line that waits for them.

use crate::free_threaded::is_free_threaded;
use crate::host::{Run, compile, folder, joined, script, version};
use crate::skipping::skipped;
use serde_json::Value;
use std::path::PathBuf;

const WHO_WAITS: &str = "without a GIL nothing says which thread waits for a library's";

fn library() -> PathBuf {
    compile("waited_for.c", "libwaited.so", &["-shared", "-fPIC"])
}

/// Bytes of a call of the library: blocks of 100 kB each.
const BYTES: i64 = 100 * 100_000;

/// The report of a script, in which the library is `lib`, loaded by a function of `ctypes`.
fn report(loaded_by: &str, hooks: &str, code: &str) -> Value {
    let path = folder("lines-waiting").join("report.json");
    let library = library();
    let declared = format!(
        "
import ctypes, threading, time
lib = ctypes.{loaded_by}({library:?})
for name in ['wait_for', 'compute_with', 'begin']:
    getattr(lib, name).argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
def waits_for_blocks(): lib.wait_for(100, 100_000, 0)
def waits_for_maps(): lib.wait_for(100, 100_000, 1)
{code}"
    );
    let run = Run::host().env("PYHOST_DEBUG_HOOKS", hooks);
    let run = run.args(["--lines=1", "--malloc", "count"]);
    run.arg(joined("--stats=file=", &path)).code(&declared).ok();
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

/// Live bytes of the library's threads below a function: with any mark, and with that of several candidates.
fn waited_for(report: &Value, account: &str, function: &str) -> (i64, i64) {
    let rows = report["lines"]["live"].as_array().unwrap().iter();
    let mut sums = (0, 0);
    for row in rows.filter(|row| row["account"] == account) {
        let calls = row["stack"].as_array().unwrap();
        let mark = calls
            .first()
            .map_or("", |call| call["function"].as_str().unwrap());
        let is_below = calls.iter().any(|call| call["function"] == function);
        if is_below && mark.starts_with("waiting") {
            assert_eq!(calls[0]["file"], "<pyhost>");
            let bytes = row["bytes"].as_i64().unwrap();
            sums.0 += bytes;
            sums.1 += if mark == "waiting: 2 candidates" {
                bytes
            } else {
                0
            };
        }
    }
    sums
}

/// Whether it is all that a call of the library has allocated, but for a few samples that met the GIL in use.
fn is_all(bytes: i64) -> bool {
    // Sizes are rounded up by an eighth at most, and a thread has some bytes of its own.
    (BYTES * 9 / 10..BYTES * 5 / 4).contains(&bytes)
}

#[test]
fn the_line_that_waits_has_what_the_thread_takes() {
    if is_free_threaded() {
        return skipped(WHO_WAITS);
    }
    let code = "
def computes(): lib.compute_with(100, 100_000, 0)
def sleeps():
    lib.begin(100, 100_000, 0)
    time.sleep(0.3)
def waits_for_a_lock():
    lib.begin(100, 100_000, 0)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=0.3)
def runs():
    lib.begin(100, 100_000, 0)
    end = time.monotonic() + 0.3
    while time.monotonic() < end: sum([1, 2])
waits_for_blocks()
waits_for_maps()
computes()
sleeps()
waits_for_a_lock()
runs()
time.sleep(0.1)";
    for (loaded_by, hooks) in [("CDLL", "0"), ("CDLL", "1"), ("PyDLL", "0"), ("PyDLL", "1")] {
        let report = report(loaded_by, hooks, code);
        let found = |account, function| waited_for(&report, account, function);
        let (blocks, marked) = found("native", "waits_for_blocks");
        assert!(
            is_all(blocks) && marked == 0,
            "{loaded_by} {hooks}: {blocks}"
        );
        let (maps, marked) = found("mapped", "waits_for_maps");
        assert!(is_all(maps) && marked == 0, "{loaded_by} {hooks}: {maps}");
        // With the GIL it may be running Python again at any moment.
        let (computed, _) = found("native", "computes");
        let expected = if loaded_by == "CDLL" {
            is_all(computed)
        } else {
            computed == 0
        };
        assert!(expected, "{loaded_by} {hooks}: {computed}");
        for function in ["sleeps", "waits_for_a_lock", "runs"] {
            // From 3.14 on such a lock waits on the thread's stack, as a library's may: docs/observe/lines.md.
            if function == "waits_for_a_lock" && version() >= (3, 14) {
                continue;
            }
            let (bytes, _) = found("native", function);
            assert!(
                bytes < BYTES / 20,
                "{loaded_by} {hooks} {function}: {bytes}"
            );
        }
    }
}

#[test]
fn of_two_that_wait_each_has_a_share_that_says_so() {
    if is_free_threaded() {
        return skipped(WHO_WAITS);
    }
    let code = "
threads = [threading.Thread(target=it) for it in (waits_for_blocks, waits_for_maps)]
for thread in threads: thread.start()
for thread in threads: thread.join()";
    let report = report("CDLL", "0", code);
    for account in ["native", "mapped"] {
        let (right, marked) = waited_for(&report, account, "waits_for_blocks");
        let (other, also) = waited_for(&report, account, "waits_for_maps");
        assert!(is_all(right + other), "{account}: {right} {other}");
        assert!(marked + also > BYTES / 2, "{account}: {marked} {also}");
        assert!(
            marked > BYTES / 8 && also > BYTES / 8,
            "{account}: {marked} {also}"
        );
    }
}

#[test]
fn threads_that_run_python_do_not_wait() {
    if is_free_threaded() {
        return skipped(WHO_WAITS);
    }
    let code = "
is_over = False
def runs():
    while not is_over: sum([1, 2, len(str(3))])
threads = [threading.Thread(target=runs) for _ in range(2)]
for thread in threads: thread.start()
waits_for_blocks()
is_over = True
for thread in threads: thread.join()";
    let report = report("CDLL", "0", code);
    let (waited, marked) = waited_for(&report, "native", "waits_for_blocks");
    assert!(waited > BYTES * 8 / 10 && marked == 0, "{waited} {marked}");
    let (run, _) = waited_for(&report, "native", "runs");
    assert_eq!(run, 0);
}

#[test]
fn in_a_storm_of_calls_each_stack_is_of_one_thread() {
    if is_free_threaded() {
        return skipped(WHO_WAITS);
    }
    let run = Run::host().args(["--lines=2K", "--malloc", "count", "--stats=off"]);
    let run = run.arg(script("waiting_storm.py")).arg(library()).arg("3");
    let outcome = run.ok();
    let mut numbers = outcome
        .stdout
        .split_whitespace()
        .map(|it| it.parse::<i64>().unwrap());
    let (stacks, bytes) = (numbers.next().unwrap(), numbers.next().unwrap());
    assert!(stacks >= 20 && bytes > 1_000_000, "{outcome:#?}");
}
