//! Caps: what is refused, how the script learns of it, what is left behind.

use crate::free_threaded::is_free_threaded;
use crate::host::{PYHOST, Run, figure, folder, script, version};
use crate::skipping::skipped;
use std::io::Read;
use std::process::{Command, Stdio};

const MIB: i64 = 1 << 20;

fn total_peak(report: &serde_json::Value) -> i64 {
    report["total"]["peak_bytes"].as_i64().unwrap()
}

/// Every form of [`cap_forms.py`] is caught by its own `try`, and the total never passes the cap.
fn forms_are_caught(arguments: &[&str], cap: i64) {
    let (outcome, report) = Run::host()
        .args(arguments)
        .arg(script("cap_forms.py"))
        .timeout(300)
        .reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 14, "{outcome:#?}");
    for line in &lines[..13] {
        assert!(line.ends_with(" inside"), "{line}\n{outcome:#?}");
    }
    assert_eq!(lines[13], "finished 38890");
    assert!(!outcome.stderr.contains("lost sys.stderr"));
    assert!(total_peak(&report) <= cap, "{report}");
    assert!(report["caps"]["dossier"]["traceback"][0].is_string());
}

#[test]
fn the_innermost_try_catches_the_error_in_every_form_of_growth() {
    forms_are_caught(&["--cap", "48M"], 48 * MIB);
}

#[test]
fn the_error_is_caught_beneath_debug_hooks_and_over_other_allocators() {
    forms_are_caught(&["--cap", "48M", "--debug-hooks"], 48 * MIB);
    forms_are_caught(&["--cap", "48M", "--allocator", "pymalloc"], 48 * MIB);
    forms_are_caught(&["--cap", "48M", "--allocator", "system"], 48 * MIB);
}

#[test]
fn a_cap_on_one_account_leaves_the_others_alone() {
    let code = "import pyhost
data = []
try:
    while True:
        data.append(object())
except MemoryError:
    obj = pyhost.memory_stats()['accounts']['obj']['live_bytes']
    other = pyhost.memory_stats()['accounts']['mem']['live_bytes']
del data
native = pyhost.buffer(64 << 20, account='native')
print(obj, other)";
    let (outcome, report) = Run::host().args(["--cap", "obj=24M"]).code(code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    let mut numbers = outcome.stdout.split_whitespace();
    let obj: i64 = numbers.next().unwrap().parse().unwrap();
    assert!(obj > 20 * MIB && obj <= 24 * MIB, "{obj}");
    assert!(figure(&report, "obj", "peak_bytes") <= 24 * MIB);
    assert!(total_peak(&report) > 64 * MIB);
    assert!(figure(&report, "obj", "refused") > 0);
}

#[test]
fn an_error_that_is_not_caught_ends_with_a_whole_traceback() {
    for code in [
        "data = []\nwhile True: data.append(object())",
        "data = {}\ni = 0\nwhile True:\n    data[i] = [i]; i += 1",
        "import json\ndata = [json.loads('[1, 2, {\"a\": 3}]') for _ in iter(int, 1)]",
        "bytes(1 << 40)",
    ] {
        let outcome = Run::host().args(["--cap", "32M"]).code(code).run();
        assert_eq!(outcome.code(), 1, "{outcome:#?}");
        let last = outcome.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("MemoryError"), "{outcome:#?}");
        assert!(outcome.stderr.contains("Traceback (most recent call last)"));
        assert!(!outcome.stderr.contains("lost sys.stderr"));
    }
}

#[test]
fn the_hosts_own_error_names_account_size_live_and_cap() {
    // The growth is by calls, after each of which CPython looks for what is pending.
    let code = "class C:
    def __init__(self): self.x = [1]
data = None
try:
    while True: data = (data, C())
except MemoryError as error: text = str(error)
while data: data = data[0]
import pyhost
print(text, pyhost.last_refusal()['how'], sep='\\n')";
    let outcome = Run::host().args(["--cap", "32M"]).code(code).ok();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[1], "raised", "{outcome:#?}");
    assert!(
        lines[0].starts_with("cap of 32.0 MiB (total) reached: "),
        "{lines:?}"
    );
    assert!(
        lines[0].contains(" asked for ") && lines[0].ends_with(" MiB live"),
        "{lines:?}"
    );
}

#[test]
fn a_script_that_never_stops_ends_with_the_documented_status() {
    for code in [
        "data = []
while True:
    try: data.append(object())
    except MemoryError: pass",
        "data = []
while True:
    try:
        while True: data.append([1] * 1000)
    except MemoryError: continue",
        "import threading
data = []
def hog():
    while True:
        try: data.append({})
        except BaseException: pass
threads = [threading.Thread(target=hog) for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()",
        // A server with a thread for each request, and one with a pool of threads: the leak is slow, and the loop goes on
        // after any error.
        "import pyhost, threading
kept = [bytes(pyhost.headroom() - 300_000)]
def answer():
    try: kept.append('x' * 2000 + str(len(kept)))
    except MemoryError: pass
while True:
    try:
        thread = threading.Thread(target=answer)
        thread.start()
        thread.join()
    except Exception: pass",
        "import concurrent.futures, pyhost
kept = [bytes(pyhost.headroom() - 300_000)]
def answer(): kept.append('x' * 2000 + str(len(kept)))
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    while True:
        try:
            for future in [pool.submit(answer) for _ in range(20)]: future.exception()
        except Exception: pass",
    ] {
        let (outcome, report) = Run::host().args(["--cap", "24M"]).code(code).reported();
        assert_eq!(outcome.code(), 53, "{outcome:#?}");
        let fatal: Vec<&str> = outcome
            .stderr
            .lines()
            .filter(|line| line.starts_with("pyhost: fatal: "))
            .collect();
        assert_eq!(fatal.len(), 1, "{outcome:#?}");
        assert!(fatal[0].ends_with("exit status 53"), "{fatal:?}");
        assert!(total_peak(&report) <= 24 * MIB);
        assert_eq!(report["process"]["exit_status"], 53);
    }
}

#[test]
fn what_is_kept_until_nothing_fits_ends_in_an_error_a_request_and_no_more() {
    let code = "import sys
from concurrent.futures import ThreadPoolExecutor
def rows(count):
    return [{'number': n, 'text': f'row {n}', 'parts': [n, str(n)]} for n in range(count)]
def answer(_):
    try: kept.append(rows(int(sys.argv[1])))
    except MemoryError: return 503
    return 200
kept, count = [], 300_000 // int(sys.argv[1])
if sys.argv[2] == 'main': answers = [answer(n) for n in range(count)]
else:
    with ThreadPoolExecutor(2) as pool: answers = list(pool.map(answer, range(count)))
assert answers.count(200) == len(kept) > 0
print(len(answers), answers.count(503) > count // 3)";
    for rows in ["300", "500", "1200", "4000"] {
        for threads in ["main", "pool"] {
            let run = Run::host().args(["--cap", "40M"]).code(code);
            let outcome = run.args([rows, threads]).ok();
            let count = 300_000 / rows.parse::<u32>().unwrap();
            assert_eq!(outcome.stdout, format!("{count} True\n"), "{outcome:#?}");
        }
    }
}

#[test]
fn a_block_that_grows_step_by_step_gets_nearly_half_of_the_cap_at_least() {
    let code = "data = bytearray()
try:
    while True: data += bytes(1 << 20)
except MemoryError: print(len(data) >> 20)";
    for (cap, least) in [("48M", 15), ("96M", 36), ("300M", 125)] {
        let outcome = Run::host().args(["--cap", cap]).code(code).ok();
        let mebibytes: u32 = outcome.last_line().parse().unwrap();
        assert!(mebibytes >= least, "{cap}: {mebibytes}");
    }
}

#[test]
fn threads_that_did_not_hog_go_on() {
    let code = "import json, threading
errors, done = [], []
stop = threading.Event()
def bystander():
    try:
        while not stop.is_set():
            assert json.loads(json.dumps({'a': list(range(50))}))['a'][49] == 49
            with lock: done.append(1); done.clear()
    except BaseException as error: errors.append(repr(error))
def hog():
    data = []
    try:
        while True: data.append([1, 2, 3])
    except MemoryError: caught.append(len(data))
lock, caught = threading.Lock(), []
others = [threading.Thread(target=bystander) for _ in range(4)]
for thread in others: thread.start()
for _ in range(3):
    thread = threading.Thread(target=hog); thread.start(); thread.join()
stop.set()
for thread in others: thread.join()
assert lock.acquire(False)
print(len(caught), errors)";
    let outcome = Run::host()
        .args(["--cap", "32M"])
        .code(code)
        .timeout(300)
        .ok();
    assert_eq!(outcome.stdout, "3 []\n", "{outcome:#?}");
}

#[test]
fn a_thread_that_has_little_and_the_handling_of_an_error_are_not_refused_while_another_fills_the_cap()
 {
    let code = "import sys, threading, traceback
# The first traceback imports modules, which is no small request.
try: bytearray(1 << 62)
except MemoryError as error: traceback.format_exception(type(error), error, error.__traceback__)
kept, errors = [], []
def fill():
    try:
        while True: kept.append(bytearray(1 << 20))
    except MemoryError: full.set()
    end.wait()
full, end = threading.Event(), threading.Event()
filler = threading.Thread(target=fill); filler.start(); full.wait()
if sys.argv[1] == 'ended': end.set(); filler.join() # one of the others takes its slot of the ledger
start = threading.Barrier(8)
def innocent():
    try:
        start.wait()
        rows = bytearray(100_000)
        try: bytearray(8 << 20)
        except MemoryError as error:
            text = ''.join(traceback.format_exception(type(error), error, error.__traceback__))
            notes = [text + str(number) for number in range(200)]
            done.append(len(notes))
    except BaseException as error: errors.append(repr(error))
done = []
threads = [threading.Thread(target=innocent) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
end.set()
print(done, errors)";
    let all = ["200"; 8].join(", ");
    for filler in ["lives", "ended"] {
        let run = Run::host().args(["--cap", "64M"]).code(code).arg(filler);
        let outcome = run.ok();
        assert_eq!(
            outcome.stdout,
            format!("[{all}] []\n"),
            "{filler} {outcome:#?}"
        );
    }
}

#[test]
fn a_cap_that_follows_a_limit_names_it_and_what_others_hold() {
    let code = "try: bytes(1 << 40)
except MemoryError: pass
import pyhost; print(pyhost.last_refusal()['account'])";
    let outcome = Run::host().args(["--cap", "auto"]).code(code).ok();
    let line = outcome
        .stderr
        .lines()
        .find(|line| line.contains("reached: "));
    let line = line.unwrap_or_default();
    assert!(line.contains(" live; --cap auto: "), "{outcome:#?}");
    let first = outcome.stderr.lines().next().unwrap_or_default();
    let source = first.split(" of ").nth(1).unwrap_or_default();
    let source = source.split(';').next().unwrap_or_default();
    let parts = [source, ", of which others hold ", " and this process "];
    assert!(parts.iter().all(|part| line.contains(part)), "{outcome:#?}");
}

#[test]
fn a_process_that_waits_knows_what_the_limit_leaves_it() {
    let code = "import ctypes, mmap, pyhost, time
shared = mmap.mmap(-1, 64 << 20)
place = ctypes.addressof(ctypes.c_char.from_buffer(shared))
ctypes.memset(place, 0, 1)
time.sleep(.2)
before = pyhost.headroom()
ctypes.memset(place, 1, 64 << 20)
for _ in range(2): time.sleep(.1)
print(before - pyhost.headroom() > 48 << 20)";
    let args = ["--cap", "auto", "--cap-share", "16"];
    assert_eq!(Run::host().args(args).code(code).ok().stdout, "True\n");
}

#[test]
fn the_first_refusal_of_a_shortage_leaves_a_dossier() {
    let code = "blocks = [bytearray(8 << 20)]
def hog():
    while True: blocks.append(bytearray(2 << 20))
try: hog()
except MemoryError: pass";
    let (outcome, report) = Run::host().args(["--cap", "48M"]).code(code).reported();
    let dossier = &report["caps"]["dossier"];
    assert_eq!(dossier["scope"], "total");
    assert_eq!(dossier["cap_bytes"], 48 * MIB);
    assert_eq!(dossier["how"], "null");
    assert_eq!(dossier["traceback"][0], "<string>:3 in hog");
    assert_eq!(dossier["traceback"][1], "<string>:4 in <module>");
    let largest = dossier["largest"].as_array().unwrap();
    assert_eq!(largest.len(), 8);
    assert_eq!(largest[0]["line"], 1);
    assert_eq!(largest[1]["line"], 3);
    assert!(largest[0]["size_bytes"].as_i64().unwrap() >= 8 * MIB);
    assert!(dossier["accounts"]["obj"]["live_bytes"].as_i64().unwrap() > 0);
    assert!(
        outcome
            .stderr
            .contains("pyhost: cap of 48.0 MiB (total) reached: ")
    );
    assert!(outcome.stderr.contains("<string>:3 in hog"), "{outcome:#?}");
}

#[test]
fn what_libraries_map_and_touch_counts_below_a_cap_of_all_and_below_a_limit() {
    for (arguments, how) in [
        (&["--cap", "64M"][..], "capped"),
        (&["--cap", "owned=64M"], "owned"),
        (&[], "limited"),
    ] {
        let run = Run::host().args(arguments).arg(script("capped_maps.py"));
        let outcome = run.arg(how).ok();
        assert_eq!(outcome.last_line(), "finished", "{how} {outcome:#?}");
    }
}

#[test]
fn a_library_that_ends_the_process_for_a_refusal_leaves_a_dossier_and_status_53() {
    let code = "import mmap, os
def new(size): return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
kept = new(20 << 20)
kept.write(b'x' * len(kept))
try: new(48 << 20)
except OSError: os.abort()";
    let (outcome, report) = Run::host().args(["--cap", "64M"]).code(code).reported();
    assert_eq!(outcome.code(), 53, "{outcome:#?}");
    let last = outcome
        .stderr
        .lines()
        .rfind(|line| line.starts_with("pyhost: fatal: "));
    let last = last.unwrap_or_default();
    let text = "cap of 64.0 MiB (total) reached: mapped asked for 50331648 bytes with ";
    assert!(
        last.contains(text) && last.ends_with("exit status 53"),
        "{outcome:#?}"
    );
    assert!(
        last.contains(" and 20.0 MiB of libraries' maps; "),
        "{last}"
    );
    assert_eq!(
        report["caps"]["dossier"]["traceback"][0],
        "<string>:6 in <module>"
    );
    // Seconds later, too, in which polars writes a backtrace and another thread is refused.
    let late = "import threading, time
def refused():
    try: new(48 << 20)
    except OSError: pass
refused()
other = threading.Thread(target=refused)
other.start(); other.join()
time.sleep(1.5)
os.abort()";
    let late = format!("{}{late}", code.split("try:").next().unwrap_or_default());
    let outcome = Run::host().args(["--cap", "64M"]).code(&late).run();
    assert_eq!(outcome.code(), 53, "{outcome:#?}");
    // So does one that is refused a block of malloc, as Rust's `Vec` is.
    let block = "import ctypes, os
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
if not malloc(80 << 20): os.abort()";
    let outcome = Run::host().args(["--cap", "64M"]).code(block).run();
    assert_eq!(outcome.code(), 53, "{outcome:#?}");
    let text = "reached: native asked for 83886080 bytes with ";
    assert!(outcome.stderr.contains(text), "{outcome:#?}");
    // One that has as much now ends it for another reason.
    let code = code.replace("os.abort()", "kept.close(); new(48 << 20); os.abort()");
    let outcome = Run::host().args(["--cap", "64M"]).code(&code).run();
    assert_eq!(outcome.code(), 128 + libc::SIGABRT, "{outcome:#?}");
}

#[test]
fn a_library_that_uses_null_for_a_refusal_leaves_a_dossier_and_status_53() {
    let code = "import ctypes, mmap, sys
def new(size): return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
kept = new(20 << 20)
kept.write(b'x' * len(kept))
if 'refused' in sys.argv:
    try: new(48 << 20)
    except OSError: pass
ctypes.memset(8, 0, 1)";
    for (argument, status) in [("refused", 53), ("", 128 + libc::SIGSEGV)] {
        let run = Run::host().args(["--cap", "64M"]).code(code);
        let outcome = run.arg(argument).run();
        assert_eq!(outcome.code(), status, "{outcome:#?}");
        assert_eq!(
            outcome.stderr.contains("pyhost: fatal: cap of 64.0 MiB"),
            status == 53
        );
    }
}

#[test]
#[cfg(target_env = "gnu")]
fn the_jemalloc_of_a_library_gets_options_by_which_a_cap_sees_what_it_has() {
    let code = "import ctypes, os
of = ctypes.CDLL(None).secure_getenv
of.restype = ctypes.c_char_p
os.environ['A_MALLOC_CONF'], os.environ['B_MALLOC_CONF'] = 'narenas:1', 'retain:true'
print(*(of(name) for name in (b'_RJEM_MALLOC_CONF', b'A_MALLOC_CONF', b'B_MALLOC_CONF', b'NO_SUCH')))
print(os.environ.get('_RJEM_MALLOC_CONF'))";
    let set = "retain:false,dirty_decay_ms:100,muzzy_decay_ms:0";
    let capped = format!("b'{set}' b'narenas:1,{set}' b'retain:true' None\nNone\n");
    let free = "None b'narenas:1' b'retain:true' None\nNone\n";
    for (arguments, expected) in [
        (&["--cap", "64M"][..], capped.as_str()),
        (&["--cap", "owned=64M"], free),
        (&[], free),
    ] {
        let outcome = Run::host().args(arguments).code(code).ok();
        assert_eq!(outcome.stdout, expected);
    }
}

#[test]
fn limits_hold_for_their_block_alone() {
    let outcome = Run::host().arg(script("cap_limits.py")).timeout(300).ok();
    assert_eq!(outcome.last_line(), "finished");
}

#[test]
fn a_script_sets_caps_and_is_asked_for_relief() {
    let outcome = Run::host().arg(script("cap_functions.py")).ok();
    assert_eq!(outcome.last_line(), "finished");
    assert!(outcome.stderr.contains("KeyError"), "{outcome:#?}");
}

#[test]
fn child_processes_have_the_caps_and_a_share_of_them() {
    let code = "import multiprocessing, os, subprocess, sys
import pyhost
def cap(queue): queue.put(pyhost.get_cap())
if __name__ == '__main__':
    caps = [pyhost.get_cap()]
    ask = 'import pyhost; print(pyhost.get_cap())'
    caps.append(int(subprocess.check_output([sys.executable, '-c', ask])))
    for method in ('fork', 'spawn'):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=cap, args=(queue,))
        child.start(); caps.append(queue.get()); child.join()
    print(caps)";
    let file = folder("caps").join("children.py");
    std::fs::write(&file, code).unwrap();
    let outcome = Run::host().args(["--cap", "96M"]).arg(&file).ok();
    let all = vec![(96 * MIB).to_string(); 4].join(", ");
    assert_eq!(outcome.stdout, format!("[{all}]\n"));
    let shared = Run::host()
        .args(["--cap", "192M", "--cap-share", "4"])
        .arg(&file)
        .ok();
    let all = vec![(48 * MIB).to_string(); 4].join(", ");
    assert_eq!(shared.stdout, format!("[{all}]\n"));
}

#[test]
fn a_forked_child_is_told_in_its_own_main_thread() {
    let code = "import os, threading
def hog():
    data = None
    try:
        while True: data = (data, object())
    except MemoryError:
        while data: data = data[0]
        return 7
def fork_and_hog():
    pid = os.fork()
    if pid == 0: os._exit(hog())
    results.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
results = []
fork_and_hog()
thread = threading.Thread(target=fork_and_hog); thread.start(); thread.join()
print(results, hog())";
    let outcome = Run::host().args(["--cap", "32M"]).code(code).ok();
    assert_eq!(outcome.stdout, "[7, 7] 7\n", "{outcome:#?}");
}

#[test]
fn a_cap_in_percent_says_what_it_is_of() {
    let outcome = Run::host()
        .args(["--cap", "50%"])
        .code("import pyhost; print(pyhost.get_cap())")
        .ok();
    let cap: u64 = outcome.stdout.trim().parse().unwrap();
    assert!(cap > 16 << 20, "{outcome:#?}");
    assert!(
        outcome.stderr.starts_with("pyhost: --cap 50.00%: ")
            || is_free_threaded() && outcome.stderr.contains("\npyhost: --cap 50.00%: "),
        "{outcome:#?}"
    );
    assert!(outcome.stderr.contains(" of "), "{outcome:#?}");
}

/// The most that a process has of anonymous memory resident while it runs, from outside.
#[test]
fn an_outside_reader_sees_no_more_than_the_cap_and_the_heaps_slack() {
    let code = "data = []
for turn in range(3):
    try:
        while True: data.append([b'x' * 500, turn])
    except MemoryError: data.clear()
print('finished')";
    let mut child = Command::new(PYHOST)
        .args(["--cap", "64M", "-c", code])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<i64>().ok());
        most = most.max(kib.unwrap_or(0) * 1024);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(out, "finished\n");
    // Beside the ledger: the heaps' slack and their own tables, stacks, data of the libraries.
    assert!(most > 40 * MIB && most < (64 + 16) * MIB, "{most}");
}

/// CPython 3.13.0's table of interned strings is broken by one refusal (docs/limit/caps.md): there the loops
/// end in whatever that gives, and only their never being ended by the host is asked.
fn breaks_its_interned_strings() -> bool {
    version() == (3, 13)
}

#[test]
fn a_script_is_never_ended_before_it_had_an_error_to_catch() {
    for (growth, cap) in [
        ("interned", "30M"),
        ("interned", "52M"),
        ("interned", "100M"),
        ("new_names_of_one", "48M"),
        ("new_names_of_one", "100M"),
        ("new_names_of_many", "40M"),
    ] {
        let outcome = Run::host()
            .args(["--cap", cap])
            .arg(script("swallowed_refusals.py"))
            .arg(growth)
            .timeout(300)
            .run();
        assert_ne!(outcome.code(), 53, "{growth} {cap} {outcome:#?}");
        if !breaks_its_interned_strings() {
            assert_eq!(outcome.code(), 0, "{growth} {cap} {outcome:#?}");
            assert_eq!(outcome.last_line(), "finished");
        }
    }
}

#[test]
fn a_refusal_that_python_swallows_time_and_again_does_not_end_the_process() {
    if breaks_its_interned_strings() {
        return skipped("3.13 breaks its own table where that cannot grow");
    }
    // The table doubles at some count between these two: in one of them it is full at the end.
    for count in ["349520", "349525"] {
        let outcome = Run::host()
            .args(["--cap", "56M"])
            .arg(script("swallowed_refusals.py"))
            .args(["swallowed", count])
            .timeout(300)
            .run();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        assert_eq!(outcome.last_line(), "finished");
    }
}

#[test]
fn a_deep_recursion_that_is_refused_memory_ends_in_a_memory_error() {
    if version() < (3, 11) {
        return skipped("before 3.11 each call of Python's is one of C's, whose stack ends first");
    }
    let code = "import sys, threading
sys.setrecursionlimit(10**6)
def plain(n): return plain(n + 1) + 1
def holding(n):
    held = [n]
    return holding(n + 1)
def wide(n, a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8):
    i = j = k = l = m = (a, b, n)
    return wide(n + 1) + len(i)
caught = []
def run(function):
    try: function(0)
    except MemoryError: caught.append(function.__name__)
functions = [plain, holding, wide]
if sys.argv[1] == 'main':
    for function in functions: run(function)
else:
    for function in functions[:2]:
        thread = threading.Thread(target=run, args=(function,))
        thread.start(); thread.join()
print(*caught)";
    for cap in ["16M", "32M", "100M"] {
        let run = |place| {
            let host = Run::host().args(["--cap", cap]).code(code);
            host.arg(place).timeout(300).ok()
        };
        let outcome = run("main");
        assert_eq!(outcome.stdout, "plain holding wide\n", "{cap} {outcome:#?}");
        let outcome = run("thread");
        assert_eq!(outcome.stdout, "plain holding\n", "{cap} {outcome:#?}");
    }
}

#[test]
fn the_peak_of_threads_without_the_gil_is_never_above_the_cap() {
    let code = "import ctypes, threading
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
free = ctypes.CDLL(None).free
free.argtypes = [ctypes.c_void_p]
kept = malloc(15 << 20)
def hog():
    blocks = []
    for _ in range(40000):
        block = malloc(128)
        if block is None: break
        blocks.append(block)
    for block in blocks[::2]: free(block)
    while malloc(128) is not None: pass
threads = [threading.Thread(target=hog) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
def release(): free(kept)
thread = threading.Thread(target=release); thread.start(); thread.join()
print('finished')";
    for cap in [24, 25, 26] {
        let size = format!("{cap}M");
        let (outcome, report) = Run::host().args(["--cap", &size]).code(code).reported();
        assert!(matches!(outcome.code(), 0 | 1), "{outcome:#?}");
        let peak = total_peak(&report);
        assert!(peak <= cap * MIB, "{peak} under {cap} MiB: {outcome:#?}");
    }
}

#[test]
fn a_dossier_has_the_size_that_was_asked_for_and_not_the_block_that_was_refused() {
    // From 3.15 on its bytes are those of an object of type bytes.
    // Without a GIL an array of a list has its length before it, and the head of an object is longer.
    let (of_list, of_bytes) = match is_free_threaded() {
        true => (56_000_008, 58_000_049),
        false => (56_000_000, 58_000_033),
    };
    let of_bytearray = 55_555_556 + if version() < (3, 15) { 0 } else { 32 };
    for (code, asked) in [
        ("x = [0] * 7000000", of_list),
        ("x = bytes(58000000)", of_bytes),
        ("x = bytearray(55555555)", of_bytearray),
    ] {
        let (outcome, report) = Run::host().args(["--cap", "56M"]).code(code).reported();
        assert_eq!(outcome.code(), 1, "{outcome:#?}");
        let dossier = &report["caps"]["dossier"];
        assert_eq!(dossier["size_bytes"], asked, "{code}: {dossier}");
        let text = format!("asked for {asked} bytes");
        assert!(outcome.stderr.contains(&text), "{outcome:#?}");
        assert_eq!(dossier["big_blocks"], 0, "{dossier}");
        for class in dossier["size_classes"].as_array().unwrap() {
            assert!(
                class["block_bytes"].as_i64().unwrap() < 4 * MIB,
                "{dossier}"
            );
        }
    }
}

#[test]
fn the_headroom_of_each_account_is_granted_and_no_more() {
    let outcome = Run::host()
        .args(["--cap", "64M"])
        .arg(script("headroom.py"))
        .timeout(300)
        .ok();
    assert_eq!(outcome.last_line(), "finished", "{outcome:#?}");
    let capped = Run::host()
        .args(["--cap", "256M", "--cap", "native=24M", "--cap", "raw=16M"])
        .arg(script("headroom.py"))
        .timeout(300)
        .ok();
    assert_eq!(capped.last_line(), "finished", "{capped:#?}");
}

#[test]
fn a_forked_child_has_the_limits_of_its_own_thread_alone() {
    let code = "
import os, pyhost, threading
opened, ends = threading.Event(), threading.Event()
def other():
    with pyhost.limit('4M'): opened.set(); ends.wait()
def grows(what):
    try: kept = [bytes(100_000) for _ in range(80)]; print(what, 'grew', flush=True)
    except MemoryError: print(what, 'was refused', flush=True)
def forked(work):
    if (child := os.fork()) == 0: work(); os._exit(0)
    os.waitpid(child, 0)
def child():
    grows('child')
    with pyhost.limit('4M'): grows('child with a limit')
    grows('child')
thread = threading.Thread(target=other); thread.start(); opened.wait()
grows('parent'); forked(child)
ends.set(); thread.join()
with pyhost.limit('4M'): forked(lambda: grows('child within the block'))
forked(lambda: grows('child'))";
    let outcome = Run::host().code(code).ok();
    let expected = "parent was refused\nchild grew\nchild with a limit was refused\nchild grew\n\
                    child within the block was refused\nchild grew\n";
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
}
