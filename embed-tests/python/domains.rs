//! The domains: who serves them, and PEP 445's contract.

use crate::free_threaded::is_free_threaded;
use crate::host::{Run, script, version};
use serde_json::Value;

fn report(run: Run) -> Value {
    let (outcome, report) = run.reported();
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    report
}

#[test]
fn the_allocator_is_the_options_else_the_nearest_to_pythonmalloc_else_mimalloc() {
    let own_mimalloc = if version() >= (3, 13) {
        &[("mimalloc", "mimalloc")][..]
    } else {
        &[]
    };
    let cases = [
        ("", "mimalloc"),
        ("default", "mimalloc"),
        ("debug", "mimalloc"),
        ("pymalloc", "pymalloc"),
        ("pymalloc_debug", "pymalloc"),
        ("malloc", "system"),
        ("malloc_debug", "system"),
    ];
    // A free-threaded Python refuses all others.
    let is_own = |asked: &str| ["", "default", "debug", "mimalloc"].contains(&asked);
    for &(asked, expected) in cases.iter().chain(own_mimalloc) {
        if is_free_threaded() && !is_own(asked) {
            continue;
        }
        let run = Run::host().env("PYTHONMALLOC", asked).code("pass");
        let found = report(run);
        assert_eq!(found["allocator"], expected, "PYTHONMALLOC={asked}");
        assert_eq!(
            found["debug_hooks"],
            asked.ends_with("debug"),
            "PYTHONMALLOC={asked}"
        );
        let run = Run::host()
            .env("PYTHONMALLOC", asked)
            .args(["--allocator", "pymalloc"])
            .code("pass");
        assert_eq!(report(run)["allocator"], "pymalloc");
    }
    for option in ["-E", "-I"] {
        let run = Run::host()
            .env("PYTHONMALLOC", "malloc_debug")
            .arg(option)
            .code("pass");
        let found = report(run);
        assert_eq!(found["allocator"], "mimalloc", "{option}");
        assert_eq!(found["debug_hooks"], false, "{option}");
    }
}

#[test]
fn a_bogus_pythonmalloc_fails_as_pythons_does() {
    let run = |run: Run| run.env("PYTHONMALLOC", "bogus").code("print('ran')").run();
    let (host, stock) = (run(Run::host()), run(Run::stock()));
    assert_eq!(
        (host.code(), &host.stdout, &host.stderr),
        (stock.code(), &stock.stdout, &stock.stderr)
    );
}

#[test]
fn debug_hooks_come_by_the_option_by_dev_mode_and_by_its_variable() {
    for run in [
        Run::host().arg("--debug-hooks"),
        Run::host().args(["-X", "dev"]),
        Run::host().env("PYTHONDEVMODE", "1"),
        Run::host().env("PYHOST_DEBUG_HOOKS", "1"),
    ] {
        assert_eq!(report(run.code("pass"))["debug_hooks"], true);
    }
}

#[test]
fn every_domain_keeps_the_contract_of_pep_445() {
    for allocator in ["mimalloc", "pymalloc", "system"] {
        for hooks in ["0", "1"] {
            Run::host()
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .args(["--allocator", allocator])
                .arg(script("domain_contract.py"))
                .ok();
        }
    }
}

#[test]
fn what_each_allocator_leaves_to_pymalloc_is_still_accounted_for() {
    let code = "keep = [object() for _ in range(100000)] + [bytes(5000) for _ in range(1000)]";
    for allocator in ["mimalloc", "pymalloc", "system"] {
        let (outcome, report) = Run::host()
            .args(["--allocator", allocator, "-c", code])
            .reported();
        assert_eq!(outcome.code(), 0);
        let obj = &report["accounts"]["obj"];
        // Objects of two words, 5 MB of bytes; usable sizes are up to an eighth larger.
        let least = 200_000 * size_of::<usize>() as i64 + 5_000_000;
        let bytes = obj["live_bytes"].as_i64().unwrap();
        assert!((least..20_000_000).contains(&bytes), "{allocator}: {bytes}");
        assert!(obj["live_blocks"].as_i64().unwrap() > 101_000);
        let total = report["total"]["live_bytes"].as_i64().unwrap();
        assert!(total >= bytes, "{allocator}: {total}");
    }
}

#[test]
fn the_end_of_a_sub_interpreter_frees_its_own_arenas_alone() {
    // From 3.12 on CPython frees each slot of the interpreter's arena table, also empty ones.
    let code = "import sys, pyhost
if sys.version_info >= (3, 13): import _interpreters as interpreters
else: import _xxsubinterpreters as interpreters
for _ in range(3):
    made = interpreters.create()
    interpreters.run_string(made, 'keep = [object() for _ in range(200000)]')
    interpreters.destroy(made)
figures = pyhost.memory_stats()
assert figures['accounts']['arena']['live_bytes'] > 0, figures['accounts']
assert figures['total']['live_bytes'] > 1_000_000, figures['total']";
    for allocator in ["pymalloc", "system"] {
        Run::host().args(["--allocator", allocator]).code(code).ok();
    }
}

#[test]
fn the_blocks_that_python_leaves_behind_are_pythons_own() {
    // CPython 3.11 frees everything that it allocates for `pass`.
    if version() == (3, 11) {
        let (_, report) = Run::host().args(["-I", "-S", "-c", "pass"]).reported();
        for account in ["raw", "mem", "obj", "arena"] {
            assert_eq!(
                report["accounts"][account]["finalized_live_bytes"], 0,
                "{account}"
            );
        }
    }
}

#[test]
fn allocated_blocks_are_the_ledgers_and_grow_with_what_lives() {
    let code = "import sys, pyhost
before = sys.getallocatedblocks()
keep = [object() for _ in range(10000)]
grown = sys.getallocatedblocks() - before
assert 10000 <= grown < 10100, grown
assert abs(sys.getallocatedblocks() - pyhost.memory_stats()['accounts']['obj']['live_blocks']) < 50
assert sys.getallocatedblocks.__name__ == 'getallocatedblocks'";
    Run::host().code(code).ok();
}

#[test]
fn blocks_that_grow_keep_what_they_hold_and_long_ones_are_moved() {
    for options in [
        &[][..],
        &["--retain", "speed"],
        &["--debug-hooks"],
        &["--region", "512M"],
    ] {
        if options.first() == Some(&"--region") && is_free_threaded() {
            continue;
        }
        let outcome = Run::host()
            .args(options)
            .arg(script("growing_blocks.py"))
            .timeout(300)
            .ok();
        let share: f64 = outcome.last_line().parse().unwrap();
        // Copied, a block is there twice while it moves, and what was freed stays for a second.
        if options.is_empty() {
            assert!(share < 1.5, "{share}");
        }
    }
}
