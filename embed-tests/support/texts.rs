//! Texts that users see, whole: each file of the folder `texts` has command lines behind `$`, and what they print. A new case is a
//! line with `$`; CONTRIBUTING.md has the command that writes the rest.

use crate::free_threaded::is_free_threaded;
use crate::host::{Outcome, PYHOST, PYHOSTCTL, Run};
use crate::skipping::skipped;
use std::path::Path;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs each command line of a text again, of words with single spaces between them, and compares the text of all.
fn compare(name: &str, extra: &[&str], status: i32, shown: impl Fn(Outcome) -> String) {
    let file = format!("{ROOT}/embed-tests/support/texts/{name}.snap");
    let file = std::fs::read_to_string(file).unwrap();
    let mut text = String::new();
    for line in file.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let program = match line.contains("pyhostctl ") {
            true => PYHOSTCTL,
            false => PYHOST,
        };
        let mut run = Run::program(program).folder(Path::new(ROOT));
        for word in line.split(' ') {
            run = match word.split_once('=') {
                Some((variable, value)) if word.starts_with("PYHOST_") => run.env(variable, value),
                _ if word.starts_with("pyhost") => run,
                _ => run.arg(word),
            };
        }
        let outcome = run.args(extra).run();
        assert_eq!(outcome.code(), status, "{line}: {outcome:#?}");
        // With the slash: the checkout may be `/pyhost`, as in tools/in-debian.
        let shown = shown(outcome).replace(&format!("{ROOT}/"), "[ROOT]/");
        text += &format!("$ {line}\n{shown}");
    }
    assert!(!text.is_empty(), "{name} has no command line");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("texts");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The text of a run that is well.
fn printed(outcome: Outcome) -> String {
    assert_eq!(outcome.stderr, "");
    format!("{}\n", outcome.stdout.trim_end())
}

/// A text with `N` for the words that begin with a digit, such as numbers and versions.
fn without_numbers(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n', '"']);
    let shown = words.map(
        |word| match word.starts_with(|first: char| first.is_ascii_digit()) {
            true => format!("N{}", &word[word.len() - 1..]),
            false => word.to_owned(),
        },
    );
    shown.collect()
}

#[test]
fn help() {
    compare("help", &[], 0, printed);
    compare("help_of_pyhostctl", &[], 0, printed);
}

#[test]
fn tables_of_a_report() {
    compare("reports", &[], 0, printed);
}

#[test]
fn metrics() {
    compare("metrics", &[], 0, |outcome| {
        without_numbers(&printed(outcome))
    });
}

#[test]
fn a_wrong_option_is_one_line_and_nothing_runs() {
    if is_free_threaded() {
        return skipped(
            "a free-threaded Python refuses each --region, before what is wrong with it",
        );
    }
    compare("wrong_options", &["-c", "print('ran')"], 2, |outcome| {
        assert_eq!(outcome.stdout, "");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        match outcome.stderr.contains(" live when the script starts") {
            true => without_numbers(&outcome.stderr),
            false => outcome.stderr,
        }
    });
}
