//! The leak check: what it catches, that it stays silent otherwise, and what becomes of the exit
//! status.

use crate::environments::newest_numpy;
use crate::exactness::is_exact;
use crate::free_threaded::{is_free_threaded, said};
use crate::host::{Outcome, PYHOST, Run, compile, folder, script, stock, version};
use crate::native_stacks;
use crate::skipping::skipped;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const LEAK: i32 = 23;

#[test]
fn thread_local_data_of_a_few_bytes_is_no_leak_nor_what_it_keeps() {
    for (model, keeps) in [("global-dynamic", ""), ("initial-exec", "library.keep()")] {
        let library = compile(
            "small_thread_data.c",
            &format!("{model}.so"),
            &["-shared", "-fPIC", &format!("-ftls-model={model}")],
        );
        let library = library.display();
        let code = format!(
            "import ctypes\nlibrary = ctypes.CDLL('{library}')\nassert library.use() == 1\n{keeps}"
        );
        let outcome = Run::host().arg("--leak-check=native").code(&code).run();
        assert!(is_silent(&outcome), "{model} {outcome:#?}");
    }
}

/// The folder of the extension module `leaky`.
fn leaky() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let code = "import sysconfig; print(sysconfig.get_paths()['include'])";
        let output = Command::new(stock()).args(["-c", code]).output().unwrap();
        let include = format!("-I{}", String::from_utf8(output.stdout).unwrap().trim());
        let module = compile("leaky.c", "leaky.so", &["-shared", "-fPIC", &include]);
        module.parent().unwrap().to_owned()
    })
}

/// The host with the check, running `code` with the module at hand.
fn checked(options: &[&str], code: &str) -> Run {
    Run::host()
        .env("PYTHONPATH", leaky())
        .arg("--leak-check")
        .args(options)
        .code(code)
}

fn leak(kind: &str) -> String {
    format!("import leaky; leaky.leak({kind:?})")
}

/// The leaks in a report: account, bytes of a block, blocks, type.
fn groups(report: &Value) -> Vec<(String, i64, i64, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let groups = report["leaks"]["groups"].as_array().unwrap();
    let one = |group: &Value| {
        (
            text(&group["account"]),
            group["block_bytes"].as_i64().unwrap(),
            group["blocks"].as_i64().unwrap(),
            text(&group["type"]),
        )
    };
    groups.iter().map(one).collect()
}

fn is_silent(outcome: &Outcome) -> bool {
    outcome.code() == 0 && !said(outcome).contains("pyhost:")
}

/// Usable bytes of `object()`.
fn object_bytes() -> i64 {
    if is_free_threaded() { 32 } else { 16 }
}

#[test]
fn a_lost_block_of_each_domain_is_caught_with_its_size_class() {
    for kind in ["raw", "mem", "obj"] {
        let (outcome, report) = checked(&[], &leak(kind)).reported();
        assert_eq!(outcome.code(), LEAK, "{kind} {outcome:#?}");
        let expected = [(kind.to_owned(), 112, 1, String::new())];
        assert_eq!(groups(&report), expected, "{outcome:#?}");
        assert_eq!(report["process"]["exit_status"], LEAK);
        assert!(
            outcome
                .stderr
                .starts_with("pyhost: 1 block leaked, 112 B: "),
            "{outcome:#?}"
        );
        let line = format!("  {kind:<7} 1 of 112 bytes\n");
        assert!(outcome.stderr.ends_with(&line), "{outcome:#?}");
    }
}

/// None is kept by what the check itself, or the end of the process, leaves on the stack.
#[test]
fn of_any_number_of_lost_blocks_every_one_is_caught() {
    let outcome = Run::program(stock())
        .arg(script("planted_leaks.py"))
        .arg(PYHOST)
        .ok();
    assert_eq!(outcome.last_line(), "all caught", "{outcome:#?}");
}

#[test]
#[cfg(target_arch = "x86_64")] // elsewhere a process may have fewer addresses
fn no_pair_of_small_numbers_is_the_address_of_a_block() {
    let code = "
import ctypes, sys
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
sizes = [100, 2_000_000] + [900 << 20] * (8 if len(sys.argv) == 1 else 0)
blocks = [(malloc(ctypes.c_size_t(size)), size) for size in sizes] + [(id(malloc), 16)] * getattr(sys, '_is_gil_enabled', lambda: True)()
print(all(0x7b00 <= address >> 32 < 0x7d00 and 1 << 29 <= address % (1 << 32) < 7 << 29
          for start, size in blocks for address in (start, start + size - 1)))";
    for (options, argument) in [
        (["--leak-check", "--retain=speed"], None),
        (["--leak-check=native", "--retain=small"], None),
        (["--leak-check", "--region=64M"], Some("small")),
    ] {
        if options[1].starts_with("--region") && is_free_threaded() {
            continue;
        }
        // The check reports these blocks: no number in memory looks like their addresses.
        let run = Run::host().args(options).code(code).args(argument);
        let outcome = run.run();
        assert_eq!(outcome.stdout, "True\n", "{outcome:?}");
    }
}

#[test]
fn a_block_that_was_freed_twice_is_told_and_the_check_ends() {
    let code = "import ctypes
api, void = ctypes.pythonapi, ctypes.c_void_p
for name in ('PyMem_Malloc', 'PyObject_Malloc'):
    getattr(api, name).restype = void
    blocks = [getattr(api, name)(ctypes.c_size_t(3000)) for _ in range(6)]
    free = getattr(api, name.replace('Malloc', 'Free'))
    for index in (0, 1, 0):
        free(void(blocks[index]))";
    let (outcome, report) = checked(&[], code).timeout(60).reported();
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    // A free-threaded Python's objects are in no list of the host's.
    let accounts = &["mem", "obj"][..2 - usize::from(is_free_threaded())];
    for account in accounts {
        let line = format!("a block of 3072 bytes of the account {account} was freed twice");
        assert!(outcome.stderr.contains(&line), "{outcome:#?}");
    }
    let broken = report["leaks"]["broken_pages"].as_array().unwrap();
    assert_eq!(broken.len(), accounts.len(), "{outcome:#?}");
    assert_eq!(broken[0]["block_bytes"], 3072, "{outcome:#?}");
}

#[test]
fn a_lost_reference_is_caught_with_its_type_and_what_it_holds() {
    let (outcome, report) = checked(&[], &leak("reference")).reported();
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    assert_eq!(
        groups(&report),
        [("obj".to_owned(), object_bytes(), 1, "object".to_owned())]
    );

    // A list of a list and a string, which the module has for itself and loses.
    let (outcome, report) = checked(&[], &leak("list")).reported();
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    let lists: i64 = groups(&report)
        .iter()
        .filter(|group| group.3 == "list")
        .map(|group| group.2)
        .sum();
    let numbers = groups(&report)
        .iter()
        .any(|group| group.3 == "int" && group.2 == 3);
    assert!(lists == 2 && numbers, "{outcome:#?}");

    for code in [
        "import leaky; leaky.leak_reference([1, 2, 3])",
        "import leaky; leaky.leak_reference({'a': object()})",
        "import leaky; leaky.leak_reference('a string of %d' % id(leaky))",
        "import leaky\nclass A: pass\na = A(); a.b = a; leaky.leak_reference(a)",
        "import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(object()))",
    ] {
        let outcome = checked(&[], code).run();
        assert_eq!(outcome.code(), LEAK, "{code} {outcome:#?}");
    }
}

#[test]
fn one_lost_reference_among_very_many_objects_is_caught() {
    let code = "import leaky
kept = [[number, str(number), {number: None}] for number in range(50000)]
lost = [object() for _ in range(1000)]
leaky.leak_reference(lost[500])
del lost";
    let (outcome, report) = checked(&[], code).reported();
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    assert_eq!(
        groups(&report),
        [("obj".to_owned(), object_bytes(), 1, "object".to_owned())]
    );
}

#[test]
fn a_lost_array_is_caught_with_its_data() {
    let code = "import leaky, numpy
for _ in range(10):
    leaky.leak_reference(numpy.zeros(1000))";
    for allocator in ["mimalloc", "pool", "bfc"] {
        let packages = newest_numpy().site_packages.display();
        let (outcome, report) = Run::host()
            .env("PYTHONPATH", format!("{packages}:{}", leaky().display()))
            .args(["--leak-check", "--numpy", allocator, "-c", code])
            .reported();
        assert_eq!(outcome.code(), LEAK, "{allocator} {outcome:#?}");
        let groups = groups(&report);
        // Stale pointers to some are left in what is live, by NumPy 2.0 on Python 3.9.
        let data = groups.iter().find(|group| group.0 == "numpy");
        assert!(
            data.is_some_and(|data| data.2 >= 5),
            "{allocator} {outcome:#?}"
        );
        let arrays = groups.iter().find(|group| group.3 == "numpy.ndarray");
        assert!(
            arrays.is_some_and(|arrays| arrays.2 >= 8),
            "{allocator} {outcome:#?}"
        );
    }
}

#[test]
fn numpy_itself_is_no_leak() {
    let code = "import numpy as np
a = np.arange(10000.0)
print(round(float(np.linalg.det(np.eye(3))) + float(np.fft.fft(a)[0].real) + np.sort(a)[::-1][0]))
b = np.array(['x', None], dtype=object); c = np.random.default_rng(1).random(10)
d = np.frombuffer(b'12345678', 'i4'); e = np.zeros(3, [('x', 'f8')]); f = a.astype('f4') @ a.astype('f4')
g = np.ones((300, 300)); g @ g; np.linalg.inv(g + np.eye(300))";
    for hooks in ["0", "1"] {
        // OpenBLAS has thread-local data of its own. With NumPy 2.5 on glibc 2.42 a block of 64 bytes is named, see
        // docs/debug/leak-check.md.
        let native = (version() < (3, 15)).then_some("--leak-check=native");
        for option in std::iter::once("--leak-check").chain(native) {
            let outcome = newest_numpy()
                .host()
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .args([option, "-c", code])
                .run();
            assert!(is_silent(&outcome), "{outcome:#?}");
        }
    }
}

#[test]
fn blocks_of_malloc_are_looked_at_where_asked() {
    let outcome = checked(&[], &leak("native")).run();
    assert!(is_silent(&outcome), "{outcome:#?}");
    let (outcome, report) = checked(&[], &leak("native"))
        .env("PYHOST_LEAK_CHECK", "native")
        .reported();
    assert!(is_silent(&outcome), "an option wins: {outcome:#?}");
    assert_eq!(report["leaks"]["blocks"], 0);
    let (outcome, report) = Run::host()
        .env("PYTHONPATH", leaky())
        .arg("--leak-check=native")
        .code(&leak("native"))
        .reported();
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    assert_eq!(
        groups(&report),
        [("native".to_owned(), 112, 1, String::new())]
    );
}

#[test]
fn what_a_static_variable_points_at_is_no_leak() {
    let outcome = checked(&[], &leak("kept")).run();
    assert!(is_silent(&outcome), "{outcome:#?}");
}

#[test]
fn programs_of_the_standard_library_leak_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("embed-tests/leak_free");
    let mut programs: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains("/uses_"))
        .collect();
    programs.sort();
    assert!(programs.len() >= 20);
    for program in &programs {
        for scope in ["python", "native"] {
            let outcome = Run::host()
                .arg(format!("--leak-check={scope}"))
                .arg(program)
                .run();
            assert!(
                is_silent(&outcome),
                "{} {scope} {outcome:#?}",
                program.display()
            );
        }
    }
}

#[test]
fn debug_hooks_dev_mode_and_guard_pages_go_with_it() {
    for options in [
        &["--debug-hooks"][..],
        &["-X", "dev"],
        &["--guard=all"],
        &["-X", "tracemalloc=4"],
    ] {
        let outcome = checked(options, "import json; json.dumps([1.5] * 1000)").run();
        assert!(is_silent(&outcome), "{options:?} {outcome:#?}");
        let outcome = checked(options, &leak("reference")).run();
        assert_eq!(outcome.code(), LEAK, "{options:?} {outcome:#?}");
        assert!(
            outcome.stderr.contains(", object"),
            "{options:?} {outcome:#?}"
        );
    }
    let code = "import ctypes
malloc = ctypes.pythonapi.PyMem_Malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
malloc(5000)
malloc(1 << 20)";
    let (outcome, report) = checked(&["--guard=all"], code).reported();
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    // The second is the first of its slots, and fills it.
    let lost = |bytes| ("mem".to_owned(), bytes, 1, String::new());
    assert_eq!(groups(&report), [lost(1 << 20), lost(5000)]);
}

#[test]
fn tracemalloc_tells_the_line() {
    let code = "import leaky\n\n\nleaky.leak('mem')\nleaky.leak_reference([object()])";
    let (outcome, report) = checked(&["-X", "tracemalloc"], code).reported();
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    let groups = report["leaks"]["groups"].as_array().unwrap();
    for group in groups {
        assert_eq!(group["file"], "<string>", "{outcome:#?}");
        let line = if group["block_bytes"] == 112 { 4 } else { 5 };
        assert_eq!(group["line"], line, "{outcome:#?}");
    }
    assert!(
        outcome
            .stderr
            .contains("  mem     1 of 112 bytes, allocated at <string>:4\n"),
        "{outcome:#?}"
    );
}

#[test]
fn tracemalloc_tells_the_line_of_lost_array_data() {
    let code = "import leaky, numpy
for _ in range(10):
    leaky.leak_reference(numpy.zeros(1000))";
    let packages = newest_numpy().site_packages.display();
    for allocator in ["mimalloc", "pool", "bfc"] {
        for hooks in ["0", "1"] {
            let (outcome, report) = Run::host()
                .env("PYTHONPATH", format!("{packages}:{}", leaky().display()))
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .args(["--leak-check", "--numpy", allocator])
                .args(["-X", "tracemalloc", "-c", code])
                .reported();
            let groups = report["leaks"]["groups"].as_array().unwrap();
            let data: Vec<_> = groups
                .iter()
                .filter(|group| group["account"] == "numpy")
                .map(|group| (group["file"].as_str(), group["line"].as_i64()))
                .collect();
            assert_eq!(
                data,
                [(Some("<string>"), Some(3))],
                "{allocator} {hooks} {outcome:#?}"
            );
        }
    }
}

#[test]
fn the_exit_status_is_the_scripts_unless_that_is_0() {
    for (end, status, is_told) in [
        ("", LEAK, true),
        ("sys.exit(0)", LEAK, true),
        ("sys.exit()", LEAK, true),
        ("sys.exit(3)", 3, true),
        ("sys.exit('text')", 1, true),
        ("1 / 0", 1, true),
        ("os._exit(0)", 0, false),
        (
            "os.kill(os.getpid(), signal.SIGTERM)",
            128 + libc::SIGTERM,
            false,
        ),
        (
            "os.kill(os.getpid(), signal.SIGINT)",
            128 + libc::SIGINT,
            false,
        ),
        ("os.execv('/bin/true', ['true'])", 0, false),
    ] {
        let code = format!("import leaky, os, signal, sys\nleaky.leak('mem')\n{end}");
        let outcome = checked(&[], &code).run();
        assert_eq!(outcome.code(), status, "{end} {outcome:#?}");
        assert_eq!(
            outcome.stderr.contains(" leaked, "),
            is_told,
            "{end} {outcome:#?}"
        );
    }
    for (chosen, status) in [("7", 7), ("0", 0)] {
        let outcome = checked(&[&format!("--leak-check=status={chosen}")], &leak("mem")).run();
        assert_eq!(outcome.code(), status, "{outcome:#?}");
        assert!(outcome.stderr.contains(" leaked, "), "{outcome:#?}");
    }
}

#[test]
fn output_and_functions_at_exit_are_not_lost() {
    let code = "import leaky, atexit, ctypes, sys
leaky.leak('mem')
atexit.register(print, 'atexit')
ctypes.CDLL(None).printf(b'buffered by C\\n')
sys.stdout.write('buffered by Python\\n')";
    let outcome = checked(&[], code).run();
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["atexit", "buffered by C", "buffered by Python"]);
}

#[test]
fn threads_and_interpreters_that_cpython_loses_blocks_of_leave_the_status() {
    let thread = "import leaky, threading, time
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
leaky.leak('mem')";
    let interpreter = "import leaky, _testcapi
_testcapi.run_in_subinterp('import json')
leaky.leak('mem')";
    for (code, reason) in [
        (thread, "1 thread of Python still ran"),
        (interpreter, "there were further interpreters"),
    ] {
        let (outcome, report) = checked(&[], code).reported();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        assert!(outcome.stderr.contains(reason), "{outcome:#?}");
        assert_eq!(report["leaks"]["sure"], false);
        assert!(
            groups(&report).contains(&("mem".to_owned(), 112, 1, String::new())),
            "{outcome:#?}"
        );
    }
}

/// Up to 3.12 a thread frees its PyThreadState when it has been joined already. Here it hardly gets a
/// processor: it is idle work beside a loop on the same one, which ends with the host.
const IDLE_THREADS: &str = "import os, subprocess, threading
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
subprocess.Popen(['sh', '-c', 'while kill -0 $PPID; do :; done'], stderr=subprocess.DEVNULL).returncode = 0
def be_idle():
    os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))
for _ in range(3):
    thread = threading.Thread(target=be_idle)
    thread.start()
    thread.join()";

#[test]
fn a_joined_thread_that_waits_for_a_processor_leaks_nothing() {
    for _ in 0..10 {
        let outcome = checked(&[], IDLE_THREADS).run();
        assert!(is_silent(&outcome), "{outcome:#?}");
    }
}

#[test]
fn child_processes_are_checked_too() {
    let code = format!(
        "import subprocess, sys
print(subprocess.run([sys.executable, '-c', {:?}]).returncode)",
        leak("mem")
    );
    let outcome = checked(&["--leak-check=status=9"], &code).run();
    assert_eq!(
        (outcome.code(), outcome.stdout.as_str()),
        (0, "9\n"),
        "{outcome:#?}"
    );
}

#[test]
fn without_the_option_nothing_is_looked_for() {
    let (outcome, report) = Run::host()
        .env("PYTHONPATH", leaky())
        .code(&leak("mem"))
        .reported();
    assert!(is_silent(&outcome), "{outcome:#?}");
    assert!(report["leaks"].is_null());
}

#[test]
fn where_blocks_are_hidden_one_line_says_that_nothing_is_checked() {
    // A free-threaded Python knows no pymalloc.
    for allocator in &["system", "pymalloc"][..2 - usize::from(is_free_threaded())] {
        let outcome = checked(&["--allocator", allocator], &leak("mem")).run();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        assert!(
            outcome.stderr.starts_with("pyhost: --leak-check: ")
                && outcome.stderr.lines().count() == 1,
            "{outcome:#?}"
        );
    }
}

#[test]
fn the_ledger_stays_exact_among_old_heaps_and_new_ones() {
    for (name, arguments) in [("exact_domains.py", &["3"][..]), ("exact_programs.py", &[])] {
        for option in ["--leak-check", "--leak-check=native"] {
            is_exact(Run::host().arg(option), name, arguments);
        }
    }
}

#[test]
fn forks_from_a_busy_process_neither_crash_nor_hang() {
    let library = compile("churn.c", "churn.so", &["-shared", "-fPIC"]);
    let outcome = Run::host()
        .arg("--leak-check")
        .arg(script("busy_forks.py"))
        .args([library.as_os_str(), "50".as_ref()])
        .timeout(600)
        .run();
    assert_eq!(outcome.last_line(), "done", "{outcome:#?}");
    assert!([0, LEAK].contains(&outcome.code()), "{outcome:#?}");
}

/// Runs functions of `kept_elsewhere.c` under the check, in a script that loads so many copies of the library.
fn kept_elsewhere(options: &[&str], copies: u32, calls: &str) -> Outcome {
    let library = compile(
        "kept_elsewhere.c",
        "kept_elsewhere.so",
        &["-shared", "-fPIC"],
    );
    let code = format!(
        "import ctypes, shutil
libraries = []
for number in range({copies}):
    path = {library:?} + str(number)
    shutil.copy({library:?}, path)
    libraries.append(ctypes.CDLL(path))
for library in libraries:
    {calls}"
    );
    let run = Run::host().arg("--leak-check=native").args(options);
    run.code(&code).run()
}

#[test]
fn what_the_loader_and_libc_keep_for_a_thread_is_no_leak() {
    for options in [&[][..], &["--debug-hooks"]] {
        // The loader's table of thread-local data has room for few libraries, and then lies in malloc's memory.
        for (copies, calls) in [
            (1, "library.touch()"),
            (40, "library.touch()"),
            (1, "library.keep_by_key()"),
            (40, "library.keep_by_key()"),
            (1, "library.keep_in_map()"),
        ] {
            let outcome = kept_elsewhere(options, copies, calls);
            assert!(is_silent(&outcome), "{copies} {calls} {outcome:#?}");
        }
        let outcome = kept_elsewhere(options, 2, "library.lose(); library.touch()");
        assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
        assert!(
            said(&outcome).starts_with("pyhost: 2 blocks leaked, "),
            "{outcome:#?}"
        );
    }
}

/// Their thread pointers are known, since they have allocated, and that one has yet to end.
#[test]
fn what_ended_threads_have_is_no_leak_where_the_system_lists_no_mappings() {
    let threads = "import os, threading
threads = [threading.Thread(target=list, args=(range(1000),)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()";
    let alone = "mount -t tmpfs none /proc || exit 99; exec \"$0\" --leak-check=native -c \"$1\"";
    for code in [threads].into_iter().chain([IDLE_THREADS; 10]) {
        let code = format!("{code}\nprint(os.path.exists('/proc/self/maps'))");
        let run = Run::program("unshare").args(["-Urm", "bash", "-c", alone]);
        let outcome = run.arg(PYHOST).arg(code).run();
        if outcome.code() == 99 || outcome.stderr.contains("unshare:") {
            return skipped("no file system may be mounted in a namespace of its own");
        }
        assert_eq!(outcome.stdout, "False\n");
        assert!(is_silent(&outcome), "{outcome:#?}");
    }
}

#[test]
fn what_a_waiting_thread_has_in_a_register_is_no_leak() {
    if !cfg!(target_arch = "x86_64") {
        return skipped("the thread of this test waits by x86-64's instructions");
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    if !["", "0", "1"].contains(&scope.trim()) || !status.contains("TracerPid:\t0\n") {
        return skipped("the system does not let a process trace its parent");
    }
    for options in [&[][..], &["--debug-hooks"], &["--guard=min=1,every=1"]] {
        let outcome = kept_elsewhere(options, 1, "library.wait_in_thread(1)");
        assert!(is_silent(&outcome), "{options:?} {outcome:#?}");
        let outcome = kept_elsewhere(options, 1, "library.wait_in_thread(0)");
        assert_eq!(outcome.code(), LEAK, "{options:?} {outcome:#?}");
    }
}

#[test]
fn memory_that_a_thread_unmaps_meanwhile_ends_no_check() {
    for _ in 0..5 {
        let outcome = kept_elsewhere(&[], 1, "library.keep_changing(); library.lose()");
        assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
        assert!(
            outcome.stderr.starts_with("pyhost: 1 block leaked, "),
            "{outcome:#?}"
        );
    }
}

/// A file with these rules.
fn rules(text: &str) -> PathBuf {
    let path = folder("suppressions").join("known.supp");
    std::fs::write(&path, text).unwrap();
    // The host names the folder that it is in by the path that the system has for it.
    path.canonicalize().unwrap()
}

#[test]
fn what_a_rule_matches_is_not_reported_but_counted() {
    let code = "import leaky
leaky.leak('mem')
leaky.leak_reference([object(), 1 << 70])
";
    let known = rules("# what we know\nleak:list\n\naccount:mem size:112\nleak:<string>:9$\n");
    let path = known.to_str().unwrap();
    let option = format!("--leak-check=suppressions={path}");
    let (outcome, report) = checked(&[&option], code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(report["leaks"]["blocks"], 0);
    // A rule for the list covers what the list holds.
    let line = format!("by 'leak:list' ({path}:2), 1 by 'account:mem size:112' ({path}:4)\n");
    assert!(
        outcome.stderr.starts_with("pyhost: ")
            && outcome.stderr.contains(" leaked blocks not reported, ")
            && outcome.stderr.ends_with(&line)
            && outcome.stderr.lines().count() == 1,
        "{outcome:#?}"
    );
    let suppressed = report["leaks"]["suppressed"].as_array().unwrap();
    assert_eq!(suppressed.len(), 2, "{report:#}");
    assert_eq!(suppressed[1]["rule"], "account:mem size:112");
    assert_eq!(
        (&suppressed[1]["file"], &suppressed[1]["line"]),
        (&path.into(), &4.into())
    );
    assert_eq!(
        (&suppressed[1]["blocks"], &suppressed[1]["bytes"]),
        (&1.into(), &112.into())
    );

    // By the line, where it is known. The rest is reported, and makes the status.
    let by_line = rules("line:<string>:2$ account:mem");
    let known = format!("--leak-check=suppressions={}", by_line.display());
    for options in [
        &[&known, "-X", "tracemalloc"][..],
        &[&known, "--debug-hooks"],
    ] {
        if options[1] == "--debug-hooks" && is_free_threaded() {
            continue;
        }
        let run = checked(options, code);
        let (outcome, report) = run.reported();
        assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
        let is_named = outcome.stderr.contains("allocated at <string>:2\n");
        assert!(!is_named, "{outcome:#?}");
        assert_eq!(report["leaks"]["suppressed"][0]["blocks"], 1, "{report:#}");
    }
}

/// Under the hooks, which keep the C calls of a block.
#[test]
fn a_rule_matches_by_library_or_function_where_the_calls_are_known() {
    if let Some(reason) = native_stacks::reason() {
        return skipped(reason);
    }
    if is_free_threaded() {
        return skipped("a free-threaded Python has no hooks that keep the calls");
    }
    let library = compile("kept_elsewhere.c", "libllvmlite.so", &["-shared", "-fPIC"]);
    let code = format!("import ctypes; ctypes.CDLL({:?}).lose()", &*library);
    let run = |rule: &str, hooks: bool| {
        let run = Run::host().at("--leak-check=native,suppressions=", rules(rule));
        run.args(hooks.then_some("--debug-hooks")).code(&code).run()
    };
    for rule in [
        "function:^lose$ library:llvmlite",
        "leak:^lose$",
        "library:llvm",
    ] {
        let outcome = run(rule, true);
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        let end = format!(": 1 by '{rule}' ");
        assert!(outcome.stderr.contains(&end), "{outcome:#?}");
        // Without the hooks no call is known.
        assert_eq!(run(rule, false).code(), LEAK);
    }
    // A built-in rule has the name; one of the user's that matches nothing changes nothing.
    let built_in = "1 by 'account:native library:/libllvmlite.so$' (built in:1)\n";
    let outcome = run("function:lost", true);
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(outcome.stderr.ends_with(built_in), "{outcome:#?}");
}

#[test]
fn a_child_process_has_the_rules_and_unused_ones_are_named_where_asked() {
    let known = rules("leak:nothing_of_the_kind\nsize:112");
    let name = known.file_name().unwrap();
    let code = format!(
        "import os, subprocess, sys
os.chdir('/')
print(subprocess.run([sys.executable, '-c', {:?}]).returncode)",
        leak("mem")
    );
    let run = Run::host()
        .env("PYTHONPATH", leaky())
        .folder(known.parent().unwrap());
    let run = run.at("--leak-check=suppressions=", name);
    let outcome = run.args(["--leak-check=unused", "-c", &code]).run();
    assert_eq!(
        (outcome.code(), outcome.stdout.as_str()),
        (0, "0\n"),
        "{outcome:#?}"
    );
    let path = known.display();
    let unused = |rule: &str, line: u32| {
        format!("pyhost: --leak-check suppressions: '{rule}' ({path}:{line}) matched nothing\n")
    };
    let first = unused("leak:nothing_of_the_kind", 1);
    let child =
        format!("pyhost: 1 leaked block not reported, 112 B: 1 by 'size:112' ({path}:2)\n{first}");
    assert_eq!(
        outcome.stderr,
        format!("{child}{first}{}", unused("size:112", 2))
    );
}

#[test]
fn a_wrong_rule_or_file_is_one_line_and_status_2() {
    let wrong = rules("leak:a\nleek:b\n");
    let path = wrong.to_str().unwrap();
    let line = format!(
        "pyhost: --leak-check suppressions: '{path}' line 2: bad rule 'leek:b'; expected conditions with spaces between them, of \
         leak:, line:, type:, library:, function:, account:, size:\n"
    );
    let run = |path: &str| Run::host().at("--leak-check=suppressions=", path);
    let outcome = run(path).arg("-V").run();
    assert_eq!((outcome.code(), outcome.stderr), (2, line.clone()));
    let outcome = Run::host()
        .env_at("PYHOST_LEAK_CHECK", "suppressions=", path)
        .arg("-V")
        .run();
    let of_variable = |line: &str| line.replace("--leak-check", "PYHOST_LEAK_CHECK");
    assert_eq!((outcome.code(), outcome.stderr), (2, of_variable(&line)));
    let outcome = run("/nowhere/known.supp").arg("-V").run();
    let line = "pyhost: --leak-check suppressions: '/nowhere/known.supp' cannot be read (No such file or directory (os error 2))\n";
    assert_eq!((outcome.code(), outcome.stderr.as_str()), (2, line));
    // A child process says so, and runs.
    let inherited = Run::host().env("PYHOST_OUTERMOST", "1");
    let inherited = inherited.env("PYHOST_LEAK_CHECK", "suppressions=/nowhere/known.supp");
    let outcome = inherited.code("print(1)").ok();
    assert_eq!(outcome.stdout, "1\n");
    // It shares its standard error with others, so the line has its process id.
    let (named, said) = outcome.stderr.split_once(": ").unwrap();
    assert!(
        named.starts_with("pyhost[") && named.ends_with(']'),
        "{named}"
    );
    let expected = of_variable(line).replace("2))\n", "2)); the script runs without its rules\n");
    assert_eq!(said, expected.strip_prefix("pyhost: ").unwrap());
}
