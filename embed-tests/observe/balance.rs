//! The balance sheet, the size classes, and the report of the moment on SIGUSR2.

use crate::environments::newest_numpy;
use crate::free_threaded::{is_free_threaded, takes};
use crate::host::{PYHOST, Run, figure, folder, joined, ledger_at, script};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const NUMPY_SCRIPT: &str = "import numpy
kept = [numpy.ones(size) for size in range(1, 3000)]
product = numpy.random.rand(500, 500) @ numpy.random.rand(500, 500)
empty = numpy.empty(100_000_000)
zeros = numpy.zeros(10_000_000)
assert zeros.sum() == 0
";

fn row(balance: &Value, name: &str) -> i64 {
    let rows = balance["rows"].as_array().unwrap();
    let found = rows.iter().find(|row| row["name"] == name);
    found.map_or(0, |row| row["resident_bytes"].as_i64().unwrap())
}

/// The balance of a report, after a look at its sums: rows and remainder are what is resident, no account
/// has more than is live of it, and less than a twentieth is not explained.
fn explained(report: &Value) -> &Value {
    let balance = &report["balance"];
    let resident = balance["resident_bytes"].as_i64().unwrap();
    let remainder = balance["remainder_bytes"].as_i64().unwrap();
    let rows = balance["rows"].as_array().unwrap();
    let sum: i64 = rows
        .iter()
        .map(|row| row["resident_bytes"].as_i64().unwrap())
        .sum();
    assert_eq!(sum + remainder, resident, "{balance}");
    assert!(remainder >= 0 && remainder * 20 < resident, "{balance}");
    assert!(resident > 5_000_000, "{balance}");
    for name in ["obj", "executable", "main_stack", "heap_own"] {
        assert!(row(balance, name) > 0, "{name}: {balance}");
    }
    // Without a GIL the script's threads go on while the report is made.
    let moved = if is_free_threaded() { 1 << 16 } else { 0 };
    for row in rows {
        let kinds = ["account", "heap", "file", "stack", "anonymous"];
        assert!(kinds.contains(&row["kind"].as_str().unwrap()), "{row}");
        if row["kind"] == "account" {
            let live = figure(report, row["name"].as_str().unwrap(), "live_bytes");
            let resident = row["resident_bytes"].as_i64().unwrap();
            assert!(resident <= live + moved, "{row}: {live} live");
        }
    }
    balance
}

/// What the size classes of an account should sum up to: its live bytes and blocks.
fn in_classes(report: &Value, account: &str) -> (i64, i64) {
    let live = |name| figure(report, account, name);
    (live("live_bytes"), live("live_blocks"))
}

/// The sums of an account's size classes: live bytes and blocks.
fn sums(report: &Value, account: &str) -> (i64, i64) {
    let classes = report["size_classes"][account].as_array().unwrap();
    let sizes: Vec<i64> = classes
        .iter()
        .map(|class| class["block_bytes"].as_i64().unwrap())
        .collect();
    assert!(sizes.is_sorted(), "{account}: {sizes:?}");
    let sum = |name: &str| {
        classes
            .iter()
            .map(|class| class[name].as_i64().unwrap())
            .sum()
    };
    assert!(sum("capacity_bytes") >= sum("live_bytes"), "{classes:?}");
    (sum("live_bytes"), sum("live_blocks"))
}

#[test]
fn the_resident_size_of_a_plain_script_is_explained() {
    let (outcome, report) = Run::host()
        .code("import json, re; kept = [str(i) for i in range(200_000)]")
        .reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    let balance = explained(&report);
    assert!(row(balance, "obj") > 10_000_000, "{balance}");
}

#[test]
fn the_resident_size_of_a_numpy_script_is_explained() {
    for allocator in ["mimalloc", "pool", "bfc"] {
        let (outcome, report) = newest_numpy()
            .host()
            .env("PYHOST_NUMPY", allocator)
            .code(NUMPY_SCRIPT)
            .reported();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        let balance = explained(&report);
        // Live is not resident: of 880 MB less than 60 were written.
        assert!(figure(&report, "numpy", "live_bytes") > 800_000_000);
        let arrays = row(balance, "numpy");
        assert!(
            (30_000_000..130_000_000).contains(&arrays),
            "{allocator}: {balance}"
        );
        assert!(row(balance, "libraries") > 1_000_000, "{balance}");
        assert!(row(balance, "extension_modules") > 1_000_000, "{balance}");
    }
    // The tables of a region have a handle for each 256 bytes that were used.
    let (outcome, report) = newest_numpy()
        .host()
        .args(["--numpy", "bfc"])
        .code("import numpy; kept = [numpy.ones(length) for length in range(3000)]")
        .reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    let balance = explained(&report);
    assert!(
        balance["remainder_bytes"].as_i64().unwrap() < 300_000,
        "{balance}"
    );
}

#[test]
fn the_resident_size_of_a_script_with_threads_is_explained() {
    for stack in ["1000000", "0"] {
        let (outcome, report) = Run::host()
            .arg(script("threads_at_work.py"))
            .arg(stack)
            .reported();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        let balance = explained(&report);
        // Each of the eight has touched two pages of its stack at least.
        assert!(row(balance, "thread_stacks") >= 8 * 8192, "{balance}");
    }
}

#[test]
fn the_resident_size_is_explained_whatever_the_heaps_are() {
    for options in [
        &["--guard"][..],
        &["--leak-check"],
        &["--region", "64M"],
        &["--retain", "speed"],
        &["--retain", "small"],
        &["--debug-hooks"],
        &["--malloc", "plain"],
        &["--allocator", "pymalloc"],
    ]
    .into_iter()
    .filter(|options| takes(options))
    {
        let code = "kept = [str(i) for i in range(100_000)]; big = bytearray(b'x') * 3_000_000";
        let (outcome, report) = Run::host().args(options).code(code).reported();
        assert_eq!(outcome.code(), 0, "{options:?} {outcome:#?}");
        explained(&report);
    }
    let file = folder("ledger").join("ledger");
    let (_, report) = Run::host().arg(ledger_at(&file)).code("pass").reported();
    explained(&report);
}

#[test]
fn memory_that_was_never_written_is_not_resident_and_a_forked_childs_is() {
    let code = "import mmap, os, pyhost
def row(name):
    rows = {r['name']: r['resident_bytes'] for r in pyhost.balance_sheet()['rows']}
    return rows.get(name, 0)
before = row('native')
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
block = libc.malloc(ctypes.c_size_t(200_000_000))
assert row('native') - before < 2_000_000, row('native')
ctypes.memset(block, 1, 50_000_000)
grown = row('native') - before
assert 49_900_000 <= grown < 60_000_000, grown
shared = mmap.mmap(-1, 10_000_000)
shared.write(bytes(10_000_000))
assert row('shared_memory') >= 10_000_000
pid = os.fork()
if pid == 0:
    sheet = pyhost.balance_sheet()
    total = sum(r['resident_bytes'] for r in sheet['rows']) + sheet['remainder_bytes']
    ok = total == sheet['resident_bytes'] and row('native') - before >= 49_900_000
    os._exit(0 if ok else 1)
assert os.waitpid(pid, 0)[1] == 0
grown = row('native') - before
assert 49_900_000 <= grown < 60_000_000, grown";
    Run::host().code(code).ok();
}

#[test]
fn size_classes_sum_up_to_the_ledger() {
    let code = "import json
kept = [{'n': i, 'text': str(i) * (i % 90)} for i in range(30_000)]
big = [bytearray(size) for size in range(100_000, 9_000_000, 300_000)]
del kept[::3]";
    for options in [
        &[][..],
        &["--debug-hooks"],
        &["--guard"],
        &["--leak-check"],
        &["--leak-check=native"],
        &["--retain", "speed"],
        &["--region", "200M"],
    ]
    .into_iter()
    .filter(|options| takes(options))
    {
        let (outcome, report) = Run::host().args(options).code(code).reported();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        for account in ["raw", "mem", "obj", "numpy", "native"] {
            let ledger = in_classes(&report, account);
            assert_eq!(sums(&report, account), ledger, "{options:?} {account}");
        }
    }
}

#[test]
fn size_classes_of_native_leave_out_what_mimalloc_keeps_for_itself() {
    // Each thread has a table of heaps, which goes with it, and each arena a part in each heap.
    let code = "import os, pyhost, threading
def compare():
    classes, figures = pyhost.size_histogram('native'), pyhost.memory_stats()['accounts']['native']
    sums = [sum(c[name] for c in classes) for name in ('live_bytes', 'live_blocks')]
    assert sums == [figures['live_bytes'], figures['live_blocks']], (sums, figures)
compare()
stop, ready = threading.Event(), threading.Barrier(9)
def work():
    kept = [bytearray(1000), 'x' * 10_000]
    ready.wait(); stop.wait()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
ready.wait()
compare()
if os.fork() == 0:
    compare()
    os._exit(0)
assert os.wait()[1] == 0
stop.set()
for thread in threads: thread.join()
import time
for attempt in range(100):
    try: compare()
    except AssertionError:
        if attempt == 99: raise
        time.sleep(0.01)  # the last thread is still on its way out
    else: break
kept = bytearray(1_500_000_000)
compare()";
    Run::host().code(code).ok();
}

#[test]
fn no_account_has_more_resident_than_is_live_after_most_was_freed() {
    let freed_by_malloc = "import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def touched(size):
    block = libc.malloc(ctypes.c_size_t(size))
    ctypes.memset(block, 1, size)
    return block
for block in [touched(4_000_000) for _ in range(24)]: libc.free(block)
kept = [touched(1000 << n % 8) for n in range(24)]";
    let freed_by_python =
        "objects = [bytes(40) for i in range(600_000)], [bytearray(100_000) for i in range(200)]
del objects
kept = [bytes(n * 50) for n in range(300)]";
    for profile in ["balanced", "speed", "small"] {
        for (account, code) in [("native", freed_by_malloc), ("obj", freed_by_python)] {
            let run = Run::host().args(["--retain", profile]);
            let (outcome, report) = run.code(code).reported();
            assert_eq!(outcome.code(), 0, "{outcome:#?}");
            let balance = explained(&report);
            let live = figure(&report, account, "live_bytes");
            let resident = row(balance, account);
            assert!(
                resident * 10 > live * 9,
                "{profile} {account}: {live} {balance}"
            );
            let kept = row(balance, "heap_slack") + row(balance, "heap_kept");
            let keeps_much = kept >= 20_000_000;
            assert_eq!(
                keeps_much,
                profile == "speed",
                "{profile} {account}: {balance}"
            );
        }
    }
}

#[test]
fn blocks_that_native_plain_does_not_count_are_a_row_of_their_own() {
    let code = "import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
ctypes.memset(libc.malloc(ctypes.c_size_t(20_000_000)), 1, 20_000_000)";
    let run = Run::host().args(["--malloc", "plain"]);
    let (_, report) = run.code(code).reported();
    let balance = explained(&report);
    assert!(row(balance, "uncounted") >= 20_000_000, "{balance}");
    assert_eq!(sums(&report, "native"), (0, 0));
}

#[test]
fn size_classes_of_arrays_sum_up_to_the_ledger() {
    for allocator in ["mimalloc", "pool"] {
        let (outcome, report) = newest_numpy()
            .host()
            .env("PYHOST_NUMPY", allocator)
            .code(NUMPY_SCRIPT)
            .reported();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        for account in ["raw", "mem", "obj", "numpy"] {
            let ledger = in_classes(&report, account);
            assert_eq!(sums(&report, account), ledger, "{allocator} {account}");
        }
    }
}

#[test]
fn the_module_gives_size_classes_and_fragmentation() {
    let code = "import ctypes, pyhost
sizes = pyhost.size_histogram
before = {c['block_bytes']: c['live_blocks'] for c in sizes('native')}
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
blocks = [libc.malloc(ctypes.c_size_t(700)) for _ in range(1000)]
after = {c['block_bytes']: c for c in sizes(account='native')}
grown = [size for size, c in after.items() if c['live_blocks'] >= before.get(size, 0) + 1000]
assert len(grown) == 1 and 700 <= grown[0] < 900, grown
for c in after.values():
    assert c['live_bytes'] <= c['capacity_bytes'], c
    assert c['block_bytes'] >= 1 << 19 or c['live_bytes'] == c['live_blocks'] * c['block_bytes'], c
whole = pyhost.fragmentation('native')
for block in blocks[:-1]: libc.free(block)
assert 0 <= whole < pyhost.fragmentation('native') < 1, whole
assert set(sizes()) == set(pyhost.fragmentation()) == {'raw', 'mem', 'obj', 'numpy', 'native'}
for bad in 'arena', 'total', 'pooled', '', 3, b'obj':
    for function in sizes, pyhost.fragmentation:
        try: function(bad)
        except ValueError as error: assert \"one of 'raw'\" in str(error), error
        else: raise AssertionError(bad)
assert pyhost.balance_sheet()['resident_bytes'] > 1_000_000";
    Run::host().code(code).ok();
}

#[test]
fn a_look_at_the_heaps_is_safe_while_threads_allocate() {
    let code = "import ctypes, pyhost, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
running = True
def churn(size):
    blocks = []
    while running:
        blocks += [libc.malloc(size + len(blocks) % 700) for _ in range(200)]
        if len(blocks) > 4000:
            for block in blocks: libc.free(block)
            blocks = []
threads = [threading.Thread(target=churn, args=(ctypes.c_size_t(size).value,)) for size in (8, 90, 3000, 70000)]
for thread in threads: thread.start()
for _ in range(60):
    sheet = pyhost.balance_sheet()
    total = sum(r['resident_bytes'] for r in sheet['rows']) + sheet['remainder_bytes']
    assert total == sheet['resident_bytes']
    assert pyhost.size_histogram('native')
running = False
for thread in threads: thread.join()";
    Run::host().code(code).ok();
}

#[test]
fn the_text_report_names_the_largest_rows() {
    let outcome = Run::host()
        .arg("--stats")
        .code("kept = b'x' * 30_000_000")
        .ok();
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    let head = lines
        .iter()
        .position(|line| line.starts_with("resident when the script ended: "))
        .unwrap_or_else(|| panic!("{lines:#?}"));
    assert!(lines[head - 1].starts_with("resident "), "{lines:#?}");
    assert!(lines[head + 1].starts_with("  obj "), "{lines:#?}");
    let rows = lines[head + 1..]
        .iter()
        .take_while(|line| line.starts_with("  "));
    assert!((3..=10).contains(&rows.count()), "{lines:#?}");
}

#[test]
fn what_is_not_taken_is_null() {
    let ending = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)";
    for code in [ending, "import os; os._exit(0)"] {
        let (_, report) = Run::host().code(code).reported();
        assert!(
            report["balance"].is_null() && report["size_classes"].is_null(),
            "{code}"
        );
    }
    let code = "import pyhost; d = pyhost.memory_stats(); print(d['balance'], d['size_classes'])";
    assert_eq!(Run::host().code(code).ok().stdout, "None None\n");
}

#[test]
fn the_report_of_the_moment_is_written_on_sigusr2() {
    let place = folder("dump");
    let file = place.join("report.json");
    let mut child = Command::new(PYHOST)
        .arg(joined("--stats=file=", &file))
        .arg(script("dump_on_signal.py"))
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut words = Vec::new();
    for line in out.lines() {
        words.push(line.unwrap());
        if words.last().unwrap() != "done" {
            let pid = child.id().to_string();
            assert!(
                Command::new("kill")
                    .args(["-USR2", &pid])
                    .status()
                    .unwrap()
                    .success()
            );
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(words, ["ready", "again", "done"]);
    let text = std::fs::read_to_string(&file).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["process"]["ended_by"], "exit");
}

#[test]
fn a_thread_that_waits_is_woken_to_write() {
    let place = folder("dump");
    let file = place.join("report.json");
    // Nothing but the signal lets the wait end: the file is there while the script waits.
    let code = format!(
        "import os, signal, threading, time
def tell():
    time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGUSR2)
    while not os.path.exists({file:?}): time.sleep(0.01)
    seen.set()
seen = threading.Event()
threading.Thread(target=tell).start()
assert seen.wait(100)"
    );
    Run::host().at("--stats=file=", &file).code(&code).ok();
}

#[test]
fn each_forked_process_writes_a_file_of_its_own_on_sigusr2() {
    let place = folder("dump");
    let code = format!(
        "import json, os, signal
pid = os.fork()
if pid == 0:
    kept = b'x' * 30_000_000
    os.kill(os.getpid(), signal.SIGUSR2)
    report = json.load(open(os.path.join({place:?}, str(os.getpid()))))
    rows = {{row['name']: row['resident_bytes'] for row in report['balance']['rows']}}
    os._exit(0 if rows['obj'] > 30_000_000 else 1)
assert os.waitpid(pid, 0)[1] == 0
assert os.listdir({place:?}) == [str(pid)]"
    );
    let template = place.join("%p");
    Run::host().at("--stats=file=", &template).code(&code).ok();
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 2);
}

#[test]
fn a_thread_with_a_small_stack_can_look() {
    let code = "import os, pyhost, threading
threading.stack_size(max(65536, os.sysconf('SC_THREAD_STACK_MIN')))
seen = []
def look(): seen.append((pyhost.size_histogram('mem'), pyhost.balance_sheet()))
thread = threading.Thread(target=look)
thread.start(); thread.join()
assert seen[0][0] and seen[0][1]";
    Run::host().code(code).ok();
}

#[test]
fn sigusr2_is_safe_where_the_script_has_put_it_back_to_its_default() {
    // As gunicorn's workers do: then the handler writes, without what it cannot take there.
    let place = folder("dump");
    let code = format!(
        "import json, os, signal
def reset():
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL
    os.kill(os.getpid(), signal.SIGUSR2)
    report = json.load(open(os.path.join({place:?}, str(os.getpid()))))
    assert report['partial'] and report['process']['ended_by'] is None, report
    assert report['accounts']['obj']['live_bytes'] > 1_000_000
pid = os.fork()
if pid == 0:
    reset()
    os._exit(7)
assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 7
reset()"
    );
    let template = place.join("%p");
    Run::host().at("--stats=file=", &template).code(&code).ok();
    // A forked child that has no file says so, and goes on.
    for reset in ["", "signal.signal(signal.SIGUSR2, signal.SIG_DFL)"] {
        let code = format!(
            "import os, signal
pid = os.fork()
if pid == 0:
    {reset}
    os.kill(os.getpid(), signal.SIGUSR2)
    os._exit(7)
assert os.WEXITSTATUS(os.waitpid(pid, 0)[1]) == 7"
        );
        let file = folder("dump").join("r");
        let outcome = Run::host().at("--stats=file=", &file).code(&code).ok();
        assert!(
            outcome.stderr.contains("expected %p in the name"),
            "{outcome:#?}"
        );
    }
}

#[test]
fn sigusr2_means_what_it_means_without_the_host_elsewhere() {
    let kill = "import os, signal; os.kill(os.getpid(), signal.SIGUSR2)";
    // Without a file it ends the process, with a report where one was asked for.
    let outcome = Run::host().code(kill).run();
    assert_eq!(outcome.status.signal(), Some(libc::SIGUSR2));
    let outcome = Run::host().arg("--stats=json").code(kill).run();
    assert_eq!(outcome.status.signal(), Some(libc::SIGUSR2));
    assert!(outcome.stderr.contains("SIGUSR2"), "{outcome:#?}");
    // A program that is executed dies of it; what was ignored stays ignored.
    let code = format!(
        "import os, signal, subprocess
shell = subprocess.run(['/bin/sh', '-c', 'kill -USR2 $$'])
assert shell.returncode == -signal.SIGUSR2, shell
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
{kill}
assert not os.path.exists({file:?})
subprocess.run(['true'], check=True)",
        file = folder("dump").join("r")
    );
    let file = folder("dump").join("r");
    Run::host().at("--stats=file=", &file).code(&code).ok();
    let ignored = "trap '' USR2; exec \"$0\" --stats=file=\"$1\" -c \"$2\"";
    let code = format!(
        "import signal
assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
{kill}"
    );
    let run = Run::program("/bin/sh").args(["-c", ignored, PYHOST]);
    run.arg(&file).arg(&code).ok();
}
