//! Snippets in processes of their own, `pyhost.run`.

use crate::host::{Run, script};

/// Runs the cases of `scripts/snippets.py` with options.
fn cases(options: &[&str]) {
    let run = Run::host().args(options).arg(script("snippets.py"));
    assert_eq!(run.ok().last_line(), "ran", "{options:?}");
}

#[test]
fn what_comes_of_a_snippet_is_data_however_it_ends() {
    cases(&[]);
}

#[test]
fn a_snippet_has_a_cap_of_its_own_below_a_cap_and_without_site() {
    cases(&["--cap", "400M", "--lines", "-S", "-E"]);
}

#[test]
fn a_snippet_is_below_its_trees_cap_too() {
    let code = "import pyhost
verdict = pyhost.run('x = [bytes(1000) for _ in range(200_000)]', cap='1G')
print(verdict.reason, '(tree)' in verdict.error)
verdict = pyhost.run('x = [bytes(1000) for _ in range(60_000)]', cap='48M')
print(verdict.reason, '(total)' in verdict.error)";
    let run = Run::host().env("PYHOST_CAP", "tree=128M").code(code);
    assert_eq!(run.ok().stdout, "memory True\nmemory True\n");
}
