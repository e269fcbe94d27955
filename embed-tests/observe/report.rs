//! The report: what it holds, and for every script of `python-scripts` that it changes nothing.

use crate::free_threaded::{is_free_threaded, takes};
use crate::host::{PYHOST, Run, figure, folder, stock, version};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// All that need no package; those that import NumPy have tests of their own.
fn python_scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("python-scripts");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "py"))
        .filter(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            !text.lines().any(|line| line.starts_with("import numpy"))
        })
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 6, "{scripts:?}");
    scripts
}

#[test]
fn a_reported_script_prints_and_ends_as_under_python() {
    for script in python_scripts() {
        let stock = Run::stock().arg(&script).run();
        let file = folder("report").join("R");
        let host = Run::host().at("--stats=file=", &file).arg(&script).run();
        assert_eq!(host.stdout, stock.stdout, "{}", script.display());
        assert_eq!(host.code(), stock.code(), "{}", script.display());
        let text = std::fs::read_to_string(&file).unwrap();
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["schema"], "pyhost-report/1");
        assert_eq!(report["partial"], false, "{}", script.display());
        let (peak, live) = (
            figure(&report, "obj", "peak_bytes"),
            figure(&report, "obj", "live_bytes"),
        );
        assert!(
            peak > live && live > 0,
            "{}: peak {peak}, live {live}",
            script.display()
        );
        let total = report["total"]["peak_bytes"].as_i64().unwrap();
        for account in ["raw", "mem", "obj", "arena", "native"] {
            let peak = figure(&report, account, "peak_bytes");
            assert!(
                peak <= total,
                "{}: {account} {peak} of {total}",
                script.display()
            );
        }
        let resident = report["process"]["peak_resident_bytes"].as_i64().unwrap();
        assert!(resident > 5_000_000, "{resident}");
    }
}

#[test]
fn a_report_says_what_was_run_by_what() {
    let (_, report) = Run::host()
        .args(["-c", "raise SystemExit(3)", "argument"])
        .reported();
    let (major, minor) = version();
    assert!(
        report["python"]["version"]
            .as_str()
            .unwrap()
            .starts_with(&format!("{major}.{minor}."))
    );
    assert_eq!(report["host"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(report["process"]["ended_by"], "exit");
    assert_eq!(report["process"]["exit_status"], 3);
    assert_eq!(report["process"]["argv"][3], "argument");
    assert!(report["process"]["wall_seconds"].as_f64().unwrap() > 0.0);
    assert!(
        report["process"]["started"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    assert_eq!(report["accounts"]["numpy"]["active"], false);
    assert_eq!(report["accounts"].as_object().unwrap().len(), 7);
}

#[test]
fn argv_is_valid_utf8_whatever_its_bytes() {
    let bad = std::ffi::OsString::from_vec(b"\xff\xfe \"quoted\\ \x01".to_vec());
    let (outcome, report) = Run::host().args(["-c", "pass"]).arg(bad).reported();
    assert_eq!(outcome.code(), 0);
    assert_eq!(
        report["process"]["argv"][3],
        "\u{fffd}\u{fffd} \"quoted\\ \u{1}"
    );
}

#[test]
fn a_forked_childs_report_says_what_it_took_over_and_before_an_exec_counts_nothing() {
    let code = "
import os
kept = bytearray(20 << 20)
for ending in (lambda: os._exit(0), lambda: os.execv('/bin/true', ['true'])):
    pid = os.fork()
    if pid == 0: ending()
    os.waitpid(pid, 0)
    print(pid)";
    let read = |format: &str| {
        let place = folder("forked");
        let outcome = Run::host()
            .at(&format!("--stats={format},file="), place.join("%p"))
            .code(code)
            .ok();
        let pids: Vec<String> = outcome.stdout.lines().map(str::to_owned).collect();
        let text = |pid: &str| std::fs::read_to_string(place.join(pid)).unwrap();
        let children = [text(&pids[0]), text(&pids[1])];
        let mut all = std::fs::read_dir(&place).unwrap();
        let parent = all.find_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            (!pids.contains(&name)).then(|| text(&name))
        });
        (parent.unwrap(), children)
    };
    let (parent, children) = read("json");
    let json = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    assert_eq!(json(&parent)["process"]["forked"], false);
    assert!(json(&parent)["process"]["inherited_live_bytes"].is_null());
    for child in children {
        let child = json(&child);
        assert_eq!(child["process"]["forked"], true);
        let inherited = child["process"]["inherited_live_bytes"].as_i64().unwrap();
        let live = child["total"]["live_bytes"].as_i64().unwrap();
        assert!(
            inherited > 20 << 20 && (live - inherited).abs() < 2 << 20,
            "{child:#}"
        );
    }
    let (parent, [exits, becomes]) = read("openmetrics");
    let value = |text: &str, name: &str| -> Option<i64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    };
    let live = |text: &str| value(text, "pyhost_memory_bytes{account=\"total\"").unwrap();
    let inherited = |text: &str| value(text, "pyhost_memory_inherited_bytes");
    assert!(live(&parent) > 20 << 20 && inherited(&parent).is_none());
    assert!(live(&exits) - inherited(&exits).unwrap() < 2 << 20);
    assert_eq!(live(&becomes), 0);
    assert_eq!(inherited(&becomes), None);
    assert!(
        !becomes.contains("process_resident_memory_bytes"),
        "{becomes}"
    );
}

#[test]
fn the_module_gives_the_same_dictionary() {
    let code = "import json, pyhost; print(json.dumps(pyhost.memory_stats()))";
    let (outcome, report) = Run::host().code(code).reported();
    let own: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    fn shape(value: &serde_json::Value, path: &str, into: &mut Vec<String>) {
        match value.as_object() {
            // Fields that only a finalised or an ended process has.
            Some(members) => members
                .iter()
                .filter(|(name, _)| !name.starts_with("finalized"))
                .filter(|(name, _)| {
                    let of_moments = ["balance", "size_classes", "at_peak", "at_resident_peak"];
                    !of_moments.contains(&name.as_str())
                })
                .for_each(|(name, member)| shape(member, &format!("{path}.{name}"), into)),
            None => into.push(path.to_owned()),
        }
    }
    let shapes = |value: &serde_json::Value| {
        let mut names = Vec::new();
        shape(value, "", &mut names);
        names
    };
    assert_eq!(shapes(&own), shapes(&report));
    assert_eq!(own["process"]["ended_by"], serde_json::Value::Null);
}

#[test]
fn peaks_can_be_reset_by_the_script() {
    let code = "import pyhost
keep = bytes(50_000_000)
del keep
peak = lambda: pyhost.memory_stats()['accounts']['obj']['peak_bytes']
assert peak() > 50_000_000
pyhost.reset_peak_memory_stats()
assert peak() < 20_000_000, peak()
keep = bytes(5_000_000)
assert 5_000_000 < peak() < 30_000_000, peak()
assert 'obj' in pyhost.memory_summary()";
    Run::host().code(code).ok();
}

#[test]
fn without_stats_the_host_is_silent() {
    let outcome = Run::host().code("print('x')").ok();
    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.as_str()),
        ("x\n", "")
    );
}

#[test]
fn text_goes_to_stderr_and_json_is_one_line() {
    let outcome = Run::host().arg("--stats").code("print('x')").ok();
    assert_eq!(outcome.stdout, "x\n");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(
        lines[0].starts_with("pyhost: Python ") && lines[0].ends_with("exit status 0"),
        "{lines:?}"
    );
    assert!(lines[1].starts_with("account "), "{lines:?}");
    assert!(
        lines.iter().any(|line| line.starts_with("total")),
        "{lines:?}"
    );
    let widths: Vec<usize> = lines[1..7].iter().map(|line| line.len()).collect();
    assert!(
        widths.windows(2).all(|pair| pair[0] == pair[1]),
        "columns: {lines:?}"
    );
    let outcome = Run::host().arg("--stats=json").code("pass").ok();
    assert_eq!(outcome.stderr.lines().count(), 1);
    serde_json::from_str::<serde_json::Value>(&outcome.stderr).unwrap();
}

#[test]
fn only_the_outermost_process_writes_a_file_that_does_not_name_processes() {
    let folder = folder("family");
    let family = "import subprocess, sys, os
subprocess.run([sys.executable, '-c', 'import os; os.fork() or os._exit(0)'], check=True)
if os.fork() == 0: os._exit(0)
os.wait()";
    let file = folder.join("one.json");
    Run::host().at("--stats=file=", &file).code(family).ok();
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(report["process"]["argv"][3], family);
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        1,
        "no part is left"
    );
    assert_eq!(report["children"]["forks"], 2);
    assert!(
        report["children"]["largest_peak_resident_at_most_bytes"]
            .as_i64()
            .unwrap()
            > 5_000_000
    );
    // With %p each writes its own: parent, fork, child, the child's fork.
    let each = folder.join("%p.json");
    Run::host().at("--stats=file=", &each).code(family).ok();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 5);
}

/// A stock Python that takes 300 MB and then becomes the host.
fn started_by_a_large_process(arguments: &[&str]) -> Run {
    let launcher = "import os, sys
kept = b'x' * 300_000_000
os.execv(sys.argv[1], sys.argv[1:])";
    Run::stock()
        .args(["-I", "-S", "-c", launcher, PYHOST])
        .args(arguments)
}

#[test]
fn the_resident_peak_is_that_of_the_host_and_not_of_the_program_that_started_it() {
    let code = "import pyhost
process = pyhost.memory_stats()['process']
assert process['peak_resident_source'] == 'VmHWM'
assert process['resident_bytes'] <= process['peak_resident_bytes'] < 100_000_000, process
assert pyhost.snapshot().peak_resident_bytes < 100_000_000";
    let outcome = started_by_a_large_process(&["--stats=json", "-c", code]).ok();
    let report: serde_json::Value = serde_json::from_str(&outcome.stderr).unwrap();
    let peak = report["process"]["peak_resident_bytes"].as_i64().unwrap();
    assert!((5_000_000..100_000_000).contains(&peak), "{peak}");
    let balance = report["balance"]["resident_bytes"].as_i64().unwrap();
    assert!(balance <= peak, "{balance} {peak}");
    let text = started_by_a_large_process(&["--stats=openmetrics", "-c", "pass"]).ok();
    let line = "pyhost_resident_memory_peak_bytes{command=\"-c\"} ";
    let line = text.stderr.lines().find_map(|it| it.strip_prefix(line));
    let peak: i64 = line.unwrap().parse().unwrap();
    assert!((5_000_000..100_000_000).contains(&peak), "{peak}");
}

#[test]
fn the_largest_child_is_told_only_where_the_figure_is_not_its_parents_size() {
    let run = |child: &str| {
        let code = "import subprocess, sys
kept = b'x' * 100_000_000
subprocess.run([sys.argv[1], '-I', '-S', '-c', sys.argv[2]], check=True)";
        let run = Run::host().args(["-c", code]);
        let (_, report) = run.arg(stock()).arg(child).reported();
        let children = report["children"].clone();
        assert!(
            children["largest_peak_resident_at_most_bytes"]
                .as_i64()
                .unwrap()
                >= 5_000_000
        );
        children["largest_peak_resident_bytes"].as_i64()
    };
    assert_eq!(run("pass"), None, "that is the size at the fork");
    let peak = run("kept = b'x' * 300_000_000").unwrap();
    assert!((300_000_000..340_000_000).contains(&peak), "{peak}");
}

/// A size as the table has it, in bytes.
fn bytes_of(text: &str) -> f64 {
    let (number, unit) = text.trim().split_once(' ').unwrap();
    let scale = ["B", "KiB", "MiB", "GiB"].iter().position(|it| *it == unit);
    number.parse::<f64>().unwrap() * 1024f64.powi(scale.unwrap() as i32)
}

#[test]
fn the_headline_figures_are_those_that_the_script_left() {
    // The memory is freed while Python is finalised, and the heaps give it back.
    let code = "kept = [b'x' * 1_000_000 for _ in range(100)]";
    for options in [
        &[][..],
        &["--retain", "small"],
        &["--region", "300M"],
        &["--cap", "300M"],
    ] {
        if !takes(options) {
            continue;
        }
        let shown = format!("{options:?}");
        let (_, report) = Run::host().args(options).code(code).reported();
        let (process, total) = (&report["process"], &report["total"]);
        let bytes = |value: &serde_json::Value| value.as_i64().unwrap();
        let resident = bytes(&process["resident_bytes"]);
        assert!(resident > bytes(&total["live_bytes"]), "{shown} {process}");
        assert!(
            resident <= bytes(&process["peak_resident_bytes"]),
            "{shown}"
        );
        assert_eq!(resident, bytes(&report["balance"]["resident_bytes"]));
        if options == ["--retain", "small"] && !is_free_threaded() {
            let after = bytes(&process["finalized_resident_bytes"]);
            assert!(after < 60_000_000 && resident > 100_000_000, "{process}");
        }
        if let Some(committed) = report["region"]["committed_bytes"].as_i64() {
            assert!(committed > 100_000_000, "{}", report["region"]);
        }

        let metrics = Run::host().args(options).arg("--stats=openmetrics");
        let metrics = metrics.code(code).ok().stderr;
        let sample = |name: &str| -> i64 {
            let line = metrics.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse().unwrap()
        };
        let live = sample("pyhost_memory_bytes{account=\"total\",command=\"-c\"}");
        let resident = sample("process_resident_memory_bytes{command=\"-c\"}");
        assert!(live > 100_000_000 && resident > live, "{shown}\n{metrics}");

        let text = Run::host().args(options).arg("--stats").code(code).ok();
        let find = |start: &str| {
            let line = text.stderr.lines().find_map(|it| it.strip_prefix(start));
            bytes_of(line.unwrap().split(',').next().unwrap())
        };
        let (headline, sheet) = (find("resident "), find("resident when the script ended: "));
        assert_eq!(headline, sheet, "{shown}\n{}", text.stderr);
        assert!(headline > 100_000_000.0, "{shown}\n{}", text.stderr);

        let brief = folder("brief").join("brief");
        let run = Run::host().args(options).at("--brief=", &brief);
        run.code(code).ok();
        let brief = std::fs::read_to_string(&brief).unwrap();
        let line = brief.lines().find_map(|it| it.strip_prefix("live "));
        let live = bytes_of(line.unwrap().split(',').next().unwrap());
        assert!(live > 100_000_000.0, "{shown}\n{brief}");
    }
}

#[test]
fn the_report_names_the_big_blocks_that_the_script_left() {
    let code = "a = bytearray(20_000_000)
b = bytearray(30_000_000)
del a
c = bytearray(5_000_000)";
    let (_, report) = Run::host().code(code).reported();
    let found = &report["big_blocks"];
    assert_eq!(found["blocks"], 2, "{found}");
    let sizes: Vec<i64> = found["largest"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["size_bytes"].as_i64().unwrap())
        .collect();
    assert!(sizes[0] >= 30_000_000 && sizes[1] >= 5_000_000, "{found}");
    assert_eq!(found["bytes"].as_i64().unwrap(), sizes[0] + sizes[1]);
    assert_eq!(found["largest"][0]["line"], 2, "{found}");
}
