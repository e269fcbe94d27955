#!/usr/bin/env python3
"""Builds a static executable with musl (devices/build --target ...-musl) and tries it, also in a root that is empty but
for its folder and the scripts: read-only, without /tmp, HOME, a shell or a library.

    musl.py [--python 3.11] [--target x86_64-unknown-linux-musl]
    musl.py --folder DIR

The resident size is printed beside that of the same CPython without the host, which it links. aarch64's runs on an emulated
machine with pages of 16 KiB (tools/in-arm), where this command is given the folder that it built; the empty root is left out
there. The last line says how many checks passed and failed.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "devices"))
import checks  # noqa: E402
import folder as roots  # noqa: E402
import machine  # noqa: E402
import stock  # noqa: E402
from checks import check, prints  # noqa: E402
from counting import closing, counts  # noqa: E402
from toolchain import cpython, targets  # noqa: E402

SCRIPTS = ("exact_domains.py 1", "exact_native.py 1", "exact_peaks.py", "exact_programs.py", "exact_mapped.py 1")

# Threads have stacks of 8 MiB, where musl's default is 128 KiB.
DEEP = """
import json, threading
text = "[" * 900 + "]" * 900
depth = []
def deep(left):
    return json.loads(text) and (deep(left - 1) if left else len(json.dumps(json.loads(text))))
def repr_of(left):
    value = []
    for _ in range(left):
        value = [value]
    return len(repr(value))
def work():
    depth.extend([deep(50), repr_of(900)])
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(depth)
"""
EARLY_ENDS = """
import threading, time
threads = [threading.Thread(target=time.sleep, args=(9,), daemon=True) for _ in range(9)]
[thread.start() for thread in threads]
print("end")
"""
OWN_SYMBOLS = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
import pyhost
native = lambda: pyhost.memory_stats()["accounts"]["native"]["live_bytes"]
before = native()
block = libc.malloc(5_000_000)
print(native() - before >= 5_000_000)
libc.free(block)
print(abs(native() - before) < 10_000, ctypes.pythonapi.Py_IsInitialized())
try:
    ctypes.CDLL("libm.so.6")
except OSError as error:
    print(error)
try:
    libc.no_such_function
except AttributeError as error:
    print(error)
"""


def executable(board):
    """The file itself: nothing is loaded for it."""
    text = targets.output_of("readelf", "--program-headers", "--dynamic", "--wide", board.host)
    check(board, "the executable names no interpreter", "INTERP" not in text)
    check(board, "it names no library", "NEEDED" not in text)
    text = targets.output_of("readelf", "--relocs", "--wide", board.host)
    kinds = {line.split()[2].rpartition("_")[2] for line in text.splitlines() if " R_" in line}
    check(board, "its addresses need no loader", kinds <= {"RELATIVE"})


def programs(board):
    answer = board.run("--host-version")
    check(board, "it starts", answer.returncode == 0 and answer.stdout.startswith("pyhost "), answer)
    prints(board, "deep recursion in a thread", board.script(DEEP), "[1800, 1802]")
    prints(board, "a process with daemon threads ends", board.script(EARLY_ENDS), "end")
    answer = board.script(OWN_SYMBOLS)
    lines = ("True", "True 1", "libm.so.6: a static executable loads no library", "Symbol not found: no_such_function")
    prints(board, "ctypes finds the executable's own functions", answer, *lines)
    answer = board.script("import sys; sys.exit(3)", "--stats")
    check(board, "the report knows the status of exit", answer.returncode == 3 and "exit status 3" in answer.stderr, answer)
    answer = board.script("import os; os._exit(4)", "--stats")
    check(board, "and that of _exit", answer.returncode == 4 and "_exit, status 4" in answer.stderr, answer)
    answer = board.script("import os; os.kill(os.getpid(), 15)", "--stats")
    check(board, "and the signal that ends it", answer.returncode == -15 and "SIGTERM" in answer.stderr, answer)
    answer = board.script("print(1)", "--malloc", "off", "--stats")
    check(board, "malloc can be left to musl", answer.returncode == 0 and answer.stdout == "1\n", answer)


def exact(board, run, scripts):
    for script in SCRIPTS:
        name, *arguments = script.split()
        for hooks in ((), ("--debug-hooks",)):
            answer = run(*hooks, scripts / name, *arguments)
            good = answer.returncode == 0 and answer.stdout.splitlines()[-1:] == ["exact"]
            check(board, f"the ledger is exact ({' '.join((*hooks, script))})", good, answer)


def empty_root(board, folder, name):
    """In a root with nothing but the folder and scripts."""
    root = HERE / f"target/devices/root-{name}"
    shutil.rmtree(root, ignore_errors=True)
    (root / "proc").mkdir(parents=True)
    shutil.copytree(folder, root / "opt/device")
    shutil.copytree(HERE / "embed-tests/scripts", root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "python-scripts/where_memory_went.py", root / "scripts")
    host, place = "/opt/device/bin/pyhost", pathlib.Path("/scripts")
    enter = lambda *command, **settings: roots.enter(root, host, *map(str, command), **settings)  # noqa: E731
    answer = enter(place / "where_memory_went.py")
    check(board, "README's script runs in an empty root", answer.stdout.startswith("20000 rows") and not answer.stderr, answer)
    answer = enter("--cap", "48M", "--stats", "-c", checks.HOG)
    good = answer.stdout == "caught True\n" and "cap of 48.0 MiB (total) reached" in answer.stderr
    check(board, "a cap raises an error there", good, answer)
    answer = enter("--region", "32M", "-c", checks.HOG)
    check(board, "so does a region", answer.stdout == "caught True\n" and "region of 32.0 MiB is full" in answer.stderr, answer)
    answer = enter("--leak-check", "--debug-hooks", "-c", checks.THREADS, proc=True)
    check(board, "threads leave no leak", answer.stdout == "8 8\n" and answer.returncode == 0 and not answer.stderr, answer)
    answer = enter("-c", checks.CHILDREN.rsplit("\n", 2)[0], proc=True)
    check(board, "a child process is the host again", answer.stdout == "True\n", answer)
    exact(board, lambda *command: enter(*command, proc=True), place)


def try_here(board):
    """What needs no empty root."""
    for part in (checks.resident_of_stock, programs, checks.reports, checks.bounds, checks.programs, checks.leaks):
        part(board)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", default="3.11", metavar="VERSION")
    parser.add_argument("--target", default=f"{os.uname().machine}-unknown-linux-musl")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR", help="one that was built for this machine, to be tried alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "live").mkdir()
        if options.folder:
            board = checks.Board(options.folder.resolve(), scratch)
            try_here(board)
            exact(board, board.run, HERE / "embed-tests/scripts")
            return closing()
        target = targets.find(options.target)
        name = f"musl-{target.processor}-{options.python}"
        folder = HERE / f"target/devices/folder-{name}"
        build = ["devices/build", "--target", target.triple, "--python", options.python, "--with-pyhostctl"]
        print(targets.output_of(*build, "--folder", folder), flush=True)
        stock.link(cpython.root_of_target(options.python, target), target, True, folder)
        board = checks.Board(folder, scratch)
        executable(board)
        if target.processor == os.uname().machine:
            empty_root(board, folder, name)
            try_here(board)
        else:
            command = ["devices/tests/musl.py", "--folder", os.path.relpath(folder, HERE)]
            passed, failed = machine.run(target.processor, "16k", options.python, command)
            counts[True] += passed
            counts[False] += failed
    return closing()


if __name__ == "__main__":
    targets.run(main, "devices/tests/musl.py")
