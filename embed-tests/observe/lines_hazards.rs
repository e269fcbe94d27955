//! `--lines` where other samplers of Python's memory crashed, hung or lost count: see each test for the case. Every
//! allocation is a sample, so that the sums must be the ledger's to the byte at the end.

use crate::environments::{named, pinned};
use crate::host::{Outcome, PYHOST, PYHOSTCTL, Run, folder, script, too_small_for_5_gib, version};
use crate::skipping::skipped;
use serde_json::Value;
use std::io::Read;
use std::process::{Command, Stdio};

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

fn rows<'a>(report: &'a Value, view: &str) -> &'a [Value] {
    report["lines"][view].as_array().expect("a view")
}

/// Bytes of a view in calls of a function.
fn bytes_in(report: &Value, view: &str, function: &str) -> i64 {
    let has_call = |row: &&Value| {
        let stack = row["stack"].as_array().unwrap();
        stack.iter().any(|call| call["function"] == function)
    };
    let found = rows(report, view).iter().filter(has_call);
    found.map(|row| int(&row["bytes"])).sum()
}

/// Fails unless the samples of Python's accounts are the ledger's.
fn assert_exact(report: &Value, case: &str) {
    assert_eq!(int(&report["lines"]["dropped"]), 0, "{case}");
    for account in ["raw", "mem", "obj"] {
        let sampled = &report["lines"]["sums"]["live"][account];
        let booked = &report["accounts"][account];
        for (of_samples, of_ledger) in [("bytes", "live_bytes"), ("blocks", "live_blocks")] {
            assert_eq!(
                sampled[of_samples], booked[of_ledger],
                "{case}: {account}, {of_samples}"
            );
        }
    }
}

fn sampled(code: &str) -> (Outcome, Value) {
    Run::host()
        .args(["--lines=1", "-c", code])
        .timeout(120)
        .reported()
}

/// The code, and a wait for its threads to be gone: each frees its own state after it was joined.
fn until_alone(code: &str) -> String {
    format!("{code}\nimport os\nwhile len(os.listdir('/proc/self/task')) > 1: pass")
}

/// Runs the code in each of the ways in which allocators lie above each other, and compares the sums.
fn exact_in_all_ways(code: &str) -> Value {
    let mut last = Value::Null;
    for options in [
        &[][..],
        &["--allocator", "pymalloc"],
        &["--debug-hooks"],
        &["--cap", "1G", "-X", "tracemalloc=3"],
    ] {
        let (_, report) = Run::host()
            .arg("--lines=1")
            .args(options)
            .args(["-c", code])
            .timeout(120)
            .reported();
        assert_exact(&report, &format!("{options:?}"));
        last = report;
    }
    last
}

#[test]
fn threads_that_end_leave_their_blocks_to_others() {
    let report = exact_in_all_ways(&until_alone(
        "import threading
kept = []
def work(): kept.append([bytes(500) for _ in range(200)])
for _ in range(60):
    thread = threading.Thread(target=work); thread.start(); thread.join()
# The threads are gone: others free, resize and read their blocks.
for one in kept[::2]: one.clear()
def grow():
    for one in kept: one.extend(bytes(300) for _ in range(20))
threads = [threading.Thread(target=grow) for _ in range(3)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]",
    ));
    let live = bytes_in(&report, "live", "work");
    assert!((30 * 200 * 533..60 * 200 * 533).contains(&live), "{live}");
}

#[test]
fn forks_beside_busy_threads_keep_the_sums() {
    let directory = folder("hazards-forks");
    let code = until_alone(
        "import os, threading
going = True
def churn():
    while going: [bytes(700) for _ in range(100)]
threads = [threading.Thread(target=churn) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(12):
    if (child := os.fork()) == 0:
        kept = [bytes(900) for _ in range(500)]
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
going = False
[thread.join() for thread in threads]",
    );
    Run::host()
        .arg("--lines=1")
        .at("--stats=file=", directory.join("%p.json"))
        .args(["-W", "ignore", "-c", &code])
        .timeout(180)
        .ok();
    let mut reports = 0;
    for file in std::fs::read_dir(&directory).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        if report["process"]["forked"] == true {
            assert!(bytes_in(&report, "live", "<module>") > 500 * 900);
        } else {
            assert_exact(&report, "the parent");
        }
        reports += 1;
    }
    assert_eq!(reports, 13);
}

#[test]
fn interpreters_beside_the_main_one_come_and_go() {
    let code = "
try: import _interpreters as interpreters
except ImportError: import _xxsubinterpreters as interpreters
work = '''
import json
def inside(): return [bytes(2_000) for _ in range(300)]
kept = inside(); texts = json.loads('[1, 2.5, \"three\"]')
'''
for _ in range(5):
    one = interpreters.create(); interpreters.run_string(one, work); interpreters.destroy(one)
last = interpreters.create()
interpreters.run_string(last, work)
print(len(interpreters.list_all()))";
    let (outcome, report) = sampled(code);
    assert_eq!(outcome.stdout.trim(), "2");
    assert_exact(&report, "interpreters");
    // Up to 3.11 a thread's calls are known in the interpreter that it began in alone.
    let function = match version() >= (3, 12) {
        true => "inside",
        false => "<module>",
    };
    assert!(bytes_in(&report, "allocated", function) > 6 * 600_000);
    let live = bytes_in(&report, "live", function);
    assert!(live > 600_000, "{live}");
}

#[test]
fn code_that_has_died_keeps_its_name_and_line() {
    // New code takes the addresses of the old: by address their names would be mixed up.
    let code = "import gc
kept = []
for number in range(300):
    names = {}
    text = '\\n' * number + f'def made_{number}():\\n    return bytes({10_000 + number})'
    exec(compile(text, f'<made {number}>', 'exec'), names)
    kept.append(names[f'made_{number}']())
    del names, text; gc.collect() if number % 20 == 0 else None";
    let (_, report) = sampled(code);
    assert_exact(&report, "dead code");
    let mut found = 0;
    for row in rows(&report, "live") {
        let call = &row["stack"][0];
        let Some(number) = call["function"]
            .as_str()
            .unwrap_or("")
            .strip_prefix("made_")
        else {
            continue;
        };
        if row["account"] == "obj" && int(&row["bytes"]) >= 10_000 {
            let line: i64 = number.parse().unwrap();
            assert_eq!(call["file"], format!("<made {number}>"));
            assert_eq!(int(&call["line"]), line + 2);
            found += 1;
        }
    }
    assert_eq!(found, 300);
}

#[test]
fn a_stack_of_a_thousand_calls_is_whole_and_a_deeper_one_has_the_innermost() {
    let code = "import sys
sys.setrecursionlimit(6000)
def deep(level): return bytes(3_000_000) if level == 0 else deep(level - 1)
kept = [deep(989), deep(4000)]";
    let (_, report) = sampled(code);
    assert_exact(&report, "deep stacks");
    let large =
        |row: &&Value| int(&row["bytes"]) >= 3_000_000 && row["stack"][0]["function"] == "deep";
    let mut depths: Vec<usize> = rows(&report, "live")
        .iter()
        .filter(large)
        .map(|row| row["stack"].as_array().unwrap().len())
        .collect();
    depths.sort_unstable();
    assert_eq!(depths, [991, 1000]);
}

#[test]
fn collections_and_destructors_that_allocate_may_run_at_any_allocation() {
    exact_in_all_ways(&until_alone(
        "import gc, threading, _thread, time
class Node:
    def __init__(self): self.self = self
    def __del__(self):
        # In a thread that threading did not start this makes an object, under a lock.
        self.name = threading.current_thread().name
        self.kept = [bytes(300) for _ in range(20)]; self.kept.extend(range(50))
gc.set_threshold(1)
done = []
def work():
    grown, text = [], bytearray()
    for number in range(1500):
        Node(); grown.append([number]); text += b'0123456789' * 5; grown[number // 2].append(number)
    done.append(True)
for _ in range(3): _thread.start_new_thread(work, ())
work()
while len(done) < 4: time.sleep(0.01)
gc.set_threshold(700)",
    ));
}

#[test]
fn samples_begin_and_end_under_load() {
    let directory = folder("hazards-toggled");
    let code = "import os, sys, threading
going = True
def churn():
    kept = []
    while going:
        kept.append([bytes(n) for n in range(0, 2000, 37)])
        if len(kept) > 50: del kept[::2]
        big = bytearray(100_000); big += bytes(200_000); del big
threads = [threading.Thread(target=churn) for _ in range(4)]
[thread.start() for thread in threads]
print('here', flush=True)
sys.stdin.read()
going = False
[thread.join() for thread in threads]
print('ended')";
    let mut child = Command::new(PYHOST)
        .arg(format!("--live={}", directory.display()))
        .args(["-c", code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut said = [0; 5];
    output.read_exact(&mut said).unwrap();
    let pid = child.id().to_string();
    for number in 0..8 {
        let start = ["--start=1", "--start=4K", "--start"][number % 3];
        for word in [start, "--stop"] {
            let asked = Run::program(PYHOSTCTL)
                .arg("--dir")
                .arg(&directory)
                .args(["lines", word, &pid])
                .run();
            assert_eq!(asked.code(), 0, "{asked:#?}");
        }
    }
    drop(child.stdin.take());
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(rest, "ended\n");
}

#[test]
fn a_block_that_is_resized_to_nothing_leaves_no_entry() {
    let code = "import ctypes
python, c = ctypes.pythonapi, ctypes.CDLL(None)
size, pointer = ctypes.c_size_t, ctypes.c_void_p
families = [('PyMem_RawMalloc', 'PyMem_RawRealloc', 'PyMem_RawFree'), ('PyMem_Malloc', 'PyMem_Realloc', 'PyMem_Free'),
            ('PyObject_Malloc', 'PyObject_Realloc', 'PyObject_Free'), ('malloc', 'realloc', 'free')]
def shrink():
    for names in families:
        library = c if names[0] == 'malloc' else python
        malloc, realloc, free = (getattr(library, name) for name in names)
        malloc.restype = realloc.restype = pointer; free.restype = None
        malloc.argtypes, realloc.argtypes, free.argtypes = [size], [pointer, size], [pointer]
        for _ in range(200):
            block = realloc(malloc(50_000), 0)
            if block: free(block)
shrink()";
    let (_, report) = sampled(code);
    assert_exact(&report, "resized to nothing");
    assert!(bytes_in(&report, "allocated", "shrink") > 4 * 200 * 50_000);
    let left = bytes_in(&report, "live", "shrink");
    assert!(left < 50_000, "{left}");
}

#[test]
fn a_huge_block_weighs_what_it_has_and_one_that_fails_nothing() {
    if let Some(reason) = too_small_for_5_gib() {
        return skipped(reason);
    }
    let code = "import ctypes
malloc = ctypes.CDLL(None).malloc; malloc.restype = ctypes.c_void_p; malloc.argtypes = [ctypes.c_size_t]
def huge(): return malloc(5 << 30)
def fails():
    for size in (1 << 62, (1 << 63) - 100, 1 << 46):
        try: bytearray(size)
        except (MemoryError, OverflowError): pass
        assert not malloc(size)
kept = huge(); fails()
print(bool(kept))";
    for interval in ["1", "64K", "1T"] {
        let (outcome, report) = Run::host()
            .args([&format!("--lines={interval},seed=1"), "-c", code])
            .reported();
        assert_eq!(outcome.stdout.trim(), "True");
        let (huge, true_bytes) = (bytes_in(&report, "live", "huge"), 5 << 30);
        match interval {
            "1T" => assert!(huge == 0 || huge > true_bytes, "{huge}"),
            _ => assert!(
                (true_bytes..true_bytes + (64 << 20)).contains(&huge),
                "{huge}"
            ),
        }
        // A program that is refused its blocks may note the error, not the blocks.
        assert!(bytes_in(&report, "allocated", "fails") < 1 << 20);
    }
}

#[test]
fn many_processes_may_start_at_once() {
    let directory = folder("hazards-start");
    let mut children = Vec::new();
    for number in 0..24 {
        let file = directory.join(format!("{number}.json"));
        let child = Command::new(PYHOST)
            .args([
                ["--lines=1", "--lines=4K", "--lines"][number % 3],
                "--stats=json",
            ])
            .arg(format!("--stats=file={}", file.display()))
            .args([
                "-c",
                "import json, threading; kept = [bytes(100) for _ in range(1000)]",
            ])
            .spawn()
            .unwrap();
        children.push((number, file, child));
    }
    for (number, file, mut child) in children {
        assert!(child.wait().unwrap().success());
        let report: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        match number % 3 {
            0 => assert_exact(&report, "one of many"),
            _ => assert!(int(&report["lines"]["samples"]) > 0),
        }
    }
}

#[test]
fn refusals_and_injected_failures_leave_the_sums_exact() {
    let refused = "kept = []
try:
    while True: kept.append(bytearray(10_000) + bytes(30_000))
except MemoryError: del kept[::2]
more = [bytes(400) for _ in range(3000)]";
    let failing = "kept = []
for number in range(4000):
    try: kept.append([bytes(number), {number: number}]); kept[number // 3 % len(kept)].append(bytearray(number))
    except MemoryError: pass";
    for (options, code) in [
        (&["--cap", "48M"][..], refused),
        (
            &["--cap", "obj=16M", "--cap", "mem=16M", "--debug-hooks"],
            refused,
        ),
        (&["--fail", "obj=p=0.05,seed=3"], failing),
        (&["--fail", "mem=p=0.05,seed=4", "--debug-hooks"], failing),
    ] {
        let (_, report) = Run::host()
            .arg("--lines=1")
            .args(options)
            .args(["-c", code])
            .reported();
        assert_exact(&report, &format!("{options:?}"));
    }
}

#[test]
fn beneath_memray_the_lines_are_left_to_it() {
    if pinned("tools", "memray").is_none() {
        return skipped("memray is not pinned for this Python");
    }
    let tools = named("tools");
    let record = folder("hazards-memray").join("record");
    let outcome = tools
        .host()
        .args([
            "--lines=1",
            "--stats=off",
            "-m",
            "memray",
            "run",
            "-q",
            "-o",
        ])
        .arg(&record)
        .arg(script("known_sites.py"))
        .run();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("pyhost: memray is loaded"),
        "{outcome:#?}"
    );
    assert!(record.exists());
}
