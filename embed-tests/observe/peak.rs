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
