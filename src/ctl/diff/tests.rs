use super::*;
use crate::stacks::tests::{assert_has, call, stacks_of, with_lines};
use serde_json::json;

#[test]
fn accounts_of_either_side_have_a_row() {
    let report = |names: [&str; 2]| Report {
        accounts: names.map(|it| (it.to_owned(), Account::default())).into(),
        ..Report::default()
    };
    let (a, b) = (report(["raw", "gone"]), report(["new", "raw"]));
    assert!(pairs(&a, &b).keys().eq(["raw", "gone", "new"]));
}

/// A report with rows of `live`: account, bytes, error, function; and the bytes of `obj`'s sum.
fn lines(interval: i64, rows: &[(&str, i64, i64, &str)], sum: i64) -> Stacks {
    let row = |(account, bytes, error, function): &(&str, i64, i64, &str)| {
        json!({
            "account": account, "bytes": bytes, "blocks": 1, "error_bytes": error,
            "stack": [call(function, "/job.py", 1)],
        })
    };
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let sum = json!({"bytes": sum, "blocks": 1, "error_bytes": 0, "stacks": 1});
    stacks_of(&with_lines(&json!({
        "interval_bytes": interval, "sums": {"live": {"obj": sum}}, "live": rows,
    })))
    .unwrap()
}

/// The changed lines of the JSON form: function, change, error.
fn changes(a: &Stacks, b: &Stacks) -> Vec<String> {
    let changes = LineChanges::new(a, b, View::Live);
    let none = Report::default();
    let json = to_json(&none, &none, Some(&changes));
    let json: Value = serde_json::from_str(&json).unwrap();
    let change = |row: &Value| {
        let [a, b, change] = ["a", "b", "change"].map(|side| row[side].as_i64().unwrap());
        assert_eq!(b - a, change);
        let function = row["function"].as_str().unwrap();
        format!("{function} {change} {}", row["error_bytes"])
    };
    let changes = json["lines"]["changes"].as_array().unwrap().iter();
    let real = changes.filter(|row| row["within_error"] == false);
    real.map(change).collect()
}

#[test]
fn lines_changed_if_they_did_by_more_than_the_error_of_the_difference() {
    // Beside three intervals: 30 and 40, so 50 together.
    let a = [
        ("obj", 1000, 330, "same"),
        ("obj", 1000, 330, "just"),
        ("obj", 900, 300, "gone"),
        ("obj", 5, 300, "small"),
    ];
    let b = [
        ("obj", 1350, 340, "same"),
        ("raw", 1351, 340, "just"),
        ("obj", 2000, 300, "new"),
    ];
    let (a, b) = (lines(100, &a, 0), lines(100, &b, 0));
    let changed = ["new 2000 300", "just 351 350", "gone -900 300"];
    assert_eq!(changes(&a, &b), changed);
    let text = LineChanges::new(&a, &b, View::Live).to_text(false);
    assert_has(
        &text,
        &[
            "+2.0 KiB       300 B  /job.py:1 in new\n",
            "-900 B       300 B  /job.py:1 in gone\n",
            "3 lines changed by more than the error: +1.4 KiB ",
            "2 lines changed by no more than the error: +345 B",
            // Behind them, and marked.
            " in gone\n~            1000 B    1.3 KiB      +350 B       350 B  /job.py:1 in same\n",
        ],
    );
    let text = LineChanges::new(&a, &b, View::Live).to_text(true);
    assert!(text.contains("\x1b[2m ") && text.contains(" in same\x1b[0m\n"));
    let back = ["gone 900 300", "just -351 350", "new -2000 300"];
    assert_eq!(changes(&b, &a), back);
}

#[test]
fn the_wider_interval_counts_once() {
    let b = lines(100, &[("obj", 1000, 300, "new")], 0);
    assert_eq!(changes(&lines(10, &[], 0), &b), ["new 1000 300"]);
    let exact = lines(1, &[("obj", 1000, 0, "new")], 0);
    assert_eq!(changes(&lines(1, &[], 0), &exact), ["new 1000 0"]);
    assert!(changes(&exact, &exact).is_empty());
}

#[test]
fn a_stack_that_may_have_been_left_out_before_is_not_new() {
    // A leaves out 5,000 bytes, in stacks of at most 700.
    let a = lines(1, &[("obj", 800, 0, "kept"), ("obj", 700, 0, "last")], 6500);
    let later = |kept: i64, listed: i64| {
        let rows = [("kept", kept), ("last", 700), ("listed", listed)];
        lines(1, &rows.map(|(name, bytes)| ("obj", bytes, 0, name)), 0)
    };
    assert!(changes(&a, &later(800, 700)).is_empty());
    let far = later(801, 900);
    assert_eq!(changes(&a, &far), ["listed 900 700", "kept 1 0"]);
    let text = LineChanges::new(&a, &far, View::Live).to_text(false);
    assert_has(&text, &["leave out: 4.9 KiB in A, 0 B in B\n"]);
}

#[test]
fn the_text_has_the_lines_that_grew_and_shrank_most() {
    let names: Vec<String> = (0..30).map(|number| format!("f{number}")).collect();
    let rows = names.iter().zip(1..);
    let rows = rows.map(|(name, bytes)| ("obj", bytes, 0, name.as_str()));
    let rows: Vec<_> = rows.collect();
    let (all, none) = (lines(1, &rows, 0), lines(1, &[], 0));
    for (a, b) in [(&none, &all), (&all, &none)] {
        let text = LineChanges::new(a, b, View::Live).to_text(false);
        let sum = " 30 lines changed by more than the error, 20 of them not shown: ";
        assert_has(&text, &["in f29\n", "in f20\n", sum]);
        assert!(!text.contains("in f19\n"), "{text}");
        assert_eq!(changes(a, b).len(), 30);
    }
}
