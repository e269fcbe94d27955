//! `pyhost.leaks()`: what a function leaves behind with every call, by account, size, type and line; and nothing of functions
//! of the standard library. The marker of the pytest plugin is in `pytest_plugin.rs`.

use crate::host::{Run, script};

/// Runs a part of the script, with options of the host before it.
fn checked(options: &[&str], part: &[&str]) {
    let run = Run::host().args(options).arg(script("repeats.py"));
    let outcome = run.args(part).run();
    assert_eq!(
        (outcome.code(), outcome.last_line()),
        (0, "checked"),
        "{options:?} {outcome:#?}"
    );
}

#[test]
fn what_grows_is_named_by_account_size_type_and_line() {
    checked(&[], &["leaky"]);
    checked(&["--debug-hooks"], &["leaky"]);
    checked(&["--lines=1"], &["leaky"]);
    checked(&["--cap", "1G"], &["leaky"]);
}

#[test]
fn functions_of_the_standard_library_leave_nothing() {
    checked(&[], &["clean"]);
    checked(&["--allocator", "pymalloc"], &["clean"]);
}

#[test]
fn a_cache_that_is_emptied_in_batches_or_fills_up_is_bounded() {
    checked(&[], &["bounded"]);
}

#[test]
fn references_that_only_grow_are_named_by_object_and_line() {
    checked(&[], &["references"]);
    checked(&["--debug-hooks"], &["references"]);
}

#[test]
fn wrong_values_and_failing_functions_are_the_callers() {
    checked(&[], &["arguments"]);
}

#[test]
fn odd_types_signals_and_threads_disturb_no_measurement() {
    checked(&[], &["odd_types"]);
    checked(&[], &["interrupted"]);
    checked(&[], &["at_once"]);
}

#[test]
fn the_lines_of_a_measurement_are_in_no_report() {
    let code = "import pyhost\nkept = []\nassert pyhost.leaks(lambda: kept.append([])).lines";
    let outcome = Run::host().arg("--stats").code(code).ok();
    assert!(!outcome.stderr.contains("lines"), "{outcome:#?}");
}
