"""Lets one request for memory fail at each of 1,000 places of a program, and tells what became of each run.

    python3 embed-tests/fault_places/run.py [--places 1000] [--slice] [--only 3.11 3.13] [--report FILE.md]

program.py is run by each host that is found below target/py-3.X/release (or by --pyhost), with the NumPy that
../environments pins for its Python, a process for each place, some at a time. Each outcome is kept at once, as a line
of JSON below OUT (target/fault-places), so that a run that was interrupted goes on where it was; a rebuilt host, or a
changed program.py, starts afresh.

Each crash, fatal error and hang is then searched for under stock Python (evidence.py). Exit status: 0; 1 where one of
them is not stock's too, or could not be searched for want of gdb; 2 where nothing could be run.
"""

import argparse
import concurrent.futures
import copy
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(HERE.parent / "environments"))

import evidence  # noqa: E402
import make  # noqa: E402
import outcomes  # noqa: E402
import places  # noqa: E402
import table  # noqa: E402

PROGRAM = HERE / "program.py"
FACTS = "import sys; print('%d.%d' % sys.version_info[:2], '%d.%d.%d' % sys.version_info[:3], sys.base_prefix)"
INTERRUPTED = 130
# In the folder of a run.
FAIL_LOG = "log"
# Stands in the place of a place, for what was found out before.
MEASURED = "measured"


def built_hosts():
    """Returns the release builds below target/, by their Python's minor version."""
    found = [(re.fullmatch(r"py-3\.(\d+)", path.parts[-3]), path) for path in ROOT.glob("target/py-3.*/release/pyhost")]
    return [path for _, path in sorted((int(name[1]), path) for name, path in found if name)]


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", nargs="+", type=pathlib.Path, help="hosts (target/py-3.*/release/pyhost)")
    parser.add_argument("--only", nargs="+", metavar="X.Y", help="hosts of these versions")
    parser.add_argument("--places", type=int, default=1000, metavar="N", help="how many places (1000)")
    parser.add_argument("--slice", action="store_true", help="60 places")
    parser.add_argument("--timeout", type=float, default=60, metavar="SECONDS", help="for one run (60)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="runs at a time (2)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "target" / "fault-places")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE.md", help="put the tables into this file, too")
    options = parser.parse_args(arguments)
    if options.slice:
        options.places = 60
    options.pyhost = options.pyhost or built_hosts()
    return options


class Unusable(Exception):
    """Nothing can be run; the message is one line."""


class Runner:
    """Runs program.py under one host and under the Python that the host embeds. Any thread."""

    def __init__(self, pyhost, timeout, out):
        self.pyhost, self.timeout, self.out = pyhost.resolve(), timeout, out
        self.lock = threading.Lock()
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("PYTHON", "PYHOST"))}
        self.environment["PYTHONHASHSEED"] = "0"
        answer = subprocess.run([self.pyhost, "-I", "-c", FACTS], env=self.environment, capture_output=True, text=True)
        if answer.returncode != 0:
            raise Unusable(f"{pyhost}: does not run: {answer.stderr.strip()}")
        self.minor, self.release, prefix = answer.stdout.split()
        self.python = pathlib.Path(prefix, "bin", f"python{self.minor}")
        name = self.newest_numpy()
        self.environment["PYTHONPATH"] = str(make.site_packages(make.environment(str(self.python), name)))
        self.numpy = name.removeprefix("numpy-")
        digest = hashlib.sha256(PROGRAM.read_bytes())
        digest.update(self.pyhost.read_bytes())
        self.identity = digest.hexdigest()[:16]
        self.expected = {}
        self.malloc = {}

    def with_debug_hooks(self):
        """Returns a runner whose runs are under CPython's debug hooks. Under stock Python they stand over libc's malloc:
        pymalloc hands large requests on to raw, and set_nomemory counts those twice."""
        other = copy.copy(self)
        other.malloc = {"pyhost": "debug", "stock": "malloc_debug"}
        return other

    def newest_numpy(self):
        names = subprocess.run([sys.executable, HERE.parent / "environments" / "make.py", "--python", self.python,
                                "--list"], capture_output=True, text=True, check=True).stdout.split()
        return names[-1]

    def command(self, side, place):
        program = self.pyhost if side == "pyhost" else self.python
        return [str(program), "-X", "faulthandler", str(PROGRAM), *map(str, place)]

    def start(self, side, place, timeout=None):
        """Runs one place to its end, or for a time; (status or None, output, errors, lines of the failures' log)."""
        with tempfile.TemporaryDirectory(prefix="fault-place-") as folder:
            log = pathlib.Path(folder, FAIL_LOG)
            environment = self.surroundings(side, place, folder)
            with open(pathlib.Path(folder, "out"), "w+") as out, open(pathlib.Path(folder, "err"), "w+") as err:
                child = subprocess.Popen(self.command(side, place), env=environment, stdin=subprocess.DEVNULL,
                                         stdout=out, stderr=err, cwd=folder, start_new_session=True)
                status = self.wait(child, timeout or self.timeout)
                texts = []
                for file in (out, err):
                    file.seek(0)
                    texts.append(file.buffer.read().decode(errors="replace"))
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            own = f"{child.pid} "
            return status, *texts, [line.removeprefix(own) for line in lines if line.startswith(own)]

    def wait(self, child, timeout):
        try:
            return child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGABRT)  # faulthandler prints where each thread is
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        return None

    def baseline(self, pair):
        """Runs a phase without a failure, and returns how many requests it makes."""
        status, output, errors, _ = self.start("pyhost", (*pair, 0))
        lines = dict(line.split(" ", 1) for line in output.splitlines() if " " in line)
        if status != 0 or "result" not in lines:
            raise Unusable(f"{self.pyhost}: {pair[0]} fails by itself: {errors[-300:]}")
        self.expected[pair[0]] = f"result {lines['result']}"
        return int(lines["requests"])

    def run(self, side, place, timeout=None):
        """Runs one place; the record of it."""
        status, output, errors, log = self.start(side, place, timeout)
        outcome = outcomes.classify(status, output, errors, self.expected[place[0]])
        if side == "pyhost" and not log:
            outcome = outcomes.NOT_INJECTED
        record = {"place": list(place), "outcome": outcome, "stack": outcomes.python_stack(errors),
                  "progress": outcomes.progress(errors), "fatal": outcomes.fatal_message(errors), "exception": outcomes.last_exception(errors)}
        if log:
            record["injected"] = log[0]
        if outcome not in (outcomes.MEMORY_ERROR, outcomes.SURVIVED):
            record["errors"] = errors[-1500:]
        return record

    def valgrind(self, side, place):
        """Runs one place under Valgrind with libc's malloc in all domains; the C stack of the first wrong access."""
        with tempfile.TemporaryDirectory(prefix="fault-place-") as folder:
            log = pathlib.Path(folder, "valgrind")
            command = ["valgrind", "-q", f"--log-file={log}", "--undef-value-errors=no", *self.command(side, place)]
            environment = self.surroundings(side, place, folder) | {"PYTHONMALLOC": "malloc"}
            try:
                subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                               timeout=300)
            except subprocess.TimeoutExpired:
                pass  # What damaged memory makes of the run later: it may loop for ever.
            text = log.read_text(errors="replace") if log.exists() else ""
        return evidence.first_wrong_access(text)

    def surroundings(self, side, place, folder):
        """Returns the environment of a run in `folder`. Runs of every kind have the variable of `--fail`: one more
        variable is one more request, and another one fails."""
        environment = self.environment | {"PYHOST_FAIL": f"when=open;log={folder}/{FAIL_LOG}"}
        if side == "stock" and place[1] == "native":
            environment["LD_PRELOAD"] = str(self.fail_malloc())
        if side in self.malloc:
            environment["PYTHONMALLOC"] = self.malloc[side]
        return environment

    def fail_malloc(self):
        """Compiles the library that lets native requests of stock Python fail, once."""
        with self.lock:
            library = self.out / "fail_malloc.so"
            source = HERE.parent / "c" / "fail_malloc.c"
            if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
                subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
            return library.resolve()

    def backtrace(self, side, place):
        """Runs one place under gdb; the C stack of the thread that crashed."""
        # Without a shell and gdb's own variables: the requests for the environment are counted, too.
        before = ["set debuginfod enabled off", "set startup-with-shell off", "unset environment LINES",
                  "unset environment COLUMNS", "handle SIGPIPE nostop", "run", "backtrace 25"]
        gdb = ["gdb", "-nx", "-batch", *(word for command in before for word in ("-ex", command)), "--args"]
        with tempfile.TemporaryDirectory(prefix="fault-place-") as folder:
            try:
                answer = subprocess.run([*gdb, *self.command(side, place)], env=self.surroundings(side, place, folder),
                                        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
            except subprocess.TimeoutExpired:
                return ""
        return answer.stdout.decode(errors="replace")


class Kept:
    """The records of one host, a line of JSON each. Any thread may add."""

    def __init__(self, path, identity):
        self.path, self.identity, self.records = path, identity, {}
        self.lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # cut off by an interruption
            if record.get("identity") == identity:
                self.records[tuple(record["place"])] = record

    def add(self, record):
        with self.lock, open(self.path, "a") as file:
            file.write(json.dumps({"identity": self.identity, **record}) + "\n")
            self.records[tuple(record["place"])] = record


def run_host(runner, options):
    """Runs all places of one host, and the search under stock Python; the records in the order of the places."""
    kept = Kept(options.out / f"{runner.release}.jsonl", runner.identity)
    chosen = places.choose(options.places, measured(runner, kept))
    evidences = Kept(options.out / f"{runner.release}.evidence.jsonl", runner.identity)
    missing = [place for place in chosen if place not in kept.records]
    print(f"{runner.release}, NumPy {runner.numpy}: {len(chosen)} places, {len(missing)} to run", flush=True)
    do_all(kept, lambda place: runner.run("pyhost", place), missing, options.jobs)
    records = [kept.records[place] for place in chosen]
    if shutil.which("gdb"):
        bad = [place for place in chosen if outcomes.is_bad(kept.records[place]["outcome"])
               and place not in evidences.records]
        print(f"{runner.release}: {len(bad)} places to search under {runner.python.name}", flush=True)
        do_all(evidences, lambda place: {"place": list(place), **evidence.search(runner, place, kept.records[place])},
               bad, options.jobs)
    for record in records:
        record["evidence"] = found = evidences.records.get(tuple(record["place"]))
        if found and found["status"] in ("not found", "same way"):
            found["kin"] = evidence.kin(found, evidences.records.values())
    return records


def measured(runner, kept):
    """Returns how many requests each pair of phase and accounts makes; kept, since the places depend on it."""
    pairs = [(phase, accounts) for phase, accounts, _ in places.SHARES]
    if (MEASURED,) not in kept.records:
        # The first round may write the modules' bytecode.
        for pair in pairs:
            runner.baseline(pair)
        requests = [[*pair, runner.baseline(pair)] for pair in pairs]
        kept.add({"place": [MEASURED], "requests": requests, "expected": runner.expected})
    record = kept.records[MEASURED,]
    runner.expected = record["expected"]
    return {(phase, accounts): number for phase, accounts, number in record["requests"]}


def do_all(store, function, todo, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(lambda place=place: store.add(function(place))) for place in todo]
        try:
            for done, future in enumerate(futures, 1):
                future.result()
                if done % 100 == 0:
                    print(f"  {done} of {len(todo)}", flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def main(arguments):
    options = parse(arguments)
    results = []
    try:
        for pyhost in options.pyhost:
            if options.only and pyhost.resolve().parts[-3].removeprefix("py-") not in options.only:
                continue
            runner = Runner(pyhost, options.timeout, options.out)
            results.append((runner, run_host(runner, options)))
        if not results:
            raise Unusable("no host; expected --pyhost, or a release build below target/py-3.X")
    except (Unusable, make.BadName, make.Unmakable, OSError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("run.py: interrupted; what has ended is kept", file=sys.stderr)
        return INTERRUPTED
    text = table.outcomes_table(results) + "\n" + table.crashes(results)
    print("\n" + text)
    if options.report:
        table.put_into(options.report, text)
    return 1 if table.unexplained(results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
