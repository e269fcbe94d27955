#!/usr/bin/env python3
"""Runs a program with more than a hundred known sites under `--lines`, and compares each estimate with the truth.

    python3 embed-tests/line_oracle/run.py --pyhost target/release/pyhost --python python3.11 [--slice]

programs/program.py keeps bytes at sites of every kind (objects, generators, coroutines, threads, code from text, a C
extension, NumPy, sqlite3, lxml, maps) and prints their true bytes, by the ledger and by the blocks' own sizes. It runs
with mimalloc and with pymalloc, each once with every allocation sampled (`--lines=1`) and 200 times with a seed of its own:

- with every allocation sampled, the sum of each account is the ledger's to the byte, and that of each site the truth but
  for what CPython's free lists keep;
- otherwise the truth lies within the stated error in 95% of the estimates at least: at the peak, at the end, and for arrays
  at their own peak; those of all sites together, and those of the accounts' sums. Each site and each sum for itself so
  often that chance explains the rest: a site of three intervals has no sample in 5% of all runs;
- the mean of the estimates is the truth, within four and a half standard errors and what CPython's free lists keep.

--slice makes 20 runs, whose means are not compared. Packages are installed, pinned, below target/. The last line is
`N passed, N failed`. Exit status: 0; 1 with what failed; 2 if it cannot run.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAMS = HERE / "programs"
sys.path.append(str(HERE.parent / "environments"))

import extension  # noqa: E402
import judge  # noqa: E402
import make  # noqa: E402

MODULES = ("of_objects", "of_code", "of_threads", "of_c", "of_arrays", "of_libraries")
ALLOCATORS = ("mimalloc", "pymalloc")
INTERVAL = 16 << 10


class Failed(Exception):
    """A run failed; the message is its last lines."""


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("--runs", type=int, default=200, metavar="N", help="seeds for each allocator (200)")
    parser.add_argument("--slice", action="store_true", help="20 runs")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at a time (2)")
    parser.add_argument("--table", action="store_true", help="print the figures of all sites")
    options = parser.parse_args(arguments)
    if options.slice:
        options.runs = 20
    return options


class Program:
    """The program with its sites, and the host that runs it."""

    def __init__(self, options, folder):
        self.pyhost, self.folder = options.pyhost.resolve(), folder
        packages = make.site_packages(make.environment(options.python, "lines"))
        self.version = make.minor_of(options.python)
        extension.build(options.python, folder)
        # The order of sets and dicts is the same in all runs, and nothing is compiled or written.
        self.environment = {**make.clean_environment(), "PYTHONPATH": f"{folder}:{packages}", "PYTHONHASHSEED": "0",
                            "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, allocator, lines):
        """Runs it once; its report, and the truth that it printed."""
        # A comma in a path is two in an option.
        file = self.folder / f"{allocator}-{lines}.json".replace(",", "-")
        command = [self.pyhost, "--allocator", allocator, f"--lines={lines}", f"--stats=file={file}",
                   PROGRAMS / "program.py", *MODULES]
        answer = subprocess.run(command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=300)
        if answer.returncode != 0:
            raise Failed(f"--lines={lines} with {allocator}: status {answer.returncode}: {answer.stderr[-800:]}")
        report = json.loads(file.read_bytes())
        file.unlink()
        truth = json.loads(answer.stdout)
        places = judge.Places(truth["places"])
        places.own(PROGRAMS)
        return report, truth, places

    def judged(self, allocator, options):
        """Returns the judgement of all seeds."""
        judgement = judge.Judgement()
        lines = [f"{INTERVAL},seed={seed}" for seed in range(1, options.runs + 1)]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for outcome in pool.map(lambda one: self.run(allocator, one), lines):
                judgement.add(*outcome)
        return judgement


def described(place, tally):
    view, site, account = place
    mean, error = tally.drift()
    return (f"{view}, {site}, {account}: {tally.within} of {tally.runs} within the error; "
            f"{tally.true:.0f} bytes, estimated {mean:+.0f} ± {error:.0f}")


def check(name, passed, failures, say=print):
    """Prints the outcome of a kind of check; returns how many passed and failed."""
    say(f"  {name}: {passed} passed, {len(failures)} failed")
    for failure in failures:
        say(f"    {failure}")
    return passed, len(failures)


def check_allocator(program, allocator, options):
    print(f"CPython {program.version}, {allocator}", flush=True)
    report, truth, places = program.run(allocator, 1)
    differences = judge.exact_differences(report, truth, places)
    exact = len(judge.ACCOUNTS) + sum(len(accounts) for _, _, accounts in judge.VIEWS) * len(truth["places"])
    results = [check("every allocation sampled: each account to the byte, each site", exact - len(differences),
                     differences)]
    judgement = program.judged(allocator, options)
    tallies = judgement.tallies
    # A site whose only row is left out would be taken for one without samples.
    results.append(check("reports that list every stack", int(not judgement.cut),
                         [f"{judgement.cut} of {options.runs} have too many"] if judgement.cut else []))
    failures = judgement.failures(judge.may_reach_share)
    results.append(check(f"one sample in {INTERVAL >> 10} KiB, {options.runs} runs, within the error in 95%",
                         len(tallies) - len(failures), [described(*item) for item in failures.items()]))
    if not options.slice:  # In a few runs a block may by chance be a sample in all.
        unjust = judgement.failures(judge.is_just)
        results.append(check("the mean of the estimates is the truth", len(tallies) - len(unjust),
                             [described(*item) for item in unjust.items()]))
        totals = judgement.share_of_totals()
        results.append(check("of the sums of whole accounts, 95% of the estimates", int(totals >= judge.SHARE),
                             [] if totals >= judge.SHARE else [f"{totals:.1%}"]))
    shares = judgement.shares(INTERVAL)
    results.append(check("of all sites with an interval of bytes or more, 95% of the estimates",
                         int(shares.pooled >= judge.SHARE), [] if shares.pooled >= judge.SHARE else ["too few"]))
    print(f"  {shares.sites} sites with an interval or more; within the error: {shares.pooled:.1%} of the estimates, of the "
          f"worst site {shares.worst:.1%}")
    if options.table:
        for place, tally in tallies.items():
            if tally.true > 0:
                print("   ", described(place, tally))
    return results


def main(arguments):
    options = parse(arguments)
    results = []
    try:
        with tempfile.TemporaryDirectory(prefix="line-oracle-") as folder:
            program = Program(options, pathlib.Path(folder))
            for allocator in ALLOCATORS:
                results += check_allocator(program, allocator, options)
    except (Failed, make.BadName, make.Unmakable, OSError, subprocess.SubprocessError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    passed, failed = map(sum, zip(*results))
    print(f"\n{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
