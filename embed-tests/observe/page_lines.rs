//! The sampled lines of the page: tables and icicle of a real run, and of two, looked at and worked in headless Chromium.
//!
//! `page/stacks.py` drives the browser and prints the content of each step; the conditions are here.

use crate::host::{Outcome, PYHOSTCTL, Run, folder, joined};
use crate::page::{check, embedded_report, look, read, sample, strings, whole};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `build` is called once and keeps much; `again` keeps what the second argument says; `shrink` less with more;
/// what `before` made is gone since the mark.
const SCRIPT: &str = "
import json, sys
import pyhost
size = int(sys.argv[1])
def build(count):
    return [bytes(1000) for _ in range(count)]
def again(count):
    return bytearray(count)
def before(count):
    return bytearray(count)
def shrink(count):
    return [bytes(2000) for _ in range(count)]
def main():
    first = build(4000 * size)
    gone = before(2_000_000)
    pyhost.mark('first')
    del gone
    text = json.dumps(list(range(100_000)))
    second = again(3_000_000)
    third = shrink(6000 // size)
    return first, second, third, len(text)
kept = main()
";

/// A report of the script, which is in a folder: its path is part of every frame.
fn report(folder: &Path, lines: &str, size: u32) -> (PathBuf, Value) {
    let (script, path) = (
        folder.join("job.py"),
        folder.join(format!("report-{size}.json")),
    );
    std::fs::write(&script, SCRIPT).unwrap();
    let file = joined("--stats=file=", &path);
    let run = Run::host().arg(lines).arg(file);
    run.arg(&script).arg(size.to_string()).ok();
    let value = read(&path);
    (path, value)
}

fn html(arguments: &[&Path]) -> Outcome {
    Run::program(PYHOSTCTL).arg("html").args(arguments).run()
}

/// What Chromium showed when the icicle of a page was worked.
fn work(page: &Path, function: &str) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("embed-tests/page/stacks.py");
    let output = Command::new("python3")
        .arg(program)
        .args([page, &folder("shots"), Path::new(function)])
        .output()
        .expect("a python3 that runs the tests' own tools");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

fn frames(state: &Value) -> &[Value] {
    state["frames"].as_array().unwrap()
}

/// The first frame of a function.
fn frame<'a>(state: &'a Value, function: &str) -> &'a Value {
    let is_it = |frame: &&Value| label(frame).starts_with(&format!("{function} "));
    let found = frames(state).iter().find(is_it);
    found.unwrap_or_else(|| panic!("no frame of {function}: {state}"))
}

fn label(frame: &Value) -> &str {
    frame["label"].as_str().unwrap()
}

/// The exact bytes and the blocks of a label such as `..., 2.0 KiB ± 1 KiB (2,048 bytes) in 3 blocks, ...`.
fn figures(label: &str) -> (i64, i64) {
    let number = |text: &str| text.replace(',', "").parse().unwrap();
    let (bytes, rest) = label.split_once(" bytes) in ").unwrap();
    let bytes = number(bytes.rsplit_once('(').unwrap().1);
    (bytes, number(rest.split_once(" block").unwrap().0))
}

/// The bytes of a text such as `2.0 MiB`, and half of its last digit.
fn rounded(text: &str) -> (f64, f64) {
    let (figure, unit) = text.split_once(' ').unwrap();
    let unit = unit.split([' ', ',', ';']).next().unwrap();
    let power = ["B", "KiB", "MiB", "GiB"]
        .iter()
        .position(|name| *name == unit);
    let scale = 1024_f64.powi(power.unwrap_or_else(|| panic!("{text}")) as i32);
    (figure.parse::<f64>().unwrap() * scale, scale * 0.06)
}

fn is_in_total(account: &str) -> bool {
    account != "mapped"
}

/// The sums of a view of the report: bytes and blocks of all accounts of the total, or of one.
fn sums(report: &Value, view: &str, account: Option<&str>) -> (i64, i64) {
    let sums = report["lines"]["sums"][view].as_object().unwrap();
    let counts = |name: &str| account.map_or(is_in_total(name), |account| account == name);
    let of_scope = sums.iter().filter(|(name, _)| counts(name));
    of_scope.fold((0, 0), |(bytes, blocks), (_, sum)| {
        (bytes + int(&sum["bytes"]), blocks + int(&sum["blocks"]))
    })
}

/// Bytes and blocks of the stacks that grew since the mark, each in all threads together: those that shrank are not drawn.
fn growth(report: &Value, account: Option<&str>) -> (i64, i64) {
    let counts = |name: &str| account.map_or(is_in_total(name), |account| account == name);
    let of_row = |row: &Value| (int(&row["bytes"]), int(&row["blocks"]));
    let add = |sum: (i64, i64), other: (i64, i64)| (sum.0 + other.0, sum.1 + other.1);
    let (mut stacks, mut listed) = (BTreeMap::new(), BTreeMap::new());
    for row in report["lines"]["grown"].as_array().unwrap() {
        let account = row["account"].as_str().unwrap();
        let stack = stacks.entry((account, row["stack"].to_string()));
        let stack = stack.or_default();
        *stack = add(*stack, of_row(row));
        let listed = listed.entry(account).or_default();
        *listed = add(*listed, of_row(row));
    }
    let grew = stacks.iter();
    let grew = grew.filter(|((account, _), sum)| counts(account) && sum.0 > 0);
    // A report may list a part of an account's stacks alone.
    let sums = report["lines"]["sums"]["grown"].as_object().unwrap();
    let rest = sums.iter().filter(|(name, _)| counts(name));
    let rest = rest.map(|(name, sum)| {
        let listed: (i64, i64) = listed.get(name.as_str()).copied().unwrap_or_default();
        (
            int(&sum["bytes"]) - listed.0,
            (int(&sum["blocks"]) - listed.1).max(0),
        )
    });
    let rest = rest.filter(|rest| rest.0 > 0);
    grew.map(|(_, sum)| *sum).chain(rest).fold((0, 0), add)
}

/// The bytes of a view's stacks that have a call of a function.
fn bytes_of(report: &Value, view: &str, function: &str) -> i64 {
    let rows = report["lines"][view].as_array().unwrap().iter();
    let has_it = |row: &&Value| {
        let calls = row["stack"].as_array().unwrap();
        // A report is cut: what is left of a small stack is a frame of its own.
        is_in_total(row["account"].as_str().unwrap())
            && calls.iter().any(|call| call["function"] == function)
            && calls.last().unwrap()["function"] != "other stacks"
    };
    rows.filter(has_it).map(|row| int(&row["bytes"])).sum()
}

/// Checks what must hold of every page's icicle: nothing asked or said, contrast, layout, and frames inside their callers'.
fn check_icicle(found: &Value) {
    for view in ["light-1200", "light-375", "dark-1200", "dark-375"] {
        let shown = &found[view];
        assert_eq!(strings(&shown["said"]), [""; 0], "{view}");
        assert_eq!(strings(&shown["asked"]), [""; 0], "{view}");
        assert_eq!(shown["layout"]["overflow"], 0, "{view}: {shown}");
        let contrast = &shown["contrast"];
        assert!(int(&contrast["count"]) > 100, "{view}");
        assert_eq!(
            contrast["poor"].as_array().unwrap().len(),
            0,
            "{view}: {contrast}"
        );
    }
    assert_eq!(strings(&found["said"]), [""; 0]);
    assert_eq!(strings(&found["asked"]), [""; 0]);
    let number = |frame: &Value, part: &str| frame[part].as_f64().unwrap();
    for state in ["first", "zoomed", "search", "narrower"] {
        let frames = frames(&found[state]);
        let stops = frames.iter().filter(|frame| frame["stop"] == true);
        assert_eq!(stops.count(), 1, "{state}");
        for frame in frames.iter().filter(|frame| number(frame, "y") > 0.0) {
            let (left, right) = (
                number(frame, "x"),
                number(frame, "x") + number(frame, "width"),
            );
            let holds = |above: &&Value| {
                number(above, "y") < number(frame, "y")
                    && number(frame, "y") - number(above, "y") < 25.0
                    && number(above, "x") <= left + 0.01
                    && number(above, "x") + number(above, "width") >= right - 1.01
            };
            assert_eq!(frames.iter().filter(holds).count(), 1, "{state}: {frame}");
        }
    }
    assert_eq!(found["without_scripts"]["icicle"], false);
    assert!(
        (1..=10).contains(&int(&found["without_scripts"]["rows"])),
        "{found}"
    );
}

/// The names of the accounts of a page, by the values of its list; that of all is None.
fn accounts(found: &Value) -> Vec<(String, Option<String>)> {
    let list = found["choices"]["account"].as_array().unwrap().iter();
    let named = list.map(|choice| {
        let text = choice[1].as_str().unwrap().to_owned();
        let name = text.split(" (").next().unwrap().to_owned();
        (text, (choice[0] != "0").then_some(name))
    });
    named.collect()
}

/// The names of views in the order of a report, by which the page numbers them.
const VIEWS: [&str; 6] = [
    "at_peak",
    "at_account_peak",
    "at_resident_peak",
    "live",
    "allocated",
    "grown",
];

#[test]
fn the_icicle_of_every_allocation_shows_the_sums_of_the_report() {
    let (path, report) = report(&folder("page-lines"), "--lines=1", 3);
    assert_eq!(html(&[&path]).code(), 0);
    let page = path.with_extension("html");
    let found = work(&page, "build");
    check_icicle(&found);
    // Every view and account, to the byte.
    let choices = found["choices"]["view"].as_array().unwrap();
    assert_eq!(choices.len(), VIEWS.len());
    let mut compared = 0;
    for view in choices {
        let number = view[0].as_str().unwrap();
        let name = VIEWS[number.parse::<usize>().unwrap()];
        for (text, account) in accounts(&found) {
            let state = &found["sums"][number][&text];
            let expected = match name {
                "grown" => growth(&report, account.as_deref()),
                _ => sums(&report, name, account.as_deref()),
            };
            match frames(state).first() {
                None => assert_eq!(expected.0, 0, "{name} of {text}"),
                Some(root) => {
                    let shown = figures(label(root));
                    assert_eq!(shown, expected, "{name} of {text}");
                    assert!(!label(root).contains('\u{b1}'), "{root}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared >= 15, "{compared}");
    assert_eq!(found["choices"]["view"][0][1], "live at the peak");

    // A frame has the bytes of all stacks through it, in each view that has it.
    for (number, view) in VIEWS.iter().enumerate() {
        let state = &found["sums"][number.to_string()]["all of the total"];
        for function in ["build", "again", "shrink"] {
            let expected = bytes_of(&report, view, function);
            if expected > 500_000 {
                assert_eq!(
                    figures(label(frame(state, function))).0,
                    expected,
                    "{function}, {view}"
                );
            }
        }
    }
    let build = bytes_of(&report, "at_peak", "build");
    assert!(build > 12_000_000, "{build}");
    let first = &found["first"];
    assert_eq!(
        frame(first, "build")["classes"],
        serde_json::json!(["frame", "mine"])
    );
    let whole_width = first["whole"].as_f64().unwrap();
    assert_eq!(
        first["frames"][0]["width"].as_f64(),
        Some(whole_width - 1.0)
    );

    // The mouse over a frame, a click, and the way back.
    let hover = found["hover"]["at"].as_str().unwrap();
    assert!(
        hover.starts_with("build  ") && hover.contains("job.py:"),
        "{hover}"
    );
    assert_eq!(figures(hover).0, build);
    let zoomed = &found["zoomed"];
    assert_eq!(
        frame(zoomed, "build")["width"].as_f64(),
        Some(whole_width - 1.0),
        "{zoomed}"
    );
    let above = frames(zoomed).iter().filter(|frame| {
        frame["classes"]
            .as_array()
            .unwrap()
            .contains(&"above".into())
    });
    assert_eq!(above.count(), 3, "the root, <module> and main: {zoomed}");
    assert!(
        zoomed["focus"].as_str().unwrap().starts_with("build "),
        "{zoomed}"
    );
    let back = &found["escape"];
    assert_eq!(
        back["frames"].as_array().unwrap().len(),
        frames(first).len()
    );
    assert_eq!(back["back"], false);
    // The keyboard alone: down to the largest call, to its neighbour and back, in, and up.
    assert!(
        found["home"]["focus"]
            .as_str()
            .unwrap()
            .starts_with("all of the total")
    );
    assert!(
        found["down"]["focus"]
            .as_str()
            .unwrap()
            .starts_with("<module> ")
    );
    assert_ne!(found["right"]["focus"], found["down"]["focus"]);
    assert_eq!(found["left"]["focus"], found["down"]["focus"]);
    assert_eq!(found["enter"]["back"], true);
    assert!(
        found["up"]["focus"]
            .as_str()
            .unwrap()
            .starts_with("all of the total")
    );
    assert_eq!(found["whole"]["back"], false);

    let search = found["search"]["found"].as_str().unwrap();
    let share = 100.0 * build as f64 / sums(&report, "at_peak", None).0 as f64;
    assert!(
        search.contains(&format!(", {share:.1} % of all")),
        "{search}: {share}"
    );
    let marked: Vec<&Value> = frames(&found["search"])
        .iter()
        .filter(|frame| {
            frame["classes"]
                .as_array()
                .unwrap()
                .contains(&"found".into())
        })
        .collect();
    assert!(
        !marked.is_empty() && marked.iter().all(|frame| label(frame).starts_with("build")),
        "{marked:?}"
    );
    assert_eq!(found["nothing"]["found"], "No frame matches.");
    assert_eq!(found["cleared"]["found"], "");
    assert_eq!(
        int(&frames(&found["narrower"])[0]["width"]),
        int(&found["narrower"]["whole"]) - 1
    );
}

#[test]
fn the_page_of_a_sampled_run_has_its_lines_with_their_errors() {
    let folder = folder("page-lines");
    let (page, script) = (folder.join("run.html"), folder.join("job.py"));
    std::fs::write(&script, SCRIPT).unwrap();
    Run::host()
        .arg("--lines=16K")
        .at("--stats=html,file=", &page)
        .arg(&script)
        .arg("2")
        .ok();
    let (text, embedded) = (whole(&page), embedded_report(&page));
    let path = folder.join("report.json");
    std::fs::write(&path, embedded).unwrap();
    let report = read(&path);
    check(&look(&page, &path));
    let found = work(&page, "build");
    check_icicle(&found);
    // The host rounds each row to a byte, and the errors of rows with them.
    for (text, account) in accounts(&found) {
        let Some(account) = account else { continue };
        let sum = &report["lines"]["sums"]["at_peak"][&account];
        let Some(root) = frames(&found["sums"]["0"][&text]).first() else {
            continue;
        };
        let (bytes, _) = figures(label(root));
        let rows = int(&sum["stacks"]) + 1;
        assert!(
            (bytes - int(&sum["bytes"])).abs() <= rows,
            "{account}: {root}, {sum}"
        );
        let (error, half) = rounded(label(root).split_once("\u{b1} ").unwrap().1);
        let expected = sum["error_bytes"].as_f64().unwrap();
        assert!(
            (error - expected).abs() <= half + expected * 0.01,
            "{account}: {root}, {sum}"
        );
    }
    // The table without scripts, beside `pyhostctl lines`.
    let lines = Run::program(PYHOSTCTL)
        .args(["lines", "--json"])
        .arg(&path)
        .ok()
        .stdout;
    let lines: Value = serde_json::from_str(&lines).unwrap();
    let table = text.split_once("<table data-view=\"at_peak\">").unwrap().1;
    let table = table.split_once("</table>").unwrap().0;
    for row in lines["rows"].as_array().unwrap().iter().take(10) {
        for field in ["bytes", "error_bytes", "blocks"] {
            let value = format!("<data value=\"{}\"", row[field]);
            assert!(table.contains(&value), "{field} of {row}: {table}");
        }
    }
}

#[test]
fn two_reports_are_compared_frame_by_frame() {
    let folder = folder("page-lines");
    let ((before, a), (path, b)) = (
        report(&folder, "--lines=8K", 1),
        report(&folder, "--lines=8K", 3),
    );
    let page = path.with_file_name("compared.html");
    let made = html(&[
        &path,
        Path::new("--baseline"),
        &before,
        Path::new("-o"),
        &page,
    ]);
    assert_eq!(made.code(), 0, "{made:#?}");
    let found = work(&page, "build");
    check_icicle(&found);
    let first = &found["first"];
    let classes = |function: &str, state: &Value| {
        frame(state, function)["classes"][1]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(found["choices"]["view"][0][1], "live at the report");
    for (function, class) in [
        ("build", "most-grew"),
        ("again", "same"),
        ("shrink", "most-shrank"),
    ] {
        let shown = frame(first, function);
        assert_eq!(classes(function, first), class, "{shown}");
        let (was, is) = (
            bytes_of(&a, "live", function),
            bytes_of(&b, "live", function),
        );
        assert_eq!(figures(label(shown)).0, is, "{shown}");
        let told = label(shown).split_once("; before ").unwrap().1;
        let (shown_before, half) = rounded(told.split(", change ").next().unwrap());
        assert!((shown_before - was as f64).abs() <= half, "{told}, {was}");
        let sign = if is > was {
            "change +"
        } else {
            "change \u{2212}"
        };
        assert!(class == "same" || told.contains(sign), "{told}");
    }
    // Widths by the baseline: `build` is a third as wide.
    let part = |state: &Value| {
        frame(state, "build")["width"].as_f64().unwrap() / state["whole"].as_f64().unwrap()
    };
    let (now, then) = (
        part(&found["widths"]["bytes"]),
        part(&found["widths"]["before"]),
    );
    assert!(then < now * 0.7, "{then}, {now}");

    // The table has the lines of `pyhostctl diff` beyond the error.
    let diff = Run::program(PYHOSTCTL)
        .args(["diff", "--json"])
        .args([&before, &path])
        .ok()
        .stdout;
    let diff: Value = serde_json::from_str(&diff).unwrap();
    let text = whole(&page);
    let table = text.split_once("<table class=\"changes\">").unwrap().1;
    let table = table.split_once("</table>").unwrap().0;
    let changes = diff["lines"]["changes"].as_array().unwrap();
    let is_real = |change: &&Value| change["within_error"] == false;
    let changes: Vec<_> = changes.iter().filter(is_real).collect();
    assert!(changes.len() >= 2, "{changes:?}");
    for change in changes {
        for field in ["change", "error_bytes", "a", "b"] {
            let value = format!("<data value=\"{}\"", change[field]);
            assert!(table.contains(&value), "{field} of {change}: {table}");
        }
        // The frame of the line has the same error.
        let Some(file) = change["file"].as_str() else {
            continue; // what was allocated outside of Python, which is of another size at times
        };
        let line = &change["line"];
        let place = format!(", {file}:{line}, ");
        let mut labels = frames(first).iter().map(label);
        let shown = labels.rfind(|label| label.contains(&place));
        let shown = shown.unwrap_or_else(|| panic!("no frame of {change}: {first}"));
        let (error, half) = rounded(shown.rsplit_once("\u{b1} ").unwrap().1);
        let expected = change["error_bytes"].as_f64().unwrap();
        assert!((error - expected).abs() <= half, "{shown}, {change}");
    }
}

#[test]
fn a_hostile_report_neither_breaks_the_page_nor_its_script() {
    let folder = folder("page-lines");
    let evil = "</script><script>document.title='broken'</script>\"'<b>\u{202e}\u{1f600}";
    let deep: Vec<Value> = (0..1000)
        .map(|line| serde_json::json!({"file": "deep.py", "line": line, "function": "deep"}))
        .collect();
    let row = |account: &str, bytes: i64, stack: Value| serde_json::json!({"account": account, "bytes": bytes, "blocks": 1, "error_bytes": bytes, "stack": stack});
    let odd = serde_json::json!([{"file": evil, "line": -1, "function": ""}, {"file": "", "line": 1, "function": evil}]);
    let known = serde_json::json!([{"file": "job.py", "line": 3, "function": "build"}]);
    let mut report = read(&sample());
    report["lines"] = serde_json::json!({"interval_bytes": 1000, "live": [
        row(evil, i64::MAX / 4, odd), row("obj", i64::MAX / 4, deep.into()), row("obj", i64::MAX / 4, known),
    ]});
    let path = folder.join("report.json");
    std::fs::write(&path, report.to_string()).unwrap();
    let page = folder.join("page.html");
    let made = html(&[
        &path,
        Path::new("--baseline"),
        &path,
        Path::new("-o"),
        &page,
    ]);
    assert_eq!(made.code(), 0, "{made:#?}");
    let found = work(&page, "build");
    let title = "document.title='broken'";
    for view in ["light-1200", "dark-375"] {
        assert_eq!(strings(&found[view]["said"]), [""; 0], "{view}");
        assert_eq!(found[view]["layout"]["overflow"], 0, "{view}");
    }
    assert_eq!(strings(&found["said"]), [""; 0]);
    let first = &found["first"];
    assert!(
        frames(first)
            .iter()
            .any(|frame| label(frame).contains(title)),
        "{first}"
    );
    // A thousand calls: 121 rows below the root, and a line that says so.
    assert_eq!(
        frames(first)
            .iter()
            .filter(|frame| label(frame).starts_with("deep "))
            .count(),
        120
    );
    assert!(
        first["note"]
            .as_str()
            .unwrap()
            .contains("go on below the last row"),
        "{first}"
    );
    assert_eq!(
        found["search"]["found"].as_str().unwrap().split(':').next(),
        Some("1 frame matches")
    );

    // Without lines there is nothing to compare.
    let none = Run::host()
        .at("--stats=file=", folder.join("none.json"))
        .code("pass")
        .ok();
    assert_eq!(none.stdout, "");
    for (one, other) in [("none.json", "report.json"), ("report.json", "none.json")] {
        let made = html(&[
            &folder.join(one),
            Path::new("--baseline"),
            &folder.join(other),
            Path::new("-o"),
            &folder.join("no.html"),
        ]);
        assert_eq!(made.code(), 1, "{made:#?}");
        assert_eq!(made.stderr.lines().count(), 1, "{made:#?}");
        assert!(
            made.stderr
                .contains("none.json' has no sampled lines; expected a report of `pyhost --lines`"),
            "{made:#?}"
        );
        assert!(!folder.join("no.html").exists());
    }
}
