//! What CPython 3.14 and 3.15 brought that looks into processes, runs several interpreters, or makes memory of its own: as under
//! stock Python. `tools/newest-pythons` runs these on the CPythons of Debian sid.

use crate::host::{Run, figure, folder, script, version};
use crate::skipping::skipped;
use std::process::Command;

/// Runs the script by both, and compares status and standard output.
fn same(prepare: impl Fn(Run) -> Run) -> String {
    let [host, stock] = [Run::host(), Run::stock()].map(|run| prepare(run).run());
    assert_eq!(host.code(), stock.code(), "{host:#?} {stock:#?}");
    assert_eq!(host.stdout, stock.stdout, "{host:#?}");
    host.stdout
}

#[test]
fn code_is_sent_into_a_running_process() {
    if version() < (3, 14) {
        return skipped("sys.remote_exec is of CPython 3.14");
    }
    let out = same(|run| run.arg(script("newest_remote_exec.py")));
    assert_eq!(out, "0 a local of the script\n");
}

#[test]
fn code_is_sent_into_a_process_with_lines_a_cap_and_debug_hooks() {
    if version() < (3, 14) {
        return skipped("sys.remote_exec is of CPython 3.14");
    }
    let options = ["--lines=1", "--cap=1G", "--debug-hooks"];
    let run = Run::host().arg("--stats=off").args(options);
    let outcome = run.arg(script("newest_remote_exec.py")).ok();
    assert_eq!(outcome.stdout, "0 a local of the script\n");
}

#[test]
fn interpreters_are_called_and_share_queues() {
    if version() < (3, 14) {
        return skipped("concurrent.interpreters is of CPython 3.14");
    }
    let out = same(|run| run.arg(script("newest_interpreters.py")));
    assert!(out.ends_with("interpreters 1\n"), "{out}");
    for options in [&["--lines=1"][..], &["--debug-hooks"], &["--cap=1G"]] {
        let run = Run::host().arg("--stats=off").args(options);
        let outcome = run.arg(script("newest_interpreters.py")).ok();
        assert_eq!(outcome.stdout, out, "{options:?}");
    }
}

#[test]
fn lazy_imports_are_lazy() {
    if version() < (3, 15) {
        return skipped("lazy imports are of CPython 3.15");
    }
    for mode in ["normal", "all"] {
        let out = same(|run| {
            run.args(["-X", &format!("lazy_imports={mode}")])
                .arg(script("newest_lazy_imports.py"))
        });
        assert!(out.ends_with(&format!("mode {mode}\n")), "{out}");
    }
}

/// CPython 3.15 reads the variable if it was built with huge pages for pymalloc's arenas, which it does not use here.
#[test]
fn huge_pages_of_pymalloc_change_nothing() {
    let code = "print(sum(len(str(number)) for number in range(100_000)))";
    let variable = "PYTHON_PYMALLOC_HUGEPAGES";
    same(|run| run.env(variable, "1").code(code));
    for (allocator, largest) in [("mimalloc", 300_000), ("pymalloc", 64 << 20)] {
        let run = Run::host().args(["--allocator", allocator]);
        let (_, report) = run.env(variable, "1").code(code).reported();
        let arenas = figure(&report, "arena", "peak_bytes");
        assert!((1..largest).contains(&arenas), "{allocator}: {report:#}");
    }
}

#[test]
fn the_sampling_profiler_sees_the_calls_of_a_host() {
    if version() < (3, 15) {
        return skipped("profiling.sampling is of CPython 3.15");
    }
    let folder = folder("sampling");
    let code = "import time\ndef busy():\n    end = time.monotonic() + 1\n    while time.monotonic() < end: sum(range(500))\nbusy()\n";
    std::fs::write(folder.join("busy.py"), code).unwrap();
    for run in [Run::host(), Run::stock()] {
        let stacks = folder.join("stacks.txt");
        let arguments = [
            "-m",
            "profiling.sampling",
            "run",
            "-r",
            "200",
            "--collapsed",
            "-o",
        ];
        run.folder(&folder)
            .args(arguments)
            .arg(&stacks)
            .arg("busy.py")
            .ok();
        // Each line is a stack, from the outermost call, and its samples.
        let text = std::fs::read_to_string(&stacks).unwrap();
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let (mut all, mut of_function) = (0, 0);
        for (stack, samples) in lines {
            let samples: i32 = samples.parse().unwrap();
            all += samples;
            of_function += samples * i32::from(stack.contains("busy.py:busy:"));
        }
        assert!(of_function > 20 && of_function * 10 > all * 8, "{text}");
    }
}

/// The program with the JIT on; `None` if the Python has none.
fn with_jit(run: Run) -> Option<Run> {
    let asked = "import sys; print(hasattr(sys, '_jit') and sys._jit.is_available())";
    let is_there = Run::stock().args(["-I", "-c", asked]).ok().stdout == "True\n";
    is_there.then(|| run.env("PYTHON_JIT", "1"))
}

#[test]
fn the_jit_compiles_as_under_stock_python_and_its_code_is_seen() {
    let (Some(host), Some(stock)) = (with_jit(Run::host()), with_jit(Run::stock())) else {
        return skipped("this Python has no JIT");
    };
    let stock = stock.arg(script("newest_jit.py")).ok().stdout;
    let (host, report) = host.arg(script("newest_jit.py")).reported();
    assert_eq!(host.stdout, stock);
    let bytes: i64 = stock.split_whitespace().last().unwrap().parse().unwrap();
    assert!(bytes > 100_000, "{stock}");
    let rows = report["balance"]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "jit_code");
    let resident = row.unwrap()["resident_bytes"].as_i64().unwrap();
    assert!(
        (bytes * 9 / 10..=bytes).contains(&resident),
        "{resident} {stock}"
    );
}

#[test]
fn compiled_code_has_its_frames_and_loses_no_block() {
    let ways: [(&[&str], &str); 4] = [
        (&["--cap", "1G"], "frame_kinds.py"),
        (&["--lines=1"], "newest_jit.py"),
        // Without a guard, which finds CPython 3.15.2 at fault: docs/results/newest-pythons.md.
        (&["--debug-hooks"], "newest_jit.py"),
        (&["--leak-check"], "newest_jit.py"),
    ];
    // 3.14 itself loses the `uop_executor` objects of functions that live to its end.
    let count = ways.len() - usize::from(version() == (3, 14));
    for (options, file) in &ways[..count] {
        let Some(host) = with_jit(Run::host()) else {
            return skipped("this Python has no JIT");
        };
        let outcome = host.args(*options).arg(script(file)).ok();
        let ended = ["every kind of frame", "bytes of code"];
        let last = outcome.last_line();
        assert!(
            ended.iter().any(|words| last.starts_with(words)),
            "{options:?}: {outcome:#?}"
        );
    }
}

#[test]
fn tools_new_python_names_the_facts_that_other_headers_change() {
    let ask = "import sysconfig; print(sysconfig.get_path('include'))";
    let own = Run::stock().args(["-c", ask]).ok().stdout;
    let folder = folder("other-headers");
    let other = folder.join("include");
    let copied = Command::new("cp")
        .args(["-rL", own.trim()])
        .arg(&other)
        .status();
    assert!(copied.unwrap().success());
    let header = other.join("cpython/pystate.h");
    let text = std::fs::read_to_string(&header).unwrap();
    let longer = text.replacen("struct _ts {", "struct _ts { void *another;", 1);
    std::fs::write(&header, longer).unwrap();
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/new-python");
    let told = Command::new(tool)
        .arg(own.trim())
        .arg(&other)
        .output()
        .unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    let differ: Vec<&str> = told
        .lines()
        .filter(|line| line.contains(" to "))
        .skip(1)
        .collect();
    assert!(differ.len() > 5, "{told}");
    for line in differ {
        let (fact, values) = line.trim().split_once(": ").unwrap();
        let (before, after) = values.split_once(" to ").unwrap();
        let number = |text: &str| text.parse::<u32>().unwrap();
        assert!(fact.contains("ThreadState"), "{told}");
        assert_eq!(number(before) + 8, number(after), "{told}");
    }
}
