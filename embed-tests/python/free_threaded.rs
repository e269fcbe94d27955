//! What differs on a free-threaded Python (PEP 703), which `tools/free-threaded` builds:
//!
//!     tools/free-threaded cargo test -p pyhost --test embed -- free_threaded::

use crate::exactness::run_script;
use crate::host::{Outcome, Run, figure, script};
use crate::skipping::skipped;
use std::sync::OnceLock;

/// Why a test of what the heaps keep of freed objects is skipped.
pub const KEPT_BY_CPYTHON: &str = "a free-threaded Python keeps freed objects on its own heap";
/// Why a test of guard pages of objects or small blocks is skipped.
pub const NO_SMALL_GUARDS: &str =
    "a free-threaded Python has neither objects nor small blocks guarded";
/// Why a test of `--region` is skipped.
pub const NO_REGION: &str = "a free-threaded Python has no --region";
/// Why a test of the types of live objects is skipped.
pub const NO_TYPES: &str = "the types of a free-threaded Python's objects are not read";
/// Why a test of the host's own debug hooks is skipped.
pub const NO_OWN_DEBUG_HOOKS: &str = "a free-threaded Python has CPython's own debug hooks alone";

pub fn is_free_threaded() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let code = "import sysconfig; print(sysconfig.get_config_var('Py_GIL_DISABLED') or 0)";
    *ANSWER.get_or_init(|| Run::host().code(code).ok().stdout.trim() == "1")
}

/// Standard error, without the lines about caps, hooks and guards that only a free-threaded Python has.
pub fn said(outcome: &Outcome) -> String {
    let is_notice = |line: &&str| {
        line.starts_with("pyhost: --cap, --region: a free-threaded Python may crash ")
            || line.contains(": a free-threaded Python has ")
    };
    let lines = outcome.stderr.split_inclusive('\n');
    lines.filter(|line| !is_notice(line)).collect()
}

/// Whether the Python under test can be run with these options: a free-threaded one has no region.
pub fn takes(options: &[&str]) -> bool {
    options.first() != Some(&"--region") || !is_free_threaded()
}

/// Runs a script that compares, with and without debug hooks.
fn is_exact(arguments: &[&str]) {
    if !is_free_threaded() {
        return skipped("needs a free-threaded Python: tools/free-threaded");
    }
    run_script("free_threaded.py", arguments);
}

#[test]
fn the_ledger_of_objects_agrees_with_a_walk_of_cpythons_pages() {
    is_exact(&["situations"]);
}

/// A longer run is `pyhost embed-tests/scripts/free_threaded.py soak 600 16`.
#[test]
fn sixteen_threads_that_free_each_others_blocks_lose_nothing() {
    is_exact(&["soak", "6", "16"]);
}

#[test]
fn cpythons_arena_is_a_row_of_the_balance_and_no_map_of_a_library() {
    if !is_free_threaded() {
        return skipped("needs a free-threaded Python: tools/free-threaded");
    }
    let code =
        "kept = [[number] for number in range(300000)]; large = bytes(30 << 20); del kept[::2]";
    // Also as under vm.overcommit_memory=2: mapped without access, and made writable by parts.
    let run = Run::host().code(code);
    let (_, report) = run.env("MIMALLOC_ARENA_EAGER_COMMIT", "0").reported();
    assert_eq!(figure(&report, "mapped", "peak_bytes"), 0);
    let (_, report) = Run::host().code(code).reported();
    assert_eq!(figure(&report, "mapped", "peak_bytes"), 0);
    let live = figure(&report, "obj", "live_bytes");
    assert!(live > 45 << 20, "{live}");
    let rows = report["balance"]["rows"].as_array().unwrap();
    let row = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        row["resident_bytes"].as_i64().unwrap()
    };
    assert_eq!(row("obj"), live);
    assert!(row("python_arena") > 1 << 20, "{rows:#?}");
    let rest = report["balance"]["remainder_bytes"].as_i64().unwrap();
    assert!(rest.abs() < 1 << 20, "{rest}");
}

#[test]
fn four_threads_that_reach_a_cap_each_have_their_errors() {
    if !is_free_threaded() {
        return skipped("needs a free-threaded Python: tools/free-threaded");
    }
    let script = script("free_threaded_caps.py");
    let (outcome, report) = Run::host()
        .args(["--cap", "64M"])
        .arg(script)
        .arg("2")
        .timeout(300)
        .reported();
    assert_eq!(
        (outcome.code(), outcome.last_line()),
        (0, "2 2 2 2"),
        "{outcome:#?}"
    );
    let peak = report["total"]["peak_bytes"].as_i64().unwrap();
    assert!((50 << 20..=64 << 20).contains(&peak), "{peak}");
}

#[test]
fn what_is_not_to_be_had_says_so() {
    if !is_free_threaded() {
        return skipped("needs a free-threaded Python: tools/free-threaded");
    }
    let run = |options: &[&str], code: &str| Run::host().args(options).code(code).run();
    let bounded = run(&["--region", "64M"], "pass");
    assert_eq!(bounded.code(), 2, "{bounded:?}");
    let budget = run(&[], "import pyhost\nwith pyhost.budget(1 << 20): pass");
    assert!(budget.stderr.contains("no GIL"), "{budget:?}");
    for options in [["--guard"], ["--debug-hooks"]] {
        let notice = run(&options, "pass").stderr;
        assert!(notice.contains("a free-threaded Python has"), "{notice}");
    }
}

/// CPython 3.13's collector forgets namespaces, types and functions when the first thread starts.
#[test]
fn what_keeps_an_object_is_named_after_a_thread_has_run() {
    if !is_free_threaded() {
        return skipped("needs a free-threaded Python: tools/free-threaded");
    }
    for (holder, named) in [
        ("kept", "__main__.kept[0]"),
        ("Type.kept", "held by something>['kept'][0]"),
    ] {
        let code = format!(
            "import pyhost, threading
class Type: kept = []
kept = []
def expect():
    one = Type()
    {holder}.append(one)
    pyhost.expect_freed(one)
expect()
thread = threading.Thread(target=int)
thread.start()
thread.join()"
        );
        let outcome = Run::host().code(&code).run();
        assert!(outcome.stderr.contains(named), "{outcome:#?}");
    }
}
