#!/usr/bin/env python3
"""Runs a noisy service again and again, and compares what `pyhostctl leaks` names with the lines that leak.

    run.py --pyhost target/release/pyhost --pyhostctl target/release/pyhostctl [--runs 20] [--for 30s] [--slice]

Three lines of service.py leak, among caches, queues that drift, sessions, buffers, a batch job and the garbage of each
request. Each run has a seed of its own, for the service and for the samples. A run passes if exactly the three are named.
Every fourth run is of the service without its leaks, and passes if no line is named. --slice is three runs at a time of
15 seconds, one of them without leaks.

The last lines count what was missed and what was named falsely, of all lines that could be. Exit status: 0; 1 if a run
failed; 2 for a bad command line.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
SERVICE = HERE / "service.py"
LEAKING = {"audit", "remember", "subscribe"}
# How long the service may take to be ready, and pyhostctl beyond its time: bounds against hangs, not measurements.
PATIENCE = 300


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--pyhostctl", required=True, type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=20, metavar="N", help="how many runs (20)")
    parser.add_argument("--first-seed", type=int, default=1, metavar="N", help="the first run's seed (1)")
    parser.add_argument("--for", dest="span", default="30s", metavar="TIME", help="how long each is watched (30s)")
    parser.add_argument("--lines", default="16K", metavar="INTERVAL", help="one sample in so many bytes (16K)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at a time (2)")
    parser.add_argument("--slice", action="store_true", help="three runs at a time, of 15 seconds")
    options = parser.parse_args(arguments)
    if options.slice:
        options.runs, options.span, options.jobs = 3, "15s", 3
    if options.runs < 1 or options.jobs < 1:
        parser.error("--runs and --jobs are 1 or more")
    options.pyhost, options.pyhostctl = options.pyhost.resolve(), options.pyhostctl.resolve()
    return options


def is_without_leaks(number, runs):
    """Every fourth run, and the last of fewer."""
    return number % 4 == 3 or (runs < 4 and runs > 1 and number == runs - 1)


def named(options, seed, leaks):
    """Runs the service with a seed and returns the functions of the lines that are named, and how many lines have bytes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST"))}
    with tempfile.TemporaryDirectory(prefix="leak-service-") as folder:
        command = [options.pyhost, f"--live={folder}", f"--lines={options.lines},seed={seed}", "--stats=off",
                   SERVICE, str(seed), *([] if leaks else ["--no-leak"])]
        ctl = [options.pyhostctl, "--dir", folder]
        service = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            if not service.stdout.readline():
                raise RuntimeError(f"the service ended with status {service.wait()}")
            watched = subprocess.run([*ctl, "leaks", "--json", "--for", options.span, str(service.pid)], env=environment,
                                     capture_output=True, text=True, timeout=PATIENCE + seconds(options.span))
            lines = subprocess.run([*ctl, "lines", "--view", "live", "--json", str(service.pid)], env=environment,
                                   capture_output=True, text=True, timeout=PATIENCE)
        finally:
            service.kill()
            service.wait()
    found_one = 24
    for outcome, allowed in ((watched, (0, found_one)), (lines, (0,))):
        if outcome.returncode not in allowed:
            raise RuntimeError(f"pyhostctl ended with status {outcome.returncode}: {outcome.stderr.strip()}")
    found = json.loads(watched.stdout)
    if found["ended"]:
        raise RuntimeError("the service ended meanwhile")
    table = json.loads(lines.stdout)
    return [row["function"] for row in found["rising"]], len(table["rows"]) + table["more"]["rows"]


def seconds(span):
    units = {"s": 1, "m": 60, "h": 3600}
    return float(span[:-1]) * units[span[-1]] if span[-1] in units else float(span)


class Counts:
    def __init__(self):
        self.passed = self.failed = self.broken = 0
        self.missed, self.wrong = collections.Counter(), collections.Counter()
        self.leaks = self.others = 0

    def add(self, seed, leaks, outcome):
        """Counts a run and returns a line about it."""
        kind = "with leaks" if leaks else "without leaks"
        if isinstance(outcome, Exception):
            self.failed += 1
            self.broken += 1
            return f"seed {seed}, {kind}: FAILED: {outcome}"
        functions, lines = outcome
        expected = LEAKING if leaks else set()
        missed = expected - set(functions)
        wrong = [str(function) for function in functions if function not in expected]
        self.leaks += len(expected)
        self.others += lines - len(expected)
        self.missed.update(missed)
        self.wrong.update(wrong)
        if missed or wrong:
            self.failed += 1
            return f"seed {seed}, {kind}: FAILED: missed {sorted(missed)}, falsely named {sorted(wrong)}"
        self.passed += 1
        return f"seed {seed}, {kind}: {', '.join(sorted(functions)) or 'no line'} named, of {lines}"

    def summary(self):
        found = self.leaks - sum(self.missed.values())
        lines = [f"{found} of {self.leaks} leaking lines named, {sum(self.wrong.values())} of {self.others} other lines"]
        for title, counter in (("missed", self.missed), ("falsely named", self.wrong)):
            lines += [f"{title}: {function}, {count} times" for function, count in counter.most_common()]
        return [*lines, f"{self.passed} passed, {self.failed} failed"]


def main(arguments):
    options = parse(arguments)

    def run(number):
        seed = options.first_seed + number
        leaks = not is_without_leaks(number, options.runs)
        try:
            return seed, leaks, named(options, seed, leaks)
        except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
            return seed, leaks, error

    counts = Counts()
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(run, range(options.runs)):
            print(counts.add(*outcome), flush=True)
    print("\n".join(counts.summary()))
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
