//! A small report, its totals, and reports that nobody should write.

use super::frames::View;
use super::stacks::Stacks;
use super::{Format, convert};
use crate::model::Report;
use clap::ValueEnum;
use pyhost_record::output::format::{ENOUGH, is_ours};
use pyhost_testing::Random;
use serde_json::{Value, json};

fn call(function: &str, file: &str, line: i64) -> Value {
    json!({"file": file, "line": line, "function": function})
}

fn row(account: &str, bytes: i64, blocks: i64, stack: &[Value]) -> Value {
    json!({"account": account, "bytes": bytes, "blocks": blocks, "error_bytes": 1, "stack": stack})
}

fn sum(bytes: i64, blocks: i64) -> Value {
    json!({"bytes": bytes, "blocks": blocks, "error_bytes": 1, "stacks": 9})
}

/// A report with these sampled lines.
fn with_lines(lines: &Value) -> Value {
    json!({
        "schema": "pyhost-report/1",
        "process": {"argv": ["pyhost", "job.py"], "command": "job.py", "started": "2026-11-21T13:08:00Z", "wall_seconds": 1.5},
        "accounts": {},
        "total": {"live_bytes": 0, "peak_bytes": 0},
        "lines": lines,
    })
}

fn sample_value() -> Value {
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
            "live": {"obj": sum(300, 3)},
            // 30 bytes more than the rows of obj have.
            "allocated": {"obj": sum(1900, 20), "raw": sum(700, 5)},
        },
        "at_peak": [row("obj", 1000, 7, &load), row("raw", 400, 2, &[])],
        "live": [row("obj", 300, 3, &keep)],
        "allocated": [
            row("obj", 1500, 12, &load), row("raw", 700, 5, &[]), row("obj", 300, 3, &keep), row("obj", 70, 1, &odd),
        ],
    }))
}

fn stacks_of(report: &Value) -> Result<Stacks, String> {
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

/// The bytes of a view of the sample.
pub fn total(view: View) -> i64 {
    match view {
        View::AtPeak => 1400,
        View::Live => 300,
        View::Allocated => 2600,
    }
}

/// The blocks of a view of the sample.
pub fn blocks(view: View) -> i64 {
    match view {
        View::AtPeak => 9,
        View::Live => 3,
        View::Allocated => 25,
    }
}

fn convert_all(stacks: &Stacks) {
    for format in Format::value_variants() {
        for view in View::ALL {
            match convert(stacks, *format, view) {
                Ok(bytes) if *format != Format::Pprof => {
                    let text = String::from_utf8(bytes).unwrap();
                    let steers = |letter: char| letter.is_control() && !"\n\t".contains(letter);
                    assert!(!text.contains(steers), "{format:?} {text:?}");
                }
                Ok(_) => {}
                Err(error) => assert_eq!(error.lines().count(), 1, "{error}"),
            }
        }
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

#[test]
fn a_report_without_samples_names_the_option() {
    for report in [
        with_lines(&Value::Null),
        json!({
            "schema": "pyhost-report/1", "accounts": {}, "total": {"live_bytes": 0, "peak_bytes": 0}
        }),
    ] {
        let error = stacks_of(&report).unwrap_err();
        assert!(error.contains("`pyhost --lines`"), "{error}");
    }
    convert_all(&empty());
}

#[test]
fn a_result_is_known_as_ours_so_that_the_next_may_replace_it() {
    for format in Format::value_variants() {
        for view in View::ALL {
            let result = convert(&sample(), *format, view).unwrap();
            let beginning = &result[..result.len().min(ENOUGH)];
            assert!(is_ours(beginning), "{format:?} {view:?}");
        }
    }
}

#[test]
fn rows_that_no_host_writes_are_refused_in_a_line() {
    let deep = vec![call("f", "f.py", 1); 4001];
    let of_peak = |rows: Value| with_lines(&json!({"interval_bytes": 1, "at_peak": rows}));
    for (rows, part) in [
        (
            json!([row("obj", -1, 1, &[])]),
            "below zero in lines.at_peak",
        ),
        (
            json!([row("obj", 1, -1, &[])]),
            "below zero in lines.at_peak",
        ),
        (
            json!([row("obj", i64::MAX, 1, &[]), row("raw", 1, 1, &[])]),
            "too large a sum in lines.at_peak",
        ),
        (
            json!([row("obj", 1, 1, &deep)]),
            "more than 4000 calls in lines.at_peak",
        ),
        (json!([{"account": "obj"}]), "missing field"),
        (
            json!([row("obj", 1, 1, &[json!({"file": "f.py"})])]),
            "missing field",
        ),
        (json!({}), "invalid type"),
        (json!([{"account": "obj", "bytes": 0.5}]), "invalid type"),
    ] {
        let error = stacks_of(&of_peak(rows)).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
        assert_eq!(error.lines().count(), 1);
    }
    let deepest = vec![call("f", "f.py", 1); 4000];
    convert_all(&stacks_of(&of_peak(json!([row("obj", i64::MAX, 1, &deepest)]))).unwrap());
}

#[test]
fn names_that_look_like_parts_of_a_format_stay_names() {
    let names = [
        "", " ", "f 12", "f 1.5", "# f", "f;g 3", "</svg>", "\"&'", "--", "\u{0}", "_[j]", "12",
    ];
    for name in names {
        let rows = json!([
            row(
                name,
                5,
                1,
                &[call(name, name, -3), call(name, name, i64::MAX)]
            ),
            row("obj", 7, 1, &[]),
        ]);
        let stacks = stacks_of(&with_lines(&json!({"interval_bytes": 1, "live": rows}))).unwrap();
        convert_all(&stacks);
        let picture = convert(&stacks, Format::Svg, View::Live).unwrap();
        let picture = String::from_utf8(picture).unwrap();
        assert!(
            picture.contains("total_samples=\"12\""),
            "{name:?}: {picture}"
        );
        assert!(
            picture.ends_with("</svg>") && picture.matches("</svg>").count() == 2,
            "{name:?}"
        );
    }
}

#[test]
fn no_mutated_report_harms_the_converter() {
    let mut random = Random(77);
    let whole = sample_value().to_string();
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        "null",
        "-1",
        "0",
        "1e999",
        "9223372036854775807",
        "18446744073709551615",
        "\"\"",
        "\\u0000",
        "\\ud800",
        "\u{9b}",
        "\"stack\":[],",
        "\"live\":[],",
        "\"sums\":null,",
        "\"account\":\"x 5\",",
    ];
    let (mut converted, mut refused) = (0, 0);
    for _ in 0..4000 {
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
                _ => drop(text.splice(at..at, random.of(&pieces).chars())),
            }
            if text.is_empty() {
                break;
            }
        }
        let text: String = text.into_iter().collect();
        match Report::of_json(&text).and_then(|report| Stacks::of_report(&report)) {
            Ok(stacks) => {
                converted += 1;
                convert_all(&stacks);
            }
            Err(error) => {
                refused += 1;
                assert_eq!(error.lines().count(), 1, "{error}");
            }
        }
    }
    assert!(converted > 500 && refused > 500, "{converted} {refused}");
}
