#!/usr/bin/env python3
"""Says whether the line that makes a library use much memory is the one that is named, with what it holds.

    python3 embed-tests/library_peaks/lines.py --pyhost target/release/pyhost --python python3.11 [--runs N]

Three programs keep what one call makes: a query in polars and a table in DuckDB, of about a GiB each, made by the libraries' own threads,
and a product in pyarrow. Each runs N times (20) under `pyhost --lines --stats=file=...`. The oracle is the growth of the resident size
over the call, by /proc/self/statm. A run is right if the call's line has from 0.8 to 1.2 of that in `lines.at_resident_peak`.

The last line is `N passed, N failed`, in programs. Exit status: 0; 1 with what failed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "environments"))

import make  # noqa: E402

BEFORE = """
import sys
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
"""
AFTER = """
open(sys.argv[1], "w").write(str(resident() - before))
"""
PROGRAMS = {
    "polars": """
import polars as pl
frame = pl.LazyFrame({"n": pl.int_range(0, 16_000_000, eager=True)})
query = frame.select([(pl.col("n") * factor).alias(str(factor)) for factor in range(8)])
before = resident()
kept = query.collect()  # measured
""",
    "duckdb": """
import duckdb
connection = duckdb.connect(config={"memory_limit": "8GB"})
before = resident()
connection.execute("create table t as select hash(range) a, hash(range + 1) b, hash(range + 2) c from range(40000000)")  # measured
""",
    "pyarrow": """
import numpy, pyarrow, pyarrow.compute
numbers = pyarrow.array(numpy.arange(100_000_000, dtype="float64"))
before = resident()
kept = pyarrow.compute.multiply(numbers, 2.0)  # measured
""",
}


def run_once(host, program, folder, environment):
    """Returns the part of the call's growth that its line has."""
    report, grown = folder / "report.json", folder / "grown"
    subprocess.run([host, "--lines", f"--stats=file={report}", program, grown], env=environment, check=True)
    source = program.read_text(encoding="ascii").splitlines()
    measured = next(number for number, line in enumerate(source, 1) if line.endswith("# measured"))
    rows = json.loads(report.read_text(encoding="utf-8"))["lines"]["at_resident_peak"]
    held = 0
    for row in rows:
        own = [call["line"] for call in row["stack"] if call["file"] == str(program)]
        held += row["bytes"] if own[:1] == [measured] else 0
    return held / int(grown.read_text(encoding="ascii"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    site = make.site_packages(make.environment(options.python, "library-peaks"))
    environment = dict(os.environ, PYTHONPATH=str(site))
    failed = 0
    for name, source in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            program = folder / f"with_{name}.py"
            program.write_text(BEFORE + source + AFTER, encoding="ascii")
            runs = [run_once(options.pyhost, program, folder, environment) for _ in range(options.runs)]
        right = sum(0.8 <= part <= 1.2 for part in runs)
        failed += right < len(runs)
        print(f"{name:8} right in {right} of {len(runs)}; parts from {min(runs):.3f} to {max(runs):.3f}", flush=True)
    print(f"{len(PROGRAMS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
