//! The type stubs: they match the module, and a type checker accepts the scripts that use it.

use crate::environments::development;
use crate::free_threaded::is_free_threaded;
use crate::host::{Outcome, Run, folder, script, version};
use crate::skipping::skipped;
use std::path::PathBuf;

fn stubs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("stubs")
}

/// The host with mypy, which finds the stubs of this checkout, or those of `mypypath`.
fn mypy(mypypath: PathBuf) -> Run {
    let run = development().host().env("MYPYPATH", mypypath);
    run.folder(&folder("mypy")).timeout(300)
}

fn stubtest(mypypath: PathBuf) -> Outcome {
    mypy(mypypath)
        .args(["-m", "mypy.stubtest", "pyhost", "--ignore-unused-allowlist"])
        .arg("--allowlist")
        .arg(stubs().join("stubtest-allowlist.txt"))
        .run()
}

#[test]
fn the_stubs_are_those_of_the_module() {
    let outcome = stubtest(stubs());
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(outcome.stdout.contains("no issues found"), "{outcome:#?}");
}

#[test]
fn stubs_without_a_function_or_with_another_argument_are_noticed() {
    let text = std::fs::read_to_string(stubs().join("pyhost/__init__.pyi")).unwrap();
    let changed = text
        .replace("def memory_summary() ->", "def memory_summaries() ->")
        .replace(
            "soft: bool = False) -> int | None",
            "hard: bool = False) -> int | None",
        );
    let place = folder("stubs");
    std::fs::write(place.join("pyhost.pyi"), changed).unwrap();
    let outcome = stubtest(place);
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    for told in [
        "pyhost.memory_summary is not present in stub",
        "pyhost.memory_summaries is not present at runtime",
        "pyhost.get_cap is inconsistent",
    ] {
        assert!(outcome.stdout.contains(told), "{told}: {outcome:#?}");
    }
}

#[test]
fn a_type_checker_knows_what_the_module_gives() {
    if version() < (3, 10) || is_free_threaded() {
        // Its newest mypy is 1.19, which takes no `__new__` that returns another type, and writes
        // types another way.
        return skipped("mypy for 3.9 and 3.13t is too old for the stubs");
    }
    let outcome = mypy(stubs())
        .args(["-m", "mypy", "--strict"])
        .arg(script("typed_uses.py"))
        .run();
    let told: Vec<&str> = outcome
        .stdout
        .lines()
        .filter_map(|line| line.split_once("Revealed type is "))
        .map(|(_, kind)| kind)
        .collect();
    assert_eq!(
        told,
        [
            "\"str\"",
            "\"int\"",
            "\"str\"",
            "\"pyhost.track | None\"",
            "\"pyhost.track\"",
            "\"int\"",
            "\"pyhost.DiffRow\"",
            "\"str\"",
            "\"dict[str, int]\""
        ],
        "{outcome:#?}"
    );
    // Its one mistake is the one that is found.
    assert!(
        outcome.stdout.contains("\"set_cap\" has incompatible type"),
        "{outcome:#?}"
    );
    assert!(outcome.stdout.contains("Found 1 error"), "{outcome:#?}");
}
