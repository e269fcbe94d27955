//! The account `mapped`: what libraries map past malloc.

use crate::free_threaded::{KEPT_BY_CPYTHON, is_free_threaded};
use crate::host::{Run, compile, figure, machine_mebibytes, script};
use crate::skipping::skipped;

const CALLS: &str = "import mmap, pyhost
def mapped(): return pyhost.memory_stats()['accounts']['mapped']['live_bytes']
def private(size): return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
";

#[test]
fn what_libraries_map_is_booked_to_the_byte_as_the_kernel_lists_it() {
    for seed in ["1", "2"] {
        let outcome = Run::host().arg(script("exact_mapped.py")).arg(seed).run();
        assert_eq!(
            (outcome.code(), outcome.last_line()),
            (0, "exact"),
            "{outcome:#?}"
        );
    }
}

#[test]
fn a_plain_script_has_nothing_mapped_and_the_hosts_own_maps_do_not_count() {
    let code = format!("{CALLS}data = [bytes(100_000) for _ in range(1000)]\nassert mapped() == 0");
    let (outcome, report) = Run::host().code(&code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(figure(&report, "mapped", "total_blocks"), 0);
    assert_eq!(report["accounts"]["mapped"]["active"], true);
}

#[test]
fn maps_are_in_the_report_beside_the_total() {
    let code = format!("{CALLS}kept = [private(8 << 20) for _ in range(4)]\ndel kept[1:]");
    let (outcome, report) = Run::host().code(&code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    assert_eq!(figure(&report, "mapped", "live_bytes"), 8 << 20);
    assert_eq!(figure(&report, "mapped", "peak_bytes"), 32 << 20);
    assert_eq!(figure(&report, "mapped", "total_blocks"), 4);
    let total = report["total"]["peak_bytes"].as_i64().unwrap();
    assert!(total < 32 << 20, "{total}");
    let text = Run::host().arg("--stats").code(&code).ok().stderr;
    let line = |name: &str| text.lines().position(|line| line.starts_with(name));
    assert!(line("mapped") > line("total "), "{text}");
}

#[test]
fn a_private_or_shared_file_and_shared_memory_do_not_count() {
    let code = format!(
        "{CALLS}import sys
shared = mmap.mmap(-1, 1 << 20)
with open(sys.executable, 'rb') as file: text = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
assert mapped() == 0
one = private(1 << 20)
assert mapped() == 1 << 20"
    );
    Run::host().code(&code).ok();
}

#[test]
fn a_map_found_in_libc_itself_and_one_of_mmap64_are_seen() {
    let code = format!(
        "{CALLS}import ctypes
for library in (ctypes.CDLL('libc.so.6'), ctypes.CDLL(None)):
    for name in ('mmap', 'mmap64'):
        call = getattr(library, name)
        call.restype = ctypes.c_void_p
        before = mapped()
        start = call(None, ctypes.c_size_t(5000), 3, 0x22, -1, ctypes.c_long(0))
        assert mapped() == before + 2 * mmap.PAGESIZE or mmap.PAGESIZE > 4096, (name, mapped())
        library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        assert library.munmap(start, 5000) == 0 and mapped() == before, name"
    );
    Run::host().code(&code).ok();
}

#[test]
fn threads_signal_handlers_and_forked_children_that_map_at_once_lose_nothing() {
    let library = compile("map_storm.c", "map_storm.so", &["-shared", "-fPIC"]);
    let code = format!(
        "{CALLS}import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.map_storm.restype = ctypes.c_long
before = mapped()
handled = library.map_storm(ctypes.c_long(400), 20)
assert handled > 0, handled
# A turn leaves five pieces by mremap and none but read-only ones beside them.
grown = mapped() - before
assert grown == 4 * 400 * 5 * (64 << 10), grown
print('whole')"
    );
    let outcome = Run::host().code(&code).arg(&library).ok();
    assert_eq!(outcome.stdout, "whole\n");
}

#[test]
fn a_fork_takes_its_parents_maps_along_and_unmaps_its_own_copy() {
    let code = format!(
        "{CALLS}import os
kept = [private(1 << 20) for _ in range(3)]
child = os.fork()
if child == 0:
    ok = mapped() == 3 << 20
    kept.pop().close()
    os._exit(0 if ok and mapped() == 2 << 20 else 1)
assert os.waitpid(child, 0)[1] == 0
assert mapped() == 3 << 20"
    );
    Run::host().code(&code).ok();
}

#[test]
fn a_cap_on_mapped_refuses_with_enomem_and_a_map_given_back_makes_room() {
    let code = format!(
        "{CALLS}kept = []
try:
    while True: kept.append(private(1 << 20))
except OSError as error:
    import errno
    assert error.errno == errno.ENOMEM, error
except MemoryError: pass
assert 8 <= len(kept) <= 16, len(kept)
assert mapped() <= 16 << 20
refusal = pyhost.last_refusal()
assert (refusal['account'], refusal['scope'], refusal['how']) == ('mapped', 'mapped', 'null'), refusal
assert (refusal['size_bytes'], refusal['cap_bytes']) == (1 << 20, 16 << 20), refusal
del kept[4:]
kept.append(private(1 << 20))
print('room')"
    );
    let (outcome, report) = Run::host()
        .args(["--cap", "mapped=16M"])
        .code(&code)
        .reported();
    assert_eq!(outcome.last_line(), "room", "{outcome:#?}");
    let line = "pyhost: cap of 16.0 MiB (mapped) reached: mapped asked for 1048576 bytes";
    assert_eq!(outcome.stderr.matches(line).count(), 1, "{outcome:#?}");
    assert_eq!(report["caps"]["dossier"]["scope"], "mapped");
}

#[test]
fn a_forced_failure_of_a_map_is_an_error_that_the_script_sees() {
    let code = format!(
        "{CALLS}one = private(4096)
try: two = private(4096)
except OSError as error: print(error.errno)
three = private(4096)"
    );
    let (outcome, report) = Run::host()
        .args(["--fail", "mapped=2"])
        .code(&code)
        .reported();
    assert_eq!(
        (outcome.code(), outcome.last_line()),
        (0, "12"),
        "{outcome:#?}"
    );
    assert_eq!(figure(&report, "mapped", "injected"), 1);
}

#[test]
fn where_malloc_is_left_to_another_allocator_maps_are_not_counted() {
    for mode in ["off", "plain"] {
        let code = format!("{CALLS}kept = private(1 << 20)\nassert mapped() == 0");
        let (outcome, report) = Run::host().args(["--malloc", mode]).code(&code).reported();
        assert_eq!(outcome.code(), 0, "{outcome:#?}");
        assert_eq!(report["accounts"]["mapped"]["active"], false);
    }
}

#[test]
fn the_balance_sheet_names_the_library_that_mapped_and_explains_its_pages() {
    let code = format!(
        "{CALLS}kept = [private(2 << 20) for _ in range(20)]
for one in kept: one.write(b'x' * (1 << 20))
balance = pyhost.balance_sheet()
assert abs(balance['remainder_bytes']) < 2 << 20, balance"
    );
    let (outcome, report) = Run::host().code(&code).reported();
    assert_eq!(outcome.code(), 0, "{outcome:#?}");
    let libraries = report["balance"]["mapped"].as_array().unwrap();
    let bytes = |name: &str| libraries[0][name].as_u64().unwrap();
    assert_eq!(libraries.len(), 1, "{libraries:?}");
    let name = libraries[0]["library"].as_str().unwrap();
    assert!(
        name.starts_with("mmap.") || name.starts_with("libpython"),
        "{name}"
    );
    assert_eq!(bytes("mapped_bytes"), 40 << 20);
    assert!((20 << 20..=42 << 20).contains(&bytes("resident_bytes")));
    let rows = report["balance"]["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "mapped").unwrap();
    assert_eq!(
        row["resident_bytes"].as_u64(),
        Some(bytes("resident_bytes"))
    );
}

/// `--cap auto` for a share of the machine of about so many MiB: no control group is needed.
fn share_of_machine(mebibytes: u64) -> String {
    (machine_mebibytes() / mebibytes).max(1).to_string()
}

#[test]
fn a_script_that_maps_up_to_its_share_catches_a_memory_error_and_goes_on() {
    // Also where maps are made and touched by a thread while the main thread only looks on.
    for touch in [
        "one.write(data)",
        "thread = threading.Thread(target=one.write, args=(data,)); thread.start(); thread.join()",
    ] {
        for step in ["1 << 18", "1 << 20", "8 << 20"] {
            let code = format!(
                "{CALLS}import threading
kept = []
data = b'x' * ({step})
try:
    while len(kept) * ({step}) < 1 << 30:
        one = private({step})
        {touch}
        kept.append(one)
except MemoryError as error:
    caught = str(error)
del kept, one
rows = [{{'id': i, 'name': str(i)}} for i in range(20000)]
assert 'nearly reached: mapped asked for' in caught, caught
assert pyhost.last_refusal()['account'] == 'mapped', pyhost.last_refusal()
print('on with it')"
            );
            let share = share_of_machine(200);
            let outcome = Run::host()
                .args(["--cap", "auto", "--cap-share", &share])
                .code(&code)
                .ok();
            assert_eq!(outcome.last_line(), "on with it", "{outcome:#?}");
        }
    }
}

#[test]
fn an_error_waits_for_the_map_that_it_was_raised_for_to_be_touched() {
    // Wherever the steps meet the limit: with some of these, what was left looked like enough until the map was touched,
    // the error was withdrawn, and the next map failed.
    for first in (1..32).map(|step| step << 18) {
        let code = format!(
            "{CALLS}first = private({first})
first.write(b'x' * {first})
kept = []
data = b'x' * (8 << 20)
try:
    while len(kept) < 100:
        one = private(8 << 20)
        one.write(data)
        kept.append(one)
except MemoryError as error:
    assert 'nearly reached: mapped asked for' in str(error), error
    print('caught')"
        );
        let share = share_of_machine(200);
        let outcome = Run::host()
            .args(["--cap", "auto", "--cap-share", &share])
            .code(&code)
            .ok();
        assert_eq!(outcome.last_line(), "caught", "{first}: {outcome:#?}");
    }
}

#[test]
fn a_map_that_is_given_back_again_and_again_raises_one_error_at_most() {
    if is_free_threaded() {
        return skipped(KEPT_BY_CPYTHON);
    }
    for first in (160..176).step_by(3) {
        let code = format!(
            "{CALLS}first = private({first} << 20)
errors = 0
try:
    first.write(b'x' * len(first))
except MemoryError:
    pass
for _ in range(100):
    try:
        private(8 << 20).close()
    except MemoryError:
        errors += 1
print(errors)"
        );
        let share = share_of_machine(200);
        let outcome = Run::host()
            .args(["--cap", "auto", "--cap-share", &share])
            .code(&code)
            .ok();
        let errors: u32 = outcome.last_line().parse().unwrap();
        assert!(errors <= 1, "{first}: {outcome:#?}");
    }
}

#[test]
fn a_script_whose_own_request_does_not_fit_beside_its_maps_has_one_error() {
    // Which comes first is open: what the kernel charges, the bytes that are to be written, or the next map (on 3.14).
    let code = format!(
        "{CALLS}import threading
kept = []
try:
    while len(kept) < 128:
        one = private(8 << 20)
        thread = threading.Thread(target=one.write, args=(b'x' * len(one),))
        thread.start(); thread.join()
        kept.append(one)
except (MemoryError, OSError) as error:
    caught = str(error)
    rows = [{{'id': i}} for i in range(2000)]
del kept, one
refused = pyhost.last_refusal()['account']
is_map = 'nearly reached: mapped' in caught or 'Errno 12' in caught
assert refused == ('mapped' if is_map else 'obj'), (refused, caught)
print('on with it')"
    );
    let share = share_of_machine(200);
    for _ in 0..10 {
        let outcome = Run::host()
            .args(["--cap", "auto", "--cap-share", &share])
            .code(&code)
            .ok();
        assert_eq!(outcome.last_line(), "on with it", "{outcome:#?}");
    }
}

#[test]
fn a_reserve_far_above_the_limit_is_refused_and_the_script_is_not_told() {
    let code = format!(
        "{CALLS}try: private(1 << 30)
except OSError as error: print(error.errno)
assert pyhost.last_refusal() is None
data = [bytes(1000) for _ in range(10000)]
print('on with it')"
    );
    let share = share_of_machine(200);
    let outcome = Run::host()
        .args(["--cap", "auto", "--cap-share", &share])
        .code(&code)
        .ok();
    assert_eq!(outcome.stdout, "12\non with it\n", "{outcome:#?}");
    // An allocator makes do with less: that is no news.
    assert!(!outcome.stderr.contains("reached"), "{outcome:#?}");
}

#[test]
fn a_map_that_is_refused_and_the_error_that_is_raised_for_it_count_once() {
    let code = format!(
        "{CALLS}import ctypes, os, sys
from functools import partial
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_ssize_t, [ctypes.c_ssize_t, ctypes.c_size_t] + [ctypes.c_long] * 4
limit = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGESIZE') // int(sys.argv[1])
with open('/proc/self/statm') as file: _, resident, shared, *_ = map(int, file.read().split())
big = private(limit - (resident - shared) * mmap.PAGESIZE - (6 << 20))
place = ctypes.addressof(ctypes.c_char.from_buffer(big))
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
# No safe point between the two.
calls = [partial(ctypes.memset, place, 1, len(big)), partial(libc.mmap, 0, 8 << 20, 3, flags, -1, 0)]
got = []
try:
    got.extend(map(partial.__call__, calls))
    str(got)
except MemoryError: got.append('raised')
mapped = pyhost.memory_stats()['accounts']['mapped']
print(*got[1:], mapped['refused'], pyhost.last_refusal()['number'])"
    );
    let share = share_of_machine(200);
    let outcome = Run::host()
        .args(["--cap", "auto", "--cap-share", &share])
        .code(&code)
        .arg(&share)
        .ok();
    assert_eq!(outcome.stdout, "-1 raised 1 1\n", "{outcome:#?}");
}
