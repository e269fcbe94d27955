//! `pyhostctl lines`, and the lines of `pyhostctl diff`: what they make of reports of `--lines`.

use crate::host::{Outcome, PYHOSTCTL, Run, folder, joined};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Keeps blocks by two lines of its own, in three stacks, and by a call of the standard library.
const SCRIPT: &str = "
import json, sys
def keep(count):
    return [bytes(1000) for _ in range(count)]
def more(count):
    return keep(count)
def text(count):
    return json.dumps(list(range(count)))
size = int(sys.argv[1])
first = keep(1000 * size)
second = more(2000)
third = text(100_000)
";

/// A report of the script, of a size; and its path.
fn report(lines: &str, size: u32) -> (PathBuf, Value) {
    let folder = folder("lines-ctl");
    let (script, path) = (folder.join("job.py"), folder.join("report.json"));
    std::fs::write(&script, SCRIPT).unwrap();
    let file = joined("--stats=file=", &path);
    let run = Run::host().arg(lines).arg(file);
    run.arg(&script).arg(size.to_string()).ok();
    let text = std::fs::read_to_string(&path).unwrap();
    (path, serde_json::from_str(&text).unwrap())
}

fn lines(report: &Path, arguments: &[&str]) -> Run {
    Run::program(PYHOSTCTL)
        .arg("lines")
        .arg(report)
        .args(arguments)
}

/// The table as JSON, with all rows.
fn table(report: &Path, arguments: &[&str]) -> Value {
    let run = lines(report, arguments).args(["--json", "--top", "100000"]);
    serde_json::from_str(&run.ok().stdout).unwrap()
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value}"))
}

/// The rows of a table by name: bytes and error.
fn by_name(table: &Value) -> HashMap<String, (i64, i64)> {
    let rows = table["rows"].as_array().unwrap().iter();
    let named = rows.map(|row| {
        let name = row["name"].as_str().unwrap().to_owned();
        (name, (int(&row["bytes"]), int(&row["error_bytes"])))
    });
    named.collect()
}

/// The bytes of each name that `name` gives a stack, from the report itself.
fn sums(report: &Value, view: &str, name: impl Fn(&Value) -> String) -> HashMap<String, i64> {
    let mut found = HashMap::new();
    for row in report["lines"][view].as_array().unwrap() {
        if row["account"] != "mapped" {
            *found.entry(name(row)).or_default() += int(&row["bytes"]);
        }
    }
    found
}

fn call_name(call: &Value) -> String {
    let text = |name: &str| call[name].as_str().unwrap();
    match int(&call["line"]) {
        0 => format!("{} in {}", text("file"), text("function")),
        line => format!("{}:{line} in {}", text("file"), text("function")),
    }
}

/// The innermost call of job.py or of code from text, which the standard library makes too, or the innermost call.
fn line_of(row: &Value) -> String {
    let calls = row["stack"].as_array().unwrap();
    let is_own = |call: &&Value| {
        let file = call["file"].as_str().unwrap();
        file.ends_with("/job.py") || file == "<string>"
    };
    let line = calls.iter().find(is_own).or(calls.first());
    line.map_or("outside of Python code".to_owned(), call_name)
}

#[test]
fn rows_are_the_sums_of_the_reports_stacks() {
    for interval in ["--lines=1", "--lines=16K,seed=5"] {
        let (path, report) = report(interval, 1);
        for view in ["at_peak", "live", "allocated"] {
            let found = by_name(&table(&path, &["--view", view]));
            let found: HashMap<String, i64> = found
                .into_iter()
                .map(|(name, (bytes, _))| (name, bytes))
                .collect();
            assert_eq!(found, sums(&report, view, line_of), "{interval} {view}");
            let accounts = table(&path, &["--view", view, "--by", "account"]);
            for (name, (bytes, _)) in by_name(&accounts) {
                let sum = int(&report["lines"]["sums"][view][&name]["bytes"]);
                // The host rounds the sum and each row to whole bytes.
                assert!((bytes - sum).abs() <= 500, "{view} {name}: {bytes}, {sum}");
            }
        }
    }
}

#[test]
fn the_error_of_an_accounts_stacks_is_the_one_that_the_host_computes() {
    let (path, report) = report("--lines=16K,seed=6", 1);
    for view in ["at_peak", "live", "allocated"] {
        let accounts = by_name(&table(&path, &["--view", view, "--by", "account"]));
        assert!(accounts.len() > 2, "{accounts:?}");
        for (name, (_, error)) in accounts {
            let host = int(&report["lines"]["sums"][view][&name]["error_bytes"]);
            // The stacks' errors are rounded to whole bytes.
            assert!(
                (error - host).abs() <= 100,
                "{view} {name}: {error}, {host}"
            );
        }
    }
}

#[test]
fn the_true_bytes_of_a_sum_are_within_the_error() {
    let (exact, _) = report("--lines=1", 2);
    let truth = by_name(&table(&exact, &["--view", "live", "--by", "package"]));
    let yours = truth["yours"].0;
    assert!(yours > 4_000_000, "{truth:?}");
    let within = (0..12).filter(|seed| {
        let (path, _) = report(&format!("--lines=64K,seed={seed}"), 2);
        let (bytes, error) =
            by_name(&table(&path, &["--view", "live", "--by", "package"]))["yours"];
        assert!(error < yours, "{error}");
        (bytes - yours).abs() <= error
    });
    let within = within.count();
    assert!(within >= 10, "{within} of 12");
}

#[test]
fn the_table_names_the_lines_that_the_hosts_table_names() {
    let (path, _) = report("--lines=1", 1);
    let script = path.with_file_name("job.py");
    let run = Run::host().args(["--lines=1", "--stats"]);
    let host = run.arg(&script).arg("1").ok().stderr;
    let ours = lines(&path, &[]).ok().stdout;
    let name = |line: &str| line[line.find("/").unwrap()..].to_owned();
    let of_job = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.contains("/job.py:"));
        lines.take(3).map(name).collect()
    };
    assert_eq!(of_job(&ours), of_job(&host), "{ours}\n{host}");
    assert_eq!(of_job(&ours).len(), 3, "{ours}");
}

#[test]
fn a_table_is_by_what_was_asked_for() {
    let (path, report) = report("--lines=1", 1);
    let packages = by_name(&table(&path, &["--view", "live", "--by", "package"]));
    let names = ["yours", "standard library", "outside of Python code"];
    assert!(
        names.iter().all(|name| packages.contains_key(*name)),
        "{packages:?}"
    );
    let functions = by_name(&table(&path, &["--view", "live", "--by", "function"]));
    let job = path.with_file_name("job.py");
    let text = functions[&format!("text ({})", job.display())].0;
    assert!(text > 500_000, "the text of json: {functions:?}");
    let files = by_name(&table(&path, &["--view", "live", "--by", "file"]));
    assert!(files[&job.display().to_string()].0 > 3_000_000, "{files:?}");
    let stacks = table(
        &path,
        &["--view", "live", "--by", "stack", "--account", "obj"],
    );
    let of_obj = report["lines"]["live"].as_array().unwrap().iter();
    let mut of_obj = of_obj.filter(|row| row["account"] == "obj");
    let (first, row) = (&stacks["rows"][0], of_obj.next().unwrap());
    assert_eq!(
        (&first["stack"], &first["bytes"]),
        (&row["stack"], &row["bytes"])
    );
    let whole = lines(&path, &["--by", "stack"]).ok().stdout;
    assert!(whole.contains("in more\n"), "the callers: {whole}");
}

#[test]
fn top_bounds_the_rows_and_the_others_are_one() {
    let (path, report) = report("--lines=16K,seed=5", 1);
    let text = lines(&path, &["--top", "2"]).ok().stdout;
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 6, "{text}");
    assert!(
        rows[0].starts_with("job.py: bytes live at the peak, by line"),
        "{text}"
    );
    assert!(rows[4].ends_with(" more"), "{text}");
    let samples = int(&report["lines"]["samples"]);
    let facts =
        format!("one sample in 16.0 KiB, {samples} samples, 0 dropped; the rows have all bytes");
    assert_eq!(rows[5], facts);
    let mut two = lines(&path, &["--top", "2", "--json"]).ok().stdout;
    assert_eq!(two.pop(), Some('\n'));
    let two: Value = serde_json::from_str(&two).unwrap();
    let all = table(&path, &[]);
    let sum: i64 = by_name(&all).values().map(|(bytes, _)| bytes).sum();
    let shown: i64 = by_name(&two).values().map(|(bytes, _)| bytes).sum();
    assert_eq!(shown + int(&two["more"]["bytes"]), sum);
    assert_eq!(two["schema"], "pyhost-lines/1");
}

#[test]
fn standard_input_is_a_report_too() {
    let (path, _) = report("--lines=1", 1);
    let text = std::fs::read(&path).unwrap();
    let piped = lines(Path::new("-"), &[]).stdin(text).ok().stdout;
    assert_eq!(piped, lines(&path, &[]).ok().stdout);
}

fn refused(outcome: &Outcome, status: i32, part: &str) {
    assert_eq!(outcome.code(), status, "{outcome:#?}");
    assert_eq!(outcome.stdout, "", "{outcome:#?}");
    assert!(outcome.stderr.contains(part), "{part}: {outcome:#?}");
}

#[test]
fn a_report_without_lines_and_a_bad_value_are_refused() {
    let (path, report) = report("--lines=off", 1);
    assert!(report["lines"].is_null());
    let outcome = lines(&path, &[]).run();
    refused(
        &outcome,
        1,
        "has no sampled lines; expected a report of `pyhost --lines`",
    );
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    for (option, value, part) in [
        (
            "--by",
            "module",
            "possible values: line, function, file, package, library, account, stack, thread, type",
        ),
        (
            "--view",
            "peak",
            "possible values: at_peak, at_account_peak, at_resident_peak, live, allocated, grown",
        ),
        (
            "--account",
            "heap",
            "possible values: raw, mem, obj, arena, numpy, native, mapped",
        ),
        ("--top", "0", "0 is not in 1.."),
    ] {
        refused(&lines(&path, &[option, value]).run(), 2, part);
    }
}

fn diff(a: &Path, b: &Path) -> Run {
    Run::program(PYHOSTCTL).arg("diff").arg(a).arg(b)
}

#[test]
fn a_line_that_grew_is_the_difference_of_the_reports() {
    let ((a, small), (_, large)) = (report("--lines=1", 1), report("--lines=1", 4));
    // Both have the same script, so that the lines have the same names.
    let job = |path: &Path| path.with_file_name("job.py").display().to_string();
    let text = large.to_string();
    let other = large["lines"]["live"].to_string();
    let at = other.find("/job.py").unwrap();
    let start = other[..at].rfind('"').unwrap() + 1;
    let b = a.with_file_name("large.json");
    std::fs::write(&b, text.replace(&other[start..at + 7], &job(&a))).unwrap();
    let large: Value = serde_json::from_str(&std::fs::read_to_string(&b).unwrap()).unwrap();
    let json: Value = serde_json::from_str(&diff(&a, &b).arg("--json").ok().stdout).unwrap();
    let (before, after) = (sums(&small, "live", line_of), sums(&large, "live", line_of));
    let changes = json["lines"]["changes"].as_array().unwrap();
    for change in changes {
        let name = change["name"].as_str().unwrap();
        let of = |sums: &HashMap<String, i64>| sums.get(name).copied().unwrap_or(0);
        assert_eq!(int(&change["a"]), of(&before), "{change}");
        assert_eq!(int(&change["b"]), of(&after), "{change}");
        assert_eq!(int(&change["change"]), of(&after) - of(&before), "{change}");
        assert_eq!(int(&change["error_bytes"]), 0);
    }
    let keep = format!("{}:4 in ", job(&a));
    let first = changes[0]["name"].as_str().unwrap();
    assert!(first.starts_with(&keep), "{changes:#?}");
    let grown = int(&changes[0]["change"]);
    assert!(
        (3_000_000..4_000_000).contains(&grown),
        "3,000 blocks of 1,033 bytes: {grown}"
    );
    let shown = diff(&a, &b).ok().stdout;
    assert!(
        shown.contains("lines             A          B      change     \u{b1} error  live\n"),
        "{shown}"
    );
    assert!(shown.contains(&keep), "{shown}");
    let back: Value = serde_json::from_str(&diff(&b, &a).arg("--json").ok().stdout).unwrap();
    let back = back["lines"]["changes"].as_array().unwrap();
    assert_eq!(back.len(), changes.len());
    assert_eq!(int(&back.last().unwrap()["change"]), -grown);
}

#[test]
fn of_twenty_pairs_one_line_in_twenty_changed_at_most_and_one_that_grew_always_did() {
    let folder = folder("lines-same");
    let script = folder.join("job.py");
    let grows = "planted = [bytes(1000) for _ in range(20_000 * len(sys.argv[2:]))]";
    std::fs::write(&script, format!("{SCRIPT}{grows}\n")).unwrap();
    let sample = |seed: u32, words: &[&str]| {
        let path = folder.join(format!("{seed}.json"));
        let file = joined("--stats=file=", &path);
        let lines = format!("--lines=32K,seed={seed}");
        let run = Run::host().arg(lines).arg(file).arg(&script);
        run.arg("2").args(words).ok();
        path
    };
    let paths: Vec<PathBuf> = (1..=21).map(|seed| sample(seed, &[])).collect();
    let (mut changed, mut same) = (0, 0);
    for pair in paths.windows(2) {
        let json = diff(&pair[0], &pair[1]).arg("--json").ok().stdout;
        let json: Value = serde_json::from_str(&json).unwrap();
        for change in json["lines"]["changes"].as_array().unwrap() {
            let is_within = int(&change["change"]).abs() <= int(&change["error_bytes"]);
            assert_eq!(change["within_error"], is_within, "{change}");
            changed += i64::from(!is_within);
        }
        same += int(&json["lines"]["within_error"]);
    }
    println!("{changed} lines changed, {same} did not");
    assert!(same >= 60 && changed * 20 <= same + changed);
    for seed in 101..=120 {
        let grown = sample(seed, &["planted"]);
        for view in ["live", "at_peak", "at_resident_peak"] {
            let words = ["--view", view];
            let text = diff(&paths[0], &grown).args(words).ok().stdout;
            let (_, lines) = text.split_once("\nlines ").expect(&text);
            let mut rows = lines.lines();
            assert!(rows.next().unwrap().ends_with(view), "{text}");
            // First, and unmarked.
            let row = rows.next().unwrap();
            assert!(
                row.starts_with(' ') && row.contains("job.py:13 in "),
                "{text}"
            );
            let words: Vec<&str> = row.split_whitespace().collect();
            let growth: f64 = words[4].parse().unwrap();
            assert!(words[4].starts_with('+') && growth > 18.0, "{text}");
        }
    }
}

/// Maps 64 MiB on line 4, touches half of them, and gives all back.
const MAPS: &str = "
import mmap
def work():
    touched = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for place in range(0, 32 << 20, mmap.PAGESIZE): touched[place] = 1
    touched.close()
";

#[test]
fn at_the_highest_resident_size_the_rows_and_the_total_have_what_is_mapped() {
    let sample = |end: &str| {
        let folder = folder("lines-ctl");
        let (script, path) = (folder.join("job.py"), folder.join("report.json"));
        std::fs::write(&script, format!("{MAPS}{end}")).unwrap();
        let run = Run::host().arg("--lines=1");
        let run = run.arg(joined("--stats=file=", &path)).arg(&script);
        run.ok();
        path
    };
    let (path, less) = (sample("work()"), sample(""));
    let words = |by| ["--view", "at_resident_peak", "--by", by];
    for by in ["line", "function", "file", "stack", "account"] {
        let table = table(&path, &words(by));
        let row = &table["rows"][0];
        assert_eq!(int(&row["bytes"]) >> 20, 32, "{by}: {row}");
        assert_eq!(row["account"], "mapped", "{by}: {row}");
        let rows = table["rows"].as_array().unwrap();
        let sum: i64 = rows.iter().map(|row| int(&row["bytes"])).sum();
        assert_eq!(sum, int(&table["total_bytes"]), "{by}");
    }
    // Elsewhere it is beside the total.
    let rows = table(&path, &["--view", "allocated"])["rows"].to_string();
    assert!(!rows.contains("\"mapped\""), "{rows}");
    let text = diff(&less, &path).args(["--view", "at_resident_peak"]).ok();
    let (_, changed) = text.stdout.split_once("\nlines ").unwrap();
    let first = changed.lines().nth(1).unwrap();
    assert!(first.contains("job.py:4 in work"), "{changed}");
    // As the host's own table says it.
    let text = Run::program(PYHOSTCTL)
        .args(["report", "--text"])
        .arg(&path);
    let text = text.ok().stdout;
    let (_, moment) = text
        .split_once("at the highest resident size, after ")
        .unwrap();
    assert!(
        moment.contains("  libraries' maps 32.0 MiB, heaps "),
        "{text}"
    );
    assert!(moment.contains(" 64.0 MiB (resident 32.0 MiB)"), "{text}");
    let html = Run::program(PYHOSTCTL)
        .arg("html")
        .arg(&path)
        .args(["-o", "-"]);
    let page = html.ok().stdout;
    let open = page.split("Lines with the most bytes: other views").next();
    assert!(open.unwrap().contains("data-view=\"at_resident_peak\""));
}

#[test]
fn a_comparison_without_lines_on_both_sides_has_no_section() {
    let ((with, _), (without, _)) = (report("--lines=1", 1), report("--lines=off", 1));
    for (a, b) in [(&with, &without), (&without, &with)] {
        assert!(!diff(a, b).ok().stdout.contains("\nlines"));
        let json: Value = serde_json::from_str(&diff(a, b).arg("--json").ok().stdout).unwrap();
        assert!(
            json["lines"].is_null() && json["total"].is_object(),
            "{json}"
        );
    }
}
