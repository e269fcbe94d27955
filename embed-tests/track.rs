//! `pyhost.track()` and `pyhost.snapshot()`: figures of a block against what it is known to take, in
//! every way that a block may run, and the differences of two moments.

use crate::host::{PYHOSTCTL, Run, folder, ledger_at, script, stock, version};
use std::process::Command;

#[test]
fn a_block_is_measured_in_whatever_way_it_runs() {
    for options in [&[][..], &["-I", "-S"], &["-X", "dev"]] {
        let outcome = Run::host().args(options).arg(script("tracks.py")).run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "tracked"),
            "{options:?} {outcome:#?}"
        );
    }
}

#[test]
fn a_block_is_measured_whatever_the_allocator_and_the_hooks_are() {
    for (name, value) in [
        ("PYHOST_ALLOCATOR", "pymalloc"),
        ("PYHOST_ALLOCATOR", "system"),
        ("PYHOST_DEBUG_HOOKS", "1"),
        ("PYHOST_CAP", "1G"),
    ] {
        let outcome = Run::host().env(name, value).arg(script("tracks.py")).run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "tracked"),
            "{name}={value} {outcome:#?}"
        );
    }
}

#[test]
fn blocks_of_several_interpreters_are_measured_at_once() {
    if version() >= (3, 12) {
        let outcome = Run::host().arg(script("track_gils.py")).run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "tracked"),
            "{outcome:#?}"
        );
    }
}

#[test]
fn the_peak_of_life_outlives_every_block() {
    let code = "import pyhost
data = bytes(30 << 20)
del data
for _ in range(3):
    with pyhost.track() as t:
        bytes(5 << 20)
assert t.peak_growth_bytes < 8 << 20, t
assert pyhost.memory_stats()['accounts']['obj']['peak_bytes'] > 30 << 20
assert pyhost.snapshot().total_peak_bytes > 30 << 20";
    let (outcome, report) = Run::host().code(code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(report["total"]["peak_bytes"].as_i64().unwrap() > 30 << 20);
    let obj = &report["accounts"]["obj"];
    assert!(obj["peak_bytes"].as_i64().unwrap() > 30 << 20, "{obj}");
}

#[test]
fn a_killed_process_leaves_the_peak_of_its_life_not_of_its_last_block() {
    let file = folder("ledger").join("ledger");
    let code = "import os, pyhost
data = bytes(64 << 20)
del data
with pyhost.track():
    os.kill(os.getpid(), 9)";
    let killed = Run::host().arg(ledger_at(&file)).code(code).run();
    assert_eq!(killed.code(), 137, "{killed:#?}");
    let shown = Run::program(PYHOSTCTL).arg("show").arg(&file).ok().stdout;
    let total = shown
        .lines()
        .find(|line| line.starts_with("total"))
        .unwrap();
    let peak: f64 = total.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(peak >= 64.0 && total.ends_with("MiB"), "{shown}");
}

#[test]
fn the_python_parts_are_run_only_where_they_are_asked_for() {
    let code = "import pyhost, sys
before = set(sys.modules)
first = pyhost.memory_stats()['accounts']['obj']['live_bytes']
pyhost.limit, pyhost.track
assert 'snapshot' not in vars(pyhost) and 'snapshot' in dir(pyhost)
from pyhost import snapshot, Diff, Snapshot
assert vars(pyhost)['snapshot'] is snapshot is pyhost.snapshot
assert Snapshot.__module__ == snapshot.__module__ == 'pyhost' and Snapshot.__doc__ and snapshot.__doc__
print(sorted(set(sys.modules) - before))
try:
    pyhost.no_such_name
except AttributeError as error:
    print(error)
import traceback
try:
    snapshot().diff(1)
except TypeError:
    print(traceback.format_exc())";
    let outcome = Run::host().args(["-I", "-S"]).code(code).ok();
    let mut lines = outcome.stdout.lines();
    assert_eq!(lines.next(), Some("[]"), "{outcome:#?}");
    assert_eq!(
        lines.next(),
        Some("module 'pyhost' has no attribute 'no_such_name'")
    );
    // The line itself is shown, though there is no file.
    assert!(
        outcome
            .stdout
            .contains("File \"<pyhost>/snapshots.py\", line ")
    );
    assert!(outcome.stdout.contains("raise TypeError(f\"diff: expected"));
}

#[test]
fn a_zipapp_and_a_forked_child_track_too() {
    let place = folder("zipapp");
    let package = place.join("package");
    std::fs::create_dir(&package).unwrap();
    let code = "import os, pyhost
with pyhost.track() as outer:
    if os.fork() == 0:
        with pyhost.track() as t:
            data = bytes(4 << 20)
        outer.__exit__(None, None, None)
        right = 4 << 20 <= t.growth_bytes <= outer.growth_bytes + 4096
        os._exit(0 if right else 1)
    assert os.wait()[1] == 0
assert outer.peak_growth_bytes < 1 << 20, outer
print(pyhost.snapshot().diff(pyhost.snapshot()).total.account)";
    std::fs::write(package.join("__main__.py"), code).unwrap();
    Command::new(stock())
        .args(["-m", "zipapp", "package", "-o", "package.zip"])
        .current_dir(&place)
        .status()
        .unwrap();
    let outcome = Run::host().folder(&place).arg("package.zip").ok();
    assert_eq!(outcome.last_line(), "total");
}
