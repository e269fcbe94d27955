"""Runs libraries with allocators of their own below a fixed cap, which counts what they map.

    python3 embed-tests/cgroup_limit/fixed_caps.py --host PYHOST --site FOLDER [--site FOLDER] [--caps 512M 1G] [--runs N]

Each kind of libraries/growing.py grows by steps from 256 KiB to 80 MB until it is refused. The process may never have
more than 1.05 times the cap, and beside that its files and stacks, nor be refused before it has half of the cap. It must catch a
MemoryError, drop all and finish, or end with a traceback of another, or, since libraries in Rust end the process when they are refused memory, with a dossier and
status 53.

Exit status 0 if all is so, 1 if not, 2 for a bad command line.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import libraries
from groups import MIB, clean_environment
from libraries import SCRIPT
from run import end_of, table

KINDS = ("polars", "worker", "rounds", "threads", "query", "system", "jemalloc", "mimalloc", "duckdb", "statement", "numpy", "mmap", "mixed", "torch")
LARGEST = 80_000_000
COLUMNS = ("cap", "kind", "step KiB", "end", "peak MiB", "of files, stacks", "")
UNITS = {"M": MIB, "G": MIB << 10}


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True, type=pathlib.Path, metavar="PYHOST", help="the host")
    parser.add_argument("--site", action="append", default=[], metavar="FOLDER", help="where libraries are; repeatable")
    parser.add_argument("--caps", nargs="+", default=["512M", "1G"], metavar="SIZE", help="caps (512M 1G)")
    parser.add_argument("--runs", type=int, default=8, metavar="N", help="runs of each kind, of growing steps (8)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS[:-1]), help="these kinds (default: all but torch)")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for one run (120)")
    options = parser.parse_args(arguments)
    if not options.host.is_file():
        parser.error(f"{options.host}: no such executable")
    if any(cap[-1:] not in UNITS or not cap[:-1].isdigit() for cap in options.caps):
        parser.error("--caps: expected sizes such as 512M")
    return options


def bytes_of(cap):
    return int(cap[:-1]) * UNITS[cap[-1]]


def steps(runs):
    """Returns the bytes of each run's steps, from the smallest to the largest."""
    return libraries.steps(runs, LARGEST, 4096)


def run_one(options, cap, kind, step, folder):
    """Returns (end, standard error, peak bytes, what the script told)."""
    told = pathlib.Path(folder) / "told.json"
    told.unlink(missing_ok=True)
    command = [str(options.host.absolute()), "--cap", cap, str(SCRIPT), kind, str(step), str(told)]
    own = {"PYTHONPATH": os.pathsep.join(options.site), "PYTHONDONTWRITEBYTECODE": "1"}
    # The kernel keeps the highest peak of all children that a process has waited for, so each run has a parent of its own.
    helper = "import os, resource, subprocess, sys; status = subprocess.call(sys.argv[2:], timeout=float(sys.argv[1])); " \
             "print('\\n%d' % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(status % 256)"
    ran = subprocess.run([sys.executable, "-c", helper, str(options.timeout), *command], env={**clean_environment(), **own},
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    stdout, _, peak = ran.stdout.rstrip().rpartition("\n")
    try:
        facts = json.loads(told.read_text(encoding="ascii"))
    except (OSError, ValueError):
        facts = {}
    is_told = peak.isdigit()
    end = end_of(ran.returncode, stdout, ran.stderr) if is_told else "timed out"
    return end, ran.stderr, int(peak) * 1024 if is_told else 0, facts


def end_in_words(end, stderr):
    """Returns how a run ended: `caught`, `53`, or what else it was."""
    if end.endswith("; finished"):
        return "caught"
    has_dossier = "\npyhost: fatal: " in "\n" + stderr and "pyhost: cap of " in stderr
    return "53" if end.startswith("status 53:") and has_dossier else end


def is_right(cap, end, peak, facts):
    """Says whether a run ended as it must."""
    is_within = bytes_of(cap) / 2 <= peak - facts.get("beside", peak) <= bytes_of(cap) * 1.05
    return end in ("caught", "MemoryError", "53") and is_within


def rows_of(options, folder):
    for cap in options.caps:
        for kind in options.kinds:
            for step in steps(options.runs):
                end, stderr, peak, facts = run_one(options, cap, kind, step, folder)
                end = end_in_words(end, stderr)
                row = (cap, kind, str(step >> 10), end, f"{peak / MIB:.0f}", f"{facts.get('beside', 0) / MIB:.0f}",
                       "" if is_right(cap, end, peak, facts) else "WRONG")
                print("\t".join(row), file=sys.stderr, flush=True)
                yield row


def summary(rows):
    """Returns a row for each cap and kind: how many were caught, ended with 53, and the highest peak beside files."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row[:2]].append(row)
    for (cap, kind), runs in groups.items():
        ends = collections.Counter(run[3] for run in runs)
        highest = max((int(run[4]) - int(run[5])) * MIB / bytes_of(cap) for run in runs)
        yield (cap, kind, str(len(runs)), str(ends["caught"]), str(ends["53"]), f"{highest:.2f}")


def main(arguments):
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="fixed-caps-") as folder:
        rows = list(rows_of(options, folder))
    print(table([COLUMNS, *rows]))
    print()
    print(table([("cap", "kind", "runs", "caught", "53", "highest of the cap"), *summary(rows)]))
    wrong = sum(row[-1] != "" for row in rows)
    print(f"\n{len(rows) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
