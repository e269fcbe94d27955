//! CPython's debug hooks over the host's allocators catch what they catch over CPython's own.

use crate::free_threaded::{NO_OWN_DEBUG_HOOKS, is_free_threaded};
use crate::host::{ALLOCATORS, Outcome, Run, compile, script, version};
use crate::native_stacks;
use crate::skipping::skipped;

fn bug(name: &str) -> Outcome {
    Run::host()
        .args(["--debug-hooks", "-X", "faulthandler"])
        .arg(script("memory_bugs.py"))
        .arg(name)
        .run()
}

#[test]
fn an_overflow_is_caught_in_every_domain() {
    for domain in ["raw", "mem", "obj"] {
        let outcome = bug(&format!("overflow-{domain}"));
        assert_eq!(outcome.code(), 134, "{outcome:#?}");
        assert!(
            outcome.stderr.contains("bad trailing pad byte"),
            "{domain}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("requested"),
            "a dump of the block: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("memory_bugs.py"),
            "Python's traceback: {}",
            outcome.stderr
        );
    }
}

#[test]
fn an_overflow_names_the_allocation_under_tracemalloc() {
    let outcome = Run::host()
        .args(["--debug-hooks", "-X", "tracemalloc=5"])
        .arg(script("memory_bugs.py"))
        .arg("overflow-mem")
        .run();
    assert_eq!(outcome.code(), 134);
    assert!(
        outcome
            .stderr
            .contains("Memory block allocated at (most recent call first)"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn an_underflow_is_caught() {
    let outcome = bug("underflow");
    assert_eq!(outcome.code(), 134, "{outcome:#?}");
    assert!(
        outcome.stderr.contains("FORBIDDENBYTE"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_free_by_another_domain_is_caught() {
    let outcome = bug("wrong-domain");
    assert_eq!(outcome.code(), 134, "{outcome:#?}");
    let text = "bad ID: Allocated using API 'm', verified using API 'r'";
    assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
}

#[test]
fn a_call_without_the_gil_is_caught() {
    for domain in ["mem", "obj"] {
        let outcome = bug(&format!("no-gil-{domain}"));
        assert_eq!(outcome.code(), 134, "{outcome:#?}");
        let text = "Python memory allocator called without holding the GIL";
        assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
    }
}

/// The host's own lines.
fn said(outcome: &Outcome) -> Vec<&str> {
    let lines = outcome.stderr.lines();
    lines.filter(|line| line.starts_with("pyhost:")).collect()
}

#[test]
fn a_double_free_names_the_block_and_both_lines() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let outcome = bug("double-free");
    assert_eq!(outcome.code(), 134, "{outcome:#?}");
    let [line] = said(&outcome)[..] else {
        panic!("{outcome:#?}");
    };
    for part in [
        "pyhost: PyMem_Free(): invalid pointer 0x",
        ": a block of 40 bytes of the account mem",
        "freed before",
    ] {
        assert!(line.contains(part), "{line}");
    }
    if places_are_known() {
        assert_eq!(line.matches("memory_bugs.py:").count(), 2, "{line}");
    }
}

/// Whether a line of Python that allocates is known: up to CPython 3.13.
fn places_are_known() -> bool {
    version() <= (3, 13)
}

#[test]
fn fresh_and_freed_memory_is_filled() {
    let outcome = bug("fill");
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(outcome.stdout, "cdcdcdcdcdcdcdcd\ndddddddddddddddd\n");
}

#[test]
fn a_write_after_free_is_found_at_the_end() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let outcome = bug("write-after-free");
    assert_eq!(outcome.code(), 134, "{outcome:#?}");
    let [line] = said(&outcome)[..] else {
        panic!("{outcome:#?}");
    };
    assert!(
        line.starts_with("pyhost: at the end: a block of 400 bytes of the account mem"),
        "{line}"
    );
    assert!(
        line.contains(" was written to after it was freed")
            && line.ends_with(": byte 100 is 0x58, expected 0xdd"),
        "{line}"
    );
}

#[test]
fn a_write_after_free_is_found_when_the_block_leaves_the_quarantine() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let code = "import ctypes, os
block = ctypes.CDLL(None).malloc
block.restype = ctypes.c_void_p
free = ctypes.CDLL(None).free
free.argtypes = (ctypes.c_void_p,)
address = block(5000)
free(address)
ctypes.memset(address + 4999, 0x58, 1)
for _ in range(2000):
    free(block(100000))
os._exit(0)";
    let outcome = Run::host().args(["--debug-hooks", "-c", code]).run();
    assert_eq!(outcome.code(), 134, "{outcome:#?}");
    let line = said(&outcome).join("");
    assert!(
        line.contains("a block of 5000 bytes of the account native")
            && line.ends_with(": byte 4999 is 0x58, expected 0xdd"),
        "{line}"
    );
}

#[test]
fn check_heap_gives_a_line_for_each_damaged_block() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let code = "import ctypes, pyhost
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
raw = ctypes.pythonapi.PyMem_Malloc
raw.restype = ctypes.c_void_p
assert pyhost.check_heap() == []
past, before, pythons = malloc(40), malloc(50), raw(60)
ctypes.memset(past + 40, 1, 2)
ctypes.memset(before - 3, 1, 3)
ctypes.memset(pythons + 60, 1, 1)
found = sorted(line.split(' (')[0].partition(', ')[0] for line in pyhost.check_heap())
assert found == ['1 byte past the end of a block of 60 bytes of the account mem',
    '2 bytes past the end of a block of 40 bytes of the account native',
    '3 bytes before the start of a block of 50 bytes of the account native'], found
ctypes.memset(past + 40, 0xfd, 2)
ctypes.memset(before - 3, 0xfd, 3)
ctypes.memset(pythons + 60, 0xfd, 1)
assert pyhost.check_heap() == []";
    Run::host().args(["--debug-hooks", "-c", code]).ok();
    let outcome = Run::host().code("import pyhost; pyhost.check_heap()").run();
    assert_eq!(outcome.code(), 1, "{outcome:#?}");
    assert_eq!(
        outcome.stderr.lines().last(),
        Some("RuntimeError: check_heap: expected --debug-hooks, over allocators on mimalloc")
    );
}

#[test]
fn hooks_that_are_set_up_again_go_on() {
    let code = "import ctypes, json
ctypes.pythonapi.PyMem_SetupDebugHooks()
assert json.loads(json.dumps([{'n': n} for n in range(1000)]))[999] == {'n': 999}
print('done')";
    let outcome = Run::host().args(["--debug-hooks", "-c", code]).ok();
    assert_eq!(outcome.stdout, "done\n");
}

#[test]
fn mallocs_family_keeps_its_promises() {
    let code = "import ctypes, os, random, threading
libc = ctypes.CDLL(None)
def function(name, result, *arguments):
    found = libc[name]
    found.restype, found.argtypes = result, arguments
    return found
address, size = ctypes.c_void_p, ctypes.c_size_t
malloc = function('malloc', address, size)
calloc = function('calloc', address, size, size)
realloc = function('realloc', address, address, size)
reallocarray = function('reallocarray', address, address, size, size)
memalign = function('memalign', address, size, size)
aligned = function('aligned_alloc', address, size, size)
posix = function('posix_memalign', ctypes.c_int, ctypes.POINTER(address), size, size)
usable = function('malloc_usable_size', size, address)
free = function('free', None, address)
def work(seed):
    draw = random.Random(seed)
    kept = {}
    for step in range(3000):
        count = draw.choice((1, 15, 16, 17, 100, 1000, 5000, 70000))
        kind = draw.randrange(7)
        if kind == 0:
            block = malloc(count)
        elif kind == 1:
            block = calloc(1, count)
            assert ctypes.string_at(block, count) == bytes(count)
        elif kind == 2:
            alignment = 1 << draw.randrange(4, 17)
            block = memalign(alignment, count)
            assert block % alignment == 0
        elif kind == 3:
            block = aligned(64, count)
            assert block % 64 == 0
        elif kind == 4:
            place = address()
            assert posix(ctypes.byref(place), 4096, count) == 0 and place.value % 4096 == 0
            block = place.value
        elif kept:
            old, (length, byte) = kept.popitem()
            block = realloc(old, count) if kind == 5 else reallocarray(old, count, 1)
            same = min(length, count)
            assert ctypes.string_at(block, same) == bytes((byte,)) * same
        else:
            continue
        assert block % 16 == 0 and usable(block) >= count
        byte = draw.randrange(256)
        ctypes.memset(block, byte, usable(block))
        kept[block] = count, byte
        if len(kept) > 50:
            free(kept.popitem()[0])
    for block in kept:
        free(block)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
[thread.start() for thread in threads]
for _ in range(5):
    child = os.fork()
    if child == 0:
        work(9)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
[thread.join() for thread in threads]
assert realloc(malloc(1), 0) is None
print('done')";
    for options in [
        &["--debug-hooks"][..],
        &["--debug-hooks", "--guard=all"],
        &["--debug-hooks", "--fail", "native=above=1T"],
        &["--debug-hooks", "--lines=4K"],
    ] {
        let outcome = Run::host()
            .args(options)
            .args(["-c", code])
            .timeout(300)
            .ok();
        assert_eq!(outcome.stdout, "done\n", "{options:?}");
    }
}

#[test]
fn a_record_that_was_written_over_is_found_at_the_end() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    for code in ["p = malloc(100)", "p = malloc(100); free(p)"] {
        let code = format!("{ALLOCATORS}{code}; ctypes.memset(p - 64, 0, 64)");
        let outcome = Run::host().args(["--debug-hooks", "-c", &code]).run();
        assert_eq!(outcome.code(), 134, "{outcome:#?}");
        let expected = "at the end: bytes before the start of a block of the account native at 0x";
        assert!(outcome.stderr.contains(expected), "{outcome:#?}");
    }
}

#[test]
fn the_quarantine_gives_way_and_great_alignments_are_served() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let code = "for _ in range(50): block = bytearray(8_000_000); block = None
print('ok')";
    for bound in [&["--region", "48M"][..], &["--cap", "48M"]] {
        let run = Run::host().arg("--debug-hooks").args(bound);
        assert_eq!(run.code(code).ok().stdout, "ok\n", "{bound:?}");
    }
    let code = format!(
        "{ALLOCATORS}for shift in (4, 12, 16, 17, 22, 24, 30):
    p = aligned_alloc(1 << shift, 100)
    assert p % (1 << shift) == 0
    ctypes.memset(p, 1, 100)
    free(realloc(p, 200))
print('ok')"
    );
    let outcome = Run::host().args(["--debug-hooks", "-c", &code]).ok();
    assert_eq!(outcome.stdout, "ok\n");
}

#[test]
fn what_is_right_is_not_reported_at_the_end() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    // Blocks of no bytes that a pointer leads to, and children that libc's handlers of a fork know nothing of, made
    // while another thread allocates. They run no bytecode, which could wait for the GIL.
    let code = format!(
        "{ALLOCATORS}import os, threading
kept = (ctypes.c_void_p * 20)(*(malloc(0) for _ in range(20)))
ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
libc = ctypes.CDLL(None)  # without the GIL
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def work():
    while not done: libc.free(libc.malloc(200))
done = []
thread = threading.Thread(target=work)
thread.start()
stack = ctypes.create_string_buffer(1 << 20)
top = ctypes.c_void_p(ctypes.addressof(stack) + len(stack) & -64)
for _ in range(5):
    child = libc.clone(libc.exit, top, {SIGCHLD}, None)
    assert child > 0 and os.waitpid(child, 0)[1] == 0
done.append(1)
thread.join()
print('ok')",
        SIGCHLD = libc::SIGCHLD
    );
    let outcome = Run::host().args(["--debug-hooks", "-c", &code]).ok();
    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.as_str()),
        ("ok\n", "")
    );
}

/// The processor does not tell the address of such a fault.
#[test]
fn a_fault_by_a_pointer_of_fill_bytes_says_what_the_memory_was() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    if !cfg!(target_arch = "x86_64") {
        return skipped("the registers of a fault are read on x86-64 only");
    }
    let code = "import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
block = libc.malloc(64)
print('live', flush=True)
FREE
pointer = ctypes.c_void_p.from_address(block).value
ctypes.string_at(pointer + 24, 1)";
    for (free, words) in [
        (
            "libc.free(block)",
            "read from freed memory: a register has 0xdddddddddddd",
        ),
        (
            "",
            "read from memory that nobody has written to: a register has 0xcdcdcdcdcdcd",
        ),
    ] {
        let code = code.replace("FREE", free);
        let outcome = Run::host().args(["--debug-hooks", "-c", &code]).run();
        assert_eq!(outcome.code(), 128 + libc::SIGSEGV, "{outcome:#?}");
        let line = format!("pyhost: access to no memory, probably by a pointer that was {words}");
        assert!(outcome.stderr.starts_with(&line), "{outcome:#?}");
        // Without the hooks the bytes are not theirs.
        let outcome = Run::host().code(&code).run();
        assert!(!outcome.stderr.contains("access to"), "{outcome:#?}");
    }
    // The calls of any other fault are said, too.
    let code = "import ctypes
ctypes.string_at(16, 1)";
    let outcome = Run::host().args(["--debug-hooks", "-c", code]).run();
    assert_eq!(outcome.code(), 128 + libc::SIGSEGV, "{outcome:#?}");
    let line = "pyhost: SIGSEGV at address 0x10\n  found in:\n";
    assert!(
        native_stacks::reason().is_some() || outcome.stderr.starts_with(line),
        "{outcome:#?}"
    );
    // By the frame's register, which code without frame pointers uses like any other: the signal is SIGBUS.
    let library = compile(
        "by_frame_register.c",
        "by_frame_register.so",
        &["-shared", "-fPIC"],
    );
    let code = format!("import ctypes; ctypes.CDLL({:?}).load_freed()", &*library);
    let outcome = Run::host().args(["--debug-hooks", "-c", &code]).run();
    assert_eq!(outcome.code(), 128 + libc::SIGBUS, "{outcome:#?}");
    let line = "pyhost: access to no memory, probably by a pointer that was read from freed memory";
    assert!(outcome.stderr.starts_with(line), "{outcome:#?}");
}

#[test]
fn bytes_written_before_a_block_of_pythons_are_counted_whichever_pads_they_hit() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    // Offset, length, and how far in front the first of them is. CPython's own line follows.
    for (offset, length, count) in [
        (-1, 1, 1),
        (-8, 1, 8),
        (-8, 8, 8),
        (-16, 16, 16),
        (-9, 1, 9),
        (-12, 4, 12),
        (-16, 1, 16),
    ] {
        for (take, give) in [("take", "give"), ("take_object", "give_object")] {
            let code = format!(
                "{ALLOCATORS}p = {take}(100); ctypes.memset(p + {offset}, 1, {length}); {give}(p)"
            );
            let outcome = Run::host().args(["--debug-hooks", "-c", &code]).run();
            assert!(
                [128 + libc::SIGABRT, 128 + libc::SIGSEGV].contains(&outcome.code()),
                "{outcome:#?}"
            );
            let plural = if count == 1 { "" } else { "s" };
            let words =
                format!("Free(): {count} byte{plural} before the start of a block of 100 bytes");
            assert!(
                outcome
                    .stderr
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .contains(&words),
                "{outcome:#?}"
            );
        }
    }
}

#[test]
fn the_first_byte_that_was_written_to_a_freed_block_is_named() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    for (offset, length, byte, fill) in [
        (3, 1, 3, "0xdd"),
        (16, 10, 16, "0xfd"),
        (20, 4, 20, "0xfd"),
        (-4, 4, -4, "0xfd"),
    ] {
        let code = format!(
            "{ALLOCATORS}p = malloc(16); free(p); ctypes.memset(p + {offset}, 1, {length})"
        );
        let outcome = Run::host().args(["--debug-hooks", "-c", &code]).run();
        let words = format!(": byte {byte} is 0x01, expected {fill}\n");
        assert!(outcome.stderr.contains(&words), "{outcome:#?}");
    }
}

/// The block that was written past its end is named, and not its neighbour.
#[test]
fn a_long_overflow_names_its_own_block() {
    if is_free_threaded() {
        return skipped(NO_OWN_DEBUG_HOOKS);
    }
    let code = format!(
        "{ALLOCATORS}blocks = sorted(malloc(32) for _ in range(200))
first = next(a for a, b in zip(blocks, blocks[1:]) if b - a < 200)
ctypes.memset(first, 1, 200)
free(blocks[blocks.index(first) + 1])"
    );
    let outcome = Run::host().args(["--debug-hooks", "-c", &code]).run();
    assert_eq!(outcome.code(), 128 + libc::SIGABRT, "{outcome:#?}");
    let line = outcome.stderr.lines().next().unwrap_or_default();
    let is_named = line.starts_with("pyhost: free(): at least ")
        && line.contains("past the end of a block of 32 bytes of the account native")
        && line.ends_with(", overwritten, and so the record of the next block");
    assert!(is_named, "{outcome:#?}");
}

#[test]
fn where_another_allocator_has_the_blocks_a_line_says_that_cpythons_hooks_are_alone() {
    for option in ["--malloc=plain", "--malloc=off", "--allocator=pymalloc"] {
        let outcome = Run::host().args(["--debug-hooks", option]).code("pass");
        let errors = outcome.ok().stderr;
        let line = errors
            .lines()
            .find(|line| line.starts_with("pyhost: --debug-hooks: "));
        assert!(
            line.is_some_and(|it| it.ends_with(" CPython's own hooks alone")),
            "{errors}"
        );
    }
    let outcome = Run::host().arg("--malloc=off").env("PYTHONMALLOC", "debug");
    assert_eq!(outcome.code("pass").ok().stderr, "");
}
