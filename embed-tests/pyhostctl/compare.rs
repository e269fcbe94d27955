//! `pyhostctl compare`: a program under hosts of several Pythons.

use crate::host::{Outcome, PYHOST, PYHOSTCTL, Run, folder, stock, version};
use serde_json::Value;
use std::path::PathBuf;

const CODE: &str = "import sys
kept = [bytes(1000) for _ in range(5000)]
if '--second' in sys.argv: sys.exit(3)
";

fn compare(pythons: &str, arguments: &[&str]) -> Run {
    let run = Run::program(PYHOSTCTL).args(["compare", "--python", pythons]);
    run.args(["--runs=2"]).args(arguments)
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

/// The version under test, such as `3.11` or `3.13t`.
fn own() -> String {
    let (major, minor) = version();
    let code = "import sys; print('' if getattr(sys, '_is_gil_enabled', lambda: True)() else 't')";
    let ending = Run::program(stock()).code(code).ok();
    format!("{major}.{minor}{}", ending.stdout.trim())
}

/// A host beside the one under test that runs the same Python, and tells the script which it is.
fn second() -> PathBuf {
    let path = folder("second").join("second");
    let program = format!(
        "#!/bin/sh
for word; do case $word in *.py) exec {PYHOST} \"$@\" --second;; esac; done
exec {PYHOST} \"$@\"
"
    );
    std::fs::write(&path, program).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    path
}

#[test]
fn a_comparison_has_peaks_time_and_the_lines_that_differ() {
    let both = format!("{},{}", own(), second().display());
    let outcome = compare(&both, &["-c", CODE]).ok();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines[0].starts_with("peak "), "{outcome:#?}");
    assert_eq!(lines[0].matches(own().trim_end_matches('t')).count(), 2);
    assert_eq!(lines[1].matches("status 0").count(), 2, "{outcome:#?}");
    for name in ["raw ", "mem ", "obj ", "total ", "resident ", "time "] {
        let of_name = lines.iter().filter(|line| line.starts_with(name));
        assert_eq!(of_name.count(), 1, "{name} {outcome:#?}");
    }
    assert!(outcome.stdout.contains("\nA: Python "), "{outcome:#?}");
    let outcome = compare(&both, &["--json", "-c", CODE]).ok();
    let result = json(&outcome);
    assert_eq!(result["schema"], "pyhost-compare/1");
    for side in result["pythons"].as_array().unwrap() {
        let peak = side["peak_bytes"]["obj"].as_i64().unwrap();
        assert!((5_000_000..12_000_000).contains(&peak), "{result:#}");
        assert!(side["peak_bytes"]["resident"].as_i64() > Some(peak));
        assert!(side["seconds"].as_f64().unwrap() > 0.0, "{result:#}");
    }
    assert_eq!(result["pythons"][0]["lines"], Value::Null, "{result:#}");
    assert_eq!(result["pythons"][1]["lines"]["view"], "at_peak");
}

#[test]
fn a_program_that_fails_under_one_host_is_said_and_the_others_go_on() {
    let script = folder("compared").join("script.py");
    std::fs::write(&script, CODE).unwrap();
    let both = format!("{},{PYHOST}", second().display());
    let outcome = compare(&both, &[script.to_str().unwrap()]).run();
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    let ended = outcome.stdout.lines().nth(1).unwrap();
    let words: Vec<&str> = ended.split_whitespace().collect();
    assert_eq!(words, ["ended", "status", "3", "status", "0"]);
    let total = outcome
        .stdout
        .lines()
        .find(|line| line.starts_with("total"));
    let words: Vec<&str> = total.unwrap().split_whitespace().collect();
    assert_eq!((words[1], words[3]), ("-", "MiB"), "{outcome:#?}");
    assert!(
        outcome.stderr.starts_with("pyhostctl: Python 3."),
        "{outcome:#?}"
    );
    assert!(outcome.stderr.contains(": status 3: "), "{outcome:#?}");
}

#[test]
fn a_host_that_is_not_there_is_named_before_any_run() {
    // A plain interpreter is not a host.
    for python in ["3.1", "/bin/true", "/none", stock().to_str().unwrap()] {
        let outcome = compare(python, &["-c", CODE]).run();
        assert_eq!(outcome.code(), 1, "{outcome:#?}");
        let said = format!("pyhostctl: --python: no host '{python}'; expected the path of one");
        assert!(outcome.stderr.starts_with(&said), "{outcome:#?}");
    }
}

#[test]
fn a_comprehension_is_one_line_where_it_is_a_function_and_where_it_is_none() {
    let script = folder("comprehension").join("script.py");
    let code = "import sys
kept = list(map(bytes, [10_000] * 2000)) if '--second' in sys.argv else [bytes(10_000) for _ in range(500)]
";
    std::fs::write(&script, code).unwrap();
    let both = format!("{PYHOST},{}", second().display());
    let outcome = compare(&both, &["--json", script.to_str().unwrap()]).ok();
    let result = json(&outcome);
    let changes = result["pythons"][1]["lines"]["changes"].as_array();
    let mut of_line = changes.unwrap().iter().filter(|change| change["line"] == 2);
    let change = of_line
        .next()
        .expect("the second allocates four times as much");
    assert_eq!(change["function"], "<module>", "{result:#}");
    assert!(change["a"].as_i64() > Some(3_000_000), "{result:#}");
    assert!(change["b"].as_i64() > Some(12_000_000), "{result:#}");
    assert_eq!(of_line.next(), None, "{result:#}");
}
