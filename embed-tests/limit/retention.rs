//! `--retain`: what the heaps keep of what was freed.

use crate::environments::newest_numpy;
use crate::free_threaded::{KEPT_BY_CPYTHON, is_free_threaded};
use crate::host::Run;
use crate::skipping::skipped;

/// Resident bytes at the peak and after most of it was freed.
fn peak_and_after(run: Run) -> (u64, u64) {
    let code = "import gc, os
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE')
keep = [{'a': [n, n + 1, str(n)], 'b': float(n)} for n in range(200_000)]
peak = resident()
del keep
gc.collect()
print(peak, resident())";
    let outcome = run.code(code).ok();
    let mut numbers = outcome
        .stdout
        .split_whitespace()
        .map(|word| word.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn the_small_profile_gives_memory_back_at_once() {
    if is_free_threaded() {
        return skipped(KEPT_BY_CPYTHON);
    }
    let (peak, after) = peak_and_after(Run::host().args(["--retain", "small"]));
    assert!(peak > 80_000_000 && after < 40_000_000, "{peak} {after}");
}

#[test]
fn a_program_that_goes_on_gives_back_what_it_freed_in_bulk() {
    if is_free_threaded() {
        return skipped(KEPT_BY_CPYTHON);
    }
    let code = "import gc, os, time
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE')
keep = [{'a': [n, n + 1, str(n)], 'b': float(n)} for n in range(200_000)]
peak = resident()
del keep
gc.collect()
end = time.monotonic() + 20
few = []
while resident() > 40_000_000 and time.monotonic() < end:
    few.append(b'x' * 1000)  # no more than the pages that it has would meet
    time.sleep(0.02)
print(peak, resident(), len(few))";
    let outcome = Run::host().code(code).ok();
    let numbers: Vec<u64> = outcome
        .stdout
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert!(
        numbers[0] > 80_000_000 && numbers[1] <= 40_000_000,
        "{numbers:?}"
    );
}

#[test]
fn what_is_more_than_a_share_of_the_rest_is_given_back_without_waiting() {
    if is_free_threaded() {
        return skipped(KEPT_BY_CPYTHON);
    }
    let (peak, after) = peak_and_after(Run::host());
    assert!(peak > 80_000_000 && after < peak / 2, "{peak} {after}");
}

#[test]
fn blocks_of_another_size_each_time_do_not_raise_the_peak() {
    if is_free_threaded() {
        return skipped(KEPT_BY_CPYTHON);
    }
    let code = "def peak():
    lines = open('/proc/self/status').readlines()
    return int([line for line in lines if line.startswith('VmHWM')][0].split()[1]) >> 10
before = peak()
blocks = [b'b' * (mib << 20) for mib in (100, 60, 15, 2)]
blocks[2] = None  # fewer than an eighth
blocks.append(b'b' * (17 << 20))
print(peak() - before)";
    let peak = Run::host().code(code).ok().stdout;
    let peak: u64 = peak.trim().parse().unwrap();
    assert!((178..=183).contains(&peak), "{peak}");
}

#[test]
fn arrays_that_are_taken_again_time_after_time_stay() {
    let code = "import numpy, resource
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(9): numpy.ones(4 << 20)
before = faults()
for _ in range(20): numpy.ones(4 << 20)
print(faults() - before)";
    let faults = newest_numpy().host().code(code).ok().stdout;
    let faults: u64 = faults.trim().parse().unwrap();
    // Each has 8,192 pages of 4 KiB.
    assert!(faults < 4096, "{faults}");
}

#[test]
fn blocks_that_grow_stay_where_they_are_and_use_the_memory_of_the_last_one() {
    let code = "import resource
def grow(step, to):
    grown, piece = bytearray(), bytes(step)
    while len(grown) < to:
        grown += piece
faults = []
for turn in range(12):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    grow(64 << 10, 26_000_000)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(sum(faults[6:]))";
    let faults: u64 = Run::host().code(code).ok().last_line().parse().unwrap();
    // Six turns took 38,400 when a block that grew had new addresses each time.
    assert!(faults < 25_000, "{faults} in six turns");
}

#[test]
fn the_speed_profile_keeps_memory() {
    let (peak, after) = peak_and_after(Run::host().args(["--retain", "speed"]));
    assert!(after > peak / 2, "{peak} {after}");
}

#[test]
fn a_variable_of_mimallocs_wins_over_a_profile() {
    let run = Run::host().env("MIMALLOC_PURGE_DELAY", "-1");
    let (peak, after) = peak_and_after(run.args(["--retain", "small"]));
    assert!(after > peak / 2, "{peak} {after}");
}

#[test]
fn huge_pages_are_asked_for_by_the_speed_profile_alone_and_refused_by_others() {
    // Of an object, and of the static tables of the host.
    let code = "import sys
def flags(address):
    inside = False
    for line in open('/proc/self/smaps'):
        head = line.split()[0]
        if '-' in head and not head.endswith(':'):
            start, end = (int(part, 16) for part in head.split('-'))
            inside = start <= address < end
        elif inside and head == 'VmFlags:':
            return [flag for flag in line.split() if flag in ('hg', 'nh')]
def tables():
    own, last = [], ''
    for line in open('/proc/self/maps'):
        head, name = line.split()[0], line.split()[-1]
        start, end = (int(part, 16) for part in head.split('-'))
        if 'pyhost' in last and name == '0' and end - start > 2 << 20:
            own.append(flags(start))
        last = name if name != '0' else ''
    return own
print(flags(id(sys)), tables())";
    for (profile, of_object) in [
        ("balanced", "['nh']"),
        ("speed", "['hg']"),
        ("small", "['nh']"),
    ] {
        let outcome = Run::host().args(["--retain", profile, "-c", code]).ok();
        // CPython's own heap asks for nothing.
        let of_object = if is_free_threaded() { "[]" } else { of_object };
        let expected = format!("{of_object} [['nh']]\n");
        assert_eq!(outcome.stdout, expected, "{profile}");
    }
}

#[test]
fn a_profile_is_reported_and_inherited() {
    let code = "import subprocess, sys
subprocess.run([sys.executable, '-c', 'import pyhost; print(pyhost.memory_stats()[\"host\"][\"profile\"])'], check=True)";
    let (outcome, report) = Run::host().args(["--retain=small", "-c", code]).reported();
    assert_eq!(outcome.stdout, "small\n");
    assert_eq!(report["host"]["profile"], "small");
    let (_, report) = Run::host().code("").reported();
    assert_eq!(report["host"]["profile"], "balanced");
}
