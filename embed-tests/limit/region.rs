//! `--region`: a heap whose committed bytes are bounded, locked or on huge pages; read from outside.

#![allow(unsafe_code)]

use crate::environments::newest_numpy;
use crate::free_threaded::{NO_REGION, is_free_threaded};
use crate::host::{
    Outcome, PYHOST, Run, figure, folder, joined, script, stock, too_small_for_5_gib, version,
};
use crate::skipping::skipped;
use serde_json::Value;
use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MIB: i64 = 1 << 20;

/// The bytes that docs/limit/region.md allows beyond the region, without threads' stacks.
const BESIDE_ANONYMOUS: i64 = 4 * MIB;
const BESIDE: i64 = 20 * MIB;

/// A run's result, its report, and the largest figures of `/proc/PID/status`.
struct Watched {
    outcome: Outcome,
    report: Value,
    largest: HashMap<String, i64>,
}

impl Watched {
    fn region(&self, name: &str) -> i64 {
        self.report["region"][name].as_i64().unwrap()
    }
}

/// Runs the host and reads its status from outside until it ends.
fn watch(arguments: &[&str], packages: Option<&Path>) -> Watched {
    let folder = folder("watched");
    let paths = ["out", "err", "report"].map(|name| folder.join(name));
    let create = |path| Stdio::from(std::fs::File::create(path).unwrap());
    let mut command = Command::new(PYHOST);
    command
        .args(arguments)
        .env("PYHOST_STATS", joined("file=", &paths[2]))
        .stdin(Stdio::null())
        .stdout(create(&paths[0]))
        .stderr(create(&paths[1]));
    if let Some(packages) = packages {
        command.env("PYTHONPATH", packages);
    }
    let mut child = command.spawn().unwrap();
    let (start, mut largest) = (Instant::now(), HashMap::new());
    let status = loop {
        let path = format!("/proc/{}/status", child.id());
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let mut words = line.split_whitespace();
            if let (Some(name), Some(number), Some("kB")) =
                (words.next(), words.next(), words.next())
            {
                let bytes = number.parse::<i64>().unwrap() * 1024;
                let most = largest.entry(name.trim_end_matches(':').to_owned());
                let most = most.or_insert(0);
                *most = bytes.max(*most);
            }
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(120) {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{arguments:?}: still running");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let [stdout, stderr, report] =
        paths.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    Watched {
        report: serde_json::from_str(&report)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {status} {stderr}")),
        outcome: Outcome {
            status,
            stdout,
            stderr,
        },
        largest,
    }
}

/// Runs a hog of `scripts/hogs.py` within a region: it survives, and stays within the bounds, plus
/// `stacks` bytes for those of its threads.
fn check_hog(kind: &str, size: &str, stacks: i64, packages: Option<&Path>) {
    let path = script("hogs.py");
    let run = watch(&["--region", size, path.to_str().unwrap(), kind], packages);
    let what = format!("{kind} in {size}: {:#?}", run.outcome);
    assert_eq!(run.outcome.code(), 0, "{what}");
    assert_eq!(run.outcome.last_line(), "survived", "{what}");
    let bytes = run.region("size_bytes");
    assert!(run.region("peak_committed_bytes") <= bytes, "{what}");
    assert!(
        run.outcome.stderr.contains("region of ") && run.outcome.stderr.contains(" is full: "),
        "{what}"
    );
    let (anonymous, resident) = (run.largest["RssAnon"], run.largest["VmHWM"]);
    assert!(
        anonymous <= bytes + BESIDE_ANONYMOUS + stacks && resident <= bytes + BESIDE + stacks,
        "{anonymous} anonymous, {resident} in all, {what}"
    );
}

#[test]
fn hogs_of_python_objects_are_refused_within_the_region() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    for kind in ["objects", "dicts", "byte_strings", "one_bytearray", "mixed"] {
        check_hog(kind, "24M", 0, None);
        check_hog(kind, "64M", 0, None);
    }
}

#[test]
fn hogs_of_strings_and_of_the_stack_are_refused_within_the_region() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    check_hog("strings", "24M", 0, None);
    check_hog("strings", "64M", 0, None);
    // Before 3.11 each call of Python's is one of C's: the stack would end first.
    if version() >= (3, 11) {
        check_hog("recursion", "24M", 8 * MIB, None);
    }
}

#[test]
fn hogs_of_native_memory_are_refused_within_the_region() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    for kind in ["sqlite", "native"] {
        check_hog(kind, "24M", 0, None);
        check_hog(kind, "64M", 0, None);
    }
}

#[test]
fn hogs_of_arrays_are_refused_within_the_region() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let environment = newest_numpy();
    for size in ["32M", "64M"] {
        check_hog("arrays", size, 8 * MIB, Some(&environment.site_packages));
    }
}

#[test]
fn threads_that_hog_are_refused_within_the_region() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    for size in ["24M", "64M"] {
        check_hog("threads", size, 8 * MIB, None);
    }
}

#[test]
fn threads_that_start_while_there_is_no_memory_do_no_harm() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    for size in ["24M", "64M"] {
        check_hog("new_threads", size, 64 * MIB, None);
    }
}

#[test]
fn an_error_that_nobody_handles_ends_the_script_as_others_do() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let code = "keep = []
while True:
    keep.append(bytes(1000))";
    let outcome = Run::host().args(["--region", "24M", "-c", code]).run();
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    // Without memory to show it in full, CPython 3.13 writes what it can and `lost sys.stderr`.
    assert!(outcome.stderr.contains("MemoryError"), "{outcome:#?}");
}

#[test]
fn a_request_that_can_never_fit_fails_at_once() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let code = "import pyhost
try:
    bytearray(1 << 40)
except MemoryError:
    print(pyhost.memory_stats()['region']['peak_committed_bytes'] < 20 << 20)";
    let outcome = Run::host().args(["--region", "24M", "-c", code]).ok();
    assert_eq!(outcome.stdout, "True\n");
}

#[test]
fn all_memory_of_the_heaps_lies_in_the_region() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let code = "import ctypes, pyhost
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
buffer = pyhost.buffer(100_000)
places = [id(object()), malloc(10), malloc(300_000), malloc(3_000_000),
          ctypes.addressof(ctypes.c_char.from_buffer(buffer)), id([])]
spans = []
for line in open('/proc/self/maps'):
    span, access = line.split()[:2]
    start, end = (int(part, 16) for part in span.split('-'))
    if spans and spans[-1][1] == start and not line.split()[5:]:
        spans[-1][1] = end
    else:
        spans.append([start, end])
found = {next(i for i, (start, end) in enumerate(spans) if start <= place < end) for place in places}
print(len(found), '[heap]' in open('/proc/self/maps').read())";
    let outcome = Run::host().args(["--region", "24M", "-c", code]).ok();
    assert_eq!(outcome.stdout, "1 False\n");
}

#[test]
fn the_region_is_reported() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let run = Run::host().args(["--region", "24M", "-c", "import pyhost"]);
    let (_, report) = run.reported();
    let region = &report["region"];
    assert_eq!(region["size_bytes"], 24 * MIB);
    assert_eq!(report["host"]["profile"], "small");
    let number = |name: &str| region[name].as_i64().unwrap();
    let live = figure(&report, "obj", "peak_bytes");
    assert!(number("committed_bytes") <= number("peak_committed_bytes"));
    assert!(live < number("peak_committed_bytes") && number("before_main_bytes") < 2 * MIB);
    assert!(number("reserved_bytes") >= 128 * MIB);
    let outcome = Run::host().args(["--region=24M", "--stats", "-c", ""]).ok();
    assert!(outcome.stderr.contains("region 24.0 MiB: committed "));
    let (_, report) = Run::host().code("").reported();
    assert_eq!(report["region"], Value::Null);
}

/// The line about a region in which Python cannot start.
fn too_small(bytes: i64) -> String {
    let size = match bytes % MIB {
        0 => format!("{} MiB", bytes / MIB),
        _ => format!("{bytes} B"),
    };
    format!(
        "pyhost: --region: {size} is too little for Python to start; expected a larger region\n"
    )
}

#[test]
fn a_region_that_is_too_small_for_python_is_told_in_a_line() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let folder = folder("site");
    let hog = "keep = [bytes(1 << 20) for _ in range(40)]\n";
    std::fs::write(folder.join("sitecustomize.py"), hog).unwrap();
    for megabytes in [8, 24] {
        let region = format!("{megabytes}M");
        let run = Run::host().env("PYTHONPATH", &folder);
        let outcome = run.args(["--region", &region, "-c", "print(1)"]).run();
        assert_eq!(outcome.stderr, too_small(megabytes * MIB));
        assert_eq!((outcome.code(), outcome.stdout.as_str()), (2, ""));
    }
    let run = Run::host().env("PYTHONPATH", &folder);
    let outcome = run.args(["--region", "96M", "-c", "print(1)"]).ok();
    assert_eq!(outcome.stdout, "1\n");
}

#[test]
fn python_starts_in_16_mib_and_below_that_starts_or_says_so() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    for size in 8..=16 {
        let outcome = Run::host()
            .args(["--region", &format!("{size}M"), "-I", "-S", "-c", ""])
            .run();
        let told = outcome.code() == 2 && outcome.stderr == too_small(i64::from(size) * MIB);
        // From 3.13 on Python imports a module for `-c` when it has started, which may be what does not fit.
        let full = format!("pyhost: region of {size}.0 MiB is full: ");
        let full = outcome.code() == 1 && outcome.stderr.starts_with(&full);
        assert!(
            outcome.code() == 0 || (told || full) && size < 16,
            "{outcome:#?}"
        );
    }
}

#[test]
fn children_have_a_region_of_their_own() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let code = "import os, pyhost, subprocess, sys
region = lambda: pyhost.memory_stats()['region']
ask = 'import pyhost; print(pyhost.memory_stats()[\"region\"][\"size_bytes\"])'
sys.stdout.flush()
subprocess.run([sys.executable, '-c', ask], check=True)
before = region()['committed_bytes']
child = os.fork()
if child == 0:
    keep = []
    try:
        while True:
            keep.append(bytes(1000))
    except MemoryError:
        keep.clear()
        os._exit(region()['peak_committed_bytes'] > 24 << 20)
print(os.waitpid(child, 0)[1], region()['committed_bytes'] - before < 1 << 20)";
    let outcome = Run::host().args(["--region", "24M", "-c", code]).ok();
    assert_eq!(outcome.stdout, "25165824\n0 True\n");
}

#[test]
fn a_locked_region_is_locked_as_far_as_it_is_committed() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let code = "import os, pyhost, subprocess, sys
def locked():
    for line in open('/proc/self/status'):
        if line.startswith('VmLck:'):
            return int(line.split()[1]) * 1024
def near(bytes):
    return abs(bytes - pyhost.memory_stats()['region']['committed_bytes']) < 1 << 20
print(pyhost.memory_stats()['region']['locked'], near(locked()), locked() > 4 << 20)
before = locked()
keep = bytearray(5 << 20)
print(locked() - before >= 5 << 20)
del keep
print(locked() - before < 1 << 20)
sys.stdout.flush()
subprocess.run([sys.executable, '-c', 'import pyhost; print(pyhost.memory_stats()[\"region\"][\"locked\"])'])
child = os.fork()
if child == 0:
    os._exit(pyhost.memory_stats()['region']['locked'])
print(os.waitpid(child, 0)[1])";
    // Whole slices count: 3.14 has 17 MiB committed here.
    let outcome = Run::host().args(["--region", "32M,lock", "-c", code]).run();
    if outcome.code() == 2 && outcome.stderr.contains("RLIMIT_MEMLOCK") {
        return skipped("RLIMIT_MEMLOCK is too low here; the next test has that case");
    }
    assert_eq!(
        outcome.stdout, "True True True\nTrue\nTrue\nTrue\n0\n",
        "{outcome:#?}"
    );
}

#[test]
fn a_lock_that_the_system_refuses_is_told_in_a_line() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    const CAP_IPC_LOCK: libc::c_ulong = 14;
    let mut command = Command::new(PYHOST);
    command.args(["--region", "24M,lock", "-c", "print(1)"]);
    // SAFETY: system calls that touch the child alone.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit {
                rlim_cur: 1 << 20,
                rlim_max: 1 << 20,
            };
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0);
            match libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "pyhost: --region lock: the system does not let 24 MiB be locked (Cannot allocate memory; the limit \
         is 1048576 bytes); expected a larger RLIMIT_MEMLOCK (ulimit -l) or a smaller --region\n"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn huge_pages_back_the_region_and_count_in_full() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let code = "import pyhost
keep = bytearray(b'x') * (20 << 20)
region = pyhost.memory_stats()['region']
inside = huge = advised = 0
for line in open('/proc/self/smaps'):
    words = line.split()
    if '-' in words[0] and not words[0].endswith(':'):
        start, end = (int(part, 16) for part in words[0].split('-'))
        inside = start <= id(region) < end or start <= id(keep) < end or end - start > 16 << 20
    elif words[0] == 'AnonHugePages:':
        huge += int(words[1])
    elif words[0] == 'VmFlags:' and inside:
        advised += 'hg' in words
print(region['huge_pages'], region['committed_bytes'] % (2 << 20), advised > 0, huge > 0)";
    let run = Run::host().args(["--region", "96M,huge-pages", "-c", code]);
    let outcome = run.run();
    if outcome.stderr.contains("the system grants none") {
        assert_eq!(outcome.code(), 2);
        return skipped("the kernel grants no transparent huge pages");
    }
    // Whether the kernel had one to give is not the host's to say.
    let told = outcome.stdout.trim_end();
    assert!(
        told == "True 0 True True" || told == "True 0 True False",
        "{outcome:#?}"
    );
}

#[test]
fn the_other_allocators_and_profiles_run_in_a_region() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    for options in [
        "--allocator=pymalloc",
        "--malloc=plain",
        "--debug-hooks",
        "--retain=balanced",
    ] {
        let path = script("hogs.py");
        let run = watch(
            &[
                "--region",
                "24M",
                options,
                path.to_str().unwrap(),
                "byte_strings",
            ],
            None,
        );
        assert_eq!(run.outcome.last_line(), "survived", "{:#?}", run.outcome);
        assert!(run.region("peak_committed_bytes") <= 24 * MIB);
        assert!(run.largest["RssAnon"] <= 24 * MIB + BESIDE_ANONYMOUS);
    }
}

#[test]
fn a_region_of_many_gibibytes_works() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    if let Some(reason) = too_small_for_5_gib() {
        return skipped(reason);
    }
    let code = "import pyhost
keep = pyhost.buffer(5 << 30)
memoryview(keep).cast('B')[5 << 29] = 1
print(pyhost.memory_stats()['region']['committed_bytes'] > 5 << 30)
del keep
print(pyhost.memory_stats()['region']['committed_bytes'] < 128 << 20)
print(pyhost.memory_stats()['process']['resident_bytes'] < 100 << 20)";
    let outcome = Run::host().args(["--region", "20G", "-c", code]).ok();
    assert_eq!(outcome.stdout, "True\nTrue\nTrue\n");
}

#[test]
fn a_service_stays_within_the_bounds() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("embed-tests/region/serve.py");
    let run = Run::program(stock()).arg(program).arg(PYHOST);
    let outcome = run.args(["--seconds", "3", "--requests", "150"]).run();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert!(
        outcome.stdout.contains(": 150 requests in "),
        "{outcome:#?}"
    );
    assert_eq!(outcome.stdout.matches(" holds\n").count(), 4);
}

#[test]
fn a_full_region_leaves_a_dossier_as_a_cap_does() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let code = "import pyhost
kept = []
try:
    while True: kept.append(bytes(300_000))
except MemoryError: pass
refusal = pyhost.last_refusal()
del kept
print(refusal['scope'], refusal['account'], refusal['size_bytes'], refusal['cap_bytes'])";
    let (outcome, report) = Run::host().args(["--region", "24M"]).code(code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(
        outcome.stdout,
        format!("region obj 300033 {}\n", 24 * MIB),
        "{outcome:#?}"
    );
    let line = "pyhost: region of 24.0 MiB is full: obj asked for 300033 bytes with ";
    assert!(outcome.stderr.starts_with(line), "{outcome:#?}");
    assert_eq!(outcome.stderr.matches("is full").count(), 1, "{outcome:#?}");
    assert!(outcome.stderr.contains("<string>:4 in <module>"));
    let dossier = &report["caps"]["dossier"];
    assert_eq!(dossier["scope"], "region", "{report}");
    assert_eq!(dossier["how"], "null");
}

#[test]
fn a_server_that_fills_the_region_does_not_hang() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    for (arguments, size) in [
        (&["--region", "24M"][..], "500"),
        (&["--region", "24M"], "5000"),
        (&["--region", "24M", "--cap", "16M"], "500"),
    ] {
        let outcome = Run::host()
            .args(arguments)
            .arg(script("server_in_a_region.py"))
            .arg(size)
            .timeout(180)
            .run();
        // 53 is the documented end of what cannot go on.
        assert!(matches!(outcome.code(), 0 | 53), "{outcome:#?}");
        let said = ["is full: ", "reached: "].map(|text| outcome.stderr.contains(text));
        assert!(said.contains(&true), "{outcome:#?}");
        if outcome.code() == 0 {
            assert_eq!(outcome.stdout, "True True True finished\n", "{outcome:#?}");
        }
    }
}

/// Every function of `import pyhost` in eight threads: an error is MemoryError, and none is the process's end.
#[test]
fn what_the_host_offers_does_not_end_a_process_whose_region_is_full() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let check = |arguments: &[&str], words: &[&str]| {
        let run = Run::host().args(arguments).arg(script("full_memory.py"));
        let outcome = run.args(words).run();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        assert_eq!(outcome.stdout, "wrong: []\n");
    };
    check(&["--region", "24M"], &["fill"]);
    check(&["--fail", "native=every=1,when=open"], &["fail"]);
}

#[test]
fn no_thread_is_made_that_would_have_no_memory_for_its_first_steps() {
    if is_free_threaded() {
        return skipped(NO_REGION);
    }
    let code = "import threading
release, threads, kept, error = threading.Event(), [], [], None
try:
    while True:
        thread = threading.Thread(target=release.wait)
        thread.start()
        threads.append(thread)
        kept.append([bytes(700) for _ in range(100)])
except (RuntimeError, MemoryError) as caught: error = caught
count = len(threads)
kept.clear()
release.set()
for thread in threads: thread.join()
print(type(error).__name__, count > 3)";
    for arguments in [
        &["--region", "24M"][..],
        &["--region", "32M", "--cap", "24M"],
        &["--cap", "16M"],
    ] {
        let outcome = Run::host().args(arguments).code(code).timeout(120).run();
        assert_eq!(outcome.code(), 0, "{arguments:?} {outcome:#?}");
        assert!(outcome.stdout.ends_with(" True\n"), "{outcome:#?}");
    }
}

#[test]
fn a_build_for_a_target_that_is_not_supported_ends_with_one_line() {
    // target/PROFILE/build/pyhost-heap-HASH/build-script-build of cargo's own host, the last that was built.
    let folder = Path::new(env!("CARGO_BIN_EXE_pyhost"))
        .parent()
        .unwrap()
        .join("build");
    let scripts = std::fs::read_dir(folder).unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        let is_heaps = entry.file_name().to_str()?.starts_with("pyhost-heap-");
        let script = entry.path().join("build-script-build");
        let built = script.metadata().ok()?.modified().unwrap();
        is_heaps.then_some((built, script))
    });
    let (_, script) = scripts.max().expect("the build script of the heap");
    for (target, arch, os, env, found) in [
        (
            "i686-unknown-linux-gnu",
            "x86",
            "linux",
            "gnu",
            "x86-linux-gnu",
        ),
        (
            "riscv64gc-unknown-linux-gnu",
            "riscv64",
            "linux",
            "gnu",
            "riscv64-linux-gnu",
        ),
        (
            "arm-unknown-linux-gnueabihf",
            "arm",
            "linux",
            "gnu",
            "arm-linux-gnu",
        ),
        (
            "aarch64-apple-darwin",
            "aarch64",
            "macos",
            "",
            "aarch64-macos-",
        ),
        (
            "armv7-unknown-linux-musleabihf",
            "arm",
            "linux",
            "musl",
            "armv7-linux-musl",
        ),
    ] {
        let output = Command::new(&script)
            .env("TARGET", target)
            .env("CARGO_CFG_TARGET_ARCH", arch)
            .env("CARGO_CFG_TARGET_OS", os)
            .env("CARGO_CFG_TARGET_ENV", env)
            .output()
            .unwrap();
        let expected = format!(
            "cargo::error=pyhost cannot be built for {found}; expected x86_64 or aarch64, linux, gnu or musl, or armv7-linux-gnu\n"
        );
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            (output.status.code(), said),
            (Some(1), expected),
            "{target}"
        );
    }
}
