//! A small report and its totals.

use super::{Stacks, View};
use crate::model::Report;
use pyhost_testing::Random;
use serde_json::{Value, json};

#[track_caller]
pub fn assert_plain(text: &str) {
    let steers = |letter: char| letter.is_control() && letter != '\n';
    assert!(!text.contains(steers), "{text:?}");
}

#[track_caller]
pub fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

pub fn call(function: &str, file: &str, line: i64) -> Value {
    json!({"file": file, "line": line, "function": function})
}

pub fn row(account: &str, bytes: i64, blocks: i64, stack: &[Value]) -> Value {
    json!({"account": account, "bytes": bytes, "blocks": blocks, "error_bytes": 1, "stack": stack})
}

pub fn of_thread(mut row: Value, thread: &str, age: f64, types: &[(&str, i64)]) -> Value {
    let of_type = |(name, bytes): &(&str, i64)| json!({"type": name, "bytes": bytes, "blocks": 1, "error_bytes": 1});
    row["thread"] = thread.into();
    row["age_seconds"] = age.into();
    row["types"] = types.iter().map(of_type).collect();
    row
}

pub fn sum(bytes: i64, blocks: i64) -> Value {
    json!({"bytes": bytes, "blocks": blocks, "error_bytes": 1, "stacks": 9})
}

pub fn with_lines(lines: &Value) -> Value {
    json!({
        "schema": "pyhost-report/1",
        "process": {"argv": ["pyhost", "job.py"], "command": "job.py", "started": "2026-11-21T13:08:00Z", "wall_seconds": 1.5},
        "accounts": {},
        "total": {"live_bytes": 0, "peak_bytes": 0},
        "lines": lines,
    })
}

pub fn sample_value() -> Value {
    let module = call("<module>", "/job.py", 9);
    let load = [call("load", "/job.py", 3), module.clone()];
    let keep = [call("load", "/job.py", 4), module];
    let odd = [call("a;b\n\u{1b}[31m", "dir/a;b\u{202e}.py", 1)];
    with_lines(&json!({
        "interval_bytes": 64,
        "samples": 20,
        "dropped": 1,
        "sums": {
            "at_peak": {"obj": sum(1001, 7), "raw": sum(400, 2)},
            "at_account_peak": {"obj": sum(1000, 7), "raw": sum(600, 3)},
            "at_resident_peak": {"obj": sum(1000, 7), "raw": sum(400, 2)},
            "live": {"obj": sum(300, 3)},
            "grown": {"obj": sum(200, 2)},
            // 30 bytes more than the rows of obj have.
            "allocated": {"obj": sum(1900, 20), "raw": sum(700, 5)},
        },
        "at_peak": [row("obj", 1000, 7, &load), row("raw", 400, 2, &[])],
        "at_account_peak": [row("obj", 1000, 7, &load), row("raw", 600, 3, &[])],
        "at_resident_peak": [row("obj", 1000, 7, &load), row("raw", 400, 2, &[])],
        "live": [
            of_thread(row("obj", 200, 2, &keep), "main", 10.0, &[("list", 150), ("dict", 30)]),
            of_thread(row("obj", 100, 1, &keep), "work\u{9b}er", 40.0, &[("list", 100)]),
        ],
        "grown": [row("obj", 200, 2, &keep)],
        "allocated": [
            row("obj", 1500, 12, &load), row("raw", 700, 5, &[]), row("obj", 300, 3, &keep), row("obj", 70, 1, &odd),
        ],
    }))
}

pub fn stacks_of(report: &Value) -> Result<Stacks, String> {
    Stacks::of_report(&Report::of_json(&report.to_string())?)
}

/// A report with a view each, of which `allocated` has stacks that are not listed.
pub fn sample() -> Stacks {
    stacks_of(&sample_value()).unwrap()
}

/// A report of a run in which no sample was taken.
pub fn empty() -> Stacks {
    stacks_of(&with_lines(&json!({"interval_bytes": 64}))).unwrap()
}

/// A text with a few changes, which make it no report in half of the cases.
pub fn mutated(whole: &str, random: &mut Random) -> String {
    let pieces = "{|}|[|]|\"|,|null|-1|0|1e999|9223372036854775807|18446744073709551615|\"\"|\\u0000|\\ud800|\u{9b}|\
        \"stack\":[],|\"live\":[],|\"sums\":null,|\"account\":\"x 5\",|\"accounts\":7,|\"process\":[],|\
        \"argv\":[\"\\u001b]0;x\\u0007\"],|\"caps\":\"\",|\"schema\":\"pyhost-report/2\",|\
        \"told_refusals\":3,\"last_refusal\":\"\\r\\u009b\",";
    let pieces: Vec<&str> = pieces.split('|').collect();
    let mut text: Vec<char> = whole.chars().collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(text.len());
        match random.below(8) {
            0 => text.truncate(at),
            1..3 => drop(text.drain(at..(at + random.below(20)).min(text.len()))),
            3..6 => {
                // A digit or a letter is replaced: most of these are still reports.
                let digit = char::from(b'0' + random.below(10) as u8);
                let found = text[at..].iter().position(char::is_ascii_digit);
                found.into_iter().for_each(|place| text[at + place] = digit);
            }
            6 => drop(text.splice(at..at, random.of(&pieces).chars())),
            // After a comma or a brace, so that it is a member as often as not.
            _ => {
                let is_before = |letter: &char| matches!(letter, ',' | '{');
                let place = text[at..].iter().position(is_before);
                let place = place.map_or(at, |place| at + place + 1);
                text.splice(place..place, random.of(&pieces).chars());
            }
        }
        if text.is_empty() {
            break;
        }
    }
    text.into_iter().collect()
}

#[test]
fn rows_that_no_host_writes_are_refused_in_a_line() {
    let live = |row: Value| json!({"interval_bytes": 1, "live": [row]});
    let rows = [row("obj", i64::MAX, 1, &[]), row("raw", 1, 1, &[])];
    let sum_too_large = json!({"interval_bytes": 1, "live": rows});
    let mut error_below = row("obj", 1, 1, &[]);
    error_below["error_bytes"] = (-1).into();
    let deep = |calls| row("obj", 1, 1, &vec![call("f", "f.py", 1); calls]);
    let typed = |types: &[(&str, i64)]| {
        let row = row("obj", 100, 2, &[]);
        of_thread(row, "main", f64::MAX, types)
    };
    let grown = |[a, b, c]: [i64; 3], of_all: i64| {
        let rows = [a, b, c, 75].map(|bytes| row("obj", bytes, 1, &[call("f", "f.py", bytes)]));
        json!({"interval_bytes": 1, "sums": {"grown": {"obj": sum(of_all, 1)}}, "grown": rows})
    };
    let (max, below) = (i64::MAX, "below zero in lines.live");
    let [missing, invalid] = ["missing field", "invalid type"];
    let [more, large] = ["more bytes than their row", "too large a sum"];
    for (lines, part) in [
        (live(row("obj", -1, 1, &[])), below),
        (live(row("obj", 1, -1, &[])), below),
        (live(error_below), below),
        (sum_too_large, "too large a sum in lines.live"),
        (live(deep(4001)), "more than 4000 calls in lines.live"),
        (live(json!({"account": "obj"})), missing),
        (live(row("obj", 1, 1, &[json!({"file": "f"})])), missing),
        (json!({"live": {}}), invalid),
        (live(json!({"account": "obj", "bytes": 0.5})), invalid),
        (live(typed(&[("list", 60), ("dict", 90)])), more),
        (live(typed(&[("list", max), ("dict", max)])), more),
        (live(typed(&[("list", -1)])), below),
        (live(typed(&[("list", 0); 99])), "more than 32 types"),
        (grown([max, -max, max], 0), large),
        (grown([-max, -1, 0], max), large),
        (grown([i64::MIN, 0, 0], 0), "below zero in lines.grown"),
        (grown([1, 0, 0], i64::MIN), "below zero in lines.grown"),
        (grown([-max, 0, 0], max), large),
        (grown([max, 0, 0], -max), large),
    ] {
        let error = stacks_of(&with_lines(&lines)).unwrap_err();
        assert_has(&error, &[part]);
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    // Each type may be rounded up by half a byte.
    for row in [deep(4000), typed(&[("list", 60), ("dict", 41)])] {
        assert!(stacks_of(&with_lines(&live(row))).is_ok());
    }
}

#[test]
fn stacks_that_a_report_leaves_out_count_but_rounding_does_not() {
    let stacks = sample();
    let left_out = |view: View| {
        let has_it = |number: &usize| stacks.frames[*number].name.contains("leaves out");
        let sites = stacks.of_view(view).into_iter();
        let mut sites = sites.filter(|site| site.stack.iter().any(has_it));
        sites
            .next()
            .map(|site| (site.account.clone(), site.amount(view).bytes))
    };
    assert_eq!(left_out(View::AtPeak), None, "a byte of rounding");
    assert_eq!(left_out(View::Allocated), Some(("obj".to_owned(), 30)));
}
