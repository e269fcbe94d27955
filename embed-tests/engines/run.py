#!/usr/bin/env python3
"""Runs the jobs of python-scripts/engines, each by the real engine, with workers that reach their cap.

    run.py --pyhost target/release/pyhost --pyhostctl target/release/pyhostctl --python python3.11 [ENGINE...]

Of each job:

- it finishes, and its result is right;
- two workers at least reached their cap and went on, and no process of the job passed it;
- these workers have written their reports to one folder, and of all processes that did none was ended by its cap or by a
  fault;
- while it ran, /metrics of `pyhostctl serve` had these workers, with peaks that their reports agree with;
- and `pyhostctl tree` had them below the job's first process.

The engines are installed, pinned, in environments of their own; Java, for Spark, is unpacked below target/. Prints a
line a job. Exit status: 0; 1 with what failed; 2 for a bad command line.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
JOBS = ROOT / "python-scripts" / "engines"
sys.path.insert(0, str(HERE.parent / "environments"))
import make  # noqa: E402

# The cap of each engine's processes, which its own code needs a part of, and the environment that has it.
ENGINES = {
    "multiprocessing": ("96M", None),
    "joblib": ("96M", "engines"),
    "dask": ("128M", "engines"),
    "ray": ("192M", "ray"),
    "spark": ("128M", "spark"),
}
SAID = re.compile(r"8 ranges in (\d+) pieces by ([2-9]) workers")
SAMPLE = re.compile(r'^pyhost_memory_peak_bytes\{account="total",pid="(\d+)".*\} (\d+)$', re.MULTILINE)
# Endings by the cap (docs/options.md) and by faults.
BAD_STATUS = 53
FAULTS = {"SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE"}
# How long a job may take, in seconds: a bound against hangs, not a measurement.
PATIENCE = 300


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pyhost", required=True, type=pathlib.Path)
    parser.add_argument("--pyhostctl", required=True, type=pathlib.Path)
    parser.add_argument("--python", required=True, help="the interpreter that the host was built for")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=f"of {', '.join(ENGINES)} (default: all)")
    options = parser.parse_args(arguments)
    unknown = set(options.engines) - ENGINES.keys()
    if unknown:
        parser.error(f"no engine {min(unknown)!r}; choose from {', '.join(ENGINES)}")
    return options


def java():
    """Returns the folder of a Java that is unpacked below target/."""
    folder = subprocess.run([ROOT / "tools" / "debian-programs", "openjdk-17-jre-headless"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    [found] = pathlib.Path(folder).glob("usr/lib/jvm/java-17-openjdk-*")
    return found


class Server:
    """`pyhostctl serve` of a folder of ledgers; keeps the largest peak of each process that it has shown, and who was in the job's tree."""

    def __init__(self, options, folder):
        self.peaks, self.members = collections.Counter(), set()
        self.tree = [options.pyhostctl, "--dir", folder, "tree", "--json"]
        self.process = subprocess.Popen([options.pyhostctl, "serve", "--dir", folder, "--listen", "127.0.0.1:0"],
                                        stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[-1]

    def look(self, job):
        tree = subprocess.run([*self.tree, str(job.pid)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if tree.returncode == 0:
            self.members |= {row["pid"] for row in json.loads(tree.stdout)["processes"]}
        with urllib.request.urlopen(self.address, timeout=PATIENCE) as answer:
            for process, peak in SAMPLE.findall(answer.read().decode()):
                self.peaks[int(process)] = max(self.peaks[int(process)], int(peak))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def runs(session):
    """Returns whether a process of the session runs. One that has ended and that nobody waits for does not."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # After the name, which may have spaces and brackets: state, parent, group, session.
            state, _, _, its_session = stat.read_text(errors="replace").rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                return True
    return False


def run(options, engine, folder):
    """Runs a job; its outcome, its last lines, its reports, and what pyhostctl showed."""
    cap, packages = ENGINES[engine]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYHOST"))}
    environment.update(TMPDIR=str(folder), RAY_DEDUP_LOGS="1")
    if packages:
        environment["PYTHONPATH"] = str(make.site_packages(make.environment(options.python, packages)))
    if engine == "spark":
        environment["JAVA_HOME"] = str(java())
    reports, live = folder / "reports", folder / "live"
    reports.mkdir()
    live.mkdir(mode=0o700)
    command = [options.pyhost.resolve(), "--cap", cap, f"--stats=file={reports}/%p.json", f"--live={live}",
               JOBS / f"with_{engine}.py"]
    server = Server(options, live)
    try:
        with open(folder / "output", "w+", encoding="utf-8", errors="replace") as output:
            # A session of its own, so that nothing of the engine outlives it.
            job = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True)
            try:
                end = time.monotonic() + PATIENCE
                while job.poll() is None and time.monotonic() < end:
                    server.look(job)
                    time.sleep(0.05)
                # What the job started and does not wait for, such as multiprocessing's resource tracker, ends after it,
                # and is not killed while it writes its report.
                end = min(end, time.monotonic() + 30)
                while runs(job.pid) and time.monotonic() < end:
                    time.sleep(0.05)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.pid, signal.SIGKILL)
                status = job.wait()
            output.seek(0)
            text = output.read()
    finally:
        server.stop()
    return status, text, [json.loads(file.read_bytes()) for file in reports.iterdir()], server


def refused(report):
    return sum(account["refused"] for account in report["accounts"].values())


def judge(engine, status, text, reports, server):
    """Returns what failed, as lines, and the line of what held."""
    cap = int(ENGINES[engine][0][:-1]) << 20
    failures = [f"status {status}"] if status else []
    said = SAID.search(text)
    if said is None:
        failures.append("the job did not say its result")
    workers = {report["process"]["pid"]: report for report in reports if refused(report)}
    if len(workers) < 2:
        failures.append(f"{len(workers)} workers reached their cap")
    for report in reports:
        name = f"{report['process']['command']} ({report['process']['pid']})"
        if report["total"]["peak_bytes"] > cap:
            failures.append(f"{name} passed the cap: {report['total']['peak_bytes']}")
        process = report["process"]
        if process["exit_status"] == BAD_STATUS or process["ended_by"] in FAULTS:
            failures.append(f"{name} ended by {process['ended_by']}, status {process['exit_status']}")
    for process, report in workers.items():
        if not 0 < server.peaks[process] <= report["total"]["peak_bytes"]:
            failures.append(f"/metrics had {server.peaks[process]} of the worker {process}")
        if process not in server.members:
            failures.append(f"`pyhostctl tree` did not have the worker {process}")
    pieces = said[1] if said else "?"
    times = sum(map(refused, reports))
    return failures, (f"{engine}: 8 ranges in {pieces} pieces; {len(reports)} reports; {len(workers)} workers refused "
                      f"{times} times at {ENGINES[engine][0]}, and shown by /metrics and `tree`")


def main(arguments):
    options = parse(arguments)
    failed = False
    for engine in options.engines or ENGINES:
        with tempfile.TemporaryDirectory(prefix="engine-") as name:
            *outcome, server = run(options, engine, pathlib.Path(name))
        failures, line = judge(engine, *outcome, server)
        print(line if not failures else f"{engine}: failed: {'; '.join(failures)}", flush=True)
        if failures:
            print("its last lines:", *outcome[1].splitlines()[-40:], sep="\n  ")
        failed |= bool(failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
