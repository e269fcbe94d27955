use super::*;
use crate::lines::text;
use crate::stacks::tests::{assert_has, assert_plain, call, stacks_of, with_lines};
use clap::ValueEnum;
use serde_json::{Value, json};

const PANDAS: &str = "/v/lib/python3.11/site-packages/pandas/io.py";
const DECODER: &str = "/usr/lib/python3.11/json/decoder.py";

fn row(account: &str, bytes: i64, error: i64, stack: &[Value]) -> Value {
    json!({"account": account, "bytes": bytes, "blocks": 1, "error_bytes": error, "stack": stack})
}

/// A report of an interval of 100 bytes with the peak's rows, and 1,000 bytes of `obj` that it does not list.
fn mixed() -> Stacks {
    let module = call("<module>", "/job.py", 9);
    let load = call("load", "/job.py", 3);
    let pandas = [call("read", PANDAS, 7), load.clone(), module.clone()];
    let decoder = [call("decode", DECODER, 5), load, module.clone()];
    let own = [call("keep", "/job.py", 4), module];
    let library = [call("import", "<frozen importlib>", 1)];
    let sum = |bytes: i64, error: i64| json!({"bytes": bytes, "blocks": 9, "error_bytes": error, "stacks": 9});
    stacks_of(&with_lines(&json!({
        "interval_bytes": 100, "samples": 20, "dropped": 1,
        "sums": {"at_peak": {"obj": sum(8000, 430), "raw": sum(700, 300), "mapped": sum(90_000, 300)}},
        "at_peak": [
            row("mapped", 90_000, 300, &own), row("obj", 3000, 330, &pandas), row("obj", 2500, 340, &decoder),
            row("obj", 1000, 420, &own), row("raw", 600, 300, &[]), row("obj", 500, 300, &library),
            row("raw", 100, 300, &own),
        ],
    })))
    .unwrap()
}

/// The name, bytes and error of each row.
fn rows_of(stacks: &Stacks, view: View, by: By, account: Option<&str>) -> Vec<String> {
    let table = Table::new(stacks, view, by, account);
    let row = |row: &Row| {
        let error = stacks.error_bytes(row.sum);
        format!("{} {} {error}", row.subject, row.sum.bytes)
    };
    table.rows.iter().map(row).collect()
}

fn named(by: By, account: Option<&str>) -> Vec<String> {
    rows_of(&mixed(), View::AtPeak, by, account)
}

#[test]
fn a_row_has_the_bytes_of_its_stacks_and_their_variances() {
    let outside = "outside of Python code 600 300";
    let frozen = "<frozen importlib>:1 in import 500 300";
    let lines = ["/job.py:3 in load 5500 350", "/job.py:4 in keep 1100 420"];
    assert_eq!(named(By::Line, None), [lines[0], lines[1], outside, frozen]);
    // 30, 40 and 120 beside the three intervals.
    let files = ["/job.py 6600 430", outside, "<frozen importlib> 500 300"];
    assert_eq!(named(By::File, None), files);
    let packages = [
        "pandas 3000 330",
        "standard library 3000 340",
        "yours 1100 420",
        outside,
    ];
    assert_eq!(named(By::Package, None), packages);
    assert_eq!(named(By::Function, None)[0], "load (/job.py) 5500 350");
    assert_eq!(named(By::Stack, None).len(), 5);
}

#[test]
fn accounts_have_all_bytes_and_the_others_say_what_they_leave_out() {
    assert_eq!(named(By::Account, None), ["obj 8000 430", "raw 700 300"]);
    let stacks = mixed();
    for (by, left_out) in [(By::Account, 0), (By::Line, 1000), (By::Stack, 1000)] {
        let table = Table::new(&stacks, View::AtPeak, by, None);
        assert_eq!((table.total, table.left_out), (8700, left_out));
        let rows: i64 = table.rows.iter().map(|row| row.sum.bytes).sum();
        assert_eq!(rows + left_out, 8700);
    }
    let text = text::text(&Table::new(&stacks, View::AtPeak, By::Line, None), 20);
    let last = "one sample in 100 B, 20 samples, 1 dropped; the stacks that the report leaves out have 1000 B of 8.5 KiB\n";
    assert!(text.ends_with(last), "{text}");
}

#[test]
fn a_line_has_the_account_with_most_bytes_and_the_package_that_it_called() {
    let stacks = mixed();
    let table = Table::new(&stacks, View::AtPeak, By::Line, None);
    let text = text::text(&table, 2);
    let [_, _, load, keep, more, _] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    // 5500 of 8700.
    assert_has(load, &["63.2%", "  obj      /job.py:3 in load, by pandas"]);
    assert!(keep.ends_with("  obj      /job.py:4 in keep"), "{text}");
    assert!(more.ends_with(" 2 more"), "{text}");
    let json: Value = serde_json::from_str(&text::json(&table, 1)).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 1);
    assert_eq!(json["rows"][0]["package"], "pandas");
    assert_eq!(json["rows"][0]["error_bytes"], 350);
    let more = json!({"rows": 3, "bytes": 2200, "error_bytes": 420, "blocks": 4});
    assert_eq!(json["more"], more);
}

#[test]
fn a_package_is_named_if_most_of_the_bytes_are_its_own() {
    let own = call("load", "/job.py", 3);
    for (of_pandas, package) in [(2501, Some("pandas")), (2500, None)] {
        let called = [call("read", PANDAS, 7), own.clone()];
        let decoded = [call("decode", DECODER, 5), own.clone()];
        let stacks = stacks_of(&with_lines(&json!({"interval_bytes": 1, "at_peak": [
            row("obj", 1500, 0, std::slice::from_ref(&own)), row("obj", of_pandas, 0, &called), row("obj", 1000, 0, &decoded),
        ]})));
        let stacks = stacks.unwrap();
        let table = Table::new(&stacks, View::AtPeak, By::Line, None);
        assert_eq!(table.package_of(&table.rows[0]), package);
    }
}

#[test]
fn a_stack_of_a_thousand_calls_is_cut_in_the_text_and_whole_in_json() {
    let deep: Vec<Value> = (0..1000).map(|line| call("f", "f.py", line)).collect();
    let report = with_lines(&json!({"interval_bytes": 1, "live": [row("obj", 5, 0, &deep)]}));
    let stacks = stacks_of(&report).unwrap();
    let table = Table::new(&stacks, View::Live, By::Stack, None);
    let text = text::text(&table, 20);
    assert_has(&text, &[" 980 more\n"]);
    assert!(text.lines().count() < 30, "{text}");
    let json: Value = serde_json::from_str(&text::json(&table, 1)).unwrap();
    assert_eq!(json["rows"][0]["stack"].as_array().unwrap().len(), 1000);
    let call = json!({"file": "f.py", "line": 7, "function": "f"});
    assert_eq!(json["rows"][0]["stack"][7], call);
}

pub fn show_all(stacks: &Stacks) {
    for by in By::value_variants() {
        for view in View::ALL {
            let table = Table::new(stacks, view, *by, None);
            let text = text::text(&table, 3);
            assert_plain(&text);
            let json: Value = serde_json::from_str(&text::json(&table, 3)).unwrap();
            assert_eq!(json["by"], by.name());
        }
    }
}

#[test]
fn errors_that_no_host_writes_are_bounded() {
    for interval in [i64::MIN, 0, 1, i64::MAX] {
        let rows = [i64::MAX, 0].map(|bytes| row("obj", bytes, i64::MAX, &[]));
        let lines = json!({"interval_bytes": interval, "live": rows});
        let stacks = stacks_of(&with_lines(&lines)).unwrap();
        let table = Table::new(&stacks, View::Live, By::Line, None);
        assert!(stacks.error_bytes(table.rows[0].sum) > 0);
        show_all(&stacks);
    }
}
