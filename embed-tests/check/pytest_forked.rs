//! Tests that the pytest plugin runs in forked children: one that ends its process fails alone, with the host's lines.

use crate::environments::development;
use crate::free_threaded::{NO_OWN_DEBUG_HOOKS, NO_SMALL_GUARDS, is_free_threaded};
use crate::host::{Outcome, Run, folder};
use crate::native_stacks::{extension, reason};
use crate::pytest_plugin::{PYTEST, endings, section};
use crate::skipping::skipped;
use std::path::{Path, PathBuf};

/// A folder with one file of tests.
fn suite(name: &str, code: &str) -> PathBuf {
    let place = folder(name);
    std::fs::write(place.join("test_it.py"), code).unwrap();
    place
}

/// pytest with the plugin, in a folder, under a host with options.
fn pytest(options: &[&str], place: &Path) -> Run {
    let run = development().host().args(options).folder(place);
    run.args(PYTEST).args(["-p", "no:asyncio"])
}

fn check(outcome: &Outcome, expected: &[(&str, &str)], said: &[&str]) {
    let found = endings(outcome);
    for (name, ending) in expected {
        let found = found.get(*name).map(String::as_str);
        assert_eq!(found, Some(*ending), "{name} {outcome:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{outcome:#?}");
    for words in said {
        assert!(outcome.stdout.contains(words), "{words} {outcome:#?}");
    }
}

/// What a C extension does wrong, a test each.
const BUGS: &str = "import os, signal, sys, pytest
import heap_bugs as c
def test_writes_past_the_end():
    print('its output'); print('its error', file=sys.stderr)
    block = c.allocate('native', 40)
    c.poke(block, 40, 4)
    c.release('native', block)
def test_frees_twice():
    block = c.allocate('mem', 40)
    for _ in range(2): c.release('mem', block)
def test_frees_a_block_of_another_family():
    c.release('obj', c.allocate('native', 40))
def test_never_frees_what_it_damaged():
    c.poke(c.allocate('native', 40), 40, 4)
def test_is_sound(): pass
@pytest.mark.xfail(strict=True)
def test_known(): test_frees_twice()
@pytest.mark.skip
def test_skipped(): test_frees_twice()
@pytest.fixture
def broken(): test_frees_twice()
def test_of_a_broken_fixture(broken): pass
@pytest.fixture
def breaks(): yield; test_frees_twice()
def test_of_a_fixture_that_breaks(breaks): pass
def test_exits(): os._exit(7)
def test_is_killed(): os.kill(os.getpid(), signal.SIGKILL)
def test_fails(): assert 1 == 2
";

const BUGS_END: [(&str, &str); 11] = [
    ("test_writes_past_the_end", "FAILED"),
    ("test_frees_twice", "FAILED"),
    ("test_frees_a_block_of_another_family", "FAILED"),
    ("test_never_frees_what_it_damaged", "FAILED"),
    ("test_is_sound", "PASSED"),
    ("test_known", "XFAIL"),
    ("test_of_a_broken_fixture", "FAILED"),
    ("test_of_a_fixture_that_breaks", "FAILED"),
    ("test_exits", "FAILED"),
    ("test_is_killed", "FAILED"),
    ("test_fails", "FAILED"),
];

const SAID: [&str; 9] = [
    "the test's process ended by SIGABRT\npyhost[",
    "free(): 4 bytes past the end of a block of 40 bytes of the account native (allocated at ",
    "test_it.py:5), overwritten\n",
    "its output\n",
    "its error\n",
    ", freed before (at ",
    "PyObject_Free(): invalid pointer",
    "the test's process ended with status 7\n",
    "the test's process ended by SIGKILL\n",
];

#[test]
fn a_forked_test_that_damages_the_heap_fails_alone_with_the_hosts_lines() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let place = suite("forked", BUGS);
    let run = |arguments: &[&str]| {
        let module = extension(&["-g"]);
        let path = std::env::join_paths([development().site_packages, module]).unwrap();
        let run = pytest(&["--debug-hooks", "--stats"], &place).env("PYTHONPATH", path);
        run.args(["--memory-forked", "--junit-xml=junit.xml"])
            .args(arguments)
            .run()
    };
    let outcome = run(&[]);
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    check(&outcome, &BUGS_END, &SAID);
    let calls = [
        "  found in:\n    release at ",
        "  freed in:\n    release at ",
    ];
    for words in calls.iter().filter(|_| reason().is_none()) {
        assert!(outcome.stdout.contains(words), "{words} {outcome:#?}");
    }
    // The children print no report.
    let reports = outcome.stderr.matches("pyhost: Python ").count();
    assert_eq!(reports, 1, "{outcome:#?}");
    let junit = std::fs::read_to_string(place.join("junit.xml")).unwrap();
    assert_eq!(junit.matches("<testcase ").count(), 12, "{junit}");
    assert!(
        junit.contains("4 bytes past the end of a block of 40 bytes"),
        "{junit}"
    );
    check(&run(&["-n2"]), &BUGS_END, &SAID);
    let outcome = run(&["--maxfail=2"]);
    let expected = [
        ("test_writes_past_the_end", "FAILED"),
        ("test_frees_twice", "FAILED"),
    ];
    check(&outcome, &expected, &["stopping after 2 failures"]);
}

#[test]
fn a_forked_test_that_touches_a_guard_page_fails_alone_with_the_hosts_lines() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let code = "import heap_bugs as c
def test_reads_past_the_end(): c.peek(c.allocate('native', 48), 48, 1)
def test_is_sound(): c.release('native', c.allocate('native', 48))
";
    let place = suite("forked-guard", code);
    let path = [development().site_packages, extension(&["-g"])];
    let run = pytest(&["--guard=library=/heap_bugs."], &place).arg("--memory-forked");
    let run = run.env("PYTHONPATH", std::env::join_paths(path).unwrap());
    check(
        &run.run(),
        &[
            ("test_reads_past_the_end", "FAILED"),
            ("test_is_sound", "PASSED"),
        ],
        &[
            "the test's process ended by SIGSEGV\npyhost[",
            "read 1 byte past the end of a block of 48 bytes of the account native (allocated at ",
        ],
    );
}

#[test]
fn one_run_finds_leaks_damage_and_limits() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let guide = include_str!("../../docs/python.md");
    let (_, line) = guide
        .split_once("One run does leaks, damage and limits: `pyhost ")
        .unwrap();
    let (command, _) = line.split_once('`').unwrap();
    let (options, arguments) = command.split_once(" -m pytest ").unwrap();
    let code = "import ctypes, pytest
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def test_damages():
    block = libc.malloc(50)
    ctypes.memset(ctypes.c_void_p(block + 50), 1, 4)
    libc.free(block)
@pytest.mark.limit_leaks
def test_leaks(): libc.malloc(50)
@pytest.mark.limit_memory('1 MB')
def test_takes_too_much(): bytes(2_000_000)
@pytest.mark.fail_requests('obj', above='4K')
def test_needs_memory(): bytearray(5000)[0]; bytes(6000) and None.upper()
@pytest.mark.fail_requests('obj', above='4K')
def test_misses_an_error():
    try: bytes(5000)
    except MemoryError: None.upper()
@pytest.mark.limit_leaks
@pytest.mark.limit_memory('1 MB')
def test_is_sound(): bytes(5000)
";
    let place = suite("one-run", code);
    let options: Vec<&str> = options.split(' ').collect();
    let run = pytest(&options, &place).args(arguments.split(' '));
    check(
        &run.run(),
        &[
            ("test_damages", "FAILED"),
            ("test_leaks", "FAILED"),
            ("test_takes_too_much", "FAILED"),
            ("test_needs_memory", "FAILED"),
            ("test_misses_an_error", "FAILED"),
            ("test_is_sound", "PASSED"),
        ],
        &[
            "4 bytes past the end of a block of 50 bytes",
            "leaves more than 0 B with every call",
            "exceeds the limit of 1 MB",
            "fail_requests: the 1st request fails, and the test with it",
        ],
    );
}

/// Which process has what, and what a child hands over.
const FIXTURES: &str = "import logging, os, threading, time, unittest, warnings, pytest
def setup_module(): globals()['parent'] = os.getpid()
def teardown_module(): raise ValueError('the end of the module')
@pytest.fixture(scope='session')
def wide(): return os.getpid()
@pytest.fixture(scope='class', params=[1, 2])
def number(request, wide): return os.getpid()
@pytest.fixture
def narrow(number, tmp_path):
    yield os.getpid()
    assert os.getpid() != number
    warnings.warn('at its end')
def test_of_its_module(): assert os.getppid() == parent
@pytest.mark.parametrize('other', 'ab')
def test_fixtures(narrow, number, wide, other):
    assert narrow == os.getpid() and number == wide == os.getppid() == parent
@pytest.mark.skip
def test_skipped(broken): pass
@pytest.fixture(scope='session')
def broken(): raise OSError('no such thing')
def test_of_broken(broken): pass
@pytest.fixture
def late(): yield; raise KeyError('too late')
def test_late(late): pass
def test_warns(): warnings.warn('its warning')
def test_property(record_property): record_property('its', 'own')
def test_logs(caplog): logging.getLogger().error('its log'); assert not caplog.records
class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls): cls.pid = os.getpid()
    def setUp(self): self.own = os.getpid()
    def test_of_unittest(self): assert self.own == os.getpid() and self.pid == os.getppid()
    def test_that_fails(self): self.fail('its own failure')
class TestThread:
    @pytest.fixture(scope='class')
    def thread(self):
        event = threading.Event()
        thread = threading.Thread(target=event.wait)
        thread.start(); yield thread; event.set(); thread.join()
    def test_thread(self, thread): assert threading.active_count() == 1
def test_end():
    '''
    >>> 1 + 1
    2
    '''
";

const FIXTURES_END: [(&str, &str); 15] = [
    ("test_of_its_module", "PASSED"),
    ("test_fixtures[1-a]", "PASSED"),
    ("test_fixtures[1-b]", "PASSED"),
    ("test_fixtures[2-a]", "PASSED"),
    ("test_fixtures[2-b]", "PASSED"),
    ("test_of_broken", "ERROR"),
    ("test_late", "ERROR"),
    ("test_warns", "PASSED"),
    ("test_property", "PASSED"),
    ("test_logs", "FAILED"),
    ("Case::test_of_unittest", "PASSED"),
    ("Case::test_that_fails", "FAILED"),
    ("TestThread::test_thread", "PASSED"),
    ("test_end", "ERROR"),
    ("test_it.test_end", "PASSED"),
];

const FIXTURES_SAID: [&str; 8] = [
    "OSError: no such thing",
    "KeyError: 'too late'",
    "ERROR    root:test_it.py:",
    "AssertionError: its own failure",
    "ValueError: the end of the module",
    "UserWarning: its warning",
    "UserWarning: at its end",
    "1 skipped",
];

#[test]
fn fixtures_of_wide_scopes_are_the_parents_and_those_of_the_function_the_childs() {
    let place = suite("forked-fixtures", FIXTURES);
    let run = pytest(&[], &place).args(["--memory-forked", "--memory-top=3", "--doctest-modules"]);
    let outcome = run.run();
    check(&outcome, &FIXTURES_END, &FIXTURES_SAID);
    // Measured in the child.
    let section = section(&outcome);
    assert!(
        section
            .iter()
            .any(|line| line.starts_with("14 tests measured")),
        "{section:?}"
    );
}

#[test]
fn tests_fork_in_a_python_without_the_host_too() {
    let place = suite("forked-plain", FIXTURES);
    let plugin = include_str!("../../src/host/python/module/library/pytest_plugin.py");
    std::fs::write(place.join("pyhost_pytest.py"), plugin).unwrap();
    std::fs::write(place.join("pyhost.py"), "active = False\n").unwrap();
    let run = development().stock().folder(&place).args(PYTEST);
    let run = run.args(["-p", "no:asyncio", "--memory-forked", "--doctest-modules"]);
    check(&run.arg("test_it.py").run(), &FIXTURES_END, &FIXTURES_SAID);
}

#[test]
fn a_marked_test_alone_is_forked_and_what_ends_a_run_ends_it() {
    let code = "import os, signal, time, pytest
seen = []
def test_first(): seen.append(os.getpid())
@pytest.mark.forked
def test_forked(): seen.append(1); assert os.getppid() == seen[0]
def test_last(): assert seen == [os.getpid()]
def late(*_): pytest.fail('Timeout')
@pytest.fixture(scope='session')
def alarm(): signal.signal(signal.SIGALRM, late); signal.setitimer(signal.ITIMER_REAL, 0.5)
@pytest.mark.forked
def test_hangs(alarm): time.sleep(60)
@pytest.mark.forked
def test_exits(): pytest.exit('enough', returncode=9)
def test_later(): pass
";
    let place = suite("forked-marked", code);
    check(
        &pytest(&[], &place).args(["-k", "not exits"]).run(),
        &[
            ("test_first", "PASSED"),
            ("test_forked", "PASSED"),
            ("test_last", "PASSED"),
            ("test_hangs", "FAILED"),
            ("test_later", "PASSED"),
        ],
        &["the test's process was ended: Timeout"],
    );
    let outcome = pytest(&[], &place).args(["-k", "exits or later"]).run();
    assert_eq!(outcome.code(), 9, "{outcome:#?}");
    check(&outcome, &[], &["Exit: enough"]);
}
