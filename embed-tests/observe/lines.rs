//! `--lines`: which lines of Python allocated, by samples.

use crate::environments::newest_numpy;
use crate::host::{PYHOST, PYHOSTCTL, Run, folder, joined, script, version};
use crate::skipping::skipped;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

/// The rows of a view.
fn rows<'a>(report: &'a Value, view: &str) -> &'a [Value] {
    report["lines"][view].as_array().expect("a view")
}

/// Whether a row's stack has a call of `function`.
fn has_call(row: &Value, function: &str) -> bool {
    let stack = row["stack"].as_array().unwrap();
    let named =
        |call: &Value| call["function"].as_str().unwrap().rsplit('.').next() == Some(function);
    stack.iter().any(named)
}

/// Bytes, and the largest error of a row, of an account below a function.
fn below(report: &Value, view: &str, account: &str, function: &str) -> (i64, i64) {
    let all = rows(report, view).iter();
    let found = all.filter(|row| row["account"] == account && has_call(row, function));
    found.fold((0, 0), |(bytes, error), row| {
        (bytes + int(&row["bytes"]), error + int(&row["error_bytes"]))
    })
}

fn known_sites() -> Run {
    let packages = newest_numpy().site_packages.clone();
    let script = script("known_sites.py");
    Run::host()
        .env("PYTHONPATH", packages)
        .args(["--lines=1", "--malloc", "count"])
        .args([script.to_str().unwrap(), "--numpy"])
}

/// The sites that the script printed: function, account, bytes.
fn printed(stdout: &str) -> HashMap<String, (String, i64)> {
    serde_json::from_str(stdout.trim()).unwrap()
}

#[test]
fn with_every_allocation_the_sums_are_the_ledgers_to_the_byte() {
    for hooks in ["0", "1"] {
        let (outcome, report) = known_sites().env("PYHOST_DEBUG_HOOKS", hooks).reported();
        let lines = &report["lines"];
        assert_eq!(int(&lines["dropped"]), 0, "{outcome:#?}");
        for account in ["raw", "mem", "obj", "numpy"] {
            let (sampled, booked) = (
                &lines["sums"]["live"][account],
                &report["accounts"][account],
            );
            assert_eq!(sampled["bytes"], booked["live_bytes"], "{account}");
            assert_eq!(sampled["blocks"], booked["live_blocks"], "{account}");
            assert_eq!(int(&sampled["error_bytes"]), 0);
        }
        // What malloc gave before the host's main is in no sample.
        let native = int(&report["accounts"]["native"]["live_bytes"]);
        let sampled = int(&lines["sums"]["live"]["native"]["bytes"]);
        assert!(
            (native - 60_000..=native).contains(&sampled),
            "{sampled} of {native}"
        );
    }
}

#[test]
fn each_site_has_its_bytes_in_every_kind_of_code() {
    let (outcome, report) = known_sites().reported();
    let sites = printed(&outcome.stdout);
    assert_eq!(sites.len(), 15);
    for (function, (account, bytes)) in sites {
        for view in ["at_peak", "live", "allocated"] {
            let (sampled, _) = below(&report, view, &account, &function);
            // Sizes are rounded up by an eighth at most, and lists grow by an eighth ahead.
            let most = match view {
                "allocated" => bytes * 3,
                _ => bytes * 5 / 4 + 100_000,
            };
            assert!(
                (bytes..most).contains(&sampled),
                "{view} {function}: {sampled} of {bytes}"
            );
        }
    }
    // What came and went is in the view of all alone.
    let gone = |view| {
        let all = rows(&report, view).iter();
        let at = all.filter(|row| row["stack"].as_array().unwrap().len() == 1);
        at.map(|row| int(&row["bytes"])).sum::<i64>()
    };
    assert!(gone("allocated") > 20_000_000 && gone("at_peak") < 5_000_000);
}

#[test]
fn a_stack_is_given_innermost_first_with_file_line_and_function() {
    let directory = folder("lines-stack");
    let script = directory.join("job.py");
    let code = "def inner():\n    return bytes(5_000_000)\ndef outer():\n    return [inner()]\nkept = outer()\n";
    std::fs::write(&script, code).unwrap();
    let (_, report) = Run::host().args(["--lines=1"]).arg(&script).reported();
    let file = script.to_str().unwrap();
    let expected = serde_json::json!([
        {"file": file, "line": 2, "function": "inner"},
        {"file": file, "line": 4, "function": "outer"},
        {"file": file, "line": 5, "function": "<module>"},
    ]);
    assert_eq!(rows(&report, "at_peak")[0]["stack"], expected);
    assert_eq!(rows(&report, "live")[0]["account"], "obj");
}

#[test]
fn functions_of_one_name_have_their_qualified_names() {
    if version() < (3, 11) {
        return skipped("before CPython 3.11 code objects have no qualified names");
    }
    let code = "class Made:\n    large = lambda: bytes(5_000_000)\ndef make():\n    return (lambda: bytes(4_000_000))()
kept = Made.large(), make()";
    let (_, report) = Run::host().args(["--lines=1", "-c", code]).reported();
    let mut rows: Vec<&Value> = rows(&report, "at_peak").iter().collect();
    rows.retain(|row| int(&row["bytes"]) > 3_900_000 && row["stack"] != serde_json::json!([]));
    let names = rows
        .iter()
        .map(|row| row["stack"][0]["function"].as_str().unwrap());
    assert_eq!(
        Vec::from_iter(names),
        ["Made.<lambda>", "make.<locals>.<lambda>"]
    );
}

#[test]
fn the_columns_of_the_table_do_not_shift_behind_several_accounts() {
    let code = "import array\nkept = [array.array('b', bytes(1 << 20)), {n: str(n) for n in range(20_000)}]\nmore = bytes(1 << 20)";
    let outcome = Run::host().args(["--lines=1", "-c", code]).ok();
    let rows = outcome
        .stderr
        .lines()
        .skip_while(|line| !line.starts_with("lines at the peak"));
    let rows = Vec::from_iter(
        rows.skip(1)
            .take_while(|line| line.contains("<string>:") || line.contains("outside")),
    );
    let columns = rows
        .iter()
        .map(|row| row.find("<string>:").or(row.find("outside of")));
    assert!(rows.iter().any(|row| row.contains("+")), "{outcome:#?}");
    let columns = std::collections::HashSet::<_>::from_iter(columns);
    assert_eq!(columns.len(), 1, "{outcome:#?}");
}

#[test]
fn the_table_has_the_lines_of_the_user_with_the_error_and_the_library() {
    let code = "import json\nkept = json.loads('[' + ','.join(map(str, range(300_000))) + ']')";
    let outcome = Run::host().args(["--lines=32K,seed=1", "-c", code]).ok();
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let title = lines
        .iter()
        .position(|line| line.starts_with("lines at the peak (one sample in 32.0 KiB, "));
    let first = lines[title.expect(&outcome.stderr) + 1];
    let is_right =
        first.contains(" MiB \u{b1} ") && first.ends_with(" obj+mem  <string>:2 in <module>");
    assert!(is_right, "{first}");
}

#[test]
fn the_script_can_ask_and_nothing_waits_for_itself() {
    let code = "import gc, pyhost, signal, threading, time
def make(): return [bytes(1000) for _ in range(3000)]
kept = make()
assert pyhost.memory_stats()['lines'] is None
made = [row for row in pyhost.lines()['live'] if any(call['function'] == 'make' for call in row['stack'])]
assert sum(row['bytes'] for row in made if row['account'] == 'obj') > 3_000_000, made
assert 'lines at the peak' in pyhost.memory_summary()
del kept
pyhost.reset_peak_memory_stats()
made = [row for row in pyhost.lines()['at_peak'] if any(call['function'] == 'make' for call in row['stack'])]
assert sum(row['bytes'] for row in made) < 1_000_000, made
# While it is asked, other threads and the collector allocate and free.
end = time.monotonic() + 2
def churn():
    while time.monotonic() < end: [bytes(500) for _ in range(1000)]
threads = [threading.Thread(target=churn) for _ in range(4)]
[thread.start() for thread in threads]
while time.monotonic() < end:
    pyhost.lines(); pyhost.memory_stats(); pyhost.memory_summary(); gc.collect()
[thread.join() for thread in threads]
print('asked')";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .timeout(60)
        .ok();
    assert_eq!(outcome.stdout.trim(), "asked");
    let code = "import pyhost; print(pyhost.lines())";
    assert_eq!(Run::host().args(["-c", code]).ok().stdout, "None\n");
}

#[test]
fn without_the_option_nothing_is_sampled() {
    for arguments in [&["--stats=json"][..], &["--lines=off", "--stats=json"]] {
        let outcome = Run::host().args(arguments).args(["-c", "pass"]).ok();
        let report: Value = serde_json::from_str(&outcome.stderr).unwrap();
        assert_eq!(report["lines"], Value::Null);
    }
    let outcome = Run::host().args(["--lines=off", "-c", "pass"]).ok();
    assert_eq!(outcome.stderr, "");
}

#[test]
fn a_seed_repeats_the_draws() {
    let sampled = |seed| {
        let code = "kept = [bytes(1000) for _ in range(20_000)]";
        let (_, report) = Run::host()
            .env("PYTHONHASHSEED", "0")
            .args([&format!("--lines=256K,seed={seed}"), "-S", "-c", code])
            .reported();
        below(&report, "at_peak", "obj", "<module>").0
    };
    let (first, again) = (sampled(5), sampled(5));
    // Other things than the draws may differ by a little from run to run.
    assert!((first - again).abs() < first / 50, "{first} {again}");
    assert!((6..10).any(|seed| (sampled(seed) - first).abs() > first / 50));
}

#[test]
fn forked_children_and_their_threads_are_sampled_on() {
    let directory = folder("lines-forks");
    let code = "import os, threading
kept = [bytes(1000) for _ in range(3000)]
def work(): more.extend(bytes(1000) for _ in range(4000))
for _ in range(3):
    if os.fork() == 0:
        more = []
        thread = threading.Thread(target=work); thread.start(); thread.join()
        raise SystemExit
while True:
    try: os.wait()
    except ChildProcessError: break";
    Run::host()
        .arg("--lines=1")
        .at("--stats=file=", directory.join("%p.json"))
        .args(["-c", code])
        .ok();
    let mut children = 0;
    for file in std::fs::read_dir(&directory).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        let live = &report["lines"]["sums"]["live"]["obj"];
        assert_eq!(
            live["bytes"], report["accounts"]["obj"]["live_bytes"],
            "{text}"
        );
        if report["process"]["forked"] == true {
            children += 1;
            let (bytes, _) = below(&report, "live", "obj", "work");
            assert!(bytes > 4_000_000, "{bytes}");
        }
    }
    assert_eq!(children, 3);
}

#[test]
fn caps_guards_faults_and_the_leak_check_go_with_it() {
    let code = "kept = []
try:
    while True: kept.append(bytes(10_000))
except MemoryError: del kept[:]
print('caught')";
    let outcome = Run::host()
        .args(["--lines=4K", "--stats=off", "--cap", "32M", "-c", code])
        .run();
    assert_eq!(
        (outcome.code(), outcome.stdout.trim()),
        (0, "caught"),
        "{outcome:#?}"
    );

    for guard in ["all", "every=3"] {
        let (_, report) = Run::host()
            .args(["--lines=1", "--guard", guard])
            .args([
                "-c",
                "kept = [bytes(5000) for _ in range(1000)]; del kept[::2]",
            ])
            .reported();
        let live = &report["lines"]["sums"]["live"]["obj"];
        assert_eq!(
            live["bytes"], report["accounts"]["obj"]["live_bytes"],
            "{guard}"
        );
    }

    let clean = "import json; kept = json.loads('[1, 2.5, [3]]' ); x = {}; x['self'] = x";
    for interval in ["1", "1K"] {
        let outcome = Run::host()
            .args([
                &format!("--lines={interval}"),
                "--stats=off",
                "--leak-check=native",
                "-c",
                clean,
            ])
            .run();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
    }
    let lost = "import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(object()))";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off", "--leak-check", "-c", lost])
        .run();
    assert_eq!(outcome.code(), 23, "{outcome:#?}");

    let failing = "import pyhost\nkept = []\nfor _ in range(3000):\n    try: kept.append(bytes(900))\n    except MemoryError: pass";
    let (_, report) = Run::host()
        .args(["--lines=1", "--fail", "obj=p=0.1,seed=1", "-c", failing])
        .reported();
    let live = &report["lines"]["sums"]["live"]["obj"];
    assert_eq!(live["bytes"], report["accounts"]["obj"]["live_bytes"]);
}

#[test]
fn every_allocator_is_sampled() {
    let packages = newest_numpy().site_packages.clone();
    let code = "import numpy
def make(): return [numpy.ones(100_000) for _ in range(10)], [bytes(390) for _ in range(5000)]
kept = make()
gone = make(); del gone";
    for arguments in [
        &["--allocator", "pymalloc"][..],
        &["--allocator", "system"],
        &["--numpy", "pool"],
        &["--numpy", "bfc"],
        &["--numpy", "system"],
    ] {
        let (outcome, report) = Run::host()
            .env("PYTHONPATH", &packages)
            .args(["--lines=1"])
            .args(arguments)
            .args(["-c", code])
            .reported();
        for (account, least) in [("numpy", 8_000_000), ("obj", 2_000_000)] {
            let (bytes, _) = below(&report, "live", account, "make");
            assert!(
                (least..least * 5 / 4).contains(&bytes),
                "{arguments:?} {account} {bytes} {outcome:#?}"
            );
        }
        let live = &report["lines"]["sums"]["live"]["numpy"];
        assert_eq!(
            live["bytes"], report["accounts"]["numpy"]["live_bytes"],
            "{arguments:?}"
        );
    }
}

#[test]
fn small_arrays_weigh_what_they_take() {
    let packages = newest_numpy().site_packages.clone();
    let code = "import numpy
def make(): return [numpy.zeros(1) for _ in range(300_000)]
kept = make()";
    let (_, report) = Run::host()
        .env("PYTHONPATH", &packages)
        .args(["--lines=64K,seed=3", "-c", code])
        .reported();
    let (sampled, error) = below(&report, "live", "numpy", "make");
    let booked = int(&report["accounts"]["numpy"]["live_bytes"]);
    // One run in 20 is beyond the error: of twenty seeds on 3.14 this one and another.
    assert!(
        (sampled - booked).abs() < 2 * error && 2 * error < booked,
        "{sampled} of {booked}"
    );
}

#[test]
fn what_is_imported_while_leaks_are_looked_for_is_sampled() {
    let code = "import asyncio, json, ctypes";
    let (_, report) = Run::host()
        .args(["--lines=1", "--leak-check=native", "-c", code])
        .reported();
    assert_eq!(int(&report["lines"]["dropped"]), 0);
    for account in ["raw", "mem", "obj"] {
        let sampled = &report["lines"]["sums"]["live"][account];
        assert_eq!(
            sampled["bytes"], report["accounts"][account]["live_bytes"],
            "{account}"
        );
    }
}

#[test]
fn maps_of_libraries_are_sampled() {
    let code = "import mmap
def make(): return mmap.mmap(-1, 6_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
kept = make()
make().close()";
    let (_, report) = Run::host().args(["--lines=1", "-c", code]).reported();
    let (live, _) = below(&report, "live", "mapped", "make");
    let (all, _) = below(&report, "allocated", "mapped", "make");
    assert!((6_000_000..6_100_000).contains(&live), "{live}");
    assert_eq!(all, 2 * live);
}

#[test]
fn an_estimate_lies_within_its_error_in_most_cases() {
    let script = script("known_sites.py");
    let (mut cases, mut within) = (0, 0);
    for seed in 1..=8 {
        let (outcome, report) = Run::host()
            .args([
                &format!("--lines=64K,seed={seed}"),
                script.to_str().unwrap(),
            ])
            .reported();
        for (function, (account, bytes)) in printed(&outcome.stdout) {
            let (sampled, error) = below(&report, "at_peak", &account, &function);
            cases += 1;
            // The allocator's own rounding is in the estimate, too.
            let is_within = sampled - error <= bytes * 9 / 8 && sampled + error >= bytes;
            within += i32::from(is_within || error == 0);
        }
    }
    assert!(within * 100 >= cases * 95, "{within} of {cases}");
}

#[test]
fn a_report_at_a_signal_has_its_lines() {
    let directory = folder("lines-signal");
    let code = "import threading
def work():
    kept = []
    while True:
        kept.append(bytes(3000))
        if len(kept) > 3000: del kept[::2]
for _ in range(4): threading.Thread(target=work, daemon=True).start()
print('here', flush=True)
work()";
    for number in 0..6 {
        let file = directory.join(format!("{number}.json"));
        let mut child = Command::new(PYHOST)
            .arg("--lines=1")
            .arg(joined("--stats=file=", &file))
            .args(["-c", code])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        std::thread::sleep(Duration::from_millis(60 + 20 * number));
        let pid = child.id().to_string();
        Command::new("kill").arg(pid).status().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(15));
        let report: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(report["lines_missing"], Value::Null);
        let (bytes, _) = below(&report, "live", "obj", "work");
        assert!(bytes > 0, "{number}");
    }
}

#[test]
fn a_request_that_no_machine_can_meet_fails_and_changes_no_draw() {
    let code = "import ctypes, pyhost
libc = ctypes.CDLL(None)
size = ctypes.c_size_t
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [size]
libc.calloc.restype, libc.calloc.argtypes = ctypes.c_void_p, [size, size]
libc.aligned_alloc.restype, libc.aligned_alloc.argtypes = ctypes.c_void_p, [size, size]
for size in ((1 << 62), (1 << 63) + 1, (1 << 64) - 1, (1 << 64) - 4097):
    assert not (libc.malloc(size) or libc.calloc(1, size) or libc.aligned_alloc(4096, size & ~4095))
def make(): return [bytes(5000) for _ in range(10_000)]
kept = make()";
    for interval in ["1", "64K"] {
        let (_, report) = Run::host()
            .args([&format!("--lines={interval}"), "-c", code])
            .reported();
        let (live, _) = below(&report, "live", "obj", "make");
        assert!((40_000_000..70_000_000).contains(&live), "{live}");
    }
}

#[test]
fn forked_children_draw_for_themselves_and_with_a_seed_as_before() {
    let code = "import os, pyhost, sys
def job(): return [bytes(100_000) for _ in range(400)]
for _ in range(6):
    end, into = os.pipe()
    if os.fork() == 0:
        kept = job()
        rows = [row for row in pyhost.lines()['live'] if any(call['function'] == 'job' for call in row['stack'])]
        os.write(into, str(sum(row['blocks'] for row in rows)).encode()); os._exit(0)
    os.wait(); print(os.read(end, 100).decode())";
    let estimates = |option| {
        let outcome = Run::host()
            .env("PYTHONHASHSEED", "0")
            .args([option, "--stats=off", "-S", "-c", code])
            .ok();
        outcome.stdout
    };
    for option in ["--lines=64K", "--lines=64K,seed=7"] {
        let printed = estimates(option);
        let first = printed.lines().next().unwrap();
        assert!(printed.lines().any(|line| line != first), "{printed}");
    }
    assert_eq!(
        estimates("--lines=64K,seed=7"),
        estimates("--lines=64K,seed=7")
    );
}

#[test]
fn the_sample_of_a_map_outlives_calls_that_fail_and_grows_with_it() {
    let code = "import ctypes, pyhost
libc = ctypes.CDLL(None, use_errno=True)
pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
libc.mmap.restype, libc.mmap.argtypes = pointer, [pointer, size, number, number, number, ctypes.c_long]
libc.munmap.argtypes = [pointer, size]
libc.mremap.restype, libc.mremap.argtypes = pointer, [pointer, size, size, number]
FAILED = (1 << 64) - 1
def figures(view):
    found = pyhost.lines()['sums'][view].get('mapped', {})
    return found.get('bytes', 0), found.get('blocks', 0)
def booked():
    account = pyhost.memory_stats()['accounts']['mapped']
    return account['live_bytes'], account['live_blocks']
page, megabyte = 4096, 1 << 20
start = libc.mmap(None, megabyte, 3, 0x22, -1, 0)
before = booked()
# libffi of Debian sid maps two pages, and takes the right to write from one.
taken = figures('allocated')[0] - before[0]
assert figures('live') == before, (figures('live'), before)
assert libc.munmap(start, 1 << 63) == -1
assert figures('live') == before, 'after a failed munmap'
assert libc.mremap(start, megabyte, 1 << 47, 1) == FAILED
assert figures('live') == before, 'after a failed mremap'
start = libc.mremap(start, megabyte, 2 * megabyte, 1)
assert figures('live') == booked() == (before[0] + megabyte, before[1]), figures('live')
assert figures('allocated') == (booked()[0] + taken, booked()[1]), figures('allocated')
start = libc.mremap(start, 2 * megabyte, megabyte // 2, 1)
assert figures('live') == booked(), (figures('live'), booked())
assert libc.munmap(start, megabyte // 2) == 0
assert figures('live') == booked(), (figures('live'), booked())
print('mapped')";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .run();
    assert_eq!(outcome.stdout, "mapped\n", "{outcome:#?}");
}

#[test]
fn the_samples_of_maps_have_the_bytes_of_the_account_whatever_becomes_of_a_part_of_a_map() {
    let code = "import ctypes, os, pyhost
libc = ctypes.CDLL(None, use_errno=True)
pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
libc.mmap.restype, libc.mmap.argtypes = pointer, [pointer, size, number, number, number, ctypes.c_long]
libc.munmap.argtypes, libc.mprotect.argtypes = [pointer, size], [pointer, size, number]
libc.mremap.restype, libc.mremap.argtypes = pointer, [pointer, size, size, number, pointer]
file, page, pages = os.open('/proc/self/exe', os.O_RDONLY), 4096, 64
state = 5
def below(limit):
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
    return (state >> 33) % limit
# Reserved, and not counted: every call below stays within, and what is unmapped is reserved again before another map is there.
def fill(place, length): return libc.mmap(place, length, 0, 0x32, -1, 0) == place
room = libc.mmap(None, 3 * pages * page, 0, 0x22, -1, 0)
for step in range(240):
    start, count = below(2 * pages), 1 + below(pages - 1)
    place, length = room + start * page, count * page
    call = below(6)
    if call < 2: done = libc.mmap(place, length, 3, 0x32, -1, 0) == place
    elif call == 2: done = libc.mmap(place, length, 1, 0x12, file, 0) == place
    elif call == 3: done = libc.munmap(place, length) == 0 and fill(place, length)
    elif call == 4: done = libc.mprotect(place, length, (0, 1, 3)[below(3)]) == 0
    else:
        target = room + (start + count if start < pages else 0) * page
        done = libc.mremap(place, length, (1 + below(count)) * page, 3, target) == target and fill(place, length)
    if step % 20: continue
    sampled = pyhost.lines()['sums']['live'].get('mapped', {}).get('bytes', 0)
    booked = pyhost.memory_stats()['accounts']['mapped']['live_bytes']
    assert sampled == booked, (step, call, done, sampled, booked)
    made = max(booked, 0)
print('mapped', made > 0)";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off", "-I", "-S", "-c", code])
        .run();
    assert_eq!(outcome.stdout, "mapped True\n", "{outcome:#?}");
}

#[test]
fn code_in_the_place_of_other_code_has_its_own_lines() {
    // A collection empties CPython's free lists: a tuple of arguments that goes there is a block of the line, too.
    let code = "import collections, gc, pyhost
gc.disable()
kept = []
def source(blank):
    lines = ['def made():', ' a = 1'] + [''] * blank + [' kept.append(bytes(4001))'] + [''] * (20 - blank) + [' b = 2']
    return '\\n'.join(lines)
expected = collections.Counter()
for number in range(3000):
    blank = number * 7 % 20
    names = {'kept': kept}
    exec(compile(source(blank), '<made>', 'exec'), names)
    names['made']()
    expected[3 + blank] += 1
    del names
found = collections.Counter()
for row in pyhost.lines()['live']:
    if row['account'] == 'obj' and row['stack'] and row['stack'][0]['function'] == 'made' and row['bytes'] >= 4000 * row['blocks']:
        found[row['stack'][0]['line']] += row['blocks']
assert found == expected, (found, expected)
print('equal')";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .run();
    assert_eq!(outcome.stdout, "equal\n", "{outcome:#?}");
}

#[test]
fn a_report_is_one_that_pyhostctl_reads_however_long_the_names_are() {
    let directory = folder("lines-names");
    let file = directory.join("report.json");
    let code = "kept = []
for number in range(300):
    name = 'x' * 70_000 + str(number)
    names = {'kept': kept}
    exec(compile(f'def {name}(depth):\\n if depth: {name}(depth - 1)\\n else: kept.append(bytes(5000))\\n', '\\n' * 600 + name, 'exec'), names)
    names[name](60)";
    Run::host()
        .arg("--lines=1")
        .at("--stats=file=", &file)
        .args(["-c", code])
        .ok();
    let bytes = std::fs::metadata(&file).unwrap().len();
    assert!((1 << 20..16 << 20).contains(&bytes), "{bytes}");
    let shown = Run::program(PYHOSTCTL).arg("lines").arg(&file).ok();
    assert!(shown.stdout.contains("xxxx"), "{shown:#?}");
}

/// The bytes and the error of the line of a function in a table of lines: number and unit of each.
fn figures_of_line(table: &str, function: &str) -> [(f64, String); 2] {
    let line = table
        .lines()
        .find(|line| line.ends_with(&format!(" in {function}")));
    let words = line.unwrap_or_else(|| panic!("{table}")).split_whitespace();
    let words: Vec<&str> = words.filter(|word| *word != "\u{b1}").collect();
    [0, 2].map(|place| (words[place].parse().unwrap(), words[place + 1].to_owned()))
}

#[test]
fn a_line_has_all_its_bytes_and_their_error_however_many_stacks_lead_to_it() {
    let file = folder("lines-many-stacks").join("report.json");
    // Without collections, as above.
    let code = "import gc, pyhost
gc.disable()
kept = []
def many():
    kept.append(bytes(3000))
def large():
    kept.append(bytes(40_000))
names = {'many': many, 'large': large}
with pyhost.track() as tracked:
    for n in range(2500):
        exec(f'def f{n}():\\n many()\\n if {n} < 20: large()\\nf{n}()', names)
for lines in (tracked.lines['grown'], pyhost.lines()['live']):
    print(sum(row['blocks'] for row in lines if row['account'] == 'obj' and any(call['function'] == 'many' for call in row['stack'])))";
    let outcome = Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .ok();
    assert_eq!(outcome.stdout, "2500\n2500\n", "{outcome:#?}");
    let outcome = Run::host()
        .arg("--lines=8K,seed=3")
        .at("--stats=file=", &file)
        .args(["-c", code]);
    outcome.ok();
    let text = Run::host()
        .args(["--lines=8K,seed=3", "--stats=text", "-c", code])
        .ok();
    let shown = Run::program(PYHOSTCTL).arg("lines").arg(&file).ok();
    for function in ["many", "large"] {
        let shown_figures = figures_of_line(&shown.stdout, function);
        let figures = figures_of_line(&text.stderr, function);
        for ((shown_number, shown_unit), (number, unit)) in shown_figures.iter().zip(&figures) {
            // Each row of the report rounds its error to a byte.
            assert!(
                (shown_number - number).abs() < 0.11 && shown_unit == unit,
                "{shown:#?} {text:#?}"
            );
        }
    }
}
