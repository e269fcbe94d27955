#!/usr/bin/env python3
"""Runs small programs under limits on addresses and on data, by the host and by the Python that runs this file.

    embed-tests/limit_sweep/run.py --host PYHOST [--program NAME] [--mib N]

A limit is set before the start (`ulimit -v`, `ulimit -d`) or by the program. The host must not end by a signal or hang, and must do what
Python does under a limit that is lower by what the host itself takes: 20 MiB and a sixteenth.
"""
import argparse
import os
import resource
import signal
import subprocess
import sys

LIMITS = [40, 48, 64, 80, 100, 128, 256, 500]
ALLOWANCE = 20
# Each program gets the limit as `mib` and prints its figures; `fill` takes what there is.
PROGRAMS = {
    "lists": "x = []\nfor i in range(400_000): x.append(i)\nprint(len(x))",
    "a list to the limit": "x = fill(lambda x: x.extend(range(20_000)), [])",
    "a bytearray": "b = bytearray(300_000)\nfor _ in range(60): b += bytes(100_000)\nprint(len(b))",
    "a bytearray to the limit": "fill(lambda b: b.extend(bytes(500_000)), bytearray(300_000))",
    "dicts": "d = {i: str(i) for i in range(60_000)}\nprint(len(d))",
    "blocks of another size": """
rows = [{"k": i, "tags": ["a", "b"]} for i in range(mib * 500)]
del rows
b = bytearray(mib * 400_000)
print(len(b))""",
    "large blocks after a MemoryError": """
fill(lambda x: x.append(bytes(1 << 20)), [])
b = bytearray(mib * 400_000)
print(len(b))""",
    "small blocks after a MemoryError": """
fill(lambda x: x.append(bytes(900)), [])
x = [bytes(7_000) for _ in range(mib * 50)]
print(len(x))""",
    "realloc in C": """
import ctypes
libc = ctypes.CDLL(None)
libc.realloc.restype = ctypes.c_void_p
block, size = None, 100_000
for size in range(100_000, 5_000_000, 300_000):
    block = libc.realloc(ctypes.c_void_p(block), ctypes.c_size_t(size))
    if not block: raise MemoryError
    ctypes.memset(block + size - 9, 1, 9)
libc.free(ctypes.c_void_p(block))
print(size)""",
    "threads": """
import threading
threading.stack_size(1 << 20)
def work():
    x = [bytes(n) for n in range(0, 20_000, 50)]
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
print(len(threads))""",
    "a fork": """
import os
x = [bytes(1000) for _ in range(5_000)]
if os.fork() == 0:
    del x
    y = bytearray(4_000_000)
    os._exit(7 if len(y) else 1)
print(os.wait()[1])""",
    "imports": "import decimal, json, sqlite3, ssl\nprint(decimal.Decimal(1))",
    "maps": "import mmap\nm = [mmap.mmap(-1, 1 << 20) for _ in range(10)]\nprint(len(m))",
    "arrays": """
import numpy
a = [numpy.ones(100_000) * n for n in range(10)]
b = numpy.concatenate(a)
print(b.sum())""",
}
BEFORE = """
import resource
mib = {mib}
def fill(grow, x):
    try:
        for _ in range(100_000): grow(x)
    except MemoryError:
        pass
    return None
if {is_inside}: resource.setrlimit({limit}, (mib << 20, resource.RLIM_INFINITY))
"""


def outcome(python, program, mib, way):
    """What a run prints; `no memory` if it ends with an error of memory; else how it ends."""
    kind, is_inside = way
    limit = getattr(resource, kind)
    code = BEFORE.format(mib=mib, limit=limit, is_inside=is_inside) + program

    def prepare():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not is_inside:
            resource.setrlimit(limit, (mib << 20, resource.RLIM_INFINITY))

    run = [python, "-c", code]
    try:
        done = subprocess.run(run, capture_output=True, text=True, timeout=120, preexec_fn=prepare)
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0:
        return done.stdout
    if done.returncode < 0:
        return signal.Signals(-done.returncode).name
    last = (done.stderr.strip().splitlines() or [""])[-1]
    errors = ("MemoryError", "OpenBLAS error: Memory", "can't start new thread", "Cannot allocate memory", "failed to map segment", "No module named")
    # Python without memory for its own start, or for a thread that it has begun.
    fatal = ("Fatal Python error", "init_", "could not")
    return "no memory" if any(text in done.stderr for text in errors + fatal) else f"status {done.returncode}: {last}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True)
    parser.add_argument("--program", choices=PROGRAMS)
    parser.add_argument("--mib", type=int)
    arguments = parser.parse_args()
    host = os.path.abspath(arguments.host)
    passed = failed = 0
    ways = [(kind, inside) for kind in ("RLIMIT_AS", "RLIMIT_DATA") for inside in (False, True)]
    for name in [arguments.program] if arguments.program else PROGRAMS:
        for way in ways:
            for mib in [arguments.mib] if arguments.mib else LIMITS:
                found = outcome(host, PROGRAMS[name], mib, way)
                is_sound = found != "hangs" and not found.startswith("SIG") and not found.startswith("status")
                wanted = None
                if not is_sound or found == "no memory":
                    less = mib - ALLOWANCE - mib // 16
                    # What the program does depends on `mib`, which stays.
                    program = PROGRAMS[name].replace("mib", str(mib))
                    wanted = outcome(sys.executable, program, less, way)
                if is_sound and (wanted is None or wanted == "no memory" or wanted.startswith("SIG")):
                    passed += 1
                    continue
                failed += 1
                print(f"{name}, {way[0]} {'inside' if way[1] else 'before'}, {mib} MiB: {found!r}; by Python {wanted!r}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
