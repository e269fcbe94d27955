//! CPython's debug hooks over the host's allocators catch what they catch over CPython's own.

use crate::host::{Outcome, Run, script};

fn bug(name: &str) -> Outcome {
    Run::host()
        .args(["--debug-hooks", "-X", "faulthandler"])
        .arg(script("memory_bugs.py"))
        .arg(name)
        .run()
}

#[test]
fn an_overflow_is_caught_in_every_domain() {
    for domain in ["raw", "mem", "obj"] {
        let outcome = bug(&format!("overflow-{domain}"));
        assert_eq!(outcome.code(), 134, "{outcome:#?}");
        assert!(
            outcome.stderr.contains("bad trailing pad byte"),
            "{domain}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("requested"),
            "a dump of the block: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("memory_bugs.py"),
            "Python's traceback: {}",
            outcome.stderr
        );
    }
}

#[test]
fn an_overflow_names_the_allocation_under_tracemalloc() {
    let outcome = Run::host()
        .args(["--debug-hooks", "-X", "tracemalloc=5"])
        .arg(script("memory_bugs.py"))
        .arg("overflow-mem")
        .run();
    assert_eq!(outcome.code(), 134);
    assert!(
        outcome
            .stderr
            .contains("Memory block allocated at (most recent call first)"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn an_underflow_is_caught() {
    let outcome = bug("underflow");
    assert_eq!(outcome.code(), 134, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("FORBIDDENBYTE"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_free_by_another_domain_is_caught() {
    let outcome = bug("wrong-domain");
    assert_eq!(outcome.code(), 134, "{outcome:#?}");
    let text = "bad ID: Allocated using API 'm', verified using API 'r'";
    assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
}

#[test]
fn a_call_without_the_gil_is_caught() {
    for domain in ["mem", "obj"] {
        let outcome = bug(&format!("no-gil-{domain}"));
        assert_eq!(outcome.code(), 134, "{outcome:#?}");
        let text = "Python memory allocator called without holding the GIL";
        assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
    }
}

#[test]
fn a_double_free_ends_inside_the_dump() {
    let outcome = bug("double-free");
    assert!(
        outcome.stderr.contains("Debug memory block at address"),
        "{outcome:#?}"
    );
    assert!([134, 139].contains(&outcome.code()), "{outcome:#?}");
}

#[test]
fn fresh_and_freed_memory_is_filled() {
    let outcome = bug("fill");
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(outcome.stdout, "cdcdcdcdcdcdcdcd\ndddddddddddddddd\n");
}

#[test]
fn a_write_after_free_is_not_detected() {
    // As over CPython's own allocators: the facts are pinned both ways.
    let outcome = bug("write-after-free");
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
}
