//! The ledger against oracles that know nothing of it: a walk of the heap's blocks by mimalloc's
//! own pages and free lists, and a shadow map of what a script asked for.

use crate::host::{Run, script, version};

/// Runs a script that compares.
pub fn is_exact(run: Run, name: &str, arguments: &[&str]) {
    let run = run.arg(script(name)).args(arguments);
    let outcome = run.timeout(300).run();
    assert_eq!(
        (outcome.code(), outcome.last_line()),
        (0, "exact"),
        "{name} {outcome:#?}"
    );
}

/// Both with and without debug hooks.
pub fn run_script(name: &str, arguments: &[&str]) {
    for hooks in ["0", "1"] {
        let run = Run::host().env("PYHOST_DEBUG_HOOKS", hooks);
        is_exact(run, name, arguments);
    }
}

#[test]
fn random_allocations_from_many_threads_agree_with_a_walk_of_the_heaps() {
    for seed in ["1", "2", "3"] {
        run_script("exact_domains.py", &[seed]);
    }
}

#[test]
fn native_allocations_from_many_threads_agree_with_a_shadow_map() {
    for seed in ["1", "2"] {
        run_script("exact_native.py", &[seed]);
    }
}

#[test]
fn peaks_of_mem_and_obj_are_exact_and_those_of_raw_are_within_their_bound() {
    run_script("exact_peaks.py", &[]);
}

#[test]
fn interpreters_with_a_gil_of_their_own_lose_nothing() {
    if version() >= (3, 12) {
        for seed in ["1", "2", "3"] {
            run_script("exact_gils.py", &[seed]);
        }
    }
}

#[test]
fn programs_of_the_standard_library_leave_ledger_and_heaps_in_agreement() {
    run_script("exact_programs.py", &[]);
}
