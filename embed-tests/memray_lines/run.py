#!/usr/bin/env python3
"""Runs programs under memray and under `pyhost --lines`, and compares the ten lines with the most bytes at the peak.

    python3 embed-tests/memray_lines/run.py --pyhost target/release/pyhost --python python3.11 [--slice]

The programs: python-scripts/sales.py on a CSV file of 100 MB; allocators.py, which calls the kinds of functions that
memray's tests call; and those of pyperformance that memray's own benchmarks are made of. memray's source package has no
test programs: its repository alone has.

Both sides must see the same program, so

- memray runs under stock Python with PYTHONMALLOC=malloc. It then counts each object once, by its own size: with
  pymalloc it counts the arenas as maps, beside the objects in them, and its highest moment is another;
- the host has imported the modules that memray brings with it (after_imports.py);
- OpenBLAS has one thread: its buffers are maps, which are in memray's total and not in the host's.

All lines of both top tens must have the same bytes, within the stated error and the difference of what both count
(compare.py), and each of memray's ten must be among the host's, as far as the errors allow to say.

Packages are installed, pinned, below target/. --slice takes 300,000 rows and two programs of pyperformance. The last
line is `N passed, N failed`, in lines. Exit status: 0; 1 with what failed; 2 if it cannot run.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(HERE.parent / "environments"), str(HERE.parent / "line_oracle")]

import compare  # noqa: E402
import extension  # noqa: E402
import make  # noqa: E402

# Of so few samples a report lists all stacks.
INTERVAL = 64 << 10
ROWS, ROWS_OF_A_SLICE = 1_620_000, 300_000
# By the names of their folders.
BENCHMARKS = ("deltablue", "hexiom", "json_loads", "mdp", "pidigits", "pyflate", "raytrace", "regex_compile", "spectral_norm")
OF_A_SLICE = ("hexiom", "json_loads")
WORKER = ("--worker", "--loops=1", "--values=1", "--warmups=0", "--quiet")


class Failed(Exception):
    """A run failed; the message is one line."""


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--slice", action="store_true", help=f"{ROWS_OF_A_SLICE:,} rows, two benchmarks")
    parser.add_argument("--only", nargs="+", metavar="PROGRAM", help="these programs")
    return parser.parse_args(arguments)


class Runner:
    """Runs programs under both."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.packages = make.site_packages(make.environment(options.python, "lines"))
        extension.build(options.python, folder)

    def environment(self, *more):
        paths = os.pathsep.join(map(str, (self.folder, self.packages, *more)))
        return {**make.clean_environment(), "PYTHONPATH": paths, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}

    def output(self, command, environment):
        answer = subprocess.run(list(map(str, command)), env=environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True)
        if answer.returncode != 0:
            last = (answer.stderr.strip().splitlines() or ["no message"])[-1]
            raise Failed(f"{pathlib.Path(str(command[0])).name}: status {answer.returncode}: {last}")
        return answer.stdout

    def under_memray(self, binary, program, arguments, environment):
        binary.unlink(missing_ok=True)
        return self.output([self.options.python, "-m", "memray", "run", "-q", "-o", binary, program, *arguments],
                           {**environment, "PYTHONMALLOC": "malloc"})

    def names(self):
        """Returns the file with the names of the modules that memray brings with it."""
        file = self.folder / "names"
        if not file.exists():
            text = self.under_memray(self.folder / "names.bin", HERE / "names_of_memray.py", [], self.environment())
            file.write_text(text, encoding="utf-8")
        return file

    def lines(self, program, arguments, own, packages=()):
        """Returns the lines of a program by both."""
        environment = self.environment(*packages)
        binary, file = self.folder / "memray.bin", self.folder / "report.json"
        self.under_memray(binary, program, arguments, environment)
        found = json.loads(self.output([self.options.python, HERE / "read_peak.py", binary], environment))
        self.output([self.options.pyhost.resolve(), f"--lines={INTERVAL},seed=1", f"--stats=file={file}",
                     HERE / "after_imports.py", self.names(), program, *arguments], environment)
        rows = json.loads(file.read_bytes())["lines"]["at_peak"]
        return compare.lines_of(found["records"], rows, INTERVAL, own)


def programs(runner):
    """Returns the programs: name, file, arguments, whether a file is its own, folders of packages."""
    options = runner.options
    rows = ROWS_OF_A_SLICE if options.slice else ROWS
    table = ROOT / "target" / f"sales-{rows}.csv"
    scripts = ROOT / "python-scripts"
    if not table.exists():
        unfinished = table.with_suffix(".tmp")
        write = "import sys; sys.path.insert(0, sys.argv[1]); import sales_lib; sales_lib.write_csv(sys.argv[2], int(sys.argv[3]))"
        runner.output([options.python, "-c", write, scripts, unfinished, rows], runner.environment())
        unfinished.replace(table)
    yield "sales", scripts / "sales.py", [table], lambda file: file.startswith(str(scripts)), ()
    yield "allocators", HERE / "allocators.py", [], lambda file: file.endswith("/allocators.py"), ()
    try:
        packages = make.site_packages(make.environment(options.python, "pyperformance"))
    except make.BadName:
        print("not tried: pyperformance: no environment is pinned for this Python")
        return
    for name in OF_A_SLICE if options.slice else BENCHMARKS:
        folder = packages / "pyperformance" / "data-files" / "benchmarks" / f"bm_{name}"
        yield (name, folder / "run_benchmark.py", WORKER, lambda file, folder=str(folder): file.startswith(folder),
               (packages,))


def check(name, lines):
    """Prints the comparison of a program; returns how many of its lines passed and failed."""
    by_memray, by_host, different = compare.compared(lines, INTERVAL)
    unranked = [line for line in by_memray if not compare.is_rank_possible(line, lines, INTERVAL)]
    common = {line.place for line in by_memray} & {line.place for line in by_host}
    failed = {line.place for line in different + unranked}
    every = {line.place: line for line in by_memray + by_host}
    print(f"{name}: {len(common)} lines in both, of {len(by_memray)} by memray and {len(by_host)} by pyhost", flush=True)
    for place, line in every.items():
        print(f"  {line.asked:12,}  {line.estimate:12,} ± {line.error(INTERVAL):<12,.0f} {place}"
              f"{'  DIFFERENT' if place in failed else ''}")
    return len(every) - len(failed), len(failed)


def main(arguments):
    options = parse(arguments)
    results = []
    try:
        with tempfile.TemporaryDirectory(prefix="memray-lines-") as folder:
            runner = Runner(options, pathlib.Path(folder))
            for name, program, arguments, own, packages in programs(runner):
                if not options.only or name in options.only:
                    results.append(check(name, runner.lines(program, arguments, own, packages)))
    except (Failed, make.BadName, make.Unmakable, OSError, subprocess.SubprocessError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    if not results:
        print("run.py: no such program", file=sys.stderr)
        return 2
    passed, failed = map(sum, zip(*results))
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
