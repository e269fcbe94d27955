//! Under limits that the caller set (`ulimit`), and with more rights than the caller has.

use crate::free_threaded::{KEPT_BY_CPYTHON, is_free_threaded};
use crate::host::{Outcome, PYHOST, Run, compile, folder};
use crate::skipping::skipped;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Runs the host from a shell that sets limits first; `$FILE` is a path where nothing is.
fn limited(ulimit: &str, arguments: &str) -> Outcome {
    let script = format!("ulimit {ulimit} || exit 99; exec \"$HOST\" {arguments}");
    Run::program("sh")
        .args(["-c", &script])
        .env("HOST", PYHOST)
        .env("FILE", folder("limits").join("file"))
        .run()
}

/// Stock Python of the host's form, from a shell: by the libpython that the host has mapped, if it has, since the system's
/// interpreter may have its own within itself, which takes less.
fn stock(script: &str) -> Run {
    let run = Run::program("sh").args(["-c", script]);
    static OF_LIBPYTHON: OnceLock<Option<(PathBuf, String)>> = OnceLock::new();
    match OF_LIBPYTHON.get_or_init(by_libpython) {
        Some((python, prefix)) => run.arg(python).env("PYTHONHOME", prefix),
        None => run.arg(crate::host::stock()),
    }
}

/// An interpreter that is linked with the libpython that the host has mapped, and its prefix.
fn by_libpython() -> Option<(PathBuf, String)> {
    let code = "import os, sys
for line in open('/proc/self/maps'):
    path = line.rstrip('\\n').partition('/')[2]
    if os.path.basename(path).startswith('libpython'): sys.exit(print(sys.base_prefix, '/' + path, sep='\\n'))";
    let answer = Run::host().args(["-c", code]).ok().stdout;
    let (prefix, library) = answer.trim().split_once('\n')?;
    let run_path = format!("-Wl,-rpath,{}", Path::new(library).parent()?.display());
    let python = compile(
        "python.c",
        "python",
        &["-Wl,--no-as-needed", library, &run_path],
    );
    Some((python, prefix.to_owned()))
}

fn runs_with_a_line(outcome: &Outcome, part: &str) {
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(outcome.stdout.ends_with("ran\n"), "{outcome:#?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
    assert!(outcome.stderr.contains(part), "{part}: {outcome:#?}");
}

#[test]
fn guard_pages_without_room_are_one_line_and_the_script_runs() {
    let outcome = limited("-v 2000000", "--guard -c \"print('ran')\"");
    runs_with_a_line(&outcome, "--guard: no addresses for guard pages (Cannot");
    let children = "import subprocess, sys
print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).returncode, 'ran')";
    let outcome = limited("-v 2000000", &format!("--guard -c \"{children}\""));
    runs_with_a_line(&outcome, "nothing is guarded");
    assert_eq!(outcome.stdout, "0 ran\n");
}

#[test]
fn a_script_runs_under_each_limit_on_addresses_under_which_it_runs_by_python() {
    let code = "kept = [bytes(999) for _ in range(3000)]; print('ran')";
    let script = format!("ulimit -v $LIMIT; exec \"$0\" -c \"{code}\"");
    for limit in [34_000, 40_000, 50_000, 64_000, 70_000] {
        let by_stock = stock(&script).env("LIMIT", limit.to_string()).run();
        if by_stock.code() != 0 || limit == 50_000 && is_free_threaded() {
            continue; // this Python needs more: without a GIL 44 MB of addresses, and the host 60 MB
        }
        let outcome = limited(&format!("-v {limit}"), &format!("--lines -c \"{code}\""));
        assert_eq!(outcome.code(), 0, "{limit}: {outcome:#?}");
        assert!(outcome.stdout.ends_with("ran\n"), "{limit}: {outcome:#?}");
        let is_left = outcome.stderr.contains("ulimit -v allows ");
        assert_eq!(is_left, limit < 65_536, "{limit}: {outcome:#?}");
    }
}

#[test]
fn what_the_host_offers_does_not_end_a_process_without_addresses() {
    let arguments = format!(
        "\"{}\" fill warm",
        crate::host::script("full_memory.py").display()
    );
    // A free-threaded Python has 32 MiB of addresses for each thread, and waits for ever for one that had none.
    let limit = if is_free_threaded() {
        "-v 800000"
    } else {
        "-v 200000"
    };
    let outcome = limited(limit, &arguments);
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(outcome.stdout, "wrong: []\n");
}

#[test]
fn the_host_starts_under_a_limit_on_data_under_which_python_does() {
    let python = stock("ulimit -d 20000; exec \"$0\" -c \"print('ran')\"").run();
    if python.code() != 0 {
        return skipped(format!("this Python needs more: {python:?}"));
    }
    let outcome = limited("-d 20000", "-c \"print('ran')\"");
    runs_with_a_line(&outcome, "ulimit -d allows 19.5 MiB");
    let outcome = limited("-d 20000", "--stats=file=\"$FILE\" -c \"print('ran')\"");
    runs_with_a_line(&outcome, "(--malloc off)");
    // With more the heaps are the host's, and take no more of the limit than they use.
    let code = "import pyhost; blocks = [bytes(1 << 20) for _ in range(60)]; \
                print(pyhost.memory_stats()['allocator'], 'ran')";
    let outcome = limited("-d 120000", &format!("-c \"{code}\""));
    assert_eq!(outcome.stdout, "mimalloc ran\n", "{outcome:#?}");
    assert_eq!(outcome.stderr, "");
    let code = "
try:
    blocks = []
    while True:
        blocks.append(bytes(1 << 20))
except MemoryError:
    count = len(blocks)
    del blocks
print(count > 60, 'ran')";
    let outcome = limited("-d 120000", &format!("-c \"{code}\""));
    assert_eq!(outcome.stdout, "True ran\n", "{outcome:#?}");
}

#[test]
fn blocks_grow_or_are_refused_under_a_limit_below_what_is_mapped() {
    for resource in ["RLIMIT_AS", "RLIMIT_DATA"] {
        for mib in [4, 40] {
            let code = format!(
                "import resource
block, items = bytearray(300_000), list(range(40_000))
resource.setrlimit(resource.{resource}, ({mib} << 20, {mib} << 20))
try:
    for _ in range(20):
        block += bytes(100_000)
        items.extend(range(10_000))
except MemoryError:
    pass
print(block[299_999], items[39_999], 'ran') # nothing is left for another block"
            );
            let outcome = Run::host().args(["-c", &code]).ok();
            assert_eq!(
                outcome.stdout, "0 39999 ran\n",
                "{resource} {mib}: {outcome:#?}"
            );
        }
    }
}

#[test]
fn freed_memory_serves_blocks_of_every_size_under_a_limit() {
    if is_free_threaded() {
        return skipped(KEPT_BY_CPYTHON);
    }
    let code = "
rows = [{'k': n, 'tags': ['a', 'b']} for n in range(150_000)]
del rows
blocks = []
for mib in (1, 8, 32, 100, 150): len(bytearray(mib << 20))
try:
    while True: blocks.append(bytes(1 << 20))
except MemoryError:
    count = len(blocks)
del blocks
for mib in (150, 100, 32): len(bytearray(mib << 20))
small = [bytes(700) for _ in range(150_000)]
print(count > 130, 'ran')";
    for limit in ["-v 200000", "-d 200000"] {
        let outcome = limited(limit, &format!("-c \"{code}\""));
        assert_eq!(
            (outcome.code(), outcome.stderr.as_str()),
            (0, ""),
            "{limit}"
        );
        assert_eq!(outcome.stdout, "True ran\n", "{limit}");
    }
}

#[test]
fn a_page_that_got_no_memory_is_not_counted_for_its_heap() {
    if is_free_threaded() {
        return skipped(KEPT_BY_CPYTHON);
    }
    // The lists take the place of a page for bytes whose memory the limit refused.
    let code = "
import pyhost
def fill(make):
    kept = [None] * 20_000
    count = 0
    try:
        while True: kept[count], count = make(), count + 1
    except MemoryError: return kept
rest = [bytes(1000) for _ in range(5_000)]
kept = fill(lambda: bytes(400_000))
del rest, kept
kept = fill(lambda: [None] * 50_000)
for index in range(20): kept[index] = None
pyhost.set_cap(600 << 20)
try: bytes(800 << 20)
except MemoryError: print('ran')";
    let outcome = limited("-v 400000", &format!("-I -S -c \"{code}\""));
    assert_eq!(outcome.stdout, "ran\n", "{outcome:#?}");
    let classes = outcome.stderr.find("largest size classes").unwrap();
    let classes = outcome.stderr[classes..].lines().next().unwrap();
    let large = classes.matches("of 458752 B").count();
    assert_eq!(large, 1, "{classes}");
}

#[test]
fn a_limit_that_a_script_sets_leaves_room_for_threads_and_libraries() {
    if is_free_threaded() {
        return skipped(KEPT_BY_CPYTHON);
    }
    let code = "
import resource, threading
kept = [bytes(1 << 20) for _ in range(60)]
resource.setrlimit(resource.RLIMIT_AS, (100 << 20, 100 << 20))
del kept
threading.stack_size(48 << 20)
thread = threading.Thread(target=print, args=['begun'])
thread.start()
thread.join()
import mmap
print(len(mmap.mmap(-1, 8 << 20)), 'ran')";
    let outcome = Run::host().args(["-c", code]).ok();
    assert_eq!(outcome.stdout, "begun\n8388608 ran\n", "{outcome:#?}");
}

#[test]
fn a_limit_that_is_far_away_does_not_raise_the_peak_of_a_block_that_grows() {
    // Nor does a map that is meant to fail.
    let code = "
import mmap
def peak():
    lines = open('/proc/self/status').readlines()
    return int([line for line in lines if line.startswith('VmHWM')][0].split()[1]) >> 10
try: mmap.mmap(-1, 1 << 46)
except OSError: print('refused')
block = bytearray(b'x') * (100 << 20)
before = peak()
block += b'y' * (4 << 20)
print(block[-1:], peak() - before < 50, 'ran')";
    let outcome = limited("-v 200000000", &format!("-c \"{code}\""));
    let expected = "refused\nbytearray(b'y') True ran\n";
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
}

#[test]
fn freed_memory_makes_room_for_a_map_under_a_high_limit() {
    let code = "
import mmap, resource
kept = [bytes(1 << 20) for _ in range(60)]
del kept
mapped = int(open('/proc/self/statm').read().split()[0]) * mmap.PAGESIZE
limit = GIB << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
with mmap.mmap(-1, limit - mapped + (20 << 20), flags=flags, prot=mmap.PROT_READ): print('ran')";
    for gib in ["8", "100"] {
        let outcome = Run::host().code(&code.replace("GIB", gib)).ok();
        assert_eq!(outcome.stdout, "ran\n", "{gib}");
    }
}

#[test]
fn leaks_sizes_and_the_balance_sheet_are_found_under_a_limit_on_data() {
    let code = "import pyhost; keep = [bytes(n) for n in range(0, 100000, 100)]
pyhost.balance_sheet(); pyhost.size_histogram('obj'); pyhost.fragmentation('obj'); pyhost.big_blocks()
print('ran')";
    let outcome = limited(
        "-d 200000",
        &format!("--leak-check=native --stats=file=\"$FILE\" -c \"{code}\""),
    );
    assert_eq!((outcome.code(), outcome.stderr.as_str()), (0, ""));
    assert_eq!(outcome.stdout, "ran\n");
}

#[test]
fn a_leak_is_found_under_a_limit_on_addresses() {
    let code = "import ctypes; kept = [1]; ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))";
    for limit in ["-v 1500000", "-v 12000000", "-d 500000"] {
        let outcome = limited(limit, &format!("--leak-check -c \"{code}\""));
        assert_eq!(outcome.code(), 23, "{limit} {outcome:#?}");
    }
}

#[test]
fn files_that_may_not_grow_are_one_line_and_the_script_runs() {
    for option in [
        "--live=\"$FILE\"",
        "--stats=file=\"$FILE\"",
        "--stats=html,file=\"$FILE\"",
        "--brief=\"$FILE\"",
        "--timeline=\"$FILE\"",
        "--live=file:\"$FILE\"",
    ] {
        let outcome = limited("-f 0", &format!("{option} -c \"print('ran')\""));
        assert_eq!(outcome.code(), 0, "{option}: {outcome:#?}");
        assert_eq!(outcome.stdout, "ran\n", "{option}");
        assert!(outcome.stderr.contains("File too large"), "{outcome:#?}");
        if !option.contains("html") {
            assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:#?}");
        }
    }
    // The script's own signal is not taken, nor sent to its handler.
    let code = "import os, signal
signal.signal(signal.SIGXFSZ, lambda *_: print('handler'))
if os.fork() == 0: os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]) if hasattr(os, 'waitstatus_to_exitcode') else 0, 'ran')";
    let folder = folder("limits");
    let live = format!("--live={}", folder.join("live").display());
    let script = "exec \"$HOST\" \"$1\" -c \"import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
$2\"";
    let outcome = Run::program("sh")
        .args(["-c", script, "sh", &live, code])
        .env("HOST", PYHOST)
        .run();
    assert_eq!(outcome.stdout, "0 ran\n", "{outcome:#?}");
}

#[test]
fn the_arrays_region_takes_what_a_limit_on_addresses_leaves() {
    let arguments = "--numpy bfc -c \"print('ran')\"";
    let outcome = limited("-v 2000000", arguments);
    assert_eq!((outcome.code(), outcome.stderr.as_str()), (0, ""));
}

#[test]
fn mimallocs_variables_are_not_obeyed_with_more_rights_than_the_caller_has() {
    let folder = folder("rights");
    let host = folder.join("pyhost");
    fs::copy(PYHOST, &host).unwrap();
    fs::set_permissions(&host, fs::Permissions::from_mode(0o4755)).unwrap();
    // SAFETY: no arguments.
    #[allow(unsafe_code)]
    let is_root = unsafe { libc::geteuid() } == 0;
    let open = Path::new("/tmp").join(format!("pyhost-rights-{}", std::process::id()));
    if !is_root || fs::create_dir(&open).is_err() {
        return skipped("only root makes a program with more rights than its caller");
    }
    let privileged = open.join("pyhost");
    fs::copy(&host, &privileged).unwrap();
    fs::set_permissions(&privileged, fs::Permissions::from_mode(0o4755)).unwrap();
    let code = "import os; print(os.geteuid(), [name for name in os.environ if name.upper().startswith('MIMALLOC')])";
    let outcome = Run::program("setpriv")
        .args(["--reuid=65534", "--clear-groups"])
        .arg(&privileged)
        .args(["-c", code])
        .env("MIMALLOC_VERBOSE", "1")
        .env("mimalloc_show_stats", "1")
        .folder(Path::new("/"))
        .run();
    fs::remove_dir_all(&open).unwrap();
    if outcome.code() != 0 || outcome.stdout.starts_with("65534") {
        return skipped(format!("no such start here: {outcome:?}"));
    }
    assert_eq!(outcome.stdout, "0 []\n");
    assert!(!outcome.stderr.contains("mimalloc"), "{outcome:#?}");
}
