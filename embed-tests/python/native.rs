//! The process's malloc family.

use crate::free_threaded::is_free_threaded;
use crate::host::{Run, compile, figure, script};
use crate::skipping::skipped;

#[test]
fn the_family_answers_as_libcs_does() {
    let stock = Run::stock().arg(script("native_contract.py")).ok();
    for mode in ["count", "plain", "off"] {
        let host = Run::host()
            .args(["--malloc", mode])
            .arg(script("native_contract.py"))
            .ok();
        assert_eq!(host.stdout, stock.stdout, "--malloc {mode}");
    }
}

#[test]
fn what_libraries_allocate_is_booked_to_native_and_goes_off_it_again() {
    let code = "import sqlite3, pyhost
def native(): return pyhost.memory_stats()['accounts']['native']['live_bytes']
before = native()
base = sqlite3.connect(':memory:')
base.execute('create table t(x)')
base.executemany('insert into t values (?)', (('x' * 1000,) for _ in range(5000)))
full = native()
assert full - before > 5_000_000, full - before
base.close()
assert native() - before < 200_000, native() - before";
    Run::host().code(code).ok();
}

#[test]
fn a_function_of_the_family_found_in_libc_itself_is_the_same_one() {
    let code = "import ctypes
libc = ctypes.CDLL('libc.so.6')
libc.strdup.restype = libc.malloc.restype = ctypes.c_void_p
libc.free(ctypes.c_void_p(libc.strdup(b'made inside libc')))
ctypes.CDLL(None).free(ctypes.c_void_p(libc.malloc(100)))
handle = ctypes.CDLL(None)
handle.dlsym.restype = ctypes.c_void_p
handle.dlsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
print('ok')";
    for mode in ["count", "plain", "off"] {
        assert_eq!(
            Run::host().args(["--malloc", mode]).code(code).ok().stdout,
            "ok\n"
        );
    }
}

#[test]
fn a_pointer_of_libcs_own_heap_is_freed_and_resized_where_it_came_from() {
    let library = compile("libcs_own.c", "libcs_own.so", &["-shared", "-fPIC"]);
    let code = "import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.libcs_own_malloc.restype = ctypes.c_void_p
libc = ctypes.CDLL(None)
libc.realloc.restype = ctypes.c_void_p
for size in (10, 1000, 1000000):
    libc.free(ctypes.c_void_p(library.libcs_own_malloc(size)))
    block = library.libcs_own_malloc(size)
    ctypes.memset(block, 7, size)
    block = libc.realloc(ctypes.c_void_p(block), size * 2)
    assert ctypes.string_at(block, size) == bytes([7]) * size
    assert libc.malloc_usable_size(ctypes.c_void_p(block)) >= size * 2
    libc.free(ctypes.c_void_p(block))
print('ok')";
    let outcome = Run::host().code(code).arg(&library).ok();
    assert_eq!(outcome.stdout, "ok\n");
}

#[test]
fn a_preloaded_family_may_call_libcs_by_its_other_names() {
    let own = compile("libcs_own.c", "libcs_own_next.so", &["-shared", "-fPIC"]);
    let options = ["-shared", "-fPIC", "-fno-builtin"];
    let family = compile("by_libcs_names.c", "by_libcs_names.so", &options);
    let code = "import ctypes, sys
void, libc, library = ctypes.c_void_p, ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
for function in (libc.malloc, libc.calloc, libc.realloc, libc.memalign, library.libcs_own_malloc):
    function.restype = void
makers = (libc.malloc, lambda size: libc.calloc(1, size), lambda size: libc.realloc(None, size),
          lambda size: libc.memalign(64, size), library.libcs_own_malloc)
for size in (10, 1000, 1000000):
    for make in makers:
        libc.free(void(make(size)))
        block = make(size)
        ctypes.memset(block, 7, size)
        block = libc.realloc(void(block), size * 2)
        assert ctypes.string_at(block, size) == bytes([7]) * size
        libc.free(void(block))
print('ok')";
    for mode in ["count", "plain", "off"] {
        let run = Run::host().args(["--malloc", mode]).code(code).arg(&own);
        let outcome = run.env("LD_PRELOAD", &family).ok();
        assert_eq!(outcome.stdout, "ok\n", "{mode}");
    }
}

/// The options of the two ways in which the exported family serves, and of checked blocks.
const SERVING: [&[&str]; 3] = [&[], &["--malloc", "plain"], &["--debug-hooks"]];

#[test]
fn a_library_that_binds_free_past_the_program_frees_blocks_of_the_host() {
    let library = compile(
        "bound_past.c",
        "bound_past.so",
        &["-shared", "-fPIC", "-ldl"],
    );
    let code = "import ctypes, os, sys
for mode in (os.RTLD_NOW, os.RTLD_LAZY | os.RTLD_DEEPBIND):
    library = sys.argv[1] if mode == os.RTLD_NOW else sys.argv[1] + '.deep'
    print(ctypes.CDLL(library, mode).bound_past())";
    let deep = library.with_extension("so.deep");
    std::fs::copy(&library, &deep).unwrap();
    for options in SERVING.iter().chain(&[&["--malloc", "off"][..]]) {
        let run = Run::host().args(*options).code(code).arg(&library);
        assert_eq!(run.ok().stdout, "1\n1\n", "{options:?}");
    }
}

#[test]
fn a_preloaded_library_that_binds_free_in_its_constructor_frees_blocks_of_the_host() {
    let options = [
        "-shared",
        "-fPIC",
        "-ldl",
        "-Dbound_past=__attribute__((constructor)) bound_past",
    ];
    let library = compile("bound_past.c", "bound_early.so", &options);
    for options in SERVING {
        let run = Run::host().args(options).env("LD_PRELOAD", &library);
        assert_eq!(run.code("print(1)").ok().stdout, "1\n", "{options:?}");
    }
}

#[test]
fn a_block_that_libcs_own_free_refuses_ends_the_process_with_a_line_that_says_why() {
    let library = compile("libcs_own.c", "libcs_own_free.so", &["-shared", "-fPIC"]);
    let code = "import ctypes, sys
void, libc, library = ctypes.c_void_p, ctypes.CDLL(None), ctypes.CDLL(sys.argv[1])
libc.malloc.restype = void
block = libc.malloc(1000)
# What libc takes for its header says nothing of its own.
ctypes.memset(block - 8, 0xf8, 8)
library.libcs_own_free(void(block))";
    for options in [&["--malloc", "plain"][..], &[], &["--stats=json"]] {
        let outcome = Run::host().args(options).code(code).arg(&library).run();
        assert_eq!(
            outcome.code(),
            128 + libc::SIGABRT,
            "{options:?} {outcome:?}"
        );
        let line = "a library has called libc's own free or realloc with a block of pyhost's";
        assert_eq!(
            outcome.stderr.matches(line).count(),
            1,
            "{options:?} {outcome:?}"
        );
    }
    // One that was given to the host's `free` is no library's doing.
    let code = "import ctypes
ctypes.CDLL(None).free(ctypes.c_void_p(ctypes.addressof(ctypes.create_string_buffer(b'\\xf8' * 64)) + 16))";
    let outcome = Run::host().code(code).run();
    assert_eq!(outcome.code(), 128 + libc::SIGABRT, "{outcome:?}");
    assert!(!outcome.stderr.contains("libc's own"), "{outcome:?}");
}

#[test]
fn a_preloaded_library_that_allocates_in_the_functions_that_malloc_calls_is_never_called_by_the_hosts()
 {
    if cfg!(not(target_arch = "x86_64")) {
        return skipped("the interposer is written for x86-64");
    }
    let functions = "clock_gettime memset memcpy memmove memcmp bcmp strlen mmap munmap mremap mprotect madvise syscall \
                     sysconf sysinfo prctl getenv pthread_mutex_lock pthread_setspecific sched_yield getauxval";
    let functions = functions
        .split_whitespace()
        .map(|name| format!("F({name}) "));
    let functions = format!("-DFUNCTIONS={}", functions.collect::<String>());
    let options = ["-shared", "-fPIC", "-ldl", &functions];
    let library = compile("interposer.c", "interposer.so", &options);
    let run = |run: Run| {
        run.env("LD_PRELOAD", &library)
            .arg(script("under_interposers.py"))
    };
    let stock = run(Run::stock()).ok();
    for options in SERVING {
        let host = run(Run::host().args(options)).ok();
        assert_eq!(host.stdout, stock.stdout, "{options:?}");
    }
}

#[test]
fn a_preloaded_clock_is_the_scripts_clock() {
    let code = "#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *time) { *time = (struct timespec){86400}; return 0; }";
    let source = crate::host::folder("c").join("stopped_clock.c");
    std::fs::write(&source, code).unwrap();
    let library = compile(
        source.to_str().unwrap(),
        "stopped_clock.so",
        &["-shared", "-fPIC"],
    );
    let run = Run::host().env("LD_PRELOAD", &library);
    let outcome = run.code("import time; print(time.time())").ok();
    assert_eq!(outcome.stdout, "86400.0\n");
}

#[test]
fn blocks_of_the_domains_and_of_malloc_are_freed_through_each_other() {
    let code = "import ctypes, pyhost, sys
api, libc = ctypes.pythonapi, ctypes.CDLL(None)
void = ctypes.c_void_p
for name in ('PyMem_RawMalloc', 'PyMem_Malloc', 'PyObject_Malloc'):
    getattr(api, name).restype = void
libc.malloc.restype = libc.realloc.restype = void
def live(account): return pyhost.memory_stats()['accounts'][account]['live_bytes']
for account, malloc in (('raw', api.PyMem_RawMalloc), ('mem', api.PyMem_Malloc), ('obj', api.PyObject_Malloc)):
    if account == 'obj' and 't' in sys.abiflags: continue  # CPython's own heap
    before = live(account)
    blocks = [malloc(10000) for _ in range(1000)]
    assert live(account) - before >= 10_000_000, account
    for block in blocks:
        libc.free(void(block))
    assert abs(live(account) - before) < 100_000, (account, live(account) - before)
before = live('native'), live('raw')
blocks = [libc.malloc(10000) for _ in range(1000)]
assert live('native') - before[0] >= 10_000_000
for block in blocks:
    api.PyMem_RawFree(void(block))
assert abs(live('native') - before[0]) < 100_000 and abs(live('raw') - before[1]) < 100_000
# A resize moves the block to the account of whoever resizes.
block = libc.malloc(50000)
api.PyMem_RawRealloc.restype = void
before = live('native'), live('raw')
block = api.PyMem_RawRealloc(void(block), 60000)
assert live('raw') - before[1] >= 60000 and before[0] - live('native') >= 50000
api.PyMem_RawFree(void(block))
print('ok')";
    assert_eq!(Run::host().code(code).ok().stdout, "ok\n");
}

#[test]
fn plain_serves_without_counting_and_off_leaves_the_family_to_libc() {
    let code = "import ctypes; libc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p
keep = [libc.malloc(100000) for _ in range(100)]";
    for mode in ["count", "plain", "off"] {
        let (outcome, report) = Run::host().args(["--malloc", mode, "-c", code]).reported();
        assert_eq!(outcome.code(), 0);
        assert_eq!(report["host"]["native"], mode);
        assert_eq!(report["accounts"]["native"]["active"], mode == "count");
        assert_eq!(
            report["allocator"],
            if mode == "off" { "system" } else { "mimalloc" }
        );
        let peak = figure(&report, "native", "peak_bytes");
        assert_eq!(peak > 10_000_000, mode == "count", "{mode}: {peak}");
        assert_eq!(peak > 0, mode == "count", "{mode}: {peak}");
    }
}

#[test]
fn an_account_that_is_not_active_has_no_bytes() {
    for (option, value) in [
        ("PYHOST_MALLOC", "plain"),
        ("PYHOST_MALLOC", "off"),
        ("PYHOST_ALLOCATOR", "system"),
        ("PYTHONMALLOC", "malloc"),
        ("PYHOST_ALLOCATOR", "pymalloc"),
    ] {
        if is_free_threaded() && ["malloc", "pymalloc"].contains(&value) {
            continue; // It refuses them.
        }
        let (_, report) = Run::host().env(option, value).code("pass").reported();
        for (name, account) in report["accounts"].as_object().unwrap() {
            let has_bytes = account["peak_bytes"] != 0 || account["total_blocks"] != 0;
            let is_active = account["active"] == true;
            assert!(
                is_active || !has_bytes,
                "{option}={value}: {name} {account}"
            );
        }
    }
}

#[test]
fn malloc_trim_and_mallinfo2_answer_for_the_real_heap() {
    let code = "import ctypes, pyhost
libc = ctypes.CDLL(None)
assert libc.malloc_trim(0) == 1
assert libc.mallopt(-3, 1 << 20) == 1
fields = 'arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost'.split()
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in fields]
class OldInfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in fields]
libc.mallinfo2.restype, libc.mallinfo.restype = Info, OldInfo
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
def grown_by(size):
    before = libc.mallinfo2()
    block = libc.malloc(size)
    after, old = libc.mallinfo2(), libc.mallinfo()
    assert old.uordblks == after.uordblks and old.hblkhd == after.hblkhd, (old.hblkhd, after.hblkhd)
    libc.free(ctypes.c_void_p(block))
    return [getattr(after, name) - getattr(before, name) for name in ('uordblks', 'hblks', 'hblkhd')]
assert grown_by(50_000)[1:] == [0, 0] and 50_000 <= grown_by(50_000)[0] < 60_000, grown_by(50_000)
assert grown_by(10 << 20)[:2] == [0, 1] and 10 << 20 <= grown_by(10 << 20)[2] < 11 << 20, grown_by(10 << 20)
accounts = pyhost.memory_stats()['accounts']
live = sum(accounts[name]['live_bytes'] for name in ('raw', 'native', 'numpy'))
info = libc.mallinfo2()
assert abs(info.uordblks + info.hblkhd - live) < 100_000, (info.uordblks, info.hblkhd, live)
kept = [libc.malloc(1000) for _ in range(60_000)]
libc.malloc_stats()
libc.malloc_info(0, ctypes.c_void_p(libc.fdopen(1, b'w')))
libc.fflush(None)";
    let outcome = Run::host().code(code).ok();
    let in_use = outcome.stderr.lines();
    let in_use = in_use.filter_map(|line| line.strip_prefix("in use bytes     ="));
    let in_use: Vec<u64> = in_use.map(|bytes| bytes.trim().parse().unwrap()).collect();
    let is_right = |bytes: &u64| (60_000_000..70_000_000).contains(bytes);
    assert!(
        in_use.len() == 2 && in_use.iter().all(is_right),
        "{outcome:?}"
    );
    assert!(outcome.stdout.ends_with("</malloc>\n"), "{outcome:?}");
}

#[test]
fn large_blocks_share_maps_however_much_is_reserved() {
    // Of 176 GiB nothing is touched.
    if std::fs::read_to_string("/proc/sys/vm/overcommit_memory")
        .is_ok_and(|mode| mode.trim() == "2")
    {
        return skipped("the system promises no more memory than it has");
    }
    let code = "import ctypes
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
def maps(): # The heap's table has a map of its own for each 512 MiB, which the system may merge.
    ends = [[int(end, 16) for end in line.split()[0].split('-')] for line in open('/proc/self/maps')]
    return sum(last - first >= 1 << 20 for first, last in ends)
before = maps()
assert all(malloc(24 << 20) for _ in range(176 * 1024 // 24))
print(maps() - before)";
    let maps: u32 = Run::host().code(code).ok().stdout.trim().parse().unwrap();
    assert!(maps < 400, "{maps}");
}

#[test]
fn a_block_of_malloc_that_is_freed_twice_or_inside_ends_the_process_with_its_account_and_size() {
    for mode in ["count", "plain"] {
        let run = Run::host().args(["--malloc", mode]);
        let outcome = run.arg(script("bad_frees.py")).timeout(300).run();
        assert_eq!(outcome.last_line(), "all refused", "{mode} {outcome:#?}");
    }
}

#[test]
fn what_is_freed_once_never_counts_as_freed_twice() {
    // Blocks that are given out again with what they held, among them what a freed block holds.
    let code = "import ctypes, random
libc = ctypes.CDLL(None)
void, size_t = ctypes.c_void_p, ctypes.c_size_t
for function in (libc.malloc, libc.calloc, libc.realloc, libc.aligned_alloc):
    function.restype = void
random.seed(1)
live, sizes = [], [1, 8, 16, 40, 100, 1000, 1025, 5000, 40000, 200000, 2000000]
for _ in range(60000):
    if len(live) > 300 or live and random.random() < 0.45:
        block = live.pop(random.randrange(len(live)))
        if random.random() < 0.2:
            live.append(libc.realloc(void(block), size_t(random.choice(sizes))))
        else:
            libc.free(void(block))
        continue
    size = random.choice(sizes)
    block = (libc.malloc(size_t(size)), libc.calloc(size_t(1), size_t(size)))[random.random() < 0.3] \\
        if random.random() < 0.8 else libc.aligned_alloc(size_t(64), size_t(size))
    if size >= 16 and random.random() < 0.3:
        ctypes.memmove(block, live[-1] if live else block, 8)
    live.append(block)
for block in live:
    libc.free(void(block))
print('ok')";
    for mode in ["count", "plain"] {
        let run = Run::host().args(["--malloc", mode]);
        assert_eq!(run.code(code).ok().stdout, "ok\n");
    }
}
