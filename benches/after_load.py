"""Measures what a server's memory is before and after a peak of load, beside stock Python and what people set there.

    python3 benches/after_load.py --python PYTHON --pyhost PYHOST [--rounds N] [--report FILE]

FastAPI on uvicorn and Flask on gunicorn (gthread, one worker) serve benches/work/service.py. After 40 reports one after the other ("before")
eight clients ask for 25 reports each at the same time; then a client asks /health each second. Resident is the sum of `Pss` over the server's processes
(/proc/PID/smaps_rollup): before, 1 s and 10 s after the load; the peak is the highest of readings every 20 ms. The variants take turns; a cell is the
median of the rounds, with the least and the greatest. libjemalloc2 (apt) is needed beside PYTHON; packages are installed, pinned, below target/.

The Markdown goes to standard output, or into the marked block of --report. Exit status: 0; 1 if a server does not run; 2 for a bad command line.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import contenders
import launch
import machine
import report
from bench import WORK, Bench
from sections import peers

BEGIN = "<!-- benches/after_load.py writes from here -->"
SERVERS = {
    "FastAPI on uvicorn": ("service", ["-m", "uvicorn", "--port", "{port}", "--log-level", "critical", "service:fastapi_app"]),
    "Flask on gunicorn": ("servers", ["-m", "gunicorn", "-b", "127.0.0.1:{port}", "-w", "1", "--timeout", "60", "-k", "gthread", "--threads", "8",
                                      "--log-level", "critical", "service:flask_app"]),
}
WARM, CLIENTS, EACH, IDLE = 40, 8, 25, 10
COLUMNS = ("before", "peak", "1 s after", "10 s after", "load")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="stock Python")
    parser.add_argument("--pyhost", required=True, help="the host, built for the same Python")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--report", type=pathlib.Path, metavar="FILE", help="replace the marked block of this document")
    return parser.parse_args(arguments)


def variants(bench):
    stock, host = bench.contenders
    yield stock
    yield dataclasses.replace(stock, name="stock, MALLOC_ARENA_MAX=2", variables=(("MALLOC_ARENA_MAX", "2"),))
    yield dataclasses.replace(stock, name="stock, malloc_trim each second", variables=(("TRIM", "1"),))
    library = peers.installed_libraries().get("libjemalloc.so.2")
    if library:
        preload = "LD_PRELOAD", library
        yield dataclasses.replace(stock, name="stock, jemalloc", variables=(preload,))
        yield dataclasses.replace(stock, name="stock, jemalloc for all", variables=(preload, ("PYTHONMALLOC", "malloc")))
    else:
        bench.note("jemalloc is missing (apt: libjemalloc2)")
    yield host
    yield dataclasses.replace(host, name="pyhost --retain small", options=("--retain", "small"))


def ask(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=120) as answer:
        return answer.read()


def processes(group):
    """The processes of a group: a server is started as its leader."""
    for entry in os.scandir("/proc"):
        try:
            if entry.name.isdigit() and os.getpgid(int(entry.name)) == group:
                yield entry.name
        except ProcessLookupError:
            pass


def resident(group):
    """The MiB of a group of processes, pages that they share once."""
    found = 0
    for process in processes(group):
        try:
            with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
                found += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            pass
    return found / 1024


def measure(contender, server, packages):
    """Returns the columns of a server: MiB, and the seconds of the load."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = contender.command(*[word.format(port=port) for word in SERVERS[server][1]])
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=contender.environment(packages, WORK), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   start_new_session=True)
        try:
            wait_for(process, port, command, log)
            for _ in range(WARM):
                ask(port, "report")
            before, peak, is_over = resident(process.pid), [0.0], threading.Event()

            def watch():
                while not is_over.wait(0.02):
                    peak[0] = max(peak[0], resident(process.pid))

            watcher = threading.Thread(target=watch)
            watcher.start()
            began = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
                list(pool.map(lambda _: ask(port, "report"), range(CLIENTS * EACH)))
            took = time.monotonic() - began
            is_over.set()
            watcher.join()
            after = []
            for _ in range(IDLE):
                time.sleep(1)
                ask(port, "health")
                after.append(resident(process.pid))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return before, peak[0], after[0], after[-1], took


def wait_for(process, port, command, log):
    for _ in range(600):
        try:
            ask(port, "health")
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    log.seek(0)
    raise launch.Failed(f"{launch.command_line(command)} does not answer: {launch.last_line(log.read().decode(errors='replace'))}")


def cell(values, unit):
    low, middle, high = (f"{value:.{1 if unit == 's' else 0}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} {unit} ({low} to {high})"


def main(arguments):
    options = parse(arguments)
    parts = []
    try:
        if options.report:
            report.replaced(options.report.read_text(encoding="utf-8"), "", BEGIN)
        with tempfile.TemporaryDirectory(prefix="after-load-") as folder:
            found, _, linkage = contenders.prepare(options.python, options.pyhost, [], pathlib.Path(folder))
            bench = Bench(found, options.python, False, pathlib.Path(folder))
            for server, (packages, _) in SERVERS.items():
                rows = {one: [] for one in variants(bench)}
                for number in range(options.rounds):
                    bench.say(f"{server}, round {number + 1} of {options.rounds}")
                    for one, measured in rows.items():
                        measured.append(measure(one, server, bench.packages(packages)))
                units = ("MiB",) * 4 + ("s",)
                lines = [(one.name, *map(cell, zip(*measured), units)) for one, measured in rows.items()]
                parts += [f"### {server}", report.table(("", *COLUMNS), lines)]
        facts = {**machine.own_facts(), "linkage": linkage, "rounds": options.rounds, "load average": f"{os.getloadavg()[2]:.1f}"}
        parts += ["### How it was measured", report.table(("", ""), [(name, str(fact)) for name, fact in facts.items()])]
        markdown = "\n\n".join([*parts, *(f"- {note}" for note in bench.notes)])
        if options.report:
            text = options.report.read_text(encoding="utf-8")
            options.report.write_text(report.replaced(text, markdown, BEGIN), encoding="utf-8")
        else:
            print(markdown)
    except (contenders.Unlike, launch.Failed, report.Unwritable, OSError) as error:
        print(f"after_load.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
