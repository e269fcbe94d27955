//! Guard pages: what they catch, and that correct programs run on unchanged.

use crate::environments::newest_numpy;
use crate::free_threaded::{NO_SMALL_GUARDS, is_free_threaded};
use crate::host::{ALLOCATORS, Outcome, Run, compile, executable, of_bytearray, script, stock};
use crate::skipping::skipped;

const SEGV: i32 = 128 + libc::SIGSEGV;
const ABORT: i32 = 128 + libc::SIGABRT;

fn bug(name: &str) -> Outcome {
    Run::host()
        .arg("--guard=all")
        .arg(script("guarded_bugs.py"))
        .arg(name)
        .run()
}

/// The output of the host, and whether each line names a line of the script.
fn said(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.stderr.lines();
    lines
        .filter(|line| line.starts_with("pyhost:"))
        .map(without_place)
        .collect()
}

/// A line without the places of the block's allocation and free, which must be the script's.
fn without_place(line: &str) -> String {
    let mut line = line.to_owned();
    let mut places = 0;
    for words in [" (allocated at ", " (freed at ", " (at "] {
        if let Some((before, rest)) = line.split_once(words) {
            let (place, after) = rest.split_once(')').expect(rest);
            assert!(place.contains("guarded_bugs.py:"), "{line}");
            line = format!("{before}{after}");
            places += 1;
        }
    }
    let is_freed = line.contains("a freed block") || line.contains("freed before");
    assert_eq!(places, 1 + usize::from(is_freed), "{line}");
    line
}

#[test]
fn a_write_past_the_end_dies_at_once_with_account_and_size() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    for (name, account) in [
        ("bytes", "obj"),
        ("bytearray", of_bytearray()),
        ("array", "mem"),
        ("malloc", "native"),
        ("raw", "raw"),
        ("mem", "mem"),
        ("obj", "obj"),
    ] {
        let outcome = bug(name);
        assert_eq!(outcome.code(), SEGV, "{name} {outcome:#?}");
        let line = &said(&outcome)[0];
        assert!(line.starts_with("pyhost: write "), "{name}: {line}");
        assert!(line.contains(" past the end of a block of "), "{line}");
        let end = format!(" bytes of the account {account}");
        assert!(line.ends_with(&end), "{name}: {line}");
    }
}

#[test]
fn a_write_past_the_end_of_an_array_names_the_line_that_made_it() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let environment = newest_numpy();
    for allocator in ["mimalloc", "pool", "bfc", "system"] {
        let outcome = environment
            .host()
            .args(["--guard=all", "--numpy", allocator])
            .arg(script("guarded_bugs.py"))
            .arg("numpy")
            .run();
        assert_eq!(outcome.code(), SEGV, "{allocator} {outcome:#?}");
        let line = outcome.stderr.lines().next().unwrap();
        assert!(
            line.starts_with(
                "pyhost: write 1 byte past the end of a block of 8000 bytes of the account numpy \
                 (allocated at "
            ),
            "{allocator}: {line}"
        );
        assert!(line.ends_with("guarded_bugs.py:39)"), "{allocator}: {line}");
    }
}

#[test]
fn reads_writes_before_the_start_and_uses_after_free_are_told() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    for (name, line) in [
        (
            "read",
            "pyhost: read 1 byte past the end of a block of 8000 bytes of the account native",
        ),
        (
            "underflow",
            "pyhost: write 5 bytes before the start of a block of 65536 bytes of the account native",
        ),
        (
            "written-after-free",
            "pyhost: write at byte 100 of a freed block of 8000 bytes of the account native",
        ),
    ] {
        let outcome = bug(name);
        assert_eq!(outcome.code(), SEGV, "{name} {outcome:#?}");
        assert_eq!(said(&outcome), [line], "{name}");
    }
}

#[test]
fn free_sees_what_no_page_can() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    for (name, part) in [
        (
            "slack",
            "3 bytes past the end of a guarded block of 8001 bytes of the account native, overwritten",
        ),
        (
            "before",
            "5 bytes before the start of a guarded block of 8000 bytes of the account native, overwritten",
        ),
        (
            "double-free",
            "a guarded block of 8000 bytes of the account native, freed before",
        ),
        (
            "inside",
            "a guarded block of 8000 bytes of the account native, which does not start there",
        ),
    ] {
        let outcome = bug(name);
        assert_eq!(outcome.code(), ABORT, "{name} {outcome:#?}");
        assert_eq!(said(&outcome).len(), 1, "{name} {outcome:#?}");
        assert!(
            said(&outcome)[0].ends_with(part),
            "{name}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn faulthandlers_traceback_and_the_report_are_still_written() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let line = "pyhost: write 16 bytes past the end of a block of 8033 bytes of the account obj";
    // Enabled before the host's handler is in place, and after.
    for (options, name) in [
        (&["-X", "faulthandler"][..], "bytes"),
        (&[], "faulthandler"),
    ] {
        let outcome = Run::host()
            .args(["--guard=all", "--stats=json"])
            .args(options)
            .arg(script("guarded_bugs.py"))
            .arg(name)
            .run();
        assert_eq!(outcome.code(), SEGV, "{name} {outcome:#?}");
        assert_eq!(said(&outcome), [line], "{name} {outcome:#?}");
        assert!(
            outcome.stderr.contains("guarded_bugs.py\", line 30"),
            "{outcome:#?}"
        );
        let report = outcome.stderr.lines().find(|line| line.starts_with('{'));
        let report: serde_json::Value = serde_json::from_str(report.unwrap()).unwrap();
        assert_eq!(report["process"]["ended_by"], "SIGSEGV");
        assert!(
            report["guards"]["guarded_blocks"].as_i64() > Some(0),
            "{report}"
        );
    }
}

#[test]
fn a_handler_of_the_scripts_own_takes_the_signal() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let code = "import os, signal
signal.signal(signal.SIGSEGV, lambda *_: print('caught'))
os.kill(os.getpid(), signal.SIGSEGV)";
    let outcome = Run::host().args(["--guard=all", "-c", code]).ok();
    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.as_str()),
        ("caught\n", "")
    );
}

#[test]
fn random_allocations_among_guarded_blocks_leave_the_ledger_exact() {
    for (name, arguments) in [
        ("exact_domains.py", &["7"][..]),
        ("exact_native.py", &["7"]),
        ("exact_programs.py", &[]),
        ("exact_peaks.py", &[]),
    ] {
        for (guard, hooks) in [("all", "1"), ("min=2K,every=3", "0")] {
            let outcome = Run::host()
                .env("PYHOST_GUARD", guard)
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .arg(script(name))
                .args(arguments)
                .timeout(600)
                .run();
            assert_eq!(
                (outcome.code(), outcome.last_line()),
                (0, "exact"),
                "{name} {guard} {outcome:#?}"
            );
        }
    }
}

#[test]
fn arrays_among_guarded_blocks_leave_the_ledger_exact() {
    let code = "import pyhost, numpy as np, random
random.seed(5)
def live():
    return pyhost.memory_stats()['accounts']['numpy']['live_bytes']
base, kept = live(), []
for step in range(3000):
    array = np.zeros(random.choice((3, 400, 1000, 5000, 70000)))
    assert not array.any()
    array[:] = step
    if step % 3 == 0:
        array.resize(random.choice((5, 900, 30000)), refcheck=False)
    kept.append(array)
    if len(kept) > 50:
        kept.pop(random.randrange(50))
booked, blocks, walked, found = pyhost._walk('numpy')
assert (booked, blocks) == (walked, found), (booked, blocks, walked, found)
del kept, array
assert live() == base
print(pyhost.memory_stats()['guards']['guarded_blocks'] > 1000)";
    let outcome = newest_numpy().host().args(["--guard=all", "-c", code]).ok();
    assert_eq!(outcome.stdout, "True\n");
}

#[test]
fn forks_from_a_busy_process_neither_crash_nor_hang() {
    let library = compile("churn.c", "churn.so", &["-shared", "-fPIC"]);
    let (outcome, report) = Run::host()
        .arg("--guard=all")
        .arg(script("busy_forks.py"))
        .args([library.as_os_str(), "100".as_ref()])
        .timeout(600)
        .reported();
    assert_eq!(
        (outcome.code(), outcome.last_line()),
        (0, "done"),
        "{outcome:#?}"
    );
    assert!(
        report["guards"]["guarded_blocks"].as_i64() > Some(1000),
        "{report}"
    );
}

#[test]
fn every_allocator_of_the_host_takes_guarded_blocks_back() {
    let code = "import json, zlib, sqlite3, threading
def work():
    rows = [{'n': n, 'text': 'x' * n} for n in range(0, 3000, 7)]
    assert json.loads(json.dumps(rows)) == rows
    data = bytes(range(256)) * 500
    assert zlib.decompress(zlib.compress(data)) == data
    base = sqlite3.connect(':memory:')
    base.execute('create table t (b)')
    base.executemany('insert into t values (?)', ((bytes(n),) for n in range(0, 9000, 13)))
    assert base.execute('select sum(length(b)) from t').fetchone() == (sum(range(0, 9000, 13)),)
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print('done')";
    for allocator in ["mimalloc", "pymalloc", "system"] {
        for native in ["count", "plain"] {
            let outcome = Run::host()
                .args(["--guard=all", "--allocator", allocator, "--malloc", native])
                .args(["-c", code])
                .ok();
            assert_eq!(outcome.stdout, "done\n", "{allocator} {native}");
        }
    }
}

#[test]
fn one_of_every_n_large_enough_is_guarded_also_in_children() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let code = "import pyhost, subprocess, sys
code = '''import pyhost
def guarded():
    return pyhost.memory_stats()['guards']['guarded_blocks']
before = guarded()
kept = [bytes(size) for size in (2000, 9000) for _ in range(1000)]
print(guarded() - before, flush=True)'''
exec(code)
subprocess.run([sys.executable, '-c', code], check=True)";
    let outcome = Run::host()
        .args(["--guard=min=8K,every=10", "-c", code])
        .ok();
    let counts = outcome.stdout.lines().map(|line| line.parse().unwrap());
    let counts: Vec<i32> = counts.collect();
    assert_eq!(counts.len(), 2, "{outcome:#?}");
    assert!(
        counts.iter().all(|count| (99..=101).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn without_the_option_nothing_is_guarded() {
    let (_, report) = Run::host().code("pass").reported();
    assert!(report["guards"].is_null(), "{report}");
    let (_, report) = Run::host().args(["--guard=off", "-c", "pass"]).reported();
    assert!(report["guards"].is_null(), "{report}");
}

#[test]
fn small_blocks_are_guarded_where_min_says_so() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    // Of other processors the line says `access`.
    for (code, expected) in [
        (
            "ctypes.string_at(malloc(48), 49)",
            "1 byte past the end of a block of 48 bytes of the account native",
        ),
        (
            "ctypes.memset(take(64), 1, 66)",
            "past the end of a block of 64 bytes of the account mem",
        ),
        (
            "ctypes.memset(take_object(16), 1, 17)",
            "past the end of a block of 16 bytes of the account obj",
        ),
        (
            "p = realloc(malloc(16), 32); ctypes.string_at(p, 33)",
            "past the end of a block of 32 bytes of the account native",
        ),
        (
            "p = malloc(48); free(p); ctypes.string_at(p, 1)",
            "at byte 0 of a freed block of 48 bytes of the account native",
        ),
        (
            "p = malloc(48); realloc(p, 96); ctypes.string_at(p + 7, 1)",
            "at byte 7 of a freed block of 48 bytes of the account native",
        ),
        (
            "p = take(64); give(p); ctypes.memset(p, 1, 1)",
            "at byte 0 of a freed block of 64 bytes of the account mem",
        ),
    ] {
        let run = Run::host().arg("--guard=min=1,every=1");
        let outcome = run.code(&format!("{ALLOCATORS}{code}")).run();
        assert_eq!(outcome.code(), SEGV, "{code} {outcome:#?}");
        assert!(outcome.stderr.contains(expected), "{code} {outcome:#?}");
    }
    let code = format!("{ALLOCATORS}p = malloc(41); ctypes.memset(p, 1, 43); free(p)");
    let outcome = Run::host()
        .args(["--guard=min=1,every=1", "-c", &code])
        .run();
    assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
    assert!(
        outcome
            .stderr
            .contains("2 bytes past the end of a guarded block of 41 bytes"),
        "{outcome:#?}"
    );
}

/// No page protects them: an alignment of 16 leaves them behind a block, and CPython's hooks have pads there.
#[test]
fn bytes_written_behind_a_block_that_is_kept_are_found_at_the_end() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    for (take, options, written, line) in [
        (
            "malloc",
            &[][..],
            43,
            "2 bytes past the end of a guarded block of 41 bytes of the account native",
        ),
        (
            "take",
            &[],
            43,
            "2 bytes past the end of a guarded block of 41 bytes of the account mem",
        ),
        (
            "malloc",
            &["--debug-hooks"],
            43,
            "2 bytes past the end of a guarded block of 41 bytes of the account native",
        ),
        (
            "take",
            &["--debug-hooks"],
            43,
            "2 bytes past the end of a guarded block of 41 bytes of the account mem",
        ),
    ] {
        let code = format!("{ALLOCATORS}ctypes.memset({take}(41), 1, {written})");
        let run = Run::host()
            .arg("--guard=min=1,every=1,align=16")
            .args(options);
        let outcome = run.code(&code).run();
        assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
        let line = format!("pyhost: at the end: {line}");
        assert!(outcome.stderr.starts_with(&line), "{outcome:#?}");
    }
}

#[test]
fn a_guarded_block_of_another_family_is_told_under_the_hooks() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    for (call, function) in [
        ("give(malloc(41))", "PyMem_Free()"),
        ("free(take(41))", "free()"),
        ("realloc(take(41), 80)", "realloc()"),
    ] {
        let code = format!("{ALLOCATORS}{call}");
        let run = Run::host().args(["--guard=min=1,every=1", "--debug-hooks"]);
        let outcome = run.code(&code).run();
        assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
        let line = outcome.stderr.lines().next().unwrap_or_default();
        let is_told = line.starts_with(&format!("pyhost: {function}: invalid pointer "))
            && line.contains(": a guarded block of 41 bytes of the account ")
            && line.ends_with(", made by a function of another family");
        assert!(is_told, "{outcome:#?}");
    }
    // Those of CPython alone have the same pads.
    let code = format!("{ALLOCATORS}free(take(41))");
    let run = Run::host().env("PYTHONMALLOC", "debug");
    let outcome = run.arg("--guard=min=1,every=1").code(&code).run();
    let words = ": a guarded block of 41 bytes of the account mem";
    assert!(outcome.stderr.contains(words), "{outcome:#?}");
    let words = ", made by a function of another family\n";
    assert!(outcome.stderr.contains(words), "{outcome:#?}");
}

#[test]
fn correct_programs_run_with_small_blocks_guarded() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let code = "import json, pyhost, sys, threading
def work():
    for turn in range(5):
        text = json.dumps({str(key): [key] * 5 for key in range(50)})
        assert json.loads(text)['7'] == [7] * 5
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
figures = pyhost.memory_stats()['guards']
for mapping in open('/proc/self/maps'):  # for a failure's message
    start, end = [int(address, 16) for address in mapping.split()[0].split('-')]
    if end - start >= 1 << 20: print(mapping, end='', file=sys.stderr)
print(figures['min_bytes'], figures['guarded_blocks'] > 5000)";
    for options in [
        &[][..],
        &["--debug-hooks"],
        &["--leak-check=native"],
        &["--cap", "1G"],
    ] {
        let run = Run::host().arg("--guard=min=1,every=1").args(options);
        assert_eq!(run.code(code).ok().stdout, "1 True\n", "{options:?}");
    }
    // Small ones leave half of the mappings to others.
    let code = "import pyhost
kept = [[] for _ in range(60_000)]
before = pyhost.memory_stats()['guards']
more = [bytes(5000) for _ in range(100)]
after = pyhost.memory_stats()['guards']
print(before['missed_blocks'] > 10_000, after['guarded_blocks'] - before['guarded_blocks'] >= 100)";
    let run = without_marks(&["--guard=min=1,every=1", "-c", code]).run();
    assert_eq!((run.code(), &*run.stdout), (24, "True True\n"), "{run:#?}");
}

#[test]
fn a_library_that_asks_for_nothing_is_told() {
    if let Some(reason) = crate::native_stacks::reason() {
        return skipped(reason);
    }
    let run = Run::host().arg("--guard=library=/no-such-library.");
    let told = run.code("pass").ok().stderr;
    assert!(
        told.contains("--guard: nothing was guarded: no block was asked for"),
        "{told}"
    );
}

#[test]
fn what_a_library_asks_for_is_guarded_alone() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    if let Some(reason) = crate::native_stacks::reason() {
        return skipped(reason);
    }
    let path = crate::native_stacks::extension(&["-g"]);
    let code = format!(
        "import sys, pyhost; sys.path.append({:?})
import numpy, heap_bugs as c
kept = [bytearray(n % 300) for n in range(100_000)]
before = pyhost.memory_stats()['guards']
print(before['missed_blocks'], before['guarded_blocks'] < 100, flush=True)
b = c.allocate('native', 48)
print(pyhost.memory_stats()['guards']['guarded_blocks'] > before['guarded_blocks'], flush=True)
c.peek(b, 48, 1)",
        path.display().to_string()
    );
    for options in [
        &["--guard=library=/heap_bugs."][..],
        &["--guard=library=/heap_bugs.", "--debug-hooks"],
    ] {
        let outcome = newest_numpy()
            .host()
            .args(options)
            .args(["-c", &code])
            .run();
        assert_eq!(outcome.stdout, "0 True\nTrue\n", "{outcome:#?}");
        let expected =
            "pyhost: read 1 byte past the end of a block of 48 bytes of the account native";
        assert!(outcome.stderr.contains(expected), "{outcome:#?}");
    }
    // Beside all others, to the last byte.
    let code = format!(
        "import sys; sys.path.append({:?})
import ctypes, heap_bugs as c
function = ctypes.PyDLL(None).malloc
function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
c.peek(function(40), 40, 1)
b = c.allocate('native', 40)
print('went on', flush=True)
c.peek(b, 40, 1)",
        path.display().to_string()
    );
    let run = Run::host().args(["--debug-hooks=guard", "--guard=library=/heap_bugs.,align=1"]);
    let outcome = run.code(&code).run();
    let expected = "pyhost: read 1 byte past the end of a block of 40 bytes of the account native";
    assert!(outcome.stderr.starts_with(expected), "{outcome:#?}");
    assert_eq!(outcome.stdout, "went on\n", "{outcome:#?}");
}

#[test]
fn blocks_of_a_library_keep_the_alignment_of_malloc_unless_another_is_asked_for() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let path = crate::native_stacks::extension(&["-g"]);
    let aligned = |guard: &str| {
        let code = format!(
            "import sys; sys.path.append({:?})
import heap_bugs as c
print({{c.allocate('native', size) % 16 for size in range(16, 200)}} == {{0}})",
            path.display().to_string()
        );
        Run::host().arg(guard).code(&code).ok().stdout
    };
    assert_eq!(aligned("--guard=library=/heap_bugs."), "True\n");
    assert_eq!(aligned("--guard=library=/heap_bugs.,align=1"), "False\n");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn code_that_needs_the_alignment_of_malloc_is_told_which_option_took_it() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    // movaps (%rdi), %xmm0; ret
    let code = format!(
        "{ALLOCATORS}import mmap
memory = mmap.mmap(-1, 4096, prot=7)
memory.write(b'\\x0f\\x28\\x07\\xc3')
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
ctypes.CFUNCTYPE(None, ctypes.c_void_p)(at)(malloc(36))"
    );
    let with = |options: &[&str]| Run::host().args(options).code(&code).run();
    for hooks in ["--debug-hooks=guard", "--malloc=count"] {
        let outcome = with(&[hooks, "--guard=min=1,every=1,align=1"]);
        assert_eq!(outcome.code(), SEGV, "{outcome:#?}");
        let line = "pyhost: SIGSEGV at an address that is not known, as of code that needs malloc's alignment of 16: give --guard align=16, not align=1\n";
        assert!(outcome.stderr.contains(line), "{outcome:#?}");
        assert_eq!(with(&[hooks, "--guard=min=1,every=1"]).code(), 0);
    }
}

/// A run where the system has no marks for closed pages, as before Linux 6.13.
fn without_marks(arguments: &[&str]) -> Run {
    let run = Run::program(stock()).arg(script("without_marks.py"));
    run.arg(executable()).args(arguments)
}

#[test]
fn the_hooks_with_guards_find_a_read_of_the_first_byte_past_any_size() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let [all, unaligned] = ["--guard=min=1,every=1", "--guard=min=1,every=1,align=1"];
    for (allocate, account, size, guard) in [
        ("malloc", "native", 1, all),
        ("malloc", "native", 16, all),
        ("malloc", "native", 5001, unaligned),
        ("take", "mem", 13, all),
        ("take", "mem", 5001, all),
        ("lambda n: realloc_mem(None, n)", "mem", 40, all),
        ("take_object", "obj", 48, all),
    ] {
        let code = format!(
            "{ALLOCATORS}realloc_mem = function('PyMem_Realloc', ctypes.c_void_p, ctypes.c_size_t)
p = ({allocate})({size})
ctypes.string_at(p, {size})
ctypes.string_at(p, {size} + 1)"
        );
        let run = Run::host().args(["--debug-hooks=guard", guard]);
        let outcome = run.code(&code).run();
        assert_eq!(outcome.code(), SEGV, "{outcome:#?}");
        let line = format!(
            "pyhost: read 1 byte past the end of a block of {size} bytes of the account {account}"
        );
        assert!(outcome.stderr.starts_with(&line), "{outcome:#?}");
    }
}

/// They have to end the process, as CPython's hooks do: the thread may not touch the block.
#[test]
fn the_hooks_with_guards_end_a_process_that_frees_without_the_gil() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let code = format!(
        "{ALLOCATORS}block = take(40); ctypes.CDLL(None).PyMem_Free(ctypes.c_void_p(block))"
    );
    let outcome = Run::host().arg("--debug-hooks=guard").code(&code).run();
    assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
    let line = "pyhost: PyMem_Free(): called without the GIL";
    assert!(outcome.stderr.starts_with(line), "{outcome:#?}");
}

/// Rust's hash tables, and the objects of ctypes, are read by instructions that look at the alignment.
#[test]
fn blocks_of_malloc_and_objects_have_the_alignment_that_is_promised() {
    let code = format!(
        "{ALLOCATORS}print({{a(size) % 16 for size in range(16, 200) for a in (malloc, take_object)}})
print(ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 7)())"
    );
    let outcome = Run::host().arg("--debug-hooks=guard").code(&code).ok();
    assert_eq!(outcome.stdout, "{0}\n7\n");
}

#[test]
fn more_live_blocks_than_the_system_maps_are_served_unguarded() {
    if is_free_threaded() {
        return skipped(NO_SMALL_GUARDS);
    }
    let code = "import pyhost
kept = [bytes(1500) for _ in range(60000)]
figures = pyhost.memory_stats()['guards']
assert figures['missed_blocks'] > 20000, figures
del kept
assert pyhost.memory_stats()['guards']['live_blocks'] < 2000";
    let outcome = without_marks(&["--guard=all", "-c", code]).run();
    assert_eq!(outcome.code(), 24, "{outcome:#?}");
    let line = outcome.stderr.strip_prefix("pyhost: --guard: ");
    let words: Vec<&str> = line.unwrap_or_default().split(' ').take(6).collect();
    let [missed, "of", all, "blocks", "were", "not"] = words[..] else {
        panic!("{outcome:#?}");
    };
    let [missed, all] = [missed, all].map(|number| number.parse::<u32>().unwrap());
    assert!(missed > 20_000 && all - missed > 20_000, "{outcome:#?}");
    // One that has room says nothing, nor what no slot is for.
    for (value, code) in [
        ("all", "bytes(1500)"),
        ("min=64M,every=1", "bytes(2 << 30)"),
    ] {
        let outcome = Run::host().arg(format!("--guard={value}")).code(code).ok();
        assert_eq!(outcome.stderr, "");
    }
}
