//! Budgets of units of work: see `embed-tests/budgets` for many units and servers.

use crate::host::{Run, script};

/// Runs the cases of `scripts/budgets.py` with options.
fn cases(options: &[&str]) {
    let run = Run::host().args(options).arg(script("budgets.py"));
    assert_eq!(run.ok().stdout, "ran\n", "{options:?}");
}

#[test]
fn a_unit_that_takes_more_than_its_budget_gets_an_error_and_nobody_else() {
    cases(&[]);
}

#[test]
fn budgets_and_sampled_lines_have_intervals_of_their_own() {
    cases(&["--lines=256K"]);
    cases(&["--lines=4K"]);
}

#[test]
fn budgets_hold_below_a_cap() {
    cases(&["--cap", "400M"]);
}

#[test]
fn a_report_without_lines_stays_without_them() {
    let code = "import pyhost
with pyhost.budget('64M') as budget:
    kept = ['%d' % number for number in range(100_000)]
print(pyhost.lines(), 1_000_000 < budget.live_bytes < 20_000_000)";
    assert_eq!(Run::host().code(code).ok().stdout, "None True\n");
}
