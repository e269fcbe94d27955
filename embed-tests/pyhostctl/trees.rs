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
