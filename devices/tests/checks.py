#!/usr/bin/env python3
"""Tries a device folder (devices/build --folder) on the machine that it is for: `checks.py FOLDER [--pages BYTES]
[--embed PROGRAM] [--suite PYHOST] [--matrix]`.

Runs under the machine's own python3. The last line says how many checks passed and failed.
"""

import argparse
import counting
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parents[2]

# A block that shrinks is moved by its pages: on pages of 16 KiB zeros were copied over its tail.
SHRINK = """
wrong = 0
for n in range(38):
    kept = 20_000 + n * 52_001
    b = bytearray(b"\\xa5" * 2_000_000)
    del b[kept:]
    wrong += b.count(0xA5) != kept or len(b) != kept
print(wrong)
"""
GROW = """
wrong = 0
for step in (4096, 65536, 300_001):
    b = bytearray()
    while len(b) < 8_000_000:
        b += b"\\x5a" * step
    wrong += b.count(0x5A) != len(b)
print(wrong)
"""
HOG = """
kept = []
try:
    while True:
        kept.append(bytearray(300_000))
except MemoryError:
    count = len(kept)
    del kept
    print("caught", count > 10)
"""
THREADS = """
import threading, json
sums = []
def work(seed):
    total = 0
    for turn in range(60):
        total += sum(json.loads(json.dumps(list(range(seed, seed + 1000)))))
    sums.append(total)
threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1000, 1008)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(sums), len(set(sums)))
"""
FORKS = """
import os, pyhost
kept = [bytes(1000) for _ in range(1000)]
ends = []
for turn in range(10):
    child = os.fork()
    if child == 0:
        more = [bytes(1000) for _ in range(1000)]
        os._exit(pyhost.memory_stats()["total"]["live_bytes"] > 2_000_000)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(ends)
"""
CHILDREN = """
import subprocess, sys
code = "import pyhost; print(pyhost.active)"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
print(subprocess.run("exit 3", shell=True).returncode)
"""
EXACT = """
import pyhost
obj = lambda: pyhost.memory_stats()["accounts"]["obj"]
before = obj()
kept = bytes(5_000_000 - 33)
after = obj()
print(after["live_bytes"] - before["live_bytes"] >= 5_000_000, after["live_bytes"] - before["live_bytes"] < 5_400_000)
del kept
print(abs(obj()["live_bytes"] - before["live_bytes"]) < 10_000)
"""
# OpenBLAS of NumPy 2.5.5 takes a kernel for the emulated processor that computes wrongly, by stock Python, too.
NUMPY = """
import os
os.environ["OPENBLAS_CORETYPE"] = "ARMV8"
import numpy, pyhost
a = numpy.zeros((1000, 1000))
b = numpy.arange(1_000_000, dtype=float).reshape(1000, 1000)
c = (a + b) @ numpy.eye(1000)
print(bool((c == b).all()), pyhost.memory_stats()["accounts"]["numpy"]["live_bytes"] >= 24_000_000)
try:
    numpy.ones(1 << 30)
except MemoryError:
    print("refused")
"""
HUGE = "print(sum(int(line.split()[1]) for line in open('/proc/self/smaps') if line.startswith('AnonHugePages')))"
RESIDENT = "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
LEAK = "import ctypes\nfor turn in range(3): ctypes.pythonapi.Py_IncRef(ctypes.py_object(object()))"
LINES = "kept = [bytes(10_000) for _ in range(1000)]\n"


class Board:
    """The host of a folder, and a directory that can be written to."""

    def __init__(self, folder, scratch):
        self.host, self.control, self.scratch = folder / "bin/pyhost", folder / "bin/pyhostctl", scratch
        self.seconds = 0

    def run(self, *arguments, program=None, seconds=300):
        start = time.monotonic()
        answer = subprocess.run(
            [program or self.host, *arguments], capture_output=True, text=True, cwd=self.scratch, timeout=seconds
        )
        self.seconds = time.monotonic() - start
        return answer

    def script(self, code, *options):
        return self.run(*options, "-c", code)


def check(board, name, good, answer=None):
    seen = None
    if answer is not None:
        seen = f"status {answer.returncode}\n  {answer.stdout[-1500:]}\n  {answer.stderr[-1500:]}"
    counting.check(name, good, seen, f" ({board.seconds:.0f} s)")


def prints(board, name, answer, *lines):
    check(board, name, answer.returncode == 0 and answer.stdout.splitlines() == list(lines), answer)


def reports(board):
    answer = board.run("--stats", HERE / "python-scripts/where_memory_went.py")
    native = re.search(r"^native +\S+ \w+ +([\d.]+) MiB", answer.stderr, re.MULTILINE)
    good = answer.stdout.startswith("20000 rows") and native and float(native.group(1)) > 20
    check(board, "README's script runs, and its report shows what sqlite holds", good, answer)
    answer = board.run("--stats=file=report.json", "-c", EXACT)
    prints(board, "a block is counted when it is made and freed", answer, "True True", "True")
    if answer.returncode == 0:
        report = json.loads((board.scratch / "report.json").read_text())
        check(board, "the report is JSON, and reads the resident size", report["process"]["resident_bytes"] > 5_000_000)
    answer = board.run("--stats=html,file=page.html", "-c", LINES)
    page = board.scratch / "page.html"
    good = answer.returncode == 0 and page.exists() and "</html>" in page.read_text()
    check(board, "--stats=html writes a page", good, answer)
    answer = board.script(LINES, "--lines", "--stats")
    check(board, "--lines names the line", re.search(r"obj +.*<string>:1", answer.stderr), answer)
    answer = board.run("--timeline=timeline.csv", "-c", "import time; kept = bytes(9_000_000); time.sleep(2)")
    written = (board.scratch / "timeline.csv").read_text() if (board.scratch / "timeline.csv").exists() else ""
    check(board, "--timeline writes its samples", answer.returncode == 0 and len(written.splitlines()) > 2, answer)
    with subprocess.Popen(
        [board.host, "--live=live", "-c", "kept = bytes(9_000_000); print(1, flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=board.scratch, text=True,
    ) as process:  # fmt: skip
        process.stdout.readline()
        answer = board.run("report", "--dir=live", str(process.pid), program=board.control)
        process.communicate("\n")
    live = json.loads(answer.stdout or "{}").get("accounts", {}).get("obj", {}).get("live_bytes", 0)
    check(board, "pyhostctl reads the counters of a running host", 9_000_000 < live < 12_000_000, answer)


def resident(board, name="python3", stock=pathlib.Path(sys.executable)):
    """Peaks of a start beside those of another Python, in KiB: the lowest of three each. The folder is copied to the scratch
    directory first: an emulated machine has it from the machine around it in blocks of 512 KiB and more, and CPython reads a zip by
    buffers of that size. The machine's own Python has its library in files, which are read without buffers, and stays."""
    folder, copy = board.host.parent.parent, board.scratch / "copy"
    known = {}
    try:
        shutil.copytree(folder, copy, symlinks=True)
        host = copy / "bin/pyhost"
        if stock.is_relative_to(folder):
            stock = copy / stock.relative_to(folder)
        for kind, program, *options in ((name, stock), ("pyhost", host), ("pyhost --retain small", host, "--retain", "small")):
            answers = [board.run(*options, "-I", "-S", "-c", RESIDENT, program=program) for _ in range(3)]
            if failed := [answer for answer in answers if answer.returncode]:
                check(board, f"{kind} reads its resident size", False, failed[0])
                return
            known[kind] = min(int(answer.stdout) for answer in answers)
    except OSError as error:
        print(f"skipped: resident at start: {error}")
        return
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    sizes = ", ".join(f"{kind} {size} KiB ({size / known[name]:.3f})" for kind, size in known.items())
    print(f"resident at start: {sizes}", flush=True)


def resident_of_stock(board):
    """The same beside the folder's CPython without the host, which the tests link beside the host."""
    stock = board.host.with_name("python3")
    if stock.exists():
        resident(board, "the same CPython alone", stock)
    else:
        print(f"skipped: resident at start beside the same CPython: no {stock}")


def small_pages(board):
    """Whether a static variable lies in a huge page depends on the address, another one at each start."""
    answers = [board.run("-I", "-S", "-c", HUGE) for _ in range(8)]
    worst = max(answers, key=lambda answer: (answer.returncode, answer.stdout != "0\n"))
    prints(board, "no start takes huge pages, also where the system has them for everything", worst, "0")


def bounds(board):
    answer = board.script(HOG, "--cap", "48M")
    prints(board, "a cap raises an error that can be caught", answer, "caught True")
    check(board, "the refusal names the line", "cap of 48.0 MiB (total) reached" in answer.stderr and "<string>:5" in answer.stderr, answer)
    answer = board.script(HOG, "--region", "32M")
    prints(board, "so does a region", answer, "caught True")
    check(board, "it says that it is full", "region of 32.0 MiB is full" in answer.stderr, answer)
    code = "exec(%r)\nprint(int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) < 52 * 1024)" % HOG
    prints(board, "resident stays below the region's bound", board.script(code, "--region", "32M"), "caught True", "True")


def programs(board):
    for options in ((), ("--region", "48M"), ("--debug-hooks",)):
        named = " ".join(options) or "no option"
        prints(board, f"blocks that shrink keep their bytes ({named})", board.script(SHRINK, *options), "0")
        prints(board, f"blocks that grow keep their bytes ({named})", board.script(GROW, *options), "0")
    prints(board, "threads", board.script(THREADS), "8 8")
    prints(board, "forks", board.script(FORKS), str([1] * 10))
    prints(board, "child processes", board.script(CHILDREN), "True", "3")
    code = "import sys, time; print(sys.hash_info.algorithm.startswith('siphash'), hasattr(time, 'tzset'))"
    prints(board, "texts have a strong hash, and the time zone can be set", board.script(code), "True True")


def numpy(board):
    prints(board, "NumPy's arrays are counted and capped", board.script(NUMPY, "--cap", "256M"), "True True", "refused")


def leaks(board):
    answer = board.script("pass", "--leak-check")
    check(board, "a script without leaks has none", answer.returncode == 0 and "leaked" not in answer.stderr, answer)
    answer = board.script(LEAK, "--leak-check")
    check(board, "three lost objects are found", re.search(r"3 blocks leaked", answer.stderr), answer)
    answer = board.run(HERE / "embed-tests/scripts/planted_leaks.py", board.host, program=sys.executable, seconds=900)
    check(board, "each planted leak is found", answer.returncode == 0, answer)


def left_out():
    """How the names of the embed tests begin that want what a board lacks (left_out.txt)."""
    lines = (HERE / "devices/tests/left_out.txt").read_text().splitlines()
    wanted = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return [name for _, names in wanted for name in names.split()]


def embed(program, modules, numpy):
    """Runs modules of the embed tests, or all, which count as many checks as they have tests."""
    # A name with colons is that of one test, or how those of some tests begin.
    names = (module if "::" in module else f"{module}::" for module in modules)
    skips = [word for name in left_out() for word in ("--skip", name)]
    with tempfile.NamedTemporaryFile("r") as skipped:
        os.environ.update(EMBED_TESTS_PATIENCE="8", EMBED_TESTS_SKIPPED=skipped.name)
        if numpy:
            os.environ["EMBED_TESTS_NUMPY"] = numpy
        # More at a time would only wait: there are two processors.
        count_of([program, *names, *skips, "--test-threads=2"], r"test result: .* (\d+) passed; (\d+) failed;")
        print("".join(f"skipped: {line}" for line in skipped), end="")


def suite(host, modules, further):
    """Compares modules of CPython's own tests by the host and by the machine's Python, case by case. Debian's Python lacks
    some of them, which are in a folder."""
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, HERE / "embed-tests/cpython_suite/compare.py", "--python", sys.executable, "--pyhost", host]
        command += ["--modules", *modules, "--out", results, "--timeout", "7200", "--again", "2"]
        command += ["--extra-tests", further] if further else []
        count_of(command, r"(\d+) passed, (\d+) failed$")


# Scripts of the cap matrix that do not fit here. The first gives its threads 20 seconds, too little where each instruction is
# emulated; the second asks for sizes that CPython of 32 bits answers with OverflowError.
UNFIT = {"bystanders.py", "large_requests.py"}


def matrix(board):
    """Runs a slice of the cap matrix, each run of which counts as a check."""
    folder = HERE / "embed-tests/cap_matrix"
    names = {path.name for path in (folder / "scripts").glob("*.py")} - {"growing.py", "numpy_arrays.py"} - UNFIT
    version = "%d.%d" % sys.version_info[:2]
    command = [sys.executable, folder / "run.py", f"--host={version}={board.host}", "--no-numpy", "--scripts", *sorted(names)]
    command += ["--caps=32", "--seeds=1", "--timeout=600", f"--out={board.scratch}/matrix"]
    count_of(command, r"(\d+) passed, (\d+) failed$")


def count_of(command, pattern):
    """Runs a command, whose last line of a pattern says how many checks passed and failed."""
    result = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            result = re.match(pattern, line) or result
    passed, failed = map(int, result.groups()) if result else (0, 1)
    counting.counts[True] += passed
    counting.counts[False] += failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pages", type=int, help="the kernel's page size, in bytes")
    parser.add_argument("--embed", type=pathlib.Path, metavar="PROGRAM", help="the embed tests, as they were built for here")
    parser.add_argument("--embed-modules", default="domains", metavar="NAMES", help="modules of these, with commas, or all")
    parser.add_argument("--embed-numpy", metavar="DIR", help="with the NumPy of these tests")
    parser.add_argument("--suite", type=pathlib.Path, metavar="PYHOST", help="CPython's own tests, by this host, of the machine's CPython")
    parser.add_argument("--suite-modules", default="test_gc", metavar="NAMES", help="modules of these, with commas")
    parser.add_argument("--suite-folder", metavar="DIR", help="of modules that the machine's CPython lacks")
    parser.add_argument("--with-numpy", action="store_true", help="the folder has NumPy")
    parser.add_argument("--matrix", action="store_true", help="run a slice of the cap matrix, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        board = Board(options.folder.resolve(), pathlib.Path(scratch))
        (board.scratch / "live").mkdir()
        answer = board.script("import os; print(os.sysconf('SC_PAGESIZE'), os.uname().machine)")
        print(f"pages and processor: {answer.stdout.strip()}")
        pages = options.pages or os.sysconf("SC_PAGESIZE")
        prints(board, "the host starts, on pages of the expected size", answer, f"{pages} {os.uname().machine}")
        for part in (resident, resident_of_stock, small_pages, reports, bounds, programs, *([numpy] if options.with_numpy else []), leaks):
            part(board)
        if options.matrix:
            matrix(board)
    if options.suite:
        suite(options.suite, options.suite_modules.split(","), options.suite_folder)
    if options.embed:
        modules = options.embed_modules.split(",")
        embed(options.embed, [] if modules == ["all"] else modules, options.embed_numpy)
    return counting.closing()


if __name__ == "__main__":
    sys.exit(main())
