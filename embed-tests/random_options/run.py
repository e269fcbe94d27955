"""Runs small scripts under random combinations of the host's options: statuses and stdout must be those of stock Python.

    python3 embed-tests/random_options/run.py --pyhost PYHOST [--count 500] [--seed 1] [--slice]

Each combination has up to six options, or their variables, of which some are Python's own. One that the host refuses (status 2, a
line of its own, nothing run) is drawn anew, and counted. A failure is printed with the command that repeats it. The last line is
`N passed, N failed`; the exit status is 1 if any failed. --slice: as many as 15 seconds allow.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile
import time

from scripts import SCRIPTS

# Each is an option as it is given, with the folder of the run for {}; what is drawn together must not be twice the same option.
OPTIONS = [
    ["--allocator=mimalloc", "--allocator=pymalloc", "--allocator=system"],
    ["--debug-hooks"],
    ["--malloc=count", "--malloc=plain", "--malloc=off"],
    ["--retain=balanced", "--retain=speed", "--retain=small"],
    ["--cap=1G", "--cap=90%", "--cap=obj=700M", "--cap=native=1G", "--cap=tree=1G"],
    ["--soft-cap=900M", "--soft-cap=mem=500M"],
    ["--cap-share=2"],
    ["--recycle-at=64M", "--recycle-at=8M,signal=USR2"],
    ["--at-exhausted=cat > /dev/null", "--at-exhausted=exit 3"],
    ["--numpy=pool", "--numpy=bfc", "--numpy=system", "--numpy=align=256", "--numpy=bfc,align=256"],
    ["--region=256M", "--region=1G", "--region=256M,huge-pages"],
    ["--fail=when=open", "--fail=obj=900000000", "--fail=above=2G", "--fail=above=2G,log={}/fail.log"],
    ["--guard", "--guard=min=1,every=1", "--guard=all", "--guard=min=64,every=3", "--guard=off"],
    # A leak changes the status by design. The scripts leave none, but CPython's own may.
    ["--leak-check=status=0", "--leak-check=native,status=0", "--leak-check=off"],
    ["--stats", "--stats=json", "--stats=openmetrics", "--stats=off", "--stats=file={}/report-%p.json",
     "--stats=text,file={}/report.json"],
    ["--live={}/live", "--live=file:{}/ledger-%p", "--live=off"],
    ["--lines", "--lines=1", "--lines=64K", "--lines=off", "--lines=native"],
    ["--profile-lines=__main__:main", "--profile-lines=json:loads"],
    ["--timeline={}/timeline-%p.jsonl", "--timeline={}/timeline.jsonl,interval=20ms"],
    ["--brief={}/brief"],
]
PYTHONS = [["-B"], ["-E"], ["-I"], ["-s"], ["-u"], ["-O"], ["-X", "faulthandler"], ["-X", "utf8"], ["-X", "dev"], ["-W", "ignore"]]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slice", action="store_true", help="as many as 15 seconds allow")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120, help="for one run, in seconds (120)")
    return parser.parse_args(arguments)


def draw(chance):
    """Returns host options, Python's options, and whether the first are given as variables."""
    kinds = chance.sample(OPTIONS, chance.randint(1, 6))
    options = [chance.choice(kind) for kind in kinds]
    return options, chance.choice(PYTHONS) if chance.random() < 0.4 else [], chance.random() < 0.25


def variable(option):
    name, _, value = option.partition("=")
    return "PYHOST_" + name[2:].replace("-", "_").upper(), value or ("on" if name in ("--live", "--lines") else "1")


def run(command, environment, timeout):
    try:
        ended = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired as expired:
        return "no end", expired.stdout or b"", expired.stderr or b""
    return ended.returncode, ended.stdout, ended.stderr


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYHOST_", "PYTHON", "MIMALLOC_"))}


class Runs:
    def __init__(self, options):
        self.options = options
        facts = run([options.pyhost, "-I", "-c", "import sys; print('%s/bin/python%d.%d' % ((sys.base_prefix,) + sys.version_info[:2]))"],
                    clean_environment(), 60)
        self.python = facts[1].decode().strip()

    def one(self, seed):
        """Runs one combination: None if the host refuses it, else what is wrong, or an empty text."""
        chance = random.Random(seed)
        options, pythons, are_variables = draw(chance)
        name = chance.choice(sorted(SCRIPTS))
        status, code = SCRIPTS[name]
        with tempfile.TemporaryDirectory() as folder:
            options = [option.format(folder) for option in options]
            environment = clean_environment()
            if are_variables:
                environment.update(map(variable, options))
                options = []
            command = [str(self.options.pyhost), *options, *pythons, "-c", code]
            found = run(command, environment, self.options.timeout)
        if found[0] == 2 and found[2].startswith(b"pyhost: ") and not found[1]:
            return None
        stock = run([self.python, *pythons, "-c", code], clean_environment(), self.options.timeout)
        if stock[0] != status:
            return f"{seed}: '{name}' ends with {stock[0]} under {self.python} instead of {status}\n{stock[2].decode()}"
        if found[:2] == stock[:2]:
            return ""
        given = [f"{name}={value}" for name, value in environment.items() if name.startswith("PYHOST_")]
        return (f"{seed}: '{name}': status {found[0]} instead of {stock[0]}, stdout {found[1]!r} instead of {stock[1]!r}\n"
                f"  {shlex.join(given + command)}\n  {found[2].decode('utf-8', 'replace')[-2000:]}")


def main(arguments):
    options = parse(arguments)
    runs = Runs(options)
    begun = time.monotonic()
    passed = failed = refused = 0
    seed = options.seed * 1_000_000
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = set()
        while True:
            is_due = time.monotonic() - begun < 15 if options.slice else passed + failed + len(waiting) < options.count
            while is_due and len(waiting) < options.jobs:
                waiting.add(pool.submit(runs.one, seed))
                seed += 1
                is_due = options.slice or passed + failed + len(waiting) < options.count
            if not waiting:
                break
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for wrong in (future.result() for future in done):
                if wrong is None:
                    refused += 1
                elif wrong:
                    failed += 1
                    print(wrong, flush=True)
                else:
                    passed += 1
    print(f"{refused} combinations refused")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
