//! `--lines=native`: the native calls of a sample's stack, and their names by `pyhostctl`.

use crate::environments::newest_numpy;
use crate::free_threaded::is_free_threaded;
use crate::host::{PYHOSTCTL, Run, compile, folder, joined};
use crate::skipping::skipped;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A library without debug information, with functions that are not exported.
const PLAIN: [&str; 5] = ["-shared", "-fPIC", "-O2", "-g0", "-fomit-frame-pointer"];

fn library() -> PathBuf {
    compile("native_calls.c", "libcalls.so", &PLAIN)
}

/// Loads the library as `lib`.
fn script(library: &Path, code: &str) -> String {
    let path = library.to_str().unwrap();
    let declared = "
lib.a_outer.restype = ctypes.c_void_p
for name in ['a_outer', 'thread_outer', 'coroutine_outer']:
    getattr(lib, name).argtypes = [ctypes.c_size_t]
lib.recurse.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
lib.signal_outer.argtypes = [ctypes.c_size_t, ctypes.c_int]
";
    format!("import ctypes\nlib = ctypes.CDLL({path:?})\n{declared}{code}")
}

/// A report of a script, and its path.
fn report(run: Run, options: &[&str], script: &str) -> (PathBuf, Value) {
    let path = folder("lines-native").join("report.json");
    let file = joined("--stats=file=", &path);
    run.args(options).arg(file).code(script).ok();
    let text = std::fs::read_to_string(&path).unwrap();
    (path, serde_json::from_str(&text).unwrap())
}

const EVERY: &[&str] = &["--lines=1,native"];

/// The stacks of the blocks of at least so many bytes, largest first: the functions, innermost first.
fn named_stacks(report: &Path, least: i64) -> Vec<Vec<String>> {
    let run = Run::program(PYHOSTCTL).arg("lines").arg(report);
    let run = run.args([
        "--by",
        "stack",
        "--view",
        "allocated",
        "--json",
        "--top",
        "500",
    ]);
    let table: Value = serde_json::from_str(&run.ok().stdout).unwrap();
    let rows = table["rows"].as_array().unwrap().iter();
    let large = rows.filter(|row| row["bytes"].as_i64().unwrap() >= least);
    let functions = |row: &Value| {
        let calls = row["stack"].as_array().unwrap().iter();
        calls
            .map(|call| call["function"].as_str().unwrap().to_owned())
            .collect()
    };
    let stacks: Vec<Vec<String>> = large.map(functions).collect();
    let has_calls = stacks.into_iter().filter(|stack| !stack.is_empty());
    has_calls.collect()
}

/// The stack that begins with a, b and c and has a function.
fn stack_with<'a>(stacks: &'a [Vec<String>], function: &str) -> &'a [String] {
    let begins = |stack: &&Vec<String>| stack.starts_with(&NESTED.map(str::to_owned));
    let found = stacks.iter().filter(begins);
    let mut found = found.filter(|stack| stack.iter().any(|name| name == function));
    found
        .next()
        .unwrap_or_else(|| panic!("{function}: {stacks:#?}"))
}

const NESTED: [&str; 3] = ["c_inner", "b_middle", "a_outer"];

#[test]
fn calls_between_the_allocation_and_the_interpreter_are_named() {
    let library = library();
    let code = "
def direct():
    lib.a_outer(3_000_000)
def called_back(number):
    global kept
    kept = bytes(2_500_000)
    lib.a_outer(2_000_000)
    return number
def sorts():
    lib.sort_outer(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(called_back), 1_500_000)
direct()
sorts()
lib.thread_outer(1_000_000)
";
    let (path, report) = report(Run::host(), EVERY, &script(&library, code));
    let stacks = named_stacks(&path, 900_000);
    let direct = stack_with(&stacks, "direct");
    assert_eq!(direct[direct.len() - 2..], ["direct", "<module>"]);
    assert!(direct.iter().any(|name| name == "ffi_call"), "{direct:?}");
    assert!(
        !direct.iter().any(|name| name.starts_with("_PyEval")),
        "{direct:?}"
    );

    // From Python to C, back to Python and to C: the native calls are those of the innermost C.
    let inner = stack_with(&stacks, "called_back");
    assert!(!inner.iter().any(|name| name == "sort_outer"), "{inner:?}");
    assert_eq!(
        inner[inner.len() - 3..],
        ["called_back", "sorts", "<module>"]
    );
    let outer = stack_with(&stacks, "sort_outer");
    assert_eq!(outer[3], "sort_outer");
    assert_eq!(outer[outer.len() - 2..], ["sorts", "<module>"]);
    // The interpreter's own allocation in the callback has no native call.
    let own = stacks.iter().find(|stack| stack[0] == "called_back");
    assert_eq!(own.unwrap()[..], ["called_back", "sorts", "<module>"]);

    let thread = stack_with(&stacks, "in_thread");
    if !is_free_threaded() {
        assert_eq!(thread[thread.len() - 2..], ["waiting", "<module>"]);
    }

    // The report itself has exported names, offsets, and the build ids.
    let rows = report["lines"]["live"].as_array().unwrap().iter();
    let is_own = |call: &Value| call["file"] == library.to_str().unwrap();
    let mut stacks = rows.map(|row| row["stack"].as_array().unwrap());
    let stack = stacks.find(|stack| stack.first().is_some_and(is_own));
    let stack = stack.expect("a stack of the library");
    assert_eq!(stack[2]["function"], "a_outer");
    let offset = stack[0]["offset"].as_i64().unwrap();
    assert_eq!(stack[0]["function"], format!("+{offset:#x}"));
    let libraries = report["lines"]["libraries"].as_array().unwrap();
    let known = libraries.iter().find(|it| is_own(it));
    assert_eq!(known.unwrap()["build_id"].as_str().unwrap().len(), 40);
}

#[test]
fn rows_by_library_and_converted_stacks_have_the_library() {
    let library = library();
    let (path, _) = report(
        Run::host(),
        EVERY,
        &script(&library, "lib.a_outer(9_000_000)"),
    );
    let table = Run::program(PYHOSTCTL).arg("lines").arg(&path);
    let table = table.args(["--by", "library"]).ok().stdout;
    let first = table.lines().nth(2).unwrap();
    assert!(first.ends_with(library.to_str().unwrap()), "{table}");
    assert!(table.contains("the interpreter"), "{table}");
    for format in ["collapsed", "speedscope", "svg", "pprof"] {
        let converted = folder("converted").join("out");
        let run = Run::program(PYHOSTCTL).arg("convert").arg(&path);
        run.args(["--to", format, "-o"]).arg(&converted).ok();
        let bytes = std::fs::read(&converted).unwrap();
        let is_packed = format == "pprof";
        let text = String::from_utf8_lossy(&bytes);
        assert!(is_packed || text.contains("b_middle"), "{format}");
        assert!(!bytes.is_empty());
    }
}

#[test]
fn debug_information_gives_lines_and_a_changed_library_no_wrong_names() {
    let library = compile(
        "native_calls.c",
        "libcalls.so",
        &["-shared", "-fPIC", "-O2"],
    );
    let (path, _) = report(
        Run::host(),
        EVERY,
        &script(&library, "lib.a_outer(9_000_000)"),
    );
    let lines = |path: &Path| {
        let run = Run::program(PYHOSTCTL).arg("lines").arg(path);
        run.args(["--by", "stack", "--top", "1"]).ok().stdout
    };
    let text = lines(&path);
    let source = include_str!("../c/native_calls.c").lines();
    let place = source
        .zip(1..)
        .find(|(line, _)| line.contains("malloc(size)"));
    let expected = format!("native_calls.c:{} in c_inner", place.unwrap().1);
    assert!(text.contains(&expected), "{expected}: {text}");
    // Another library at its path.
    let other = compile("churn.c", "libcalls.so", &["-shared", "-fPIC"]);
    std::fs::rename(&other, &library).unwrap();
    let text = lines(&path);
    assert!(
        !text.contains("c_inner") && text.contains(" in +0x"),
        "{text}"
    );
    // The name that the host read in memory stays.
    assert!(text.contains(" in a_outer"), "{text}");
}

#[test]
fn deep_stacks_foreign_stacks_and_handlers_are_read_as_far_as_they_can_be() {
    let library = library();
    let code = "
lib.coroutine_outer(4_000_000)
lib.signal_outer(3_000_000, 0)
lib.signal_outer(2_000_000, 1)
def deep():
    lib.recurse(10_000, 1_000_000)
deep()
";
    let (path, _) = report(Run::host(), EVERY, &script(&library, code));
    let stacks = named_stacks(&path, 900_000);
    let coroutine = stack_with(&stacks, "on_own_stack");
    assert!(coroutine.iter().any(|name| name == "<module>"));
    assert!(!coroutine.iter().any(|name| name == "coroutine_outer"));
    let handlers = stacks
        .iter()
        .filter(|stack| stack.iter().any(|name| name == "handler"));
    let handlers: Vec<_> = handlers.collect();
    assert_eq!(handlers.len(), 2);
    for stack in handlers {
        assert!(stack.iter().any(|name| name == "signal_outer"), "{stack:?}");
        assert_eq!(stack.last().unwrap(), "<module>");
    }
    let deep = stack_with(&stacks, "recurse");
    let recursions = deep.iter().filter(|name| *name == "recurse").count();
    assert!((100..=128).contains(&recursions), "{recursions}");
    assert_eq!(deep[deep.len() - 2..], ["deep", "<module>"]);
}

#[test]
fn a_library_without_unwind_tables_ends_the_native_calls() {
    let bare = [
        &PLAIN[..],
        &["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
    ]
    .concat();
    let library = compile("native_calls.c", "libcalls.so", &bare);
    let (path, _) = report(
        Run::host(),
        EVERY,
        &script(&library, "lib.a_outer(9_000_000)"),
    );
    assert_eq!(named_stacks(&path, 9_000_000), [["c_inner", "<module>"]]);
}

#[test]
fn threads_signals_forks_and_libraries_that_come_and_go_do_no_harm() {
    let library = library();
    let other = compile("native_calls.c", "libother.so", &PLAIN);
    let code = format!(
        "
import os, sys
lib.start_churn(1)
lib.start_reloading({:?}.encode())
lib.storm_of_signals()
for number in range(6):
    child = os.fork()
    if child == 0:
        kept = [lib.a_outer(1000) for _ in range(200)]
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    kept = [[lib.a_outer(1000), str(one)] for one in range(500)]
assert lib.signals() > 0
",
        other.to_str().unwrap()
    );
    let (path, report) = report(Run::host().timeout(300), EVERY, &script(&library, &code));
    let samples = report["lines"]["samples"].as_i64().unwrap();
    assert!(samples > 5_000, "{samples}");
    let stacks = named_stacks(&path, 0);
    stack_with(&stacks, "churn");
    stack_with(&stacks, "reload");
    stack_with(&stacks, "<module>");
}

#[test]
fn real_libraries_are_named() {
    let code = "
import sqlite3
base = sqlite3.connect(':memory:')
base.execute('create table words(word)')
base.executemany('insert into words values(?)', [(str(number) * 20,) for number in range(10_000)])
";
    let (path, _) = report(Run::host(), EVERY, code);
    let stacks = named_stacks(&path, 100_000);
    let has = |stack: &&Vec<String>, name: &str| stack.iter().any(|call| call == name);
    let steps = stacks.iter().find(|stack| has(stack, "sqlite3_step"));
    assert_eq!(steps.expect("sqlite3_step").last().unwrap(), "<module>");

    let code = "
import numpy
kept = numpy.ones(1_000_000)
def product():
    return numpy.linalg.inv(numpy.eye(400))
product()
";
    let (path, report) = report(newest_numpy().host(), EVERY, code);
    let rows = report["lines"]["allocated"].as_array().unwrap();
    let array = rows.iter().find(|row| row["account"] == "numpy").unwrap();
    let file = array["stack"][0]["file"].as_str().unwrap();
    assert!(file.contains("_multiarray_umath"), "{file}");
    let table = Run::program(PYHOSTCTL).arg("lines").arg(&path);
    let table = table
        .args(["--by", "package", "--view", "allocated"])
        .ok()
        .stdout;
    assert!(table.contains("numpy"), "{table}");
}

#[test]
fn children_inherit_the_option_and_without_it_nothing_native_is_in_a_stack() {
    let library = library();
    let run = |option: &str| {
        let folder = folder("lines-native");
        let inner = folder.join("inner.py");
        std::fs::write(&inner, script(&library, "lib.a_outer(9_000_000)")).unwrap();
        let file = folder.join("%p.json");
        let outer =
            format!("import subprocess, sys; subprocess.check_call([sys.executable, {inner:?}])");
        let run = Run::host().arg(option).at("--stats=file=", file);
        run.code(&outer).ok();
        let reports = std::fs::read_dir(&folder).unwrap().filter_map(|entry| {
            let path = entry.unwrap().path();
            let is_report = path.extension().is_some_and(|it| it == "json");
            is_report.then(|| std::fs::read_to_string(path).unwrap())
        });
        let with_call = reports.filter(|text| text.contains("\"function\":\"a_outer\""));
        with_call.count()
    };
    assert_eq!(run("--lines=1,native"), 1);
    assert_eq!(run("--lines=1"), 0);
}

#[test]
fn the_lines_of_a_process_that_runs_have_native_calls() {
    if cfg!(not(target_arch = "x86_64")) {
        return skipped("native calls are read on x86-64 only");
    }
    let library = library();
    let folder = folder("lines-native-live");
    let code = format!(
        "lib.a_outer(9_000_000)\nimport os, subprocess\nprint(subprocess.check_output([{PYHOSTCTL:?}, '--dir', {:?}, 'lines', '--by', 'stack', '--top', '1', str(os.getpid())], text=True))",
        folder.to_str().unwrap()
    );
    let mut live = std::ffi::OsString::from("--live=");
    live.push(&folder);
    let run = Run::host().args(["--lines=1,native"]).arg(live);
    let outcome = run.code(&script(&library, &code)).ok();
    let text = outcome.stdout;
    let inner = text.find(" in c_inner").expect(&text);
    assert!(text[inner..].contains(" in b_middle"), "{text}");
}
