//! The native calls behind a line about a block: of its allocation, of its free, and of what has found it.

use crate::environments::newest_numpy;
use crate::free_threaded::{NO_OWN_DEBUG_HOOKS, is_free_threaded};
use crate::host::{Outcome, PYHOSTCTL, Run, compile, host_alone, stock};
use crate::skipping::skipped;
use std::path::{Path, PathBuf};
use std::process::Command;

const ABORT: i32 = 128 + libc::SIGABRT;
const SEGV: i32 = 128 + libc::SIGSEGV;
const LEAK: i32 = 23;

/// The folder of the extension module `heap_bugs`, compiled with further arguments.
pub fn extension(arguments: &[&str]) -> PathBuf {
    let code = "import sysconfig; print(sysconfig.get_paths()['include'])";
    let output = Command::new(stock()).args(["-c", code]).output().unwrap();
    let include = format!("-I{}", String::from_utf8(output.stdout).unwrap().trim());
    // As many builds have it: no frame pointers.
    let mut all = vec!["-shared", "-fPIC", "-w", "-fomit-frame-pointer", &include];
    all.extend(arguments);
    let module = compile("../heap_bugs/heap_bugs.c", "heap_bugs.so", &all);
    module.parent().unwrap().to_owned()
}

/// Why native calls are not known here; `None` if they are.
pub fn reason() -> Option<&'static str> {
    if !cfg!(target_arch = "x86_64") {
        return Some("native calls are read on x86-64 only");
    }
    // SAFETY: the name ends in a zero byte.
    #[allow(unsafe_code)]
    let finds = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    finds
        .is_null()
        .then_some("native calls need glibc 2.35 or newer")
}

/// Runs code with the module as `c`. None if native calls are not known here.
fn run(host: Run, options: &[&str], extension: &Path, code: &str) -> Option<Outcome> {
    if let Some(reason) = reason() {
        skipped(reason);
        return None;
    }
    if options.contains(&"--debug-hooks") && is_free_threaded() {
        skipped(NO_OWN_DEBUG_HOOKS);
        return None;
    }
    let code = format!("import heap_bugs as c\n{code}");
    let run = host.args(options).env("PYTHONPATH", extension);
    Some(run.code(&code).run())
}

/// The calls below each line of words that ends the line with a colon, such as `found in:`.
fn calls<'a>(text: &'a str, words: &str) -> Vec<Vec<&'a str>> {
    let head = format!("  {words}:");
    let lines: Vec<&str> = text.lines().collect();
    let heads = (0..lines.len()).filter(|&index| lines[index] == head);
    heads
        .map(|head| {
            let below = lines[head + 1..].iter();
            let below = below.map_while(|line| line.strip_prefix("    "));
            below.collect()
        })
        .collect()
}

/// The calls below the only such line.
fn only_calls<'a>(outcome: &'a Outcome, words: &str) -> Vec<&'a str> {
    let mut all = calls(&outcome.stderr, words);
    assert_eq!(all.len(), 1, "{words}: {outcome:#?}");
    all.remove(0)
}

/// The line of the extension's source with a text, as `heap_bugs.c:LINE`.
fn source(text: &str) -> String {
    let all = include_str!("../heap_bugs/heap_bugs.c");
    let lines: Vec<usize> = (1..)
        .zip(all.lines())
        .filter(|(_, line)| line.contains(text))
        .map(|(number, _)| number)
        .collect();
    assert_eq!(lines.len(), 1, "{text}");
    format!("heap_bugs.c:{} (", lines[0])
}

#[test]
fn what_is_no_block_is_named_with_its_calls_and_those_of_python() {
    let extension = extension(&["-g"]);
    let cases = [
        (
            "c.release('native', ctypes.addressof(ctypes.c_int.in_dll(ctypes.CDLL(None), 'Py_NoSiteFlag')))",
            "no block, but the code or static data of ",
        ),
        (
            "m = mmap.mmap(os.open('/proc/self/exe', os.O_RDONLY), 4096, access=mmap.ACCESS_COPY)
c.release('native', ctypes.addressof(ctypes.c_char.from_buffer(m)))",
            "no block, but a map of /",
        ),
        (
            "c.release('native', int(next(l for l in open('/proc/self/maps') if '[stack]' in l).split()[0].split('-')[1], 16) - 4096)",
            "no block, but the stack of the first thread",
        ),
    ];
    for (code, expected) in cases {
        let code = format!(
            "import ctypes, mmap, os\ndef inner(): {}\ninner()",
            code.replace('\n', "; ")
        );
        let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension, &code) else {
            return;
        };
        assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
        let line = outcome.stderr.lines().next().unwrap();
        assert!(
            line.starts_with("pyhost: free(): invalid pointer 0x"),
            "{line}"
        );
        assert!(line.contains(expected), "{line}");
        assert!(
            only_calls(&outcome, "found in")[0].starts_with("release at "),
            "{outcome:#?}"
        );
        let python = calls(&outcome.stderr, "in Python").remove(0);
        assert_eq!(python, ["<string>:3 in inner", "<string>:4 in <module>"]);
    }
}

#[test]
fn a_call_without_the_gil_and_damaged_array_data_have_calls() {
    let extension = extension(&["-g"]);
    let cases = [
        (
            "import ctypes\nctypes.CDLL(None).PyMem_Malloc(40)",
            "pyhost: PyMem_Malloc(): called without the GIL",
            "found in",
        ),
        (
            "import numpy\na = numpy.zeros(1000); c.poke(c.data_of(a), 8000, 1); del a",
            "pyhost: array data at 0x",
            "allocated in",
        ),
    ];
    let numpy = &newest_numpy().site_packages;
    for (code, expected, words) in cases {
        let code = format!("import sys; sys.path.append({numpy:?})\n{code}");
        let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension, &code) else {
            return;
        };
        assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
        assert!(outcome.stderr.starts_with(expected), "{outcome:#?}");
        assert_eq!(calls(&outcome.stderr, words).len(), 1, "{outcome:#?}");
    }
}

const TWICE: &str = "block = c.allocate('native', 40)
def first(): c.release('native', block)
def second(): c.release('native', block)
first()
second()";

#[test]
fn a_double_free_has_three_stacks_with_source_lines() {
    let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension(&["-g"]), TWICE) else {
        return;
    };
    assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
    let allocation = source("block = malloc(size);\n".trim_end());
    let release = source("        free(address(number));");
    for (words, function, line) in [
        ("found in", "release at ", &release),
        ("freed in", "release at ", &release),
        ("allocated in", "allocate at ", &allocation),
    ] {
        let calls = only_calls(&outcome, words);
        assert!(calls[0].starts_with(function), "{calls:#?}");
        assert!(calls[0].contains(line.as_str()), "{calls:#?}");
        assert!(calls[0].contains("/heap_bugs.so+0x"), "{calls:#?}");
        // The interpreter's own code is left out, and the host's.
        assert_eq!(calls.len(), 1, "{outcome:#?}");
    }
    let first = outcome.stderr.lines().next().unwrap();
    assert!(
        first.starts_with("pyhost: free(): invalid pointer 0x"),
        "{first}"
    );
}

#[test]
fn without_debug_information_functions_are_named_and_without_symbols_offsets() {
    let plain = ["-g0"].as_slice();
    let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension(plain), TWICE) else {
        return;
    };
    let calls = only_calls(&outcome, "allocated in");
    assert!(calls[0].starts_with("allocate (/"), "{calls:#?}");
    assert!(calls[0].contains("/heap_bugs.so+0x"), "{calls:#?}");

    let stripped = extension(&["-g0", "-s"]);
    let outcome = run(Run::host(), &["--debug-hooks"], &stripped, TWICE).unwrap();
    let calls = only_calls(&outcome, "allocated in");
    assert!(calls[0].starts_with("? (/"), "{calls:#?}");
    assert!(calls[0].contains("/heap_bugs.so+0x"), "{calls:#?}");
}

/// The text without `pyhostctl`, which names it later.
#[test]
fn a_host_without_pyhostctl_writes_offsets_that_it_names_later() {
    let extension = extension(&["-g", "-Wl,--build-id"]);
    let host = Run::program(host_alone()).env("PATH", "/nonexistent");
    let Some(outcome) = run(host, &["--debug-hooks"], &extension, TWICE) else {
        return;
    };
    assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
    let raw = only_calls(&outcome, "allocated in");
    assert!(raw[0].starts_with("? (/"), "{raw:#?}");
    assert!(raw[0].contains("/heap_bugs.so+0x"), "{raw:#?}");
    assert!(raw[0].contains(", build id "), "{raw:#?}");
    let symbolize = Run::program(PYHOSTCTL).arg("symbolize");
    let named = symbolize.stdin(outcome.stderr.as_bytes()).ok().stdout;
    let line = source("block = malloc(size);");
    assert!(
        calls(&named, "allocated in")[0][0].contains(&line),
        "{named}"
    );
    assert_eq!(named.lines().next(), outcome.stderr.lines().next());

    // Another build at the same place: nothing of it is taken for what was there.
    let other = self::extension(&["-g", "-O2", "-Wl,--build-id"]);
    std::fs::copy(other.join("heap_bugs.so"), extension.join("heap_bugs.so")).unwrap();
    let symbolize = Run::program(PYHOSTCTL).arg("symbolize");
    let named = symbolize.stdin(outcome.stderr.as_bytes()).ok().stdout;
    assert!(
        calls(&named, "allocated in")[0][0].starts_with("? (/"),
        "{named}"
    );
}

#[test]
fn every_kind_of_bad_block_has_its_calls() {
    let extension = extension(&["-g"]);
    let cases = [
        // CPython's hooks end the process; the host says before which block it is.
        (
            "b = c.allocate('mem', 40); c.poke(b, 40, 1); c.release('mem', b)",
            "PyMem_Free(): 1 byte past the end of a block of 40 bytes of the account mem",
            &[("found in", "release"), ("allocated in", "allocate")][..],
        ),
        (
            "b = c.allocate('raw', 40); c.poke(b, -1, 1); c.resize('raw', b, 90)",
            "PyMem_RawRealloc(): 1 byte before the start of a block of 40 bytes of the account raw",
            &[("found in", "resize"), ("allocated in", "allocate")],
        ),
        (
            "b = c.allocate('obj', 40); c.release('mem', b)",
            "PyMem_Free(): a block of 40 bytes of the account obj",
            &[("found in", "release"), ("allocated in", "allocate")],
        ),
        (
            "b = c.allocate('native', 40); c.release('mem', b)",
            "PyMem_Free(): invalid pointer",
            &[("found in", "release"), ("allocated in", "allocate")],
        ),
        (
            "b = c.allocate('native', 40); c.poke(b, 40, 1); c.release('native', b)",
            "free(): 1 byte past the end of a block of 40 bytes of the account native",
            &[("found in", "release"), ("allocated in", "allocate")],
        ),
        (
            "c.release('native', c.allocate('native', 40) + 16)",
            "free(): invalid pointer",
            &[("found in", "release"), ("allocated in", "allocate")],
        ),
        (
            "b = c.allocate('mem', 40); c.release('mem', b); c.poke(b, 8, 1)",
            "at the end: a block of 40 bytes of the account mem",
            &[("freed in", "release"), ("allocated in", "allocate")],
        ),
        (
            "b = c.resize('native', 0, 50); c.poke(b, 50, 1)",
            "at the end: 1 byte past the end of a block of 50 bytes of the account native",
            &[("allocated in", "resize")],
        ),
    ];
    for (code, line, stacks) in cases {
        let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension, code) else {
            return;
        };
        assert_eq!(outcome.code(), ABORT, "{code}: {outcome:#?}");
        let line = format!("pyhost: {line}");
        assert!(outcome.stderr.contains(&line), "{code}: {outcome:#?}");
        for (words, function) in stacks {
            let calls = only_calls(&outcome, words);
            let expected = format!("{function} at ");
            assert!(calls[0].starts_with(&expected), "{code}: {outcome:#?}");
        }
        let heads = ["found in", "freed in", "allocated in"];
        let all = heads.map(|words| calls(&outcome.stderr, words).len());
        assert_eq!(
            all.iter().sum::<usize>(),
            stacks.len(),
            "{code}: {outcome:#?}"
        );
    }
}

#[test]
fn a_guarded_block_of_pythons_has_its_calls_under_the_hooks() {
    let extension = extension(&["-g"]);
    for (code, line) in [
        (
            "b = c.allocate('mem', 4000); c.poke(b - 1, 0, 1); c.release('mem', b)",
            "PyMem_Free(): 1 byte before the start of a guarded block of 4000 bytes of the account mem",
        ),
        (
            "b = c.allocate('obj', 4096); c.release('mem', b)",
            ": a guarded block of 4096 bytes of the account obj",
        ),
    ] {
        let options = ["--debug-hooks", "--guard=all"];
        let Some(outcome) = run(Run::host(), &options, &extension, code) else {
            return;
        };
        assert_eq!(outcome.code(), ABORT, "{code}: {outcome:#?}");
        assert!(outcome.stderr.starts_with("pyhost: PyMem_Free(): "));
        assert!(outcome.stderr.contains(line), "{code}: {outcome:#?}");
        assert!(only_calls(&outcome, "found in")[0].starts_with("release at "));
        assert!(only_calls(&outcome, "allocated in")[0].starts_with("allocate at "));
    }
}

#[test]
fn check_heap_has_the_calls_below_each_line() {
    let code = "import pyhost
block = c.allocate('native', 40)
c.poke(block, 40, 1)
lines = pyhost.check_heap()[0].splitlines()
c.poke(block, 40, 0)
print(lines[0].split(' (')[0], lines[1], lines[2].split('/')[0], len(lines), sep='|', flush=True)
__import__('os')._exit(0)";
    let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension(&["-g"]), code) else {
        return;
    };
    let first = "1 byte past the end of a block of 40 bytes of the account native";
    let first = outcome
        .stdout
        .replacen(", overwritten", "", 1)
        .replacen(first, "FIRST", 1);
    assert_eq!(
        first, "FIRST|  allocated in:|    allocate at |3\n",
        "{outcome:#?}"
    );
}

#[test]
fn leaks_are_grouped_by_the_calls_that_allocated_them() {
    let code = "def leak():
    for _ in range(3):
        c.allocate('native', 300)
        try: c.fails_on_the_way(300)
        except ValueError: pass
    c.allocate('mem', 48)
leak()";
    let options = ["--debug-hooks", "--leak-check=native"];
    let Some(outcome) = run(Run::host(), &options, &extension(&["-g"]), code) else {
        return;
    };
    assert_eq!(outcome.code(), LEAK, "{outcome:#?}");
    let of_native = outcome.stderr.lines();
    let of_native = of_native.filter(|line| line.starts_with("  native  3 of 300 bytes"));
    assert_eq!(of_native.count(), 2, "{outcome:#?}");
    let stacks = calls(&outcome.stderr, "allocated in");
    let mut functions: Vec<_> = stacks
        .iter()
        .map(|calls| calls[0].split(' ').next().unwrap())
        .collect();
    functions.sort_unstable();
    let all = ["allocate", "allocate", "fails_on_the_way"];
    assert_eq!(functions, all, "{outcome:#?}");
}

#[test]
fn a_fault_at_a_guard_page_has_the_calls_of_the_access() {
    let extension = extension(&["-g"]);
    let past = "b = c.allocate('native', 4096); c.poke(b, 4096, 1)";
    let after = "b = c.allocate('native', 4096); c.release('native', b); c.peek(b, 8, 1)";
    for before in ["", "import faulthandler; faulthandler.enable()\n"] {
        for (code, access, stacks) in [
            (past, "poke", &["found in", "allocated in"][..]),
            (after, "peek", &["found in", "freed in", "allocated in"]),
        ] {
            let code = format!("{before}{code}");
            let Some(outcome) = run(Run::host(), &["--guard=all"], &extension, &code) else {
                return;
            };
            assert_eq!(outcome.code(), SEGV, "{outcome:#?}");
            let line = match access {
                "poke" => source("place[index] = 'X';"),
                _ => source("sum += (unsigned char)place[index];"),
            };
            let calls = only_calls(&outcome, "found in");
            assert_eq!(calls.len(), 1, "{outcome:#?}");
            assert!(calls[0].starts_with(&format!("{access} at ")), "{calls:#?}");
            assert!(calls[0].contains(&line), "{calls:#?}");
            for words in ["freed in", "allocated in"] {
                let expected = usize::from(stacks.contains(&words));
                let found = self::calls(&outcome.stderr, words);
                assert_eq!(found.len(), expected, "{words} {outcome:#?}");
            }
        }
    }
    // What `free` finds.
    let code = "b = c.allocate('native', 4090); c.poke(b, 4090, 1); c.release('native', b)";
    let outcome = run(Run::host(), &["--guard=all"], &extension, code).unwrap();
    assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
    assert!(only_calls(&outcome, "found in")[0].starts_with("release at "));
    assert!(only_calls(&outcome, "allocated in")[0].starts_with("allocate at "));
}

#[test]
fn a_child_that_is_forked_while_threads_allocate_has_its_calls() {
    let code = "import os, threading
done = []
def work():
    while not done:
        c.release('native', c.allocate('native', 100))
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(5):
    child = os.fork()
    if child == 0:
        block = c.allocate('native', 40)
        c.poke(block, 40, 1)
        c.release('native', block)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == 6
done.append(1)
[thread.join() for thread in threads]
print('done')";
    let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension(&["-g"]), code) else {
        return;
    };
    assert_eq!(outcome.stdout, "done\n", "{outcome:#?}");
    assert_eq!(calls(&outcome.stderr, "found in").len(), 5, "{outcome:#?}");
    assert_eq!(
        calls(&outcome.stderr, "allocated in").len(),
        5,
        "{outcome:#?}"
    );
}

/// The script's own standard input and output are not for `pyhostctl`.
#[test]
fn without_free_descriptors_the_calls_have_no_source_lines() {
    let extension = extension(&["-g"]);
    for free in 0..6 {
        let code = format!(
            "import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
block = c.allocate('native', 40)
files = []
try:
    while True: files.append(os.open('/dev/null', 0))
except OSError: pass
for file in files[:{free}]: os.close(file)
c.release('native', block)
c.release('native', block)"
        );
        let host = Run::host().stdin("an input\n");
        let Some(outcome) = run(host, &["--debug-hooks"], &extension, &code) else {
            return;
        };
        assert_eq!(outcome.code(), ABORT, "{free}: {outcome:#?}");
        assert_eq!(outcome.stdout, "", "{free}");
        for words in ["found in", "freed in", "allocated in"] {
            let call = only_calls(&outcome, words)[0];
            assert!(call.contains("/heap_bugs.so+0x"), "{free}: {call}");
        }
    }
}

#[test]
fn a_process_that_may_write_no_files_has_its_calls() {
    let extension = extension(&["-g"]);
    let limit = "import pyhost, resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))\n";
    let options = ["--debug-hooks"].as_slice();
    let Some(outcome) = run(Run::host(), options, &extension, &format!("{limit}{TWICE}")) else {
        return;
    };
    assert_eq!(outcome.code(), ABORT, "{outcome:#?}");
    for words in ["found in", "freed in", "allocated in"] {
        let call = only_calls(&outcome, words)[0];
        assert!(call.contains("/heap_bugs.so+0x"), "{call}");
    }

    let code = format!(
        "{limit}block = c.allocate('native', 40)
c.poke(block, 40, 1)
try: pyhost.check_heap()
except RuntimeError as error: print(error)
c.poke(block, 40, 0)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
print(len(pyhost.check_heap()), flush=True)
__import__('os')._exit(0)"
    );
    let outcome = run(Run::host(), options, &extension, &code).unwrap();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{outcome:#?}");
    assert!(lines[0].contains("File too large"), "{outcome:#?}");
    assert!(lines[0].ends_with("(ulimit -f) to 16 MiB or more"));
    assert_eq!(lines[1], "1");
}

/// Without a build id a library counts as the one that was loaded if it has not changed since the process started.
#[test]
fn a_library_that_changed_before_a_fork_names_nothing_in_the_child() {
    let extension = extension(&["-g", "-Wl,--build-id=none"]);
    let other = self::extension(&["-g", "-O2", "-Wl,--build-id=none"]);
    let other = other.join("heap_bugs.so");
    let code = format!(
        "import os, time
other, library = {other:?}, c.__file__
os.replace(other, library)
time.sleep(1.1)
child = os.fork()
if child == 0:
    block = c.allocate('native', 40)
    c.release('native', block)
    c.release('native', block)
os.waitpid(child, 0)"
    );
    let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension, &code) else {
        return;
    };
    let call = only_calls(&outcome, "allocated in")[0];
    assert!(call.starts_with("? (/"), "{outcome:#?}");
}

/// A full pipe that does not block, and a reader that comes late.
#[test]
fn a_slow_reader_of_a_pipe_has_the_calls_once() {
    let extension = extension(&["-g"]);
    let code = format!(
        "import fcntl, os, sys, time
reading, writing = os.pipe()
fcntl.fcntl(writing, 1031, 4096)
os.set_blocking(writing, False)
child = os.fork()
if child == 0:
    os.close(reading)
    os.write(writing, b'x' * 3900 + b'\\n')
    os.dup2(writing, 2)
    {}
os.close(writing)
time.sleep(0.5)
while text := os.read(reading, 65536):
    os.write(2, text)
os.waitpid(child, 0)",
        TWICE.replace('\n', "\n    ")
    );
    let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension, &code) else {
        return;
    };
    let line = source("block = malloc(size);");
    let call = only_calls(&outcome, "allocated in")[0];
    assert!(call.contains(&line), "{outcome:#?}");
    only_calls(&outcome, "found in");
    only_calls(&outcome, "freed in");
}

/// A library without debug information here may have it elsewhere.
#[test]
fn a_call_without_a_source_line_keeps_its_build_id() {
    let extension = extension(&["-g0", "-Wl,--build-id"]);
    let Some(outcome) = run(Run::host(), &["--debug-hooks"], &extension, TWICE) else {
        return;
    };
    let call = only_calls(&outcome, "allocated in")[0];
    assert!(call.starts_with("allocate (/"), "{outcome:#?}");
    assert!(call.contains(", build id "), "{outcome:#?}");
}
