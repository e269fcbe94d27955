//! The pytest plugin, beneath real pytest, xdist and asyncio: which tests fail, what is said of them,
//! the totals of all workers, and a baseline's way there and back.

use crate::environments::{development, named, pinned};
use crate::free_threaded::{NO_OWN_DEBUG_HOOKS, is_free_threaded};
use crate::host::{Outcome, Run, folder, script, version};
use crate::skipping::skipped;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A fresh folder with the sample suite as `test_memory.py`.
fn suite() -> PathBuf {
    let place = folder("suite");
    std::fs::copy(script("sample_memory.py"), place.join("test_memory.py")).unwrap();
    std::fs::write(
        place.join("pytest.ini"),
        "[pytest]\nasyncio_mode = strict\n",
    )
    .unwrap();
    place
}

/// pytest with the plugin, in a folder.
fn pytest(place: &Path) -> Run {
    let run = development().host().folder(place);
    run.args(PYTEST)
}

pub const PYTEST: [&str; 7] = [
    "-m",
    "pytest",
    "-p",
    "pyhost_pytest",
    "-p",
    "no:cacheprovider",
    "-rA",
];

/// The outcome of each test, from the end of pytest's output.
pub fn endings(outcome: &Outcome) -> BTreeMap<String, String> {
    let words = ["PASSED", "FAILED", "XFAIL", "XPASS", "ERROR"];
    let lines = outcome.stdout.lines().filter_map(|line| {
        let (word, rest) = line.split_once(' ')?;
        let (_, name) = rest.split(' ').next()?.split_once("::")?;
        words
            .contains(&word)
            .then(|| (name.to_owned(), word.to_owned()))
    });
    lines.collect()
}

/// The lines of the plugin's section.
pub fn section(outcome: &Outcome) -> Vec<&str> {
    let lines = outcome.stdout.lines();
    let lines = lines.skip_while(|line| !line.contains(" memory (pyhost) "));
    lines
        .skip(1)
        .take_while(|line| !line.starts_with("===="))
        .collect()
}

const PASSED: [&str; 9] = [
    "TestGroup::test_below",
    "TestGroup::test_own_marker_wins",
    "TestOfUnittest::test_below",
    "test_below_its_limit",
    "test_by_parameter[2]",
    "test_by_parameter[5]",
    "test_fixtures_do_not_count",
    "test_other_accounts_do_not_count",
    "test_small",
];

const FAILED: [&str; 9] = [
    "TestOfUnittest::test_above",
    "test_above_in_an_account",
    "test_above_its_limit",
    "test_asynchronous",
    "test_bad_account",
    "test_bad_size",
    "test_by_parameter[12]",
    "test_fails_by_itself",
    "test_threads_count",
];

/// Tests whose limit was exceeded, the one that was expected to be too.
const OVER: usize = 7;

fn check_endings(outcome: &Outcome) {
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    let ended = endings(outcome);
    let expected = [
        (&PASSED[..], "PASSED"),
        (&FAILED, "FAILED"),
        (&["test_expected_to_be_above"], "XFAIL"),
    ];
    let mut count = 0;
    for (names, word) in expected {
        for name in names {
            assert_eq!(
                ended.get(*name).map(String::as_str),
                Some(word),
                "{name} {outcome:#?}"
            );
            count += 1;
        }
    }
    assert_eq!(ended.len(), count, "{ended:?}");
}

#[test]
fn tests_are_held_to_their_limits_and_told_why() {
    let outcome = pytest(&suite()).run();
    check_endings(&outcome);
    for told in [
        "test_memory.py::test_above_its_limit: peak growth of 2",
        "in all accounts together exceeds the limit of 24 MB (24000000 bytes)",
        "test_memory.py::test_above_in_an_account: peak growth of 2",
        "in account obj exceeds the limit of 24MiB (25165824 bytes)",
        "test_memory.py::test_by_parameter[12]: peak growth of 1",
        "ValueError: its own error",
        "test_bad_size: limit_memory: bad size '24 parsecs'; expected one such as '24 MB' or '64K'",
        "test_bad_account: limit_memory: bad account 'heap'; expected None or one of raw, mem",
        "allocations of other threads",
    ] {
        assert!(outcome.stdout.contains(told), "{told}: {}", outcome.stdout);
    }
    let section = section(&outcome);
    assert!(
        section[0].starts_with("account  peak growth"),
        "{section:?}"
    );
    // By their peaks, largest first.
    assert!(
        section[1].ends_with("test_memory.py::test_above_its_limit"),
        "{section:?}"
    );
    assert!(section[1].contains("  24 MB  over  "), "{section:?}");
    // The two that have a bad marker were not run.
    let totals = format!("17 tests measured, {OVER} over the limit; highest peak growth 2");
    assert!(section[11].starts_with(&totals), "{section:?}");
    assert!(section[12].starts_with("the process: peak "), "{section:?}");
}

#[test]
fn workers_of_xdist_hold_tests_to_limits_and_their_figures_come_together() {
    let outcome = pytest(&suite()).args(["-n", "2"]).run();
    check_endings(&outcome);
    let section = section(&outcome);
    assert!(section[1].contains("::test_above_"), "{section:?}");
    let totals = format!("17 tests measured, {OVER} over the limit; highest peak growth 2");
    assert!(section[11].starts_with(&totals), "{section:?}");
    assert!(section[12].starts_with("2 workers: peaks "), "{section:?}");
    assert!(section[12].contains(" together, "), "{section:?}");
}

#[test]
fn a_limit_for_all_tests_gives_way_to_a_marker() {
    let outcome = pytest(&suite())
        .args(["--memory-limit", "500K", "--memory-top", "2"])
        .args(["-k", "small or below_its_limit or by_parameter"])
        .run();
    let ended = endings(&outcome);
    assert_eq!(ended["test_small"], "FAILED", "{outcome:#?}");
    assert_eq!(ended["test_below_its_limit"], "PASSED");
    assert_eq!(ended["test_by_parameter[2]"], "PASSED");
    assert!(
        outcome
            .stdout
            .contains("exceeds the limit of 500K (512000 bytes)")
    );
    let section = section(&outcome);
    assert!(
        section[2].ends_with("[12]") && section[3].starts_with("5 tests measured"),
        "{section:?}"
    );
}

#[test]
fn nothing_is_said_where_nothing_was_asked_for() {
    let place = suite();
    let outcome = pytest(&place).args(["-k", "small"]).ok();
    assert!(!outcome.stdout.contains("memory (pyhost)"), "{outcome:#?}");
    let outcome = pytest(&place)
        .args(["-k", "small", "--memory-top", "5"])
        .ok();
    assert!(
        section(&outcome)[1].ends_with("test_memory.py::test_small"),
        "{outcome:#?}"
    );
}

#[test]
fn a_conftest_or_addopts_can_name_the_plugin() {
    let place = suite();
    let by_itself = |place: &Path| {
        development()
            .host()
            .folder(place)
            .args(["-m", "pytest", "--memory-top", "1", "-k", "small"])
            .ok()
    };
    std::fs::write(
        place.join("pytest.ini"),
        "[pytest]\naddopts = -p pyhost_pytest\n",
    )
    .unwrap();
    assert!(section(&by_itself(&place))[1].ends_with("::test_small"));
    std::fs::write(place.join("pytest.ini"), "[pytest]\n").unwrap();
    std::fs::write(
        place.join("conftest.py"),
        "pytest_plugins = ['pyhost_pytest']\n",
    )
    .unwrap();
    assert!(section(&by_itself(&place))[1].ends_with("::test_small"));
}

/// A suite of two tests, of which one takes so many mebibytes.
fn write_suite(place: &Path, mebibytes: u32) {
    let text = format!(
        "def test_steady():\n    bytes(4 << 20)\n\n\ndef test_moves():\n    bytes({mebibytes} << 20)\n"
    );
    std::fs::write(place.join("test_two.py"), text).unwrap();
}

#[test]
fn a_run_is_compared_with_its_baseline() {
    let place = folder("suite");
    write_suite(&place, 4);
    let run = |arguments: &[&str]| {
        pytest(&place)
            .arg("--memory-baseline=base.json")
            .args(arguments)
            .run()
    };
    let says = |outcome: &Outcome, text: &str| {
        let section = section(outcome).join("\n");
        assert!(section.contains(text), "{text}: {outcome:#?}");
    };
    let first = run(&[]);
    assert_eq!(first.code(), 0, "{first:#?}");
    says(&first, "base.json written: 2 of 2 tests are of this run");
    let text = std::fs::read_to_string(place.join("base.json")).unwrap();
    let baseline: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(baseline["schema"], "pyhost-memory-baseline/1");
    let peak = &baseline["tests"]["test_two.py::test_moves"]["peak_growth_bytes"];
    assert!(
        (4 << 20..5 << 20).contains(&peak.as_i64().unwrap()),
        "{text}"
    );
    // The same again, also by workers.
    for arguments in [&[][..], &["-n", "2"]] {
        let same = run(&[arguments, &["--memory-fail-on-regression"]].concat());
        assert_eq!(same.code(), 0, "{same:#?}");
        says(
            &same,
            "2 tests compared, 0 not in it; 0 above it by more than 10%",
        );
    }
    // More memory: reported, and an error if that is asked for.
    write_suite(&place, 6);
    let told = run(&[]);
    assert_eq!(told.code(), 0, "{told:#?}");
    says(
        &told,
        "2 tests compared, 0 not in it; 1 above it by more than 10%",
    );
    says(&told, "test_two.py::test_moves");
    for arguments in [&[][..], &["-n", "2"]] {
        let refused = run(&[arguments, &["--memory-fail-on-regression"]].concat());
        assert_eq!(refused.code(), 1, "{refused:#?}");
        assert_eq!(
            endings(&refused)
                .values()
                .filter(|word| *word == "PASSED")
                .count(),
            2
        );
    }
    for tolerance in ["60%", "3M"] {
        let borne = run(&[
            "--memory-fail-on-regression",
            "--memory-tolerance",
            tolerance,
        ]);
        assert_eq!(borne.code(), 0, "{borne:#?}");
    }
    // One test alone updates its own entry.
    let updated = run(&["--memory-update", "-k", "moves"]);
    says(&updated, "base.json written: 1 of 2 tests are of this run");
    let same = run(&["--memory-fail-on-regression"]);
    assert_eq!(same.code(), 0, "{same:#?}");
    // Less is no regression, and a new test none either.
    write_suite(&place, 1);
    std::fs::write(
        place.join("test_new.py"),
        "def test_new():\n    bytes(9 << 20)\n",
    )
    .unwrap();
    let less = run(&["--memory-fail-on-regression"]);
    assert_eq!(less.code(), 0, "{less:#?}");
    says(&less, "2 tests compared, 1 not in it; 0 above it");
}

#[test]
fn bad_options_are_told_in_a_line() {
    let place = suite();
    std::fs::write(place.join("other.json"), "{\"tests\": {}}").unwrap();
    for (arguments, told) in [
        (
            &["--memory-limit=3 parsecs"][..],
            "bad size '3 parsecs'; expected one such as '24 MB' or '64K'",
        ),
        (
            &["--memory-limit=0"],
            "expected a positive size such as '24 MB'",
        ),
        (
            &["--memory-top=none"],
            "bad number 'none'; expected one such as 10",
        ),
        (&["--memory-tolerance=much"], "bad size 'much'; expected"),
        (
            &["--memory-tolerance=x%"],
            "bad tolerance 'x%'; expected one such as '10%' or '1M'",
        ),
        (
            &["--memory-update"],
            "--memory-update: expected --memory-baseline FILE, too",
        ),
        (
            &["--memory-fail-on-regression"],
            "--memory-fail-on-regression: expected --memory-baseline FILE, too",
        ),
        (
            &["--memory-baseline=other.json"],
            "is no baseline of pyhost_pytest; expected one, or no file",
        ),
        (
            &["--memory-baseline=test_memory.py"],
            "is no baseline of pyhost_pytest; expected one, or no file",
        ),
        (
            &["--memory-baseline=none/base.json"],
            "cannot be written; expected a folder for it",
        ),
    ] {
        let outcome = pytest(&place).args(arguments).run();
        assert_eq!(outcome.code(), 4, "{outcome:#?}");
        assert!(outcome.stderr.contains(told), "{told}: {outcome:#?}");
    }
}

/// The line of the tests of [`suite_of_lines`] that allocates.
const LINE: &str = "test_lines.py:4 in ";

/// A suite whose tests take memory at known lines, and leave some of it.
fn suite_of_lines() -> PathBuf {
    let place = folder("lines");
    std::fs::write(place.join("pytest.ini"), "[pytest]\n").unwrap();
    std::fs::create_dir(place.join("site-packages")).unwrap();
    std::fs::write(
        place.join("site-packages/some_package.py"),
        "def make(count):\n    return [bytes(1000) for _ in range(count)]\n",
    )
    .unwrap();
    let text = "import pytest, some_package
kept = []
def load(count):
    return [bytes(1000) for _ in range(count)]

@pytest.mark.limit_memory('1 MB')
def test_above():
    rows = load(4000)
    more = some_package.make(2000)

@pytest.mark.limit_memory('20 MB')
def test_leaks():
    kept.append(load(3000))

def test_steady():
    load(2)
";
    std::fs::write(place.join("test_lines.py"), text).unwrap();
    place
}

fn pytest_with_lines(place: &Path, interval: &str) -> Run {
    let packages = development().site_packages;
    let own = place.join("site-packages");
    let path = format!("{}:{}", packages.display(), own.display());
    let options = [interval, "--stats=off"];
    let run = Run::host().args(options).folder(place);
    run.env("PYTHONPATH", path).args(PYTEST)
}

#[test]
fn with_lines_a_test_above_its_limit_and_one_that_leaks_name_their_lines() {
    for arguments in [&[][..], &["-n", "2"]] {
        let place = suite_of_lines();
        let outcome = pytest_with_lines(&place, "--lines=1").args(arguments).run();
        assert_eq!(outcome.code(), 1, "{outcome:#?}");
        let (_, told) = outcome
            .stdout
            .split_once("lines that grew up to the test's peak:\n")
            .expect(&outcome.stdout);
        let mut told = told.lines();
        let (first, second) = (told.next().unwrap(), told.next().unwrap());
        assert!(
            first.contains(" MiB  obj     ") && first.contains(LINE),
            "{first}"
        );
        assert!(
            second.contains("test_lines.py:9 in test_above, by some_package"),
            "{second}"
        );
        let section = section(&outcome);
        let left = section.iter().position(|line| {
            line.starts_with("left by test_lines.py::test_leaks: +") && line.ends_with(" MiB")
        });
        let left = left.unwrap_or_else(|| panic!("{section:?}"));
        assert!(section[left + 1].contains(LINE), "{section:?}");
        let left = section.iter().filter(|line| line.starts_with("left by "));
        assert_eq!(left.count(), 1, "{section:?}");
    }
}

#[test]
fn a_sampled_line_of_a_test_has_its_error() {
    let place = suite_of_lines();
    let run = pytest_with_lines(&place, "--lines=16K,seed=2");
    let outcome = run.args(["-k", "above"]).run();
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    let (_, told) = outcome
        .stdout
        .split_once("lines that grew up to the test's peak:\n")
        .expect(&outcome.stdout);
    let first = told.lines().next().unwrap();
    assert!(
        first.contains(" MiB \u{b1} ") && first.contains(LINE),
        "{first}"
    );
}

#[test]
fn a_test_above_its_baseline_names_its_lines() {
    let place = suite_of_lines();
    let run = |arguments: &[&str]| {
        pytest_with_lines(&place, "--lines=1")
            .args(["-k", "steady", "--memory-baseline=base.json"])
            .args(arguments)
            .run()
    };
    assert_eq!(run(&[]).code(), 0);
    let test = place.join("test_lines.py");
    let text = std::fs::read_to_string(&test).unwrap();
    std::fs::write(&test, text.replace("load(2)", "load(3000)")).unwrap();
    let outcome = run(&["--memory-fail-on-regression"]);
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    let section = section(&outcome);
    let above = section
        .iter()
        .position(|line| line.ends_with("  test_lines.py::test_steady"))
        .unwrap_or_else(|| panic!("{section:?}"));
    assert!(section[above + 1].contains(LINE), "{section:?}");
}

#[test]
fn without_lines_a_test_above_its_limit_says_how_to_have_them() {
    let place = suite_of_lines();
    let run = pytest_with_lines(&place, "--lines=off");
    let outcome = run.args(["-k", "above"]).run();
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    assert!(
        outcome
            .stdout
            .contains("pyhost --lines -m pytest names the lines")
    );
    assert!(!outcome.stdout.contains("the test's peak:"), "{outcome:#?}");
}

#[test]
fn stock_python_has_no_such_plugin() {
    let outcome = development()
        .stock()
        .args(["-m", "pytest", "-p", "pyhost_pytest"])
        .run();
    assert_ne!(outcome.code(), 0);
    assert!(
        outcome.stderr.contains("No module named 'pyhost_pytest'"),
        "{outcome:#?}"
    );
}

#[test]
fn the_conftest_of_the_guide_takes_the_plugin_where_it_is() {
    let place = folder("conftest");
    let guide = include_str!("../../docs/python.md");
    let (_, lines) = guide.split_once("import importlib.util\n").unwrap();
    let (lines, _) = lines.split_once("```").unwrap();
    std::fs::write(
        place.join("conftest.py"),
        format!("import importlib.util\n{lines}"),
    )
    .unwrap();
    let code = "import pytest
kept = []
@pytest.mark.limit_leaks
def test_leaks(): kept.append(bytearray(5000))
";
    std::fs::write(place.join("test_it.py"), code).unwrap();
    let options = ["-m", "pytest", "--strict-markers", "-p", "no:cacheprovider"];
    let stock = development().stock().folder(&place).args(options).ok();
    assert!(stock.stdout.contains("1 passed"), "{stock:#?}");
    let host = development().host().folder(&place).args(options).run();
    assert!(
        host.stdout.contains("leaves more than 0 B with every call"),
        "{host:#?}"
    );
}

#[test]
fn a_test_that_leaves_memory_behind_with_every_call_exceeds_its_limit_of_leaks() {
    let place = folder("leaks");
    let code = "
import unittest, pytest
kept = []
@pytest.mark.limit_leaks
def test_clean(tmp_path): (tmp_path / 'a').write_text('x' * 1000)
@pytest.mark.limit_leaks('0 B')
def test_leaks(): kept.append(bytearray(5000))
@pytest.mark.limit_leaks('8 KB', repeat=8)
def test_below(): kept.append(bytearray(5000))
@pytest.mark.limit_leaks('1 parsec')
def test_bad_size(): pass
@pytest.mark.limit_leaks(repeat=0)
def test_bad_repeat(): pass
@pytest.mark.limit_leaks
def test_own_failure(): assert not kept
@pytest.mark.limit_leaks
async def test_async(): pass
@pytest.mark.xfail
@pytest.mark.limit_leaks
def test_known(): kept.append(bytearray(5000))
class Case(unittest.TestCase):
    @pytest.mark.limit_leaks
    def test_unittest(self): pass
";
    std::fs::write(place.join("test_leaks.py"), code).unwrap();
    let outcome = pytest(&place).arg("-p").arg("no:asyncio").run();
    let found = endings(&outcome);
    for (name, ending) in [
        ("test_clean", "PASSED"),
        ("test_leaks", "FAILED"),
        ("test_below", "PASSED"),
        ("test_bad_size", "FAILED"),
        ("test_bad_repeat", "FAILED"),
        ("test_own_failure", "FAILED"),
        ("test_async", "FAILED"),
        ("test_known", "XFAIL"),
        ("Case::test_unittest", "FAILED"),
    ] {
        assert_eq!(found[name], ending, "{name} {outcome:#?}");
    }
    for said in [
        "test_leaks: limit_leaks: leaves more than 0 B with every call",
        "test_leaks.py:7 in test_leaks",
        "test_bad_size: limit_leaks: bad size '1 parsec'",
        "test_bad_repeat: limit_leaks: expected a repeat from 1 to 10000",
        "test_async: limit_leaks: expected a plain test function",
        "test_unittest: limit_leaks: expected a plain test function",
        "assert not [bytearray",
    ] {
        assert!(outcome.stdout.contains(said), "{said} {outcome:#?}");
    }
}

/// The growth of each test at its peak, of a suite in `place`.
fn peaks(run: Run, place: &Path) -> BTreeMap<String, i64> {
    let _ = std::fs::remove_file(place.join("base.json"));
    run.arg("--memory-baseline=base.json").ok();
    let text = std::fs::read_to_string(place.join("base.json")).unwrap();
    let baseline: serde_json::Value = serde_json::from_str(&text).unwrap();
    let tests = baseline["tests"].as_object().unwrap().iter();
    tests
        .map(|(name, test)| {
            let (_, name) = name.split_once("::").unwrap();
            (name.to_owned(), test["peak_growth_bytes"].as_i64().unwrap())
        })
        .collect()
}

/// Tests that take nothing, and one that takes known bytes of several accounts.
const EMPTY: &str = "import ctypes, unittest, pytest
def test_empty(): pass
@pytest.fixture
def large():
    yield bytes(1 << 20)
def test_with_fixtures(large, tmp_path): pass
@pytest.mark.parametrize('number', [1, 2])
def test_parameters(number): pass
class TestGroup:
    def test_method(self): pass
class TestOfUnittest(unittest.TestCase):
    def test_method(self): pass
libc, api, void, size = ctypes.CDLL(None), ctypes.pythonapi, ctypes.c_void_p, ctypes.c_size_t(4096)
families = [(libc.malloc, libc.free), (api.PyMem_RawMalloc, api.PyMem_RawFree), (api.PyMem_Malloc, api.PyMem_Free)]
for make, free in families: make.restype, free.argtypes = void, [void]
def test_known():
    for make, free in families: free(make(size))
    blocks = [make(size) for make, free in families]
    for (make, free), block in zip(families, blocks): free(block)
";

#[test]
fn an_empty_test_measures_nothing_and_others_what_their_functions_take() {
    let place = folder("empty");
    std::fs::write(place.join("test_empty.py"), EMPTY).unwrap();
    let found = peaks(pytest(&place), &place);
    // The first call of a function makes a frame there, which it keeps.
    let frame = if version() < (3, 11) { 600 } else { 0 };
    for (name, &peak) in &found {
        let expected = match name.as_str() {
            // Its list and integers beside the blocks, and a 32nd.
            "test_known" => 3 * 4096..=3 * 4096 + 900 + 2 * frame,
            // unittest allocates before and after it.
            "TestOfUnittest::test_method" => 0..=8192 + 6 * frame,
            "test_empty" | "TestGroup::test_method" => 0..=16 + frame,
            // The arguments.
            _ => 0..=256 + frame,
        };
        assert!(expected.contains(&peak), "{name}: {found:#?}");
    }
    assert_eq!(found.len(), 7, "{found:#?}");
}

#[test]
fn what_pytest_memray_takes_around_a_test_is_not_the_tests_and_a_line_names_it() {
    if pinned("pytest-memray", "pytest-memray").is_none() {
        return skipped("no pytest-memray is pinned for this Python");
    }
    let place = folder("memray");
    std::fs::write(place.join("test_empty.py"), EMPTY).unwrap();
    let run = || named("pytest-memray").host().folder(&place).args(PYTEST);
    let found = peaks(run().arg("--memray"), &place);
    assert!((0..=256).contains(&found["test_empty"]), "{found:#?}");
    assert!(found["test_known"] >= 4096, "{found:#?}");
    for (arguments, is_named) in [
        (&["--memray"][..], true),
        (&[], true),
        (&["-p", "no:memray"], false),
    ] {
        let outcome = run().args(["--memory-top=1"]).args(arguments).ok();
        let section = section(&outcome);
        let named = section
            .iter()
            .filter(|line| line.starts_with("pytest-memray is loaded"));
        assert_eq!(named.count(), usize::from(is_named), "{outcome:#?}");
    }
}

#[test]
fn tests_that_damage_the_heap_fail_where_it_is_looked_at() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let place = folder("damage");
    let code = "import ctypes, pytest, unittest
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
def damage(size):
    block = malloc(ctypes.c_size_t(size))
    ctypes.memset(ctypes.c_void_p(block + size), 1, 4)
def test_unmarked(): damage(50)
@pytest.mark.check_heap
def test_damages(): damage(40)
@pytest.mark.check_heap
def test_clean(): pass
@pytest.mark.check_heap
@pytest.mark.xfail(strict=True)
def test_known(): damage(60)
@pytest.mark.check_heap
def test_own_failure():
    damage(70)
    raise ValueError('its own error')
@pytest.mark.check_heap
def test_skips():
    damage(80)
    pytest.skip('no device')
@pytest.mark.check_heap
def test_raises_a_skip():
    damage(90)
    raise unittest.SkipTest('no device')
class Case(unittest.TestCase):
    @pytest.mark.check_heap
    def test_skips(self):
        damage(100)
        self.skipTest('no device')
    @pytest.mark.check_heap
    def test_own_failure(self):
        damage(110)
        self.fail('its own failure')
";
    std::fs::write(place.join("test_damage.py"), code).unwrap();
    let run = |options: &[&str], arguments: &[&str]| {
        let run = development().host().args(options).folder(&place);
        run.args(PYTEST).args(arguments).run()
    };
    let outcome = run(&["--debug-hooks"], &[]);
    // At its end the process looks, too.
    assert_eq!(outcome.code(), 128 + libc::SIGABRT, "{outcome:#?}");
    let found = endings(&outcome);
    for (name, ending) in [
        ("test_unmarked", "PASSED"),
        ("test_damages", "FAILED"),
        ("test_clean", "PASSED"),
        ("test_known", "XFAIL"),
        ("test_own_failure", "FAILED"),
        ("test_skips", "FAILED"),
        ("test_raises_a_skip", "FAILED"),
        ("Case::test_skips", "FAILED"),
        ("Case::test_own_failure", "FAILED"),
    ] {
        let found = found.get(name).map(String::as_str);
        assert_eq!(found, Some(ending), "{name} {outcome:#?}");
    }
    for said in [
        "test_damages: check_heap:\n4 bytes past the end of a block of 40 bytes of the account native",
        "test_damage.py:5), overwritten\n",
        "ValueError: its own error",
        "4 bytes past the end of a block of 70 bytes of the account native",
        // A test that skips itself is not taken for sound.
        "::test_skips: check_heap:\n4 bytes past the end of a block of 80 bytes",
        "::test_raises_a_skip: check_heap:\n4 bytes past the end of a block of 90 bytes",
        "::Case::test_skips: check_heap:\n4 bytes past the end of a block of 100 bytes",
        "AssertionError: its own failure",
        "4 bytes past the end of a block of 110 bytes",
    ] {
        assert!(outcome.stdout.contains(said), "{said} {outcome:#?}");
    }
    let outcome = run(&["--debug-hooks"], &["--memory-check-heap"]);
    assert_eq!(endings(&outcome)["test_unmarked"], "FAILED", "{outcome:#?}");
    // Without the hooks nothing is found, which is said.
    let outcome = run(&[], &["-k", "damages"]);
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(
        section(&outcome)
            .contains(&"1 test not checked as marked: that needs pyhost --debug-hooks -m pytest"),
        "{outcome:#?}"
    );
}

#[test]
fn a_test_is_called_with_each_of_its_requests_failing() {
    let place = folder("requests");
    let code = "import pytest, unittest
calls = []
def work(size):
    try: return bytes(size)
    except MemoryError: return None
@pytest.mark.fail_requests('obj', above='4K')
def test_sound():
    calls.append(1)
    work(5000); work(6000)
    bytearray(7000)
def test_was_called(): assert len(calls) >= 4
@pytest.mark.fail_requests('obj', above='4K')
def test_broken():
    work(5000)
    work(6000)[0]
@pytest.mark.fail_requests(above='4K', most=1)
def test_one_request():
    work(5000)
    work(6000)[0]
@pytest.mark.fail_requests
def test_own_failure(): assert not calls
@pytest.mark.fail_requests('heap')
def test_bad_account(): pass
@pytest.mark.fail_requests(most=0)
def test_bad_most(): pass
class Case(unittest.TestCase):
    @pytest.mark.fail_requests
    def test_unittest(self): pass
@pytest.mark.fail_requests('obj', above='4K')
def test_raises():
    with pytest.raises(ValueError): int('x' if work(5000) else '1')
@pytest.mark.fail_requests('obj', above='4K')
def test_skips():
    if work(5000) is None: pytest.skip('no memory')
@pytest.mark.fail_requests('obj', above='4K')
def test_exits():
    if work(5000) is None: raise SystemExit(3)
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
@pytest.mark.fail_requests('obj', above='4K')
def test_leaks():
    block = libc.malloc(3000)
    bytes(5000)
    libc.free(block)
";
    std::fs::write(place.join("test_requests.py"), code).unwrap();
    let run = |options: &[&str], arguments: &[&str]| {
        let run = development().host().args(options).folder(&place);
        run.args(PYTEST).args(arguments).run()
    };
    let outcome = run(&["--fail", "when=open"], &[]);
    let found = endings(&outcome);
    for (name, ending) in [
        ("test_sound", "PASSED"),
        ("test_was_called", "PASSED"),
        ("test_broken", "FAILED"),
        ("test_one_request", "PASSED"),
        ("test_own_failure", "FAILED"),
        ("test_bad_account", "FAILED"),
        ("test_bad_most", "FAILED"),
        ("Case::test_unittest", "FAILED"),
        ("test_raises", "FAILED"),
        ("test_skips", "FAILED"),
        ("test_exits", "FAILED"),
        ("test_leaks", "FAILED"),
    ] {
        let found = found.get(name).map(String::as_str);
        assert_eq!(found, Some(ending), "{name} {outcome:#?}");
    }
    for said in [
        "test_broken: fail_requests: the 2nd request fails, and the test with it at ",
        "test_requests.py:15: TypeError: 'NoneType' object is not subscriptable\n",
        "assert not [1",
        "test_bad_account: fail_requests: bad accounts 'heap'; expected None, or one of raw, mem",
        "test_bad_most: fail_requests: bad most 0; expected a whole number from 1 on",
        "test_unittest: fail_requests: expected a plain test function",
        "test_raises: fail_requests: the 1st request fails, and the test with it at ",
        "test_requests.py:31: Failed: DID NOT RAISE ",
        "test_requests.py:34: Skipped: no memory\n",
        "test_requests.py:37: SystemExit: 3\n",
        "test_leaks: fail_requests: the 1st request fails, and the test leaves memory behind\n",
        "  1 block of 3072 bytes (native)\n",
    ] {
        assert!(outcome.stdout.contains(said), "{said} {outcome:#?}");
    }
    let outcome = run(&[], &["-k", "broken"]);
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(
        section(&outcome).contains(
            &"1 test not checked as marked: that needs pyhost --fail when=open -m pytest"
        ),
        "{outcome:#?}"
    );
}
