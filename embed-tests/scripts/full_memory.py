"""Calls what `import pyhost` offers from eight threads, three times: with `fill` while the region (`--region`) or the addresses
(`ulimit -v`) are full, with `fail` while every request of native memory fails. Prints the errors that were not MemoryError: none.

In full memory the functions in Python are left out. CPython 3.11 loops for good where a `with` or `finally` ends with an error and
no int can be made for its place; and it makes a SystemError of a frame without memory."""

import _thread
import json  # noqa: F401 - of pyhost.lines(): without memory CPython makes an OSError of an import
import sys
import time

import pyhost

THREADS = 8
hog = []
wrong = [None] * THREADS
ready = [False] * THREADS
done = [False] * THREADS
full = _thread.allocate_lock()


def block(context):
    with context:
        pass


def grow():
    return bytes(100)


def unknown():
    try:
        getattr(pyhost, "x" * 10000)
    except AttributeError:
        pass
    try:
        pyhost.buffer(1, account="é" * 10000)
    except ValueError:
        pass


def leaks():
    try:
        pyhost.leaks(grow, repeat=3)
    except RuntimeError:
        pass  # another thread measures


NATIVE = [
    pyhost.memory_stats,
    pyhost.memory_summary,
    pyhost.balance_sheet,
    pyhost.size_histogram,
    pyhost.fragmentation,
    pyhost.last_refusal,
    pyhost.big_blocks,
    pyhost.get_cap,
    pyhost.headroom,
    pyhost.reset_peak_memory_stats,
    pyhost._repeats_figures,
    pyhost.__dir__,
    pyhost._moment,
]
IN_PYTHON = [
    pyhost.lines,
    pyhost.check_expected,
    unknown,
    leaks,
    lambda: repr(pyhost.snapshot().diff(pyhost.snapshot())),
    lambda: pyhost.mark("a name"),
    lambda: block(pyhost.track()),
    lambda: repr(pyhost.track()),
    lambda: block(pyhost.limit("1G")),
    lambda: pyhost.buffer(10000),
    lambda: pyhost.expect_freed(grow),
]
FUNCTIONS = NATIVE if "fill" in sys.argv else NATIVE + IN_PYTHON


def call_all(number):
    for function in FUNCTIONS:
        try:
            function()
        except MemoryError:
            pass
        except BaseException as error:
            wrong[number] = error


def work(number):
    if "warm" in sys.argv:
        call_all(number)  # or a thread has no pages, and nothing of it runs
    ready[number] = True
    with full:
        pass
    call_all(number)
    call_all(number)


def thread(number):
    try:
        work(number)
    except MemoryError:
        pass  # of its own lines
    done[number] = True


def exhaust(make, size):
    """Makes objects until memory is full, and returns the list of them, or None."""
    made = None
    while True:
        try:
            made = (make(size), made)
        except MemoryError:
            return made


def fill():
    """Leaves Python a few blocks of each small size, and the host none. What the loops need is there before memory is full."""
    large = [[bytes, size, None] for size in (1 << 20, 1 << 16, 1 << 12)]
    small = [[bytes, size, None] for size in range(16, 2048, 16)]
    hosts = [[native, size, None] for size in (1, 16, 32, 48, 64, 96, 128, 256, 512, 1024)]
    hog.extend(large + small + hosts)
    freed = iter(small)
    for taken in hog:
        taken[2] = exhaust(taken[0], taken[1])
    for taken in freed:
        left = 200
        while left:
            taken[2] = taken[2] and taken[2][1]
            left -= 1


def native(size):
    return pyhost.buffer(size, account="native", align=1)


full.acquire()
for number in range(THREADS):
    _thread.start_new_thread(thread, (number,))
while not all(ready):
    time.sleep(0.01)
if "fill" in sys.argv:
    fill()
if "fail" in sys.argv:
    failing = pyhost.fail()
    failing.__enter__()
full.release()
while not all(done):
    try:
        time.sleep(0.01)
    except MemoryError:
        pass
if "fail" in sys.argv:
    failing.__exit__(None, None, None)
hog.clear()
wrong = [error for error in wrong if error is not None]
print("wrong:", wrong)
