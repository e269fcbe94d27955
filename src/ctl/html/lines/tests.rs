use super::*;
use crate::html::SAMPLE;
use crate::html::page::{page, with};
use crate::lines::{By, Table};
use crate::stacks::tests::{assert_has, call, of_thread, row, sample_value, stacks_of, with_lines};
use crate::stacks::{Amount, missed};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The tree of a report, as the script reads it.
fn tree_of(report: &Value, baseline: Option<&Value>) -> Value {
    let stacks = stacks_of(report).unwrap();
    let baseline = baseline.map(baseline_of);
    let text = Tree::new(&stacks, baseline.as_ref()).to_json();
    serde_json::from_str(&text).unwrap()
}

fn baseline_of(value: &Value) -> Baseline {
    Baseline::new(Box::new(Report::of_json(&value.to_string()).unwrap())).unwrap()
}

fn page_of(report: &Value, baseline: Option<&Value>) -> Result<String, String> {
    let text = report.to_string();
    let report = Report::of_json(&text)?;
    let baseline = baseline.map(baseline_of);
    page(&report, &text, &with(None, baseline.as_ref()))
}

fn ints(value: &Value) -> Vec<i64> {
    let list = value.as_array().unwrap();
    list.iter().map(|number| number.as_i64().unwrap()).collect()
}

/// The frames from the outermost in, of each frame of the tree, with the row of a view and a scope.
fn rows_of(tree: &Value, view: View, scope: i64) -> HashMap<Vec<String>, Vec<i64>> {
    let fields = match tree["is_comparison"].as_bool().unwrap() {
        true => 7,
        false => 5,
    };
    let name = |frame: &Value| {
        let [name, file, line] =
            [0, 1, 2].map(|part| &tree["frames"][frame.as_u64().unwrap() as usize][part]);
        match file.as_u64() {
            Some(file) => format!(
                "{} {}:{line}",
                name.as_str().unwrap(),
                tree["files"][file as usize][0].as_str().unwrap()
            ),
            None => name.as_str().unwrap().to_owned(),
        }
    };
    let is_in_total = |scope: i64| tree["accounts"][scope as usize - 1][1] == true;
    let mut paths: Vec<Vec<String>> = Vec::new();
    let mut found = HashMap::new();
    for entry in tree["entries"].as_array().unwrap() {
        let mut path = match entry[0].as_i64().unwrap() {
            -1 => Vec::new(),
            above => paths[above as usize].clone(),
        };
        let numbers = ints(&entry[2]);
        let of_view = || numbers.chunks(fields).filter(|row| row[0] == view as i64);
        let exact = of_view().find(|row| row[1] == scope);
        let only = || of_view().find(|row| is_in_total(row[1].max(1)) && scope == 0);
        let row = exact.or_else(only).map(|row| row[2..].to_vec());
        if path.is_empty() && entry[0] == -1 {
            found.extend(row.clone().map(|row| (Vec::new(), row)));
        }
        for frame in entry[1].as_array().unwrap() {
            path.push(name(frame));
            found.extend(row.clone().map(|row| (path.clone(), row)));
        }
        paths.push(path);
    }
    found
}

/// The sum of each frame, added up one by one.
fn sums_of(stacks: &Stacks, view: View, account: Option<&str>) -> HashMap<Vec<String>, Vec<i64>> {
    let mut found: HashMap<Vec<String>, Amount> = HashMap::new();
    for site in stacks.of_view(view) {
        let counts = account.map_or(view.has(&site.account), |name| name == site.account);
        if !counts {
            continue;
        }
        let frames = stacks.frames_of(site).map(|frame| match &frame.place {
            Some((file, line)) => format!("{} {file}:{line}", frame.name),
            None => frame.name.clone(),
        });
        let frames: Vec<String> = frames.collect();
        for end in 0..=frames.len() {
            let known = found.entry(frames[..end].to_vec()).or_default();
            *known = known.plus(site.amount(view)).unwrap();
        }
    }
    let figures = |sum: Amount| vec![sum.bytes, sum.blocks, sum.square.sqrt().round() as i64];
    let found = found.into_iter();
    found.map(|(path, sum)| (path, figures(sum))).collect()
}

#[test]
fn each_frame_has_the_sum_of_its_stacks_by_view_and_account() {
    let mut mixed = sample_value();
    let peak = mixed["lines"]["at_peak"].as_array_mut().unwrap();
    let module = call("<module>", "/job.py", 9);
    let load = [call("load", "/job.py", 3), module.clone()];
    peak.push(row("mapped", 5000, 1, &load));
    peak.push(row("native", 70, 1, std::slice::from_ref(&module)));
    let resident = mixed["lines"]["at_resident_peak"].as_array_mut().unwrap();
    resident.push(row("mapped", 5000, 1, &[module]));
    for report in [mixed, serde_json::from_str(SAMPLE).unwrap()] {
        let stacks = stacks_of(&report).unwrap();
        let tree = tree_of(&report, None);
        assert_eq!(tree["missed_bytes"], missed(stacks.interval) as i64);
        let accounts = tree["accounts"].as_array().unwrap();
        for view in View::ALL {
            for scope in 0..=accounts.len() {
                let account = (scope > 0).then(|| accounts[scope - 1][0].as_str().unwrap());
                let found = rows_of(&tree, view, scope as i64);
                let expected = sums_of(&stacks, view, account);
                assert_eq!(found, expected, "{view:?} {account:?}");
            }
        }
    }
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
    for (tree, side) in [
        (tree_of(&report, None), 0),
        (tree_of(&sample_value(), Some(&report)), 3),
    ] {
        let rows = rows_of(&tree, View::Grown, 0);
        let path = ["<module> /job.py:9", "fill /job.py:3"].map(str::to_owned);
        for depth in 0..=2 {
            assert_eq!(rows[&path[..depth]][side], 300, "{rows:?}");
        }
        let dropped = "drop /job.py:4".to_owned();
        assert!(rows.keys().all(|path| !path.contains(&dropped)));
    }
}

#[test]
fn native_calls_have_a_kind_of_their_own_and_the_library_if_they_have_a_source() {
    let native = json!({"file": "/v/site-packages/x.libs/liba.so", "line": 0, "function": "f", "offset": 16});
    let stack = [native, call("g", "/job.py", 9)];
    let report =
        with_lines(&json!({"interval_bytes": 1, "at_peak": [row("native", 5, 1, &stack)]}));
    let files = tree_of(&report, None)["files"].clone();
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
    let file = super::tree::file(&frame.place.unwrap().0, frame.library.as_deref());
    let expected = (
        "/home/me/a.c".to_owned(),
        "library",
        Some("liba.so".to_owned()),
    );
    assert_eq!(file, expected);
}

#[test]
fn a_comparison_has_the_changes_that_diff_finds() {
    let before = sample_value();
    let mut report = before.clone();
    let lines = &mut report["lines"];
    lines["live"][0]["bytes"] = json!(900);
    let new = row("raw", 500, 1, &[call("new", "/job.py", 5)]);
    lines["live"].as_array_mut().unwrap().push(new);
    lines["interval_bytes"] = json!(32);
    let (a, b) = (stacks_of(&before).unwrap(), stacks_of(&report).unwrap());
    let tree = tree_of(&report, Some(&before));
    let rows = rows_of(&tree, View::Live, 0);
    let expected = crate::diff::LineChanges::new(&a, &b, View::Live);
    let (largest, _) = expected.largest();
    assert_eq!(largest.len(), 2);
    for change in largest {
        let name = change.subject.to_string();
        let (place, function) = name.split_once(" in ").unwrap();
        let name = format!("{function} {place}");
        // Each line has one stack, so its innermost frame has the sums of the line.
        let mut of_line = rows.iter().filter(|(path, _)| path.last() == Some(&name));
        let row = of_line.next().unwrap().1;
        let expected = [change.b, change.a, change.error];
        assert_eq!([row[0], row[3], row[4]], expected, "{name}");
    }
    // A stack that is gone has no width, and its change.
    let back = rows_of(&tree_of(&before, Some(&report)), View::Live, 0);
    let new = &back[&vec!["new /job.py:5".to_owned()]];
    assert_eq!((new[0], new[3]), (0, 500));
    let page = page_of(&report, Some(&before)).unwrap();
    let title = "Lines that changed most: live at the report";
    let parts = [title, "+<data value=\"700\"", "+<data value=\"500\""];
    assert_has(&page, &parts);
}

#[test]
fn a_deep_stack_is_one_entry() {
    let deep: Vec<Value> = (0..4000).map(|line| call("f", "f.py", line % 7)).collect();
    let report = with_lines(&json!({"interval_bytes": 1, "live": [row("obj", 5, 1, &deep)]}));
    let tree = tree_of(&report, None);
    let entries = tree["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[1][1].as_array().unwrap().len(), 4000);
    assert_eq!(tree["frames"].as_array().unwrap().len(), 7);
    assert!(page_of(&report, Some(&report)).is_ok());
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
    let stacks = stacks_of(&report).unwrap();
    let tree = Tree::new(&stacks, None).to_json().len();
    assert!(tree < length / 10, "{tree} of {length}");
    let page = page_of(&report, None).unwrap().len();
    assert!(page < length + tree + 200_000, "{page}, {length}, {tree}");
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
