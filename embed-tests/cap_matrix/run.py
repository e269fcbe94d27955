"""Runs growth scripts below caps on hosts of several Pythons, and says how each run ended.

    python3 embed-tests/cap_matrix/run.py --host 3.11=PYHOST [--host 3.13=PYHOST ...] [--slice]

Every script grows until it is refused. Allowed ends: it catches MemoryError, drops its data and finishes other work;
one that catches nothing ends with a traceback of MemoryError; a hog that never stops ends with status 53 and one
line; a cap below start-up is refused with status 2 and one line. All else is a failure: a signal, a hang, other
words, the ledger's peak above the cap, anonymous memory seen from outside above the cap and its slack. Exit status 1
if there is a failure, 2 for a bad command line, 130 after an interruption.

Results are kept in OUT/results.jsonl (target/cap-matrix of the checkout) and are not made again while host and
script stay the same, so that the command can be interrupted and goes on where it was. `outcomes.py` has the rules.
"""

import argparse
import concurrent.futures
import pathlib
import signal
import sys
import threading

import outcomes
import table
from hosts import UnusableHost, examine
from launch import Task, launch
from outcomes import MIB
from store import SHARED, Store

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = HERE / "scripts"
DEFAULT_OUT = HERE.parent.parent / "target" / "cap-matrix"
CAPS = (16, 32, 64, 128, 256)
SLICE_CAPS = (32, 64)
INTERRUPTED = 130


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", action="append", required=True, metavar="VERSION=PATH", type=pair,
                        help="a host and the Python that it embeds; repeatable")
    parser.add_argument("--site", action="append", default=[], metavar="VERSION=FOLDER", type=pair,
                        help="where that version's NumPy is (default: the newest of embed-tests/environments)")
    parser.add_argument("--no-numpy", action="store_true", help="leave out the scripts that need NumPy")
    parser.add_argument("--slice", action="store_true", help="the short matrix: the oldest and the newest version, "
                        "caps of 32M and 64M, 2 seeds")
    parser.add_argument("--scripts", nargs="+", metavar="NAME", help="these scripts (default: all)")
    parser.add_argument("--caps", nargs="+", type=int, metavar="MIB", help="these caps (16 32 64 128 256)")
    parser.add_argument("--seeds", metavar="N or A-B", type=seeds, help="seeds 0 to N-1, or A to B (20)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at a time (2)")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="for one run (60)")
    parser.add_argument("--again", action="store_true", help="run what has failed again, as if nothing were kept of it")
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_OUT, help="where results are kept (%(default)s)")
    return parser.parse_args(arguments)


def pair(text):
    version, equals, path = text.partition("=")
    if not (version and equals and path):
        raise argparse.ArgumentTypeError(f"bad value {text!r}; expected VERSION=PATH")
    return version, path


def seeds(text):
    first, dash, last = text.partition("-")
    try:
        return range(int(first), int(last) + 1) if dash else range(int(first))
    except ValueError:
        raise argparse.ArgumentTypeError(f"bad value {text!r}; expected N or A-B") from None


def slack(cap):
    """Bytes of anonymous memory beyond the cap and what the process began with: what the heap holds free.

    A heap cannot give back a page that one live block is left on, and keeps what was freed a second ago. The most that
    was seen is 5 MiB with caps up to 64M and 10 MiB with 256M.
    """
    return 16 * MIB + cap // 8


def all_scripts():
    return sorted(path.name for path in SCRIPTS.glob("*.py") if path.name != SHARED)


def tasks_of(options):
    """Returns the tasks, a version's and a script's together."""
    sites = dict(options.site)
    hosts = [examine(version, path, sites.get(version), not options.no_numpy) for version, path in options.host]
    hosts.sort(key=lambda host: tuple(map(int, host.release.split("."))))
    if options.slice and len(hosts) > 2:
        hosts = [hosts[0], hosts[-1]]
    names = all_scripts()
    if options.scripts:
        names = [name if name.endswith(".py") else name + ".py" for name in options.scripts]
        unknown = sorted(set(names) - set(all_scripts()))
        if unknown:
            raise UnusableHost(f"no such script: {', '.join(unknown)}")
    if options.no_numpy:
        names = [name for name in names if "numpy" not in name]
    caps = options.caps or (SLICE_CAPS if options.slice else CAPS)
    numbers = options.seeds or range(2 if options.slice else 20)
    return [Task(host, name, cap * MIB, number)
            for name in names for host in hosts for cap in caps for number in numbers]


class Matrix:
    """The tasks and what is kept of them; `one` may be called on any thread."""

    def __init__(self, options, tasks):
        self.options, self.tasks = options, tasks
        self.store = Store(options.out / "results.jsonl", SCRIPTS)
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._done = 0

    def one(self, task):
        """Returns a task's record, after having run it unless it is kept; None after an interruption."""
        record = self.store.find(task)  # before the run: from here on the script's digest is settled
        if record and not (self.options.again and record["outcome"] == outcomes.FAILED):
            self.say(None)
            return record
        if self.stop.is_set():
            return None
        launched = launch(task, SCRIPTS, self.options.timeout, self.stop)
        if launched is None:
            return None
        run, seconds = launched
        task.host.check()
        outcome = outcomes.judge(run, slack)
        record = self.store.keep(task, record_of(run, outcome, seconds))
        self.say(f"{task.host.minor} {task.script} {task.cap // MIB}M seed {task.seed}: {outcome.name}"
                 + (f": {outcome.kind}: {outcome.detail}" if outcome.name == outcomes.FAILED else ""))
        return record

    def say(self, line):
        with self._lock:
            self._done += 1
            if line and (outcomes.FAILED in line or self._done % 20 == 0):
                print(f"[{self._done}/{len(self.tasks)}] {line}", flush=True)


def record_of(run, outcome, seconds):
    """The facts of a run that are kept; its output only if it failed."""
    record = {"outcome": outcome.name, "kind": outcome.kind, "detail": outcome.detail, "status": run.status,
              "seconds": seconds, "peak_bytes": run.peak_bytes, "resident_anonymous": run.resident_anonymous,
              "resident": run.resident, "excess": outcomes.excess(run),
              "expects": (run.stdout.splitlines() or [""])[0]}
    if outcome.name == outcomes.FAILED:
        record.update(stdout=run.stdout, stderr=run.stderr)
    return record


def run_all(matrix):
    with concurrent.futures.ThreadPoolExecutor(matrix.options.jobs) as pool:
        try:
            return list(pool.map(matrix.one, matrix.tasks))
        except BaseException:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            matrix.stop.set()
            raise


def main(arguments):
    options = parse(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        matrix = Matrix(options, tasks_of(options))
        records = run_all(matrix)
    except UnusableHost as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("run.py: interrupted; what has ended is kept", file=sys.stderr)
        return INTERRUPTED
    print("\n" + table.render(matrix.tasks, records, SCRIPTS))
    failed = sum(record["outcome"] == outcomes.FAILED for record in records)
    print(f"\n{len(records) - failed} passed, {failed} failed")
    return 1 if failed or not records else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
