//! Three facts of the rows of `--lines`: the thread that allocated, the age of what is live, and the types of the objects.

use crate::free_threaded::{NO_TYPES, is_free_threaded};
use crate::host::{PYHOSTCTL, Run, folder, joined};
use crate::skipping::skipped;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

/// The path of a script.
fn written(name: &str, code: &str) -> PathBuf {
    let path = folder(name).join("job.py");
    fs::write(&path, code).unwrap();
    path
}

/// The rows of the view `live`, as a script left them.
fn live(report: &Value) -> &[Value] {
    report["lines"]["live"].as_array().expect("a view")
}

/// Bytes of large blocks by thread: those that other lines than the script's make do not count.
fn by_thread(report: &Value, least: i64) -> HashMap<&str, i64> {
    let mut found = HashMap::new();
    for row in live(report)
        .iter()
        .filter(|row| int(&row["bytes"]) >= least)
    {
        *found.entry(row["thread"].as_str().unwrap()).or_default() += int(&row["bytes"]);
    }
    found
}

const THREADS: &str = "
import ctypes, threading
from concurrent.futures import ThreadPoolExecutor
kept = []
set_name = ctypes.CDLL(None).prctl
def work(number):
    kept.append(bytes(1_000_000))
def single():
    kept.append(bytes(3_000_000))
def named(number):
    set_name(15, b'job %d' % number)
    kept.append(bytes(200_000))
with ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(20)))
for number in range(300):
    thread = threading.Thread(target=named, args=(number,))
    thread.start()
    thread.join()
for number in range(2):
    thread = threading.Thread(target=single)
    thread.start()
    thread.join()
kept.append(bytes(5_000_000))
";

#[test]
fn a_row_has_a_thread_by_name_or_role_and_the_names_are_bounded() {
    let script = written("lines-threads", THREADS);
    let path = folder("lines-threads").join("report.json");
    let file = joined("--stats=file=", &path);
    let run = Run::host().arg("--lines=1").arg(file);
    run.arg(&script).ok();
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let mut threads = by_thread(&report, 150_000);
    let main = threads.remove("main").unwrap();
    assert!((5_000_000..15_000_000).contains(&main), "{main}");
    let role = |function: &str| format!("thread of {function} ({})", script.display());
    let single = threads.remove(role("single").as_str()).unwrap();
    assert!((6_000_000..6_300_000).contains(&single), "{threads:?}");
    // From 3.14 on the pool's threads have a name of their own.
    let pool = threads.remove(role("work").as_str());
    let pool = pool.or_else(|| threads.remove("ThreadPoolExecu")).unwrap();
    assert!((20_000_000..21_000_000).contains(&pool), "{threads:?}");
    // A free-threaded Python's blocks have 262,144.
    let above = if is_free_threaded() { 265_000 } else { 240_000 };
    // Threads whose names came too late are one.
    let others = threads.remove("other threads").unwrap();
    assert!((50 * 200_000..60 * above).contains(&others), "{threads:?}");
    assert!((240..=250).contains(&threads.len()), "{threads:?}");
    for (name, bytes) in threads {
        assert!(
            name.starts_with("job ") && (200_000..above).contains(&bytes),
            "{name}"
        );
    }
    // pyhostctl sums them.
    let table = Run::program(PYHOSTCTL).arg("lines").arg(&path);
    let table = table
        .args(["--by", "thread", "--view", "live", "--json"])
        .ok();
    let table: Value = serde_json::from_str(&table.stdout).unwrap();
    let largest = &table["rows"][0];
    assert!(int(&largest["bytes"]) >= pool, "{largest}");
    assert!(
        table["rows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["name"] == "other threads")
    );
    // Formats without threads have each stack once.
    let collapsed = Run::program(PYHOSTCTL).arg("convert").arg(&path);
    let collapsed = collapsed.args(["--to", "collapsed", "--view", "live"]).ok();
    let stacks: Vec<&str> = collapsed
        .stdout
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(stack, _)| stack)
        .collect();
    let distinct: HashSet<&&str> = stacks.iter().collect();
    assert_eq!(distinct.len(), stacks.len());
}

#[test]
fn in_a_forked_child_the_thread_that_lives_on_is_the_first() {
    let code = "
import os, pyhost, threading
def rows(function):
    return {row['thread']: row['bytes'] for row in pyhost.lines()['live']
            if row['bytes'] > 500_000 and any(call['function'] == function for call in row['stack'])}
def inside():
    return bytes(1_000_000)
def forks():
    global kept, status
    kept = [inside()]
    child = os.fork()
    if child == 0:
        kept.append(inside())
        found = rows('inside')
        # What the parent's thread allocated keeps its name.
        ok = len(found) == 2 and found['main'] < 1_200_000
        os._exit(0 if ok else 1)
    status = os.waitpid(child, 0)[1]
    assert 'main' not in rows('inside'), rows('inside')
thread = threading.Thread(target=forks)
thread.start()
thread.join()
assert status == 0, status
";
    Run::host()
        .args(["--lines=1", "--stats=off", "-c", code])
        .ok();
}

#[test]
fn the_age_of_a_row_is_the_mean_of_its_blocks() {
    // The bounds are the clock's around each step, so that no wait of the machine's matters.
    let code = "
import pyhost, time
def early(): return bytes(3_000_000)
def mixed(size): return bytes(size)
def gone(): return bytes(9_000_000)
def timed(work):
    before = time.monotonic()
    kept = work()
    return kept, before, time.monotonic()
a = timed(early)
made = []
for size in (3_000_000, 1_000_000):
    made.append(timed(lambda: mixed(size)))
    time.sleep(0.6)
b, c = made
for _ in range(3): gone()
lines, before, after = timed(pyhost.lines)
def age(function, view):
    rows = [row for row in lines[view] if row['stack'] and row['stack'][0]['function'] == function and row['bytes'] > 500_000]
    assert all(('age_seconds' in row) == (view == 'live') for row in rows), rows
    return rows[0].get('age_seconds') if rows else None
def check(found, *blocks):
    # A tick of the samples, and one of the coarse clock of a slow kernel.
    slack = 0.03
    weights = sum(weight for weight, _ in blocks)
    least = sum(weight * (before - block[2]) for weight, block in blocks) / weights - slack
    most = sum(weight * (after - block[1]) for weight, block in blocks) / weights + slack
    assert least <= found <= most, (least, found, most)
check(age('early', 'live'), (1, a))
check(age('mixed', 'live'), (3, b), (1, c))
assert age('gone', 'live') is None and age('early', 'at_peak') is None
assert age('mixed', 'live') > 0.5
";
    for lines in ["--lines=1", "--lines=4K"] {
        Run::host().args([lines, "--stats=off", "-c", code]).ok();
    }
}

const TYPES: &str = "
import json, pyhost, sys
class Slotted:
    __slots__ = ('a', 'b')
class Plain:
    def __init__(self): self.x = None
class Große(dict): pass
class Listed(list):
    __slots__ = ('__weakref__',)
def generator(): yield 1
def dicts(): return [{} for _ in range(2000)]
def filled(): return [{number: None, 'b': 3} for number in range(2000)]
def strs(): return [str(number) * 20 for number in range(2000)]
def lists(): return [[number] for number in range(2000)]
def slotted(): return [Slotted() for _ in range(2000)]
def plain(): return [Plain() for _ in range(2000)]
def named(): return [Große() for _ in range(2000)]
def listed(): return [Listed() for _ in range(2000)]
def sets(): return [set() for _ in range(2000)]
def generators(): return [generator() for _ in range(2000)]
def classes(): return [type('Made', (), {}) for _ in range(200)]
def blobs(): return [bytes(2000) for _ in range(2000)]
kept = [make() for make in (
    dicts, filled, strs, lists, slotted, plain, named, listed, sets, generators, classes, blobs)]
if len(sys.argv) > 1:
    print(json.dumps({'lines': pyhost.lines()}))
";

/// The objects of a type in calls of a function.
fn objects(report: &Value, function: &str, name: &str) -> i64 {
    let has_call = |row: &&Value| {
        let stack = row["stack"].as_array().unwrap();
        stack.iter().any(|call| call["function"] == function)
    };
    let types = live(report)
        .iter()
        .filter(has_call)
        .flat_map(|row| row["types"].as_array().unwrap());
    let found = types.filter(|found| found["type"] == name);
    found.map(|found| int(&found["blocks"])).sum()
}

#[test]
fn the_live_objects_of_a_row_have_their_types() {
    if is_free_threaded() {
        return skipped(NO_TYPES);
    }
    let script = written("lines-types", TYPES);
    for hooks in ["0", "1"] {
        let run = || {
            Run::host()
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .arg("--lines=1")
        };
        let (_, at_end) = run().arg(&script).reported();
        let asked = run().arg("--stats=off").arg(&script).arg("ask").ok();
        let asked: Value = serde_json::from_str(&asked.stdout).unwrap();
        for report in [&at_end, &asked] {
            for (function, name, count) in [
                ("dicts", "dict", 2000),
                ("filled", "dict", 2000),
                ("strs", "str", 2000),
                ("lists", "list", 2000),
                ("slotted", "Slotted", 2000),
                ("plain", "Plain", 2000),
                ("named", "Große", 2000),
                ("listed", "Listed", 2000),
                ("sets", "set", 2000),
                ("generators", "generator", 2000),
                ("classes", "type", 200),
                ("blobs", "bytes", 2000),
            ] {
                // Objects that lie in blocks of CPython's free lists belong to the line that made these first, and the list
                // that holds them is one more.
                let found = objects(report, function, name);
                assert!(
                    (count - 90..=count + 2).contains(&found),
                    "{hooks} {function}: {found} {name}"
                );
            }
            // No object was found where there is none: nothing but these has types.
            let rows = live(report).iter().filter(|row| row["account"] != "obj");
            assert!(
                rows.map(|row| row["types"].as_array().unwrap())
                    .all(Vec::is_empty)
            );
        }
    }
}

#[test]
fn a_line_of_the_script_that_has_not_grown_since_the_mark_is_not_named() {
    let code = "import pyhost
def fill(size): return bytearray(size)
def one(): return fill(5_000_000)
def two(): return fill(5_000_000)
def gone(): return bytearray(3_000_000)
def more(): return bytearray(1_000_000)
kept = [one(), gone()]
pyhost.mark('here')
kept.clear()
kept += [two(), more()]
lines = pyhost.lines()
# By stack one has shrunk as much as two has grown; by line they are one.
grown = {row['stack'][1]['function']: row['bytes'] for row in lines['grown'] if abs(row['bytes']) > 5_000_000}
assert grown['one'] == -grown['two'] < 0, grown
top = lines.top(view='grown')
assert top[0]['function'] == 'more' and all(row['bytes'] > 0 for row in top), top
assert not {'fill', 'gone'} & {row['function'] for row in top}, top";
    let run = Run::host().args(["--lines=1", "--stats=off", "-c", code]);
    run.ok();
}

#[test]
fn types_are_a_table_of_pyhostctl_and_of_the_view_live_alone() {
    if is_free_threaded() {
        return skipped(NO_TYPES);
    }
    let script = written("lines-types-table", TYPES);
    let path = folder("lines-types-table").join("report.json");
    let file = joined("--stats=file=", &path);
    Run::host()
        .arg("--lines=4K,seed=1")
        .arg(file)
        .arg(&script)
        .ok();
    let lines = |arguments: &[&str]| {
        Run::program(PYHOSTCTL)
            .arg("lines")
            .arg(&path)
            .args(arguments)
    };
    let table = lines(&["--by", "type", "--json"]).ok();
    let table: Value = serde_json::from_str(&table.stdout).unwrap();
    assert_eq!(table["view"], "live");
    let rows = table["rows"].as_array().unwrap();
    let blobs = rows.iter().find(|row| row["name"] == "bytes").unwrap();
    let (bytes, error) = (int(&blobs["bytes"]), int(&blobs["error_bytes"]));
    assert!(
        (bytes - 2000 * 2048).abs() <= 3 * error,
        "{bytes} ± {error}"
    );
    let refused = lines(&["--by", "type", "--view", "at_peak"]).run();
    assert_eq!(refused.code(), 1);
    assert!(
        refused.stderr.contains("expected --view live"),
        "{}",
        refused.stderr
    );
}

#[test]
fn types_are_read_while_other_threads_allocate_and_classes_come_and_go() {
    let code = "
import gc, pyhost, threading, time
end = time.monotonic() + 3
def churn():
    while time.monotonic() < end:
        made = [type('Made%d' % number, (dict,), {}) for number in range(20)]
        [one() for one in made]
        [bytearray(500_000) for _ in range(5)]
threads = [threading.Thread(target=churn) for _ in range(3)]
[thread.start() for thread in threads]
looks = 0
while time.monotonic() < end:
    rows = pyhost.lines()['live']
    assert all(kind['bytes'] > 0 and kind['type'] for row in rows for kind in row['types'])
    looks += 1
    gc.collect()
[thread.join() for thread in threads]
assert looks > 0
";
    for option in ["--allocator=mimalloc", "--allocator=pymalloc", "--guard"] {
        let run = Run::host().args(["--lines=2K", "--stats=json", option]);
        run.args(["-c", code]).ok();
    }
}
