use super::*;
use crate::hostile;
use crate::lines::{By, Table};
use crate::stacks::tests::{assert_has, call, of_thread, row, sample_value, stacks_of, with_lines};
use serde_json::{Value, json};

/// The stacks of a report, as the script reads them.
fn drawing_of(report: &Value, baseline: Option<&Value>) -> Value {
    let baseline = baseline.map(baseline_of);
    let drawing = Drawing::new(&stacks_of(report).unwrap(), baseline.as_ref());
    serde_json::to_value(drawing).unwrap()
}

fn baseline_of(value: &Value) -> Baseline {
    Baseline::new(Box::new(Report::of_json(&value.to_string()).unwrap())).unwrap()
}

fn page_of(report: &Value, baseline: Option<&Value>) -> Result<String, String> {
    let baseline = baseline.map(Value::to_string);
    hostile::page_of(&report.to_string(), baseline.as_deref())
}

#[test]
fn stacks_that_shrank_are_left_out_and_threads_of_one_stack_are_summed_first() {
    let module = call("<module>", "/job.py", 9);
    let fill = [call("fill", "/job.py", 3), module.clone()];
    let drop = [call("drop", "/job.py", 4), module];
    let of_thread = |bytes, thread| of_thread(row("obj", bytes, 1, &fill), thread, 1.0, &[]);
    let grown = [
        of_thread(500, "one"),
        of_thread(-200, "two"),
        row("obj", -400, -1, &drop),
        row("raw", -7, -1, &fill),
    ];
    let report = with_lines(&json!({"interval_bytes": 1, "grown": grown}));
    for (drawing, side) in [
        (drawing_of(&report, None), 0),
        (drawing_of(&sample_value(), Some(&report)), 1),
    ] {
        let stacks = drawing["stacks"].as_array().unwrap().iter();
        let drawn = stacks.filter(|stack| stack[0] == side).map(|stack| {
            let calls = stack[3].as_array().unwrap().iter();
            let names = calls.map(|call| &drawing["frames"][call.as_u64().unwrap() as usize][0]);
            (names.collect::<Vec<_>>(), stack[4][0][1].as_i64().unwrap())
        });
        let drawn: Vec<_> = drawn.collect();
        for (names, _) in &drawn {
            assert_eq!(*names, ["<module>", "fill"]);
        }
        assert_eq!(drawn.iter().map(|stack| stack.1).sum::<i64>(), 300);
    }
}

#[test]
fn native_calls_have_a_kind_of_their_own_and_the_library_if_they_have_a_source() {
    let native = json!({"file": "/v/site-packages/x.libs/liba.so", "line": 0, "function": "f", "offset": 16});
    let stack = [native, call("g", "/job.py", 9)];
    let report =
        with_lines(&json!({"interval_bytes": 1, "at_peak": [row("native", 5, 1, &stack)]}));
    let files = drawing_of(&report, None)["files"].clone();
    let expected = json!([
        ["/job.py", "mine", null],
        ["/v/site-packages/x.libs/liba.so", "library", null]
    ]);
    assert_eq!(files, expected);
    let names_them = |report| page_of(report, None).unwrap().contains("native calls");
    assert!(names_them(&report) && !names_them(&sample_value()));
    // Its source is nobody's package.
    let place = crate::symbols::Place {
        function: "f".to_owned(),
        source: Some(("/home/me/a.c".to_owned(), 7)),
    };
    let frame = crate::stacks::Frame::native(&place, "/lib/liba.so");
    let file = super::drawing::file(&frame.place.unwrap().0, frame.library.as_deref());
    let expected = (
        "/home/me/a.c".to_owned(),
        "library",
        Some("liba.so".to_owned()),
    );
    assert_eq!(file, expected);
}

#[test]
fn five_views_of_five_hundred_stacks_stay_small() {
    let views = View::ALL.map(|view| {
        let rows = (0..500).map(|number| {
            let line = |depth| call("function", "/home/me/project/module.py", depth);
            let calls = (0..50).map(|depth| line((number + 1) * depth));
            row("obj", 1_000_000 + number, 10, &calls.collect::<Vec<_>>())
        });
        (view.name().to_owned(), Value::from_iter(rows))
    });
    let mut lines = Value::from_iter(views);
    lines["interval_bytes"] = json!(4096);
    let report = with_lines(&lines);
    let length = report.to_string().len();
    let drawing = drawing_of(&report, None).to_string().len();
    assert!(drawing < length / 10, "{drawing} of {length}");
    let page = page_of(&report, None).unwrap().len();
    assert!(
        page < length + drawing + 200_000,
        "{page}, {length}, {drawing}"
    );
}

#[test]
fn samples_that_cannot_be_shown_leave_the_rest_of_the_page() {
    let none = with_lines(&Value::Null);
    let page = page_of(&none, None).unwrap();
    assert!(!page.contains("id=\"lines\"") && !page.contains("stacks-data"));
    let error = |report| page_of(report, Some(&sample_value())).unwrap_err();
    assert_has(&error(&none), &["has no sampled lines"]);
    let empty = with_lines(&json!({"interval_bytes": 64}));
    let page = page_of(&empty, Some(&empty)).unwrap();
    assert!(page.contains("No sample has bytes.") && !page.contains("stacks-data"));
    let forged = with_lines(&json!({"live": [row("obj", -1, 1, &[])]}));
    let page = page_of(&forged, None).unwrap();
    assert_has(&page, &["the report has a number below zero in lines.live"]);
    assert_has(&error(&forged), &["below zero"]);
    // One whose bytes are all beside the total.
    let mapped = with_lines(&json!({"live": [row("mapped", 5, 1, &[])]}));
    let page = page_of(&mapped, None).unwrap();
    assert_has(&page, &["No line that the report lists has bytes."]);
}

#[test]
fn the_table_has_ten_lines_and_the_rest_in_one() {
    let rows = (0..30).map(|line| row("obj", 1000 - line, 1, &[call("f", "/job.py", line)]));
    let report = with_lines(&json!({"interval_bytes": 2, "live": rows.collect::<Vec<_>>()}));
    let page = page_of(&report, None).unwrap();
    let table = page.split_once("<table data-view=\"live\">").unwrap().1;
    let table = table.split_once("</table>").unwrap().0;
    assert_eq!(table.matches("<tr>").count(), 12);
    let stacks = stacks_of(&report).unwrap();
    let all = Table::new(&stacks, View::Live, By::Line, None);
    let rest = Table::sum_of(&all.rows[10..]);
    let [bytes, error] = [rest.bytes, stacks.error_bytes(rest)].map(|it| format!("value=\"{it}\""));
    assert_has(table, &["20 lines more", &bytes, &error]);
}
