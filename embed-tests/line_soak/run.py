#!/usr/bin/env python3
"""Runs CPython's own test modules under `pyhost --lines` for a time, and compares each with the same host without it.

    python3 embed-tests/line_soak/run.py --python python3.11 --pyhost target/release/pyhost --minutes 30 [--slice]

Each module runs without samples and with them, by turns at the default interval, one of 4 KiB, and with every allocation
sampled. Children sample, too. Fails where a run with samples ends by a signal or does not end and none without does, or where
a case has no outcome in common with and without, in three runs of each. Begins with the modules of SLICE, goes on with all that the
installation has, and ends when the time is over; the module that runs then is finished. --slice is one run of a
short list. The last line is `N passed, N failed`, in modules. Exit status: 0; 1 with what failed; 2 if it cannot run.
"""

import argparse
import dataclasses
import pathlib
import random
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cpython_suite"))  # whose run.py is not this one

import classify  # noqa: E402
from interpreters import MODULES, UnusableInterpreter, examine  # noqa: E402
from run import Runner, default_signals  # noqa: E402

# Threads, forks, collections, generators, code that dies, allocators: what lies next to the samples.
FIRST = ("test_gc", "test_generators", "test_coroutines", "test_threading", "test_fork1", "test_capi", "test_tracemalloc",
         "test_code", "test_frame", "test_sys_settrace", "test_weakref", "test_asyncgen", "test_threadedtempfile",
         "test_thread", "test_dict", "test_list", "test_bytes", "test_memoryview", "test_mmap", "test_marshal",
         "test_exceptions", "test_compile", "test_pickle", "test_json", "test_re", "test_deque", "test_decimal",
         "test_functools", "test_itertools", "test_contextlib", "test_dataclasses", "test_typing", "test_unicode")
SLICE = ("test_gc", "test_generators", "test_thread", "test_weakref", "test_mmap")
VALUES = ("on", "4K", "1")
# Heavy in themselves, or of the network, or of a display.
LEFT_OUT = {"test_idle", "test_tcl", "test_tkinter", "test_ttk_guionly", "test_ttk_textonly", "test_turtle", "test_urllib2net",
            "test_urllibnet", "test_winreg", "test_winsound", "test_winconsoleio", "test_msilib", "test_bigmem",
            "test_zipfile64", "test_tools", "test_peg_generator", "test_gdb", "test_regrtest", "test_nntplib"}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--pyhost", required=True)
    parser.add_argument("--minutes", type=float, default=30, metavar="N", help="how long (30)")
    parser.add_argument("--slice", action="store_true", help="once: " + ", ".join(SLICE))
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the order of the modules (1)")
    parser.add_argument("--timeout", type=float, default=900, metavar="SECONDS", help="for one module (900)")
    return parser.parse_args(arguments)


def modules(host, seed):
    """Returns the modules, without end: those next to the samples, those of the comparison, all others in any order."""
    draw = random.Random(seed)
    names = {path.stem for path in pathlib.Path(host.tests).glob("test_*")} - LEFT_OUT
    first = [name for name in dict.fromkeys(FIRST + MODULES) if name in names]
    rest = sorted(names - set(first))
    draw.shuffle(rest)
    everything = first + rest
    while True:
        yield from everything
        draw.shuffle(everything)


def with_lines(host, value):
    return dataclasses.replace(host, kind=f"--lines={value}",
                               variables=(("PYHOST_LINES", value), ("PYHOST_STATS", "off")))


def is_cut_off(record):
    """Says whether a run ended by a signal or not at all."""
    return record["end"].startswith(("killed", "timed out"))


def compared(runner, host, module, value, folder):
    """Runs a module without and with samples, again where they differ; the lines of what differs, and the cases."""
    sampled = with_lines(host, value)
    without, within = [], []
    for number in range(3):
        without.append(runner.run(host, module, folder / f"{module}.log"))
        within.append(runner.run(sampled, module, folder / f"{module}.lines.log"))
        cases = classify.compare(without, within, {})
        bad = [case for case in cases if case.category == classify.DIFFERENT]
        if not bad:
            break
    crashes = [record["end"] for record in within if is_cut_off(record)]
    # A case that at times gives what it gives without samples is flaky; one that never does is different.
    found = [f"{case.name}: {case.pyhost[-1]}, without samples {case.stock[-1]}" for case in bad]
    if crashes and not any(map(is_cut_off, without)):
        found.append(f"{module}: {crashes[0]}")
    return found, len(cases)


def main(arguments):
    options = parse(arguments)
    default_signals()
    try:
        host = examine("pyhost", options.pyhost)
        stock = examine("stock", options.python)
    except UnusableInterpreter as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    if host.release != stock.release:
        print(f"run.py: python is {stock.release}, but pyhost is {host.release}", file=sys.stderr)
        return 2
    chosen = SLICE if options.slice else modules(host, options.seed)
    end = time.monotonic() + 60 * options.minutes
    runner, passed, failed, all_cases = Runner(options.timeout), 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="line-soak-") as folder:
        for number, module in enumerate(chosen):
            if time.monotonic() > end:
                break
            if not host.has_module(module):
                print(f"skipped: {module} is not installed with CPython {host.release}")
                continue
            value = VALUES[number % len(VALUES)]
            found, cases = compared(runner, host, module, value, pathlib.Path(folder))
            all_cases += cases
            passed, failed = passed + (not found), failed + bool(found)
            print(f"CPython {host.release} --lines={value} {module}: {cases} cases{': FAILED' if found else ''}", flush=True)
            for line in found:
                print(f"  {line}", flush=True)
    print(f"{all_cases} cases\n\n{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
