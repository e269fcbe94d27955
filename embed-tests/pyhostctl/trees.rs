//! `pyhostctl tree`: the statement of a tree of processes.

use crate::host::{PYHOSTCTL, Run, folder, script};

#[test]
fn a_tree_of_all_kinds_of_processes_adds_up_to_what_the_kernel_says() {
    let directory = folder("family");
    let live = format!("--live={}", directory.display());
    let run = Run::host()
        .arg(live)
        .arg(script("family.py"))
        .arg(PYHOSTCTL);
    assert_eq!(run.timeout(120).ok().stdout, "ok\n");
}

#[test]
fn lines_and_leaks_of_a_tree_count_each_block_once() {
    let directory = folder("worker-lines");
    let live = format!("--live={}", directory.display());
    let run = Run::host().arg(live).arg("--lines=4K");
    let run = run
        .arg(script("worker_lines.py"))
        .arg(PYHOSTCTL)
        .arg(&directory);
    assert_eq!(run.timeout(120).ok().stdout, "ok\n");
}

#[test]
fn a_process_that_is_in_no_tree_is_an_error() {
    let directory = folder("no-tree");
    let run = Run::program(PYHOSTCTL).arg("--dir").arg(&directory);
    let outcome = run.args(["tree", "1"]).run();
    let text = format!(
        "pyhostctl: process 1 is in no tree of '{}'; ",
        directory.display()
    );
    assert!(outcome.stderr.starts_with(&text), "{outcome:#?}");
    assert_eq!(outcome.code(), 1);
}

#[test]
fn the_killed_are_listed() {
    let directory = folder("killed");
    let live = format!("--live={}", directory.display());
    let code = "import os; kept = bytearray(20 << 20); os.system(f'kill -9 {os.getpid()}')";
    Run::host().args([&live, "-c", code]).run();
    let listed = |words: &[&str]| {
        let run = Run::program(PYHOSTCTL).arg("--dir").arg(&directory);
        run.arg("killed").args(words).ok().stdout
    };
    let rows = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let before = rows(&listed(&[]));
    assert!(
        matches!(&before[..], [row] if row.contains(" MiB ") && row.contains(" host    was killed: pyhost -c import os; ")),
        "{before:#?}"
    );
    // The next host puts its file away, and the one after that finds it there.
    Run::host().args([&live, "-c", "pass"]).ok();
    assert_eq!(rows(&listed(&[])), before);
    let tree: serde_json::Value = serde_json::from_str(&listed(&["--json"])).unwrap();
    let process = &tree["processes"][0];
    assert_eq!(process["ended"], "was killed");
    assert!(process["live_bytes"].as_u64() > Some(20 << 20) && process["memory"].is_null());
}
