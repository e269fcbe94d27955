//! NumPy's arrays: which are counted, what they are made from, and what pads reveal.

use crate::environments::{Environment, newest_numpy, numpys};
use crate::free_threaded::{NO_OWN_DEBUG_HOOKS, is_free_threaded};
use crate::host::{Run, compile, figure, folder, script, stock};
use crate::skipping::skipped;
use serde_json::Value;

const ALLOCATORS: [&str; 4] = ["mimalloc", "pool", "bfc", "system"];

fn hosted(environment: &Environment, allocator: &str) -> Run {
    environment
        .host()
        .env("PYHOST_NUMPY", allocator)
        .timeout(300)
}

#[test]
fn arrays_made_by_every_route_have_the_hosts_handler_and_are_booked() {
    for (place, environment) in numpys().iter().enumerate() {
        for (number, allocator) in ALLOCATORS.into_iter().enumerate() {
            // Each NumPy and each allocator meets both.
            let hooks = ["0", "1"][(place + number) % 2];
            let (outcome, report) = hosted(environment, allocator)
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .args(["-W", "ignore"])
                .arg(script("numpy_routes.py"))
                .reported();
            let context = format!("{} {allocator} {hooks}", environment.name);
            assert_eq!(
                (outcome.code(), outcome.last_line()),
                (0, "every route"),
                "{context} {outcome:#?}"
            );
            assert_eq!(report["numpy"]["allocator"], allocator, "{context}");
            let version = report["numpy"]["version"].as_str().unwrap_or_default();
            let line = environment.name.trim_start_matches("numpy-");
            assert!(version.starts_with(line), "{context}: {version}");
            let left = figure(&report, "numpy", "finalized_live_blocks");
            assert_eq!(left, 0, "{context}");
        }
    }
}

#[test]
fn numpy_is_seen_by_whatever_route_it_is_loaded() {
    for environment in numpys() {
        for route in [
            "plain",
            "star",
            "submodule",
            "by_importlib",
            "reloaded",
            "lazily",
            "from_c",
            "in_a_thread",
            "by_another_finder",
            "by_another_loader",
            "failed_first",
        ] {
            let arguments = [script("numpy_imports.py"), route.into()];
            // NumPy 1.22 cannot be imported again after a failure, by whatever Python.
            if !environment.stock().args(&arguments).run().status.success() {
                assert_eq!(
                    (route, environment.name.as_str()),
                    ("failed_first", "numpy-1.22")
                );
                continue;
            }
            let outcome = environment.host().args(&arguments).ok();
            assert_eq!(
                outcome.last_line(),
                "pyhost",
                "{} {route}",
                environment.name
            );
        }
    }
}

#[test]
fn a_numpy_that_a_pth_file_loads_is_seen_too() {
    let environment = newest_numpy();
    let place = folder("site");
    let code = "import numpy\n";
    std::fs::write(place.join("sitecustomize.py"), code).unwrap();
    let path = format!(
        "{}:{}",
        place.display(),
        environment.site_packages.display()
    );
    let code = "import sys
multiarray = sys.modules['numpy'].__dict__.get('_core', sys.modules['numpy'].core).multiarray
print(multiarray.get_handler_name(multiarray.empty(3)))";
    let outcome = Run::host().env("PYTHONPATH", path).code(code).ok();
    assert_eq!(outcome.stdout, "pyhost\n");
}

#[test]
fn a_program_without_numpy_never_loads_it() {
    let code = "import sys, pyhost, json, ctypes
pyhost.memory_stats()
print([name for name in sys.modules if 'numpy' in name], pyhost.memory_stats()['numpy'])";
    let (outcome, report) = newest_numpy().host().code(code).reported();
    assert_eq!(outcome.stdout, "[] None\n");
    assert_eq!(report["numpy"], Value::Null);
    assert_eq!(report["accounts"]["numpy"]["active"], false);
}

/// A folder with a package `numpy` of one extension module, `strange_numpy.c`.
fn strange_numpy() -> std::path::PathBuf {
    let place = folder("strange");
    let code = "import sysconfig; print(sysconfig.get_paths()['include'])";
    let include = Run::stock().code(code).ok().stdout;
    let flag = format!("-I{}", include.trim());
    let built = compile(
        "strange_numpy.c",
        "_multiarray_umath.so",
        &["-shared", "-fPIC", &flag],
    );
    let core = place.join("numpy/core");
    std::fs::create_dir_all(&core).unwrap();
    std::fs::write(place.join("numpy/__init__.py"), "__version__ = '1.2.3'\n").unwrap();
    std::fs::write(core.join("__init__.py"), "").unwrap();
    std::fs::copy(built, core.join("_multiarray_umath.so")).unwrap();
    place
}

#[test]
fn a_numpy_that_cannot_be_verified_is_left_alone_with_one_line() {
    let place = strange_numpy();
    for (variables, expected) in [
        (
            vec![("STRANGE_ABI", "1000009"), ("STRANGE_FEATURE", "e")],
            "it has no data handlers (NEP 49), as NumPy has from 1.22 on",
        ),
        (
            vec![("STRANGE_ABI", "3000000"), ("STRANGE_FEATURE", "20")],
            "its table of functions is not one that is known",
        ),
        (
            vec![("STRANGE_NO_TABLE", "1")],
            "its table of functions is not one that is known",
        ),
        (
            vec![("STRANGE_ABI", "2000000"), ("STRANGE_FEATURE", "20")],
            "its default data handler is not where it was up to 2.5",
        ),
        (
            vec![
                ("STRANGE_ABI", "2000000"),
                ("STRANGE_FEATURE", "20"),
                ("STRANGE_DEFAULT", "1"),
            ],
            "its default data handler is not where it was up to 2.5",
        ),
    ] {
        let mut run = Run::host().env("PYTHONPATH", &place);
        if is_free_threaded() {
            // It warns of a module that needs the GIL.
            run = run.env("PYTHONWARNINGS", "ignore");
        }
        for (name, value) in &variables {
            run = run.env(name, value);
        }
        let code = "import numpy.core._multiarray_umath, importlib, sys
del sys.modules['numpy.core._multiarray_umath']
importlib.import_module('numpy.core._multiarray_umath')
print('goes on')";
        let (outcome, report) = run.code(code).reported();
        assert_eq!(outcome.stdout, "goes on\n", "{variables:?} {outcome:#?}");
        assert_eq!(
            outcome.stderr,
            format!("pyhost: NumPy 1.2.3 runs on, but its array data is not counted: {expected}\n"),
            "{variables:?}"
        );
        assert_eq!(report["accounts"]["numpy"]["active"], false);
        assert_eq!(report["numpy"], Value::Null);
    }
}

#[test]
fn random_calls_from_many_threads_agree_with_oracles_that_know_nothing_of_the_ledger() {
    let library = compile("array_storm.c", "storm.so", &["-shared", "-fPIC"]);
    for allocator in ALLOCATORS {
        for hooks in ["0", "1"] {
            let outcome = hosted(newest_numpy(), allocator)
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .arg(script("exact_arrays.py"))
                .arg(&library)
                .arg("1")
                .run();
            assert_eq!(
                (outcome.code(), outcome.last_line()),
                (0, "exact"),
                "{allocator} {hooks} {outcome:#?}"
            );
        }
    }
}

#[test]
fn forks_beside_threads_that_allocate_arrays_neither_crash_nor_hang() {
    let library = compile("array_storm.c", "storm.so", &["-shared", "-fPIC"]);
    let full = std::env::var_os("PYHOST_TEST_FULL").is_some();
    for allocator in ALLOCATORS {
        let outcome = hosted(newest_numpy(), allocator)
            .arg(script("array_forks.py"))
            .arg(&library)
            .arg(if full { "2000" } else { "50" })
            .timeout(900)
            .run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "done"),
            "{allocator} {outcome:#?}"
        );
    }
}

#[test]
fn tracemalloc_sees_arrays_as_without_the_host() {
    let code = "import tracemalloc, numpy as np
domain = getattr(np.lib, 'tracemalloc_domain', None)
tracemalloc.start()
a = np.zeros((300, 500))
b = [number ** 2 for number in range(300 * 500)]
keep = tracemalloc.DomainFilter(inclusive=True, domain=domain)
for top in tracemalloc.take_snapshot().filter_traces([keep]).statistics('traceback'):
    print(f'{top.count} memory blocks: {top.size / 1024:.1f} KiB')
tracemalloc.clear_traces()
c = np.sum(a * a)
print(len(tracemalloc.take_snapshot().filter_traces([keep]).statistics('traceback')))";
    for environment in numpys() {
        for allocator in ALLOCATORS {
            let outcome = hosted(environment, allocator).code(code).ok();
            assert_eq!(
                outcome.stdout,
                environment.stock().code(code).ok().stdout,
                "{allocator}"
            );
            assert!(
                outcome.stdout.starts_with("1 memory blocks: 1171.9 KiB\n"),
                "{}",
                outcome.stdout
            );
        }
    }
}

#[test]
fn data_is_aligned_as_asked() {
    let code = "import sys, numpy as np, pyhost
align = int(sys.argv[1])
arrays = [np.empty(n, 'u1') for n in (0, 1, 8, 24, 63, 65, 200, 300, 700, 1025, 3000, 5000, 70000, 600000) for _ in range(20)]
arrays += [np.zeros(n, 'u1') for n in (1, 100, 5000, 2000000)]
assert all(array.ctypes.data % align == 0 for array in arrays)
assert not any(array.any() for array in arrays[-4:])
assert pyhost.memory_stats()['numpy']['align'] == align";
    for (align, allocator) in [
        ("16", "mimalloc"),
        ("64", "mimalloc"),
        ("256", "mimalloc"),
        ("4096", "mimalloc"),
        ("128", "pool"),
        ("4096", "pool"),
        ("256", "bfc"),
    ] {
        for hooks in ["0", "1"] {
            hosted(newest_numpy(), &format!("{allocator},align={align}"))
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .args(["-c", code, align])
                .ok();
        }
    }
}

#[test]
fn huge_pages_are_asked_for_and_refused_as_chosen() {
    // The flags of the mapping that holds an array's middle: hg, asked for; nh, refused (proc(5)), as all of the heaps is.
    let code = "import numpy as np
def flags(size):
    array = np.zeros(size, 'u1')
    middle = array.ctypes.data + size // 2
    inside = False
    for line in open('/proc/self/smaps'):
        head = line.split()[0]
        if '-' in head and not head.endswith(':'):
            start, end = (int(part, 16) for part in head.split('-'))
            inside = start <= middle < end
        elif inside and head == 'VmFlags:':
            return [flag for flag in line.split() if flag in ('hg', 'nh')]
print(flags(100_000), flags(8 << 20))";
    for allocator in ["mimalloc", "pool", "bfc"] {
        for (choice, numpys_own, expected) in [
            ("auto", "1", "['nh'] ['hg']"),
            ("auto", "0", "['nh'] ['nh']"),
            ("always", "0", "['hg'] ['hg']"),
            ("never", "1", "['nh'] ['nh']"),
        ] {
            let outcome = hosted(newest_numpy(), &format!("{allocator},huge-pages={choice}"))
                .env("NUMPY_MADVISE_HUGEPAGE", numpys_own)
                .code(code)
                .ok();
            assert_eq!(
                outcome.stdout.trim(),
                expected,
                "{allocator} {choice} {numpys_own}"
            );
        }
    }
}

#[test]
fn system_asks_for_huge_pages_where_numpy_does() {
    let code = "import numpy as np
array = np.zeros(8 << 20, 'u1')
middle = array.ctypes.data + (4 << 20)
for line in open('/proc/self/smaps'):
    head = line.split()[0]
    if '-' in head and not head.endswith(':'):
        start, end = (int(part, 16) for part in head.split('-'))
        inside = start <= middle < end
    elif inside and head == 'VmFlags:':
        print('hg' in line.split())";
    for (numpys_own, expected) in [("1", "True\n"), ("0", "False\n")] {
        let outcome = hosted(newest_numpy(), "system")
            .env("NUMPY_MADVISE_HUGEPAGE", numpys_own)
            .code(code)
            .ok();
        assert_eq!(outcome.stdout, expected, "{numpys_own}");
    }
}

#[test]
fn zeros_take_no_memory_until_they_are_written() {
    let code = "import os, numpy as np
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE')
for _ in range(3):
    array = np.ones(25_000_000)  # 200 MB, written
    del array
    before = resident()
    array = np.zeros(25_000_000)
    assert resident() - before < 20_000_000, (before, resident())
    assert array[12345] == 0 and array[-1] == 0
    del array";
    for allocator in ALLOCATORS {
        hosted(newest_numpy(), allocator).code(code).ok();
    }
}

#[test]
fn a_small_pool_stays_within_its_bound_and_a_large_one_hits() {
    let code = "import numpy as np, pyhost
for _ in range(2000):
    a = [np.empty(n * 10) for n in range(1, 60)]
    del a
p = pyhost.memory_stats()['numpy']['pool']
print(p['hits'] > 50_000, p['kept_blocks'], p['kept_bytes'], p['evictions'] > 1000, p['limit_blocks'], p['limit_bytes'])";
    let pool = |limit: &str| {
        let outcome = hosted(newest_numpy(), &format!("pool,limit={limit}"))
            .code(code)
            .ok();
        outcome.stdout.trim().to_owned()
    };
    let kept = |text: &str, field: usize| -> u64 {
        text.split_whitespace().nth(field).unwrap().parse().unwrap()
    };
    let ten = pool("10");
    assert!(ten.starts_with("False 10 "), "{ten}");
    assert!(ten.ends_with("True 10 None"), "{ten}");
    let bytes = pool("64K");
    assert!(kept(&bytes, 2) <= 65536, "{bytes}");
    assert!(bytes.ends_with("None 65536"), "{bytes}");
    let auto = pool("auto");
    assert!(auto.starts_with("True "), "{auto}");
}

#[test]
fn a_full_region_raises_memory_error_and_prints_its_map_once() {
    let code = "import numpy as np, pyhost
keep = [np.full(1000, n, 'u1') for n in range(100)]
del keep[::2]
for _ in range(3):
    try:
        np.empty(10_000_000)
    except MemoryError as error:
        print(type(error).__name__)
world = pyhost.numpy_memory_map()
assert sum(b['live_bytes'] for b in world['bins']) == world['region']['live_bytes']
assert sum(c['bytes'] for c in world['chunks']) == world['region']['region_bytes'] == 1 << 20
assert pyhost.memory_stats()['accounts']['numpy']['failed'] == 3
assert all((array == 2 * n + 1).all() for n, array in enumerate(keep))
text = pyhost.numpy_memory_map(text=True)
# NumPy may keep smaller arrays of its own.
print(next(line for line in text.splitlines() if line.startswith('bin  2')))
bins = sum(b['total_chunks'] > 0 for b in world['bins'])
print(len(text.splitlines()) - len(world['chunks']) - bins)";
    let outcome = hosted(newest_numpy(), "bfc,region=1M").code(code).ok();
    let said: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(
        said[0],
        "pyhost: no room for 80000000 bytes in the region of --numpy bfc; this is said once"
    );
    let line = "bin  2, from 1.0 KiB";
    assert!(outcome.stderr.contains(line), "{}", outcome.stderr);
    assert_eq!(
        said.iter().filter(|text| text.contains("no room")).count(),
        1
    );
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[..3], ["MemoryError"; 3]);
    assert!(lines[3].starts_with(line), "{}", lines[3]);
    assert_eq!(lines[4], "4", "lines of sums");
}

#[test]
fn a_report_has_the_region_as_the_script_left_it() {
    let code = "import numpy as np; keep = [np.ones(n) for n in range(1000)]; del keep[::2]";
    let (outcome, report) = hosted(newest_numpy(), "bfc").code(code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    let live = figure(&report, "numpy", "live_bytes");
    assert!(live > 2_000_000, "{live}");
    assert_eq!(report["numpy"]["region"]["live_bytes"], live);
    assert_eq!(figure(&report, "numpy", "finalized_live_bytes"), 0);
}

#[test]
fn a_region_grows_by_doubling_up_to_its_maximum() {
    let code = "import numpy as np, pyhost
sizes = []
keep = []
try:
    while True:
        keep.append(np.empty(100_000, 'u1'))
        size = pyhost.memory_stats()['numpy']['region']['region_bytes'] >> 20
        if size not in sizes:
            sizes.append(size)
except MemoryError:
    print(sizes, len(keep))";
    let outcome = hosted(newest_numpy(), "bfc,region=1M:6M").code(code).ok();
    assert_eq!(outcome.stdout, "[1, 2, 4, 6] 60\n");
}

#[test]
fn options_of_array_data_are_inherited() {
    let code = "import subprocess, sys
child = 'import numpy, pyhost; f = pyhost.memory_stats()[\"numpy\"]; print(f[\"allocator\"], f[\"align\"], f[\"huge_pages\"], f[\"region\"][\"reserved_bytes\"])'
subprocess.run([sys.executable, '-c', child], check=True)";
    let outcome = newest_numpy()
        .host()
        .arg("--numpy=bfc,align=128,huge-pages=never,region=8M:16M")
        .code(code)
        .ok();
    assert_eq!(outcome.stdout, "bfc 128 never 16777216\n");
}

#[test]
fn a_memory_node_that_the_machine_has_not_is_refused() {
    let nodes = std::fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    if nodes.trim().contains([',', '-']) {
        newest_numpy()
            .host()
            .args(["--numpy=numa=0", "-c", "import numpy; numpy.ones(100000)"])
            .ok();
        let outcome = Run::host().args(["--numpy=numa=999", "-c", ""]).run();
        assert_eq!(outcome.code(), 2);
    } else {
        let outcome = Run::host().args(["--numpy=numa=0", "-c", ""]).run();
        assert_eq!(outcome.code(), 2);
        assert_eq!(
            outcome.stderr,
            "pyhost: --numpy numa 0: this machine has one memory node; expected a machine with \
             several\n"
        );
    }
}

#[test]
fn what_is_written_outside_an_array_is_caught_with_its_size_and_line() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let bugs = [
        (
            "overflow",
            "7 bytes, allocated at SCRIPT:9: written past its end (at +0 from its end: 0x41, expected 0xfd)",
        ),
        (
            "far_overflow",
            "7 bytes, allocated at SCRIPT:9: written past its end (at +15 from its end: 0x42, expected 0xfd)",
        ),
        (
            "underflow",
            "7 bytes, allocated at SCRIPT:9: written before its start (at -2 from its start: 0x43, expected 0xfd)",
        ),
        (
            "overflow_before_resize",
            "7 bytes, allocated at SCRIPT:9: written past its end (at +0 from its end: 0x44, expected 0xfd)",
        ),
        (
            "overflow_of_a_copy_that_numpy_made",
            "14 bytes, allocated at SCRIPT:37: written past its end (at +0 from its end: 0x45, expected 0xfd)",
        ),
    ];
    for (number, (bug, expected)) in bugs.into_iter().enumerate() {
        let path = script("array_bugs.py");
        let expected = expected.replace("SCRIPT", &path.to_string_lossy());
        for (place, environment) in numpys().iter().enumerate() {
            // Each bug meets every NumPy, each with another allocator; the next bug begins with the next one.
            let allocator = ALLOCATORS[(place + number) % ALLOCATORS.len()];
            let outcome = hosted(environment, allocator)
                .arg("--debug-hooks")
                .arg(&path)
                .arg(bug)
                .run();
            assert_eq!(outcome.code(), 134, "{bug} {allocator} {outcome:#?}");
            let said = outcome.stderr.lines().next().unwrap_or_default();
            assert!(said.starts_with("pyhost: array data at 0x"), "{said}");
            assert!(said.ends_with(&expected), "{said}\n{expected}");
            assert!(
                outcome.stderr.contains(&format!("in {bug}")),
                "Python's own traceback: {}",
                outcome.stderr
            );
        }
    }
}

#[test]
fn fresh_and_freed_data_has_the_bytes_of_cpythons_hooks() {
    for (bug, expected) in [
        ("read_after_free", "dddddddddddddd\nended\n"),
        ("uninitialised", "cdcdcdcd\nended\n"),
        ("none", "ended\n"),
    ] {
        let outcome = hosted(newest_numpy(), "bfc")
            .arg("--debug-hooks")
            .arg(script("array_bugs.py"))
            .arg(bug)
            .ok();
        assert_eq!(outcome.stdout, expected, "{bug}");
    }
}

#[test]
fn a_buffer_is_shared_without_a_copy_and_freed_with_its_last_user() {
    let code = "import ctypes, gc, sys, numpy as np, pyhost
def live(account):
    figures = pyhost.memory_stats()['accounts'][account]
    return figures['live_bytes'], figures['live_blocks']
for account in ('raw', 'mem', 'obj', 'numpy', 'native'):
    for align in (1, 64, 4096, 1 << 20):
        before = live(account)[0]
        buffer = pyhost.buffer(100_000, align=align, account=account)
        assert buffer.address % align == 0 and buffer.nbytes == len(buffer) == 100_000
        assert (buffer.align, buffer.account) == (align, account), buffer
        assert live(account)[0] - before >= 100_000, (account, live(account), before)
        array = np.frombuffer(buffer, 'u1')
        view = memoryview(buffer)
        shared = (ctypes.c_ubyte * 100_000).from_buffer(buffer)
        assert array.ctypes.data == buffer.address == ctypes.addressof(shared)
        assert not array.any()
        array[77] = 5
        assert view[77] == shared[77] == 5 and not view.readonly
        del buffer, view, shared
        gc.collect()
        assert live(account)[0] - before >= 100_000
        assert array[77] == 5
        del array
        gc.collect()
        assert live(account)[0] - before < 10_000, (account, align, live(account)[0] - before)
pyhost.buffer(0)
print('shared')";
    for allocator in ALLOCATORS {
        for hooks in ["0", "1"] {
            let outcome = hosted(newest_numpy(), allocator)
                .env("PYHOST_DEBUG_HOOKS", hooks)
                .code(code)
                .ok();
            assert_eq!(outcome.stdout, "shared\n", "{allocator} {hooks}");
        }
    }
    // Without NumPy too, and where nothing is replaced.
    let code = "import pyhost
b = pyhost.buffer(1000)
memoryview(b)[5] = 1
print(pyhost.memory_stats()['accounts']['numpy']['live_blocks'], pyhost.memory_stats()['numpy']['version'])";
    for native in ["count", "off"] {
        let outcome = Run::host().args(["--malloc", native, "-c", code]).ok();
        assert_eq!(outcome.stdout, "1 None\n");
    }
}

#[test]
fn a_bad_buffer_raises_with_what_was_expected() {
    for (call, expected) in [
        (
            "-1",
            "ValueError: buffer: nbytes must not be negative, but is -1",
        ),
        (
            "1, align=3",
            "ValueError: buffer: align must be a power of two up to 1048576, but is 3",
        ),
        (
            "1, account='stack'",
            "ValueError: buffer: account must be one of 'raw', 'mem', 'obj', 'numpy', 'native', but is 'stack'",
        ),
        ("1 << 62", "MemoryError"),
        (
            "'x'",
            "TypeError: 'str' object cannot be interpreted as an integer",
        ),
    ] {
        let code = format!("import pyhost; pyhost.buffer({call})");
        let outcome = Run::host().code(&code).run();
        assert_eq!(outcome.code(), 1);
        assert_eq!(outcome.stderr.lines().last(), Some(expected), "{call}");
    }
    let outcome = Run::host()
        .code("import pyhost; pyhost.numpy_memory_map()")
        .run();
    assert_eq!(
        outcome.stderr.lines().last(),
        Some("RuntimeError: numpy_memory_map: there is no region; expected --numpy bfc")
    );
}

#[test]
fn numpy_runs_under_valgrind_with_its_arrays_left_to_it() {
    let code = "import numpy as np; print(np.ones(10).sum(), np.zeros(1000).sum())";
    let outcome = Run::program("valgrind")
        .env("PYTHONPATH", &newest_numpy().site_packages)
        .args(["--quiet", "--error-exitcode=9", "--undef-value-errors=no"])
        .args([crate::host::PYHOST, "-S", "-c", code])
        .timeout(300)
        .run();
    assert_eq!(outcome.stdout, "10.0 0.0\n", "{outcome:#?}");
    assert!(stock().exists());
}
