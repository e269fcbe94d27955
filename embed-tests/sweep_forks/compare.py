#!/usr/bin/env python3
"""Sweeps the requests of a function in Cython that takes memory of NumPy, C and Python (table.pyx), with the leak check: once by runs that
are forked where pyhost.fail() opens, once by fresh processes. Both must find the same, the planted leak among it.

    compare.py --pyhost target/release/pyhost --python python3.11 [--runs N]

Prints how long each took, of which nothing depends. NumPy and Cython are pinned in embed-tests/environments/pins. Exit status: 0; 1 with what
differs; 2 if it cannot run.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "environments"), str(HERE.parent / "heap_bugs")]

import make  # noqa: E402
from run import FLAGS, compile  # noqa: E402

PROGRAM = """import pyhost, table
table.sums(3)
with pyhost.fail():
    table.sums(40)
"""
# Of a process: its number, addresses, threads.
OWN = re.compile(r"\[\d+\]|0x[0-9a-f]+|process \d+")


def built(python, folder):
    """Builds the module into a folder; the path of the packages that it needs."""
    packages, toolkits = make.newest_numpy(python), make.site_packages(make.environment(python, "toolkits"))
    compile([python, "-m", "cython", "-3", HERE / "table.pyx", "-o", folder / "table.c"],
            env={**make.clean_environment(), "PYTHONPATH": str(toolkits)})
    include = make.run([python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"]).stdout.strip()
    compile(["gcc", "-O1", folder / "table.c", *FLAGS, f"-I{include}", "-o", folder / "table.so"])
    return os.pathsep.join(map(str, (folder, packages)))


def sweep(options, folder, path, *words):
    """The lines of a sweep, without what is of its processes, and the seconds that it took."""
    command = [options.pyhost.with_name("pyhostctl"), "sweep", "--host", options.pyhost, "--when-open", f"--range=1:{options.runs + 1}", "--jobs=2", *words,
               "program.py"]
    variables = {**make.clean_environment(), "PYTHONPATH": path, "PYHOST_LEAK_CHECK": "native"}
    start = time.monotonic()
    done = subprocess.run(command, cwd=folder, env=variables, text=True, stdout=subprocess.PIPE)
    return OWN.sub("#", done.stdout).splitlines(), time.monotonic() - start


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--runs", type=int, default=100, help="runs of a sweep [%(default)s]")
    options = parser.parse_args(arguments)
    options.pyhost = options.pyhost.resolve()
    with tempfile.TemporaryDirectory(prefix="pyhost-sweep-") as name:
        folder = pathlib.Path(name)
        (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
        try:
            path = built(options.python, folder)
        except (make.Unmakable, make.BadName, OSError) as error:
            print(f"compare.py: {error}", file=sys.stderr)
            return 2
        forked, seconds = sweep(options, folder, path)
        fresh, of_fresh = sweep(options, folder, path, "--fresh")
    print(forked[-1])
    print(f"{options.runs} runs: forked {seconds:.1f} s, fresh {of_fresh:.1f} s")
    is_found = any("leak" in line for line in forked)
    if forked == fresh and is_found and f": {options.runs} runs; " in forked[-1]:
        return 0
    print(*difflib.unified_diff(fresh, forked, "fresh", "forked", n=2, lineterm=""), sep="\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
