//! The peak in reports: accounts, resident size, big blocks and balance sheet at the highest moment that
//! was seen.

use crate::host::{Run, folder, of_bytearray};
use serde_json::Value;

fn bytes(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

/// Resident bytes of a row of the sheet at the peak.
fn row(peak: &Value, name: &str) -> i64 {
    let rows = peak["balance"]["rows"].as_array();
    let mut rows = rows.unwrap_or_else(|| panic!("no sheet: {peak}")).iter();
    let found = rows.find(|row| row["name"] == name);
    found.map_or(0, |row| bytes(&row["resident_bytes"]))
}

/// The section of a report, after a look at what holds for each: it is within a fiftieth of the peak, the
/// accounts sum up, no account has more resident than live, the rows sum up.
fn at_peak(report: &Value) -> &Value {
    let peak = &report["at_peak"];
    let (live, highest) = (
        bytes(&peak["live_bytes"]),
        bytes(&report["total"]["peak_bytes"]),
    );
    assert!(live <= highest, "{peak}");
    assert!(
        live + highest / 50 + (1 << 20) > highest,
        "{highest} {peak}"
    );
    let accounts = peak["accounts"].as_object().unwrap();
    let in_total = accounts.iter().filter(|(name, _)| *name != "mapped");
    let sum: i64 = in_total.map(|(_, live)| bytes(live)).sum();
    assert_eq!(sum, live, "{peak}");
    let most = bytes(&report["process"]["peak_resident_bytes"]);
    assert!(bytes(&peak["resident_bytes"]) <= most, "{most} {peak}");
    if !peak["balance"].is_null() {
        let sheet = &peak["balance"];
        let rows = sheet["rows"].as_array().unwrap();
        let sum: i64 = rows.iter().map(|row| bytes(&row["resident_bytes"])).sum();
        let resident = bytes(&sheet["resident_bytes"]);
        assert_eq!(sum + bytes(&sheet["remainder_bytes"]), resident, "{peak}");
        assert!(resident <= most, "{most} {peak}");
    }
    peak
}

#[test]
fn a_large_block_that_was_freed_is_in_the_sheet_and_among_the_blocks_of_the_peak() {
    let code = "kept = bytearray(b'x') * 200_000_000
del kept";
    for options in [&[][..], &["--retain", "small"], &["--region", "500M"]] {
        let (_, report) = Run::host().args(options).code(code).reported();
        let peak = at_peak(&report);
        assert!(bytes(&report["total"]["live_bytes"]) < 50_000_000);
        assert!(bytes(&peak["resident_bytes"]) > 200_000_000, "{peak}");
        assert!(row(peak, of_bytearray()) > 190_000_000, "{peak}");
        let block = &peak["big_blocks"]["largest"][0];
        assert!(bytes(&block["size_bytes"]) >= 200_000_000, "{peak}");
        assert_eq!(
            (&block["line"], &block["account"]),
            (&1.into(), &of_bytearray().into())
        );
        assert_eq!(report["big_blocks"]["blocks"], 0);
    }
}

#[test]
fn memory_that_is_written_after_its_allocation_is_in_the_sheet_of_the_peak() {
    // At the allocation nothing is resident. The look before the block is freed sees it.
    let code = "import time
kept = bytearray(200_000_000)
time.sleep(0.02)
for start in range(0, len(kept), 4096): kept[start] = 1
time.sleep(0.02)
del kept";
    let (_, report) = Run::host().code(code).reported();
    let peak = at_peak(&report);
    assert!(bytes(&peak["resident_bytes"]) > 200_000_000, "{peak}");
    assert!(row(peak, of_bytearray()) > 190_000_000, "{peak}");
}

#[test]
fn a_peak_of_small_objects_is_seen() {
    let code = "kept = [str(number) for number in range(300_000)]
del kept
import gc; gc.collect()";
    let (_, report) = Run::host().code(code).reported();
    let peak = at_peak(&report);
    assert!(bytes(&peak["accounts"]["obj"]) > 15_000_000, "{peak}");
    assert!(bytes(&report["accounts"]["obj"]["live_bytes"]) < 10_000_000);
}

#[test]
fn a_block_of_another_thread_is_seen_while_the_main_thread_waits() {
    let code = "import threading
def work():
    kept = bytearray(b'x') * 100_000_000
thread = threading.Thread(target=work)
thread.start(); thread.join()";
    let (_, report) = Run::host().code(code).reported();
    let peak = at_peak(&report);
    let block = &peak["big_blocks"]["largest"][0];
    assert!(bytes(&block["size_bytes"]) >= 100_000_000, "{peak}");
}

#[test]
fn where_the_end_is_the_peak_both_are_one() {
    let code = "kept = bytearray(b'x') * 100_000_000";
    let (_, report) = Run::host().code(code).reported();
    let peak = at_peak(&report);
    let live = bytes(&report["total"]["live_bytes"]);
    assert!(bytes(&peak["live_bytes"]) - live < 2_000_000, "{peak}");
    assert!(row(peak, of_bytearray()) > 95_000_000, "{peak}");
    assert_eq!(report["big_blocks"]["blocks"], 1);
    let text = Run::host().arg("--stats").code(code).ok().stderr;
    assert!(!text.contains("at the peak"), "{text}");
}

#[test]
fn the_table_and_the_page_tell_of_the_peak() {
    let code = "kept = bytearray(b'x') * 100_000_000
del kept";
    let text = Run::host().arg("--stats").code(code).ok().stderr;
    let lines: Vec<&str> = text.lines().collect();
    let head = lines
        .iter()
        .position(|line| line.starts_with("at the peak, after "));
    let head = head.unwrap_or_else(|| panic!("{text}"));
    assert!(lines[head].ends_with("; 1 big block, 96.0 MiB"), "{text}");
    assert!(lines[head + 1].ends_with("made at <string>:1"), "{text}");
    assert!(lines[head + 2].ends_with(", of which"), "{text}");
    let row = format!("  {} ", of_bytearray());
    assert!(lines[head + 3].starts_with(&row), "{text}");
    let page = folder("peak").join("page.html");
    let run = Run::host().at("--stats=html,file=", &page);
    run.code(code).ok();
    let page = std::fs::read_to_string(page).unwrap();
    for words in [
        "At the peak",
        "Table of the big blocks at the peak",
        "peak-balance-table",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn the_peak_starts_anew_where_the_script_asks_for_it_and_in_a_forked_child() {
    let code = "import json, os, pyhost
kept = bytearray(b'x') * 100_000_000
del kept
live = lambda: pyhost.memory_stats()['at_peak']['live_bytes']
assert live() > 100_000_000, live()
pid = os.fork()
if pid == 0:
    assert live() < 50_000_000, live()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
pyhost.reset_peak_memory_stats()
assert live() < 50_000_000, live()
kept = bytearray(b'x') * 60_000_000
del kept
assert 60_000_000 < live() < 100_000_000, live()";
    let (outcome, _) = Run::host().code(code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
}

#[test]
fn nobody_looks_for_the_peak_without_a_report() {
    let code = "import pyhost
kept = bytearray(b'x') * 50_000_000
del kept
assert pyhost.memory_stats()['at_peak'] is None";
    Run::host().code(code).ok();
}

/// Touches 300 of 400 MiB that Python's `mmap` maps, in a thread of its own, and gives them back.
const MAPS: &str = "import mmap, threading
def work():
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    reserved = mmap.mmap(-1, 1 << 30, flags=private)
    touched = mmap.mmap(-1, 400 << 20, flags=private)
    for place in range(0, 300 << 20, mmap.PAGESIZE): touched[place] = 1
    touched.close()
def in_thread():
    thread = threading.Thread(target=work); thread.start(); thread.join()
in_thread()";

#[test]
fn what_a_library_maps_and_gives_back_is_in_the_highest_resident_size_by_library_and_line() {
    let run = Run::host().arg("--lines=64K,seed=1").code(MAPS);
    let (_, report) = run.reported();
    let seen = &report["at_resident_peak"];
    let mebibytes = |value: &Value| bytes(value) >> 20;
    assert_eq!(mebibytes(&seen["mapped_resident_bytes"]), 300, "{seen}");
    let peak = bytes(&report["process"]["peak_resident_bytes"]);
    let missed = bytes(&seen["missed_bytes"]);
    assert_eq!(bytes(&seen["resident_bytes"]) + missed, peak, "{seen}");
    assert!(missed < peak / 50, "{seen}");
    assert!(bytes(&report["at_peak"]["resident_bytes"]) < 100_000_000);
    let library = &seen["mapped"][0];
    assert!(
        library["library"].as_str().unwrap().contains("mmap"),
        "{library}"
    );
    assert_eq!(mebibytes(&library["mapped_bytes"]), 1424, "{library}");
    assert_eq!(mebibytes(&library["resident_bytes"]), 300, "{library}");
    let rows = report["lines"]["at_resident_peak"].as_array().unwrap();
    assert_eq!(rows[0]["account"], "mapped", "{rows:#?}");
    assert_eq!(mebibytes(&rows[0]["bytes"]), 300, "{rows:#?}");
    assert_eq!(rows[0]["stack"][0]["line"], 5, "{rows:#?}");
}

#[test]
fn the_host_looks_before_the_heaps_give_back_what_small_blocks_had() {
    let code = "import mmap
touched = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
small = [bytes(100) for _ in range(600_000)]
for place in range(0, 64 << 20, mmap.PAGESIZE): touched[place] = 1
del small
touched.close()";
    let (_, report) = Run::host().code(code).reported();
    let seen = &report["at_resident_peak"];
    let peak = bytes(&report["process"]["peak_resident_bytes"]);
    assert!(bytes(&seen["missed_bytes"]) < peak / 50, "{seen}");
    assert!(bytes(&seen["heap_resident_bytes"]) > 80_000_000, "{seen}");
    assert_eq!(bytes(&seen["mapped_resident_bytes"]), 64 << 20, "{seen}");
}

/// Beside the balance sheet, which asks the kernel in another way.
#[test]
fn heaps_and_stacks_have_their_parts_of_the_highest_resident_size() {
    let code = "import mmap, pyhost, threading
there, go_on = threading.Barrier(21), threading.Event()
def deep(levels):
    if levels:
        return max(map(deep, [levels - 1]))
    there.wait(); go_on.wait()
    return 0
threads = [threading.Thread(target=deep, args=(50,)) for _ in range(20)]
kept = [bytes(1000) for _ in range(20_000)]
for thread in threads: thread.start()
there.wait()
touched = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for place in range(0, 64 << 20, mmap.PAGESIZE): touched[place] = 1
sheet = {row['name']: row['resident_bytes'] for row in pyhost.balance_sheet()['rows']}
touched.close(); go_on.set()
for thread in threads: thread.join()
seen = pyhost.memory_stats()['at_resident_peak']
assert seen['mapped_resident_bytes'] == 64 << 20, seen
names = ['shared', 'heap_resident', 'stack_resident', 'library_data_resident', 'other', 'mapped_resident']
assert sum(seen[name + '_bytes'] for name in names) == seen['resident_bytes'], seen
stacks = sum(sheet.get(name, 0) for name in ('main_stack', 'thread_stacks'))
assert stacks > 1 << 19 and abs(seen['stack_resident_bytes'] - stacks) < 128 << 10, (seen, sheet)
heaps = sum(sheet.get(name, 0) for name in ('raw', 'mem', 'obj', 'arena', 'native', 'heap_slack', 'heap_kept', 'heap_own',
    'python_arena'))
assert abs(seen['heap_resident_bytes'] - heaps) < 1 << 20, (seen, sheet)
assert seen['heap_resident_bytes'] > 20_000_000, (seen, sheet)
kept.append(bytearray(b'x') * (128 << 20)) # the question itself is a look
assert pyhost.memory_stats()['at_resident_peak']['heap_resident_bytes'] > seen['heap_resident_bytes'] + (100 << 20)
assert seen['other_bytes'] < 8 << 20, (seen, sheet)";
    Run::host().arg("--stats").code(code).ok();
}

#[test]
fn a_report_of_a_signal_handler_does_not_know_the_libraries() {
    let code =
        format!("{MAPS}\nimport os, time\nos.system(f'kill {{os.getpid()}}')\ntime.sleep(60)");
    let (_, report) = Run::host().code(&code).reported();
    let seen = &report["at_resident_peak"];
    assert_eq!(bytes(&seen["mapped_resident_bytes"]) >> 20, 300, "{seen}");
    assert!(seen["mapped"].is_null(), "{seen}");
}

#[test]
fn the_table_tells_of_the_highest_resident_size_and_its_lines() {
    let text = Run::host()
        .args(["--stats", "--lines"])
        .code(MAPS)
        .ok()
        .stderr;
    let has = |begin: &str, words: &str| {
        let mut lines = text.lines();
        let found = lines.find(|line| line.starts_with(begin));
        assert!(found.is_some_and(|line| line.contains(words)), "{text}");
    };
    has("at the highest resident size, after ", " live, of which");
    has("  libraries' maps 300.0 MiB, heaps ", " stacks ");
    has("mapped by ", " 1.4 GiB (resident 300.0 MiB)");
    let (_, lines) = text
        .split_once("lines at the highest resident size")
        .unwrap();
    let line = lines.lines().nth(1).unwrap();
    assert!(line.contains(" mapped "), "{text}");
    assert!(line.ends_with(" <string>:5 in work"), "{text}");
    let small = Run::host().arg("--stats").code("pass").ok().stderr;
    assert!(!small.contains("highest resident size"), "{small}");
}

#[test]
fn the_highest_resident_size_starts_anew_with_the_peak_and_in_a_forked_child() {
    let code = format!(
        "{MAPS}
import os, pyhost
seen = lambda: pyhost.memory_stats()['at_resident_peak']
first = seen()
assert first['mapped_resident_bytes'] >> 20 == 300 and first['missed_bytes'] < 10 << 20, first
assert 'mmap' in first['mapped'][0]['library'], first
pid = os.fork()
if pid == 0:
    assert seen()['resident_bytes'] < 100 << 20, seen()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
pyhost.reset_peak_memory_stats()
assert seen()['resident_bytes'] < 100 << 20, seen()
in_thread()
assert seen()['mapped_resident_bytes'] >> 20 == 300 and seen()['missed_bytes'] is None, seen()"
    );
    let (outcome, report) = Run::host().code(&code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(bytes(&report["at_resident_peak"]["resident_bytes"]) > 300_000_000);
}
